"""Compiled classes in the user's cache: used where they are one's own and whole."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zskip.spark.jvm.compiled import class_cache, janino
from zskip.spark.jvm.compiled.class_cache import key_of
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.gateway import JavaObject, Jvm

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


def test_jars_below_any_path_are_known(spark: SparkSession, tmp_path: Path) -> None:
    """Java writes the places of jars as URLs, in which blanks and other letters are escaped."""
    jvm = Jvm.of(spark)
    jars = Path(
        jvm.class_of("com.fasterxml.jackson.databind.ObjectMapper")
        .getProtectionDomain()
        .getCodeSource()
        .getLocation()
        .getPath()
    )
    folder = tmp_path / "with blank ä %20 #"
    folder.mkdir()
    (folder / jars.name).symlink_to(jars)
    url = jvm.find("java.io.File")(str(folder / jars.name)).toURI().toURL()
    loader = jvm.find("java.net.URLClassLoader")(class_array(jvm, url), None)
    assert key_of(jvm, "text", [loader.loadClass("com.fasterxml.jackson.databind.annotation.NoClass")]) is not None


def class_array(jvm: Jvm, url: JavaObject) -> JavaObject:
    urls = jvm.array("java.net.URL", [None])
    urls[0] = url
    return urls


@pytest.mark.parametrize("step", ["key_of", "read_classes", "write_classes"])
def test_a_cache_that_fails_costs_time_alone(
    seven: Callable[[int], tuple[int, bool]], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever the file system or the JVM says at any step."""
    seven(7)
    broken = {"key_of": "stat", "read_classes": "glob", "write_classes": "replace"}[step]

    def fail(*_: object, **__: object) -> None:
        raise OSError("on purpose")

    monkeypatch.setattr(Path, broken, fail)
    assert seven(9) == (9, True)


def test_classes_that_were_not_used_for_long_make_room(
    seven: Callable[[int], tuple[int, bool]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_cache, "_MOST_FILES", 2)
    for age, number in ((3000, 7), (2000, 8)):
        known = set((tmp_path / "zskip").glob("*"))
        seven(number)
        (new,) = set((tmp_path / "zskip").iterdir()) - known
        os.utime(new, (time.time() - age,) * 2)
    assert seven(7) == (7, False), "it is used again"
    (tmp_path / "zskip" / "old.1.part").touch()
    os.utime(tmp_path / "zskip" / "old.1.part", (0, 0))
    (tmp_path / "zskip" / "new.2.part").touch()
    seven(9)
    assert seven(7) == (7, False)
    assert seven(8) == (8, True)
    assert [path.name for path in (tmp_path / "zskip").glob("*.part")] == ["new.2.part"]


def test_objects_answer_whichever_process_compiled_their_classes_first(spark: SparkSession) -> None:
    """py4j keeps methods by the names of classes; the next Python of a JVM compiles others of the same names."""
    gateway = spark.sparkContext._gateway
    for jvm in (Jvm(gateway), Jvm(gateway)):
        described = invoke(jvm, singleton(jvm, "FilterText"), "apply", jvm.seq_of())
        assert json.loads(described)["trees"] == []
