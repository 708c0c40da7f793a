"""The checks of rooms find what is planted."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import scripts


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    return scripts.load(Path(__file__).with_name("rooms.py"))


def plant(source: Path, files: dict[str, str]) -> None:
    """Write a package of some modules."""
    for name, text in {"__init__": "", **files}.items():
        path = source / "zskip" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_source_passes(rooms: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert rooms.main(rooms.SOURCE) == 0, capsys.readouterr().out


def test_an_overfull_folder_is_named(rooms: ModuleType, tmp_path: Path) -> None:
    plant(tmp_path, {f"room/m{i}": "" for i in range(rooms.MOST_MODULES - 1)})
    (tmp_path / "zskip" / "room" / "One.java").touch()
    (tmp_path / "zskip" / "room" / "notes.md").touch()
    assert not list(rooms.crowded_folders(tmp_path))
    (tmp_path / "zskip" / "room" / "Two.java").touch()
    assert list(rooms.crowded_folders(tmp_path)) == ["zskip/room holds 15 modules, more than 14: divide it"]
    assert rooms.main(tmp_path) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import zskip.b",
        "import zskip.b as other",
        "from zskip import b",
        "from zskip.b import name",
        "from . import b",
        "from .b import name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from zskip.b import name",
        "def f():\n    from zskip.b import name",
    ],
)
def test_a_circle_is_named_however_it_is_written(rooms: ModuleType, tmp_path: Path, text: str) -> None:
    plant(tmp_path, {"a": text, "b": "from zskip.c import name", "c": "from zskip.a import name"})
    assert list(rooms.import_circles(tmp_path)) == ["a circle of imports: zskip.a -> zskip.b -> zskip.c -> zskip.a"]
    assert rooms.main(tmp_path) == 1


def test_a_package_and_its_own_module_are_a_circle(rooms: ModuleType, tmp_path: Path) -> None:
    plant(tmp_path, {"room/__init__": "from zskip.room.a import f", "room/a": "from zskip.room import g"})
    assert list(rooms.import_circles(tmp_path)) == ["a circle of imports: zskip.room -> zskip.room.a -> zskip.room"]


def test_imports_without_a_circle_pass(rooms: ModuleType, tmp_path: Path) -> None:
    a = "import zskip.b\nimport os.path\nfrom zskip.c import name"
    plant(tmp_path, {"a": a, "b": "from zskip import c", "c": "import sys"})
    assert not list(rooms.import_circles(tmp_path))


def test_java_that_refers_to_a_room_above_is_named(rooms: ModuleType, tmp_path: Path) -> None:
    listing = '/* Other */ Rule rule; String s = "Joins";'
    for name, text in {"scan/rule/Rule": "Listing of;", "scan/listings/Listing": listing}.items():
        path = tmp_path / "zskip" / "spark" / f"{name}.java"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    first, *others = rooms.java_upward(tmp_path)
    assert first == "Java refers to a room above: Listing -> Rule"
    assert "JAVA_UPWARD allows Listing -> Hudi, which is gone" in others


def test_a_format_that_the_table_room_names_is_named(rooms: ModuleType, tmp_path: Path) -> None:
    text = 'def write(format="parquet"):\n    """Of "delta"."""\n    if format == "hudi":\n        pass\n'
    plant(tmp_path, {"table/write": text, "formats/detect": text})
    assert list(rooms.named_formats(tmp_path)) == [
        "zskip/table/write.py:3 names the format hudi: ask its reader or creation"
    ]
    assert rooms.main(tmp_path) == 1
