"""Compiled classes in the user's cache: used where they are one's own and whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.bridge import janino
from zskip.spark.scan.bridge.janino import OBJECT, invoke, singleton

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = "import SEQ;\npublic class Seven {{ public Object get() {{ return Integer.valueOf({}); }} }}"


@pytest.fixture
def seven(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[int, bool]]:
    """Compiles a class that gives a number; returns it, and whether the compiler was needed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jvm = Jvm.of(spark)

    def make(number: int) -> tuple[int, bool]:
        compiled: list[str] = []
        find = jvm.find
        with monkeypatch.context() as patch:
            patch.setattr(jvm, "find", lambda name: (compiled.append(name), find(name))[1])
            parent = find("java.lang.Thread").currentThread().getContextClassLoader()
            loader = janino._cook(jvm, TEXT.format(number), parent)
        made = loader.loadClass("Seven").getConstructors()[0].newInstance(jvm.array("java.lang.Object", []))
        # py4j knows methods by the names of their classes, which are the same here.
        get = made.getClass().getMethod("get", jvm.array("java.lang.Class", []))
        return get.invoke(made, jvm.array("java.lang.Object", [])), "org.codehaus.janino.SimpleCompiler" in compiled

    return make


def test_classes_are_compiled_once(seven: Callable[[int], tuple[int, bool]], tmp_path: Path) -> None:
    assert seven(7) == (7, True)
    assert seven(7) == (7, False)
    assert seven(8) == (8, True), "another text"
    assert seven(7) == (7, False)
    assert len(list((tmp_path / "zskip").iterdir())) == 2


def test_damaged_classes_are_compiled_anew(seven: Callable[[int], tuple[int, bool]], tmp_path: Path) -> None:
    seven(7)
    (path,) = (tmp_path / "zskip").iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert seven(7) == (7, True)
    assert seven(7) == (7, False)


def test_what_others_may_write_is_not_read(seven: Callable[[int], tuple[int, bool]], tmp_path: Path) -> None:
    seven(7)
    (path,) = (tmp_path / "zskip").iterdir()
    path.chmod(0o622)
    assert seven(7) == (7, True)
    path.parent.chmod(0o777)
    for _ in range(2):
        assert seven(7) == (7, True)


def test_without_a_place_for_them_they_are_compiled(
    seven: Callable[[int], tuple[int, bool]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        assert seven(7) == (7, True)


def test_objects_answer_whichever_process_compiled_their_classes_first(spark: SparkSession) -> None:
    """py4j keeps methods by the names of classes; the next Python of a JVM compiles others of the same names."""
    gateway = spark.sparkContext._gateway
    for jvm in (Jvm(gateway), Jvm(gateway)):
        described = invoke(jvm, singleton(jvm, "FilterText"), "apply", [OBJECT], jvm.seq_of())
        assert json.loads(described)["trees"] == []
