"""The laws of `Storage`, which any implementation must keep: a class of tests inherits them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zskip.errors import StorageError
from zskip.formats.hive import is_hidden
from zskip.storage import Storage

MakeStorage = Callable[[Path], Storage]


def names(storage: Storage, path: str = "") -> set[str]:
    return {file.path for file in storage.list_dir(path)}


def run_all(work: list[Callable[[], None]]) -> None:
    """Do all at once, and raise what any of them raises."""
    with ThreadPoolExecutor(len(work)) as pool:
        for done in [pool.submit(each) for each in work]:
            done.result(60)


def live(storage: Storage, name: str) -> None:
    """A directory and a file of a name are written, listed, moved and deleted."""
    storage.write(f"{name}/{name}", b"1")
    assert names(storage) == {name}
    assert names(storage, name) == {f"{name}/{name}"}
    assert [f.path for f in storage.walk(lambda n: False)] == [f"{name}/{name}"]
    with pytest.raises(FileExistsError):
        storage.write(f"{name}/{name}", b"2")
    storage.rename(f"{name}/{name}", f"{name}/moved {name}")
    assert storage.read(f"{name}/moved {name}") == b"1"
    storage.delete(name)
    assert names(storage) == set()


OUTSIDE = ("../out", "a/../../out", "a/../b", "..", "/out", "/")
"""Paths that lead out of a storage, or may."""


def refuse_outside(storage: Storage, path: str) -> None:
    """No operation takes a path that leads out of the storage."""
    storage.write("a/x", b"1")
    for act in (
        lambda: storage.read(path),
        lambda: storage.open(path).read(),
        lambda: storage.stat(path),
        lambda: storage.list_dir(path),
        lambda: storage.is_dir(path),
        lambda: storage.write(path, b"2"),
        lambda: storage.write(path, b"2", overwrite=True),
        lambda: storage.rename(path, "b"),
        lambda: storage.rename("a/x", path),
        lambda: storage.delete(path),
        lambda: storage.uri(path),
    ):
        with pytest.raises(StorageError, match="does not lie below"):
            act()
    assert names(storage) == {"a"}
    assert storage.read("a/x") == b"1"


class StorageLaws:
    """Asks for a fixture `make_storage`, which makes the storage of a place of its own that a path names."""

    @pytest.fixture
    def storage(self, make_storage: MakeStorage, tmp_path: Path) -> Storage:
        return make_storage(tmp_path)

    def test_write_makes_parents_and_is_read_back(self, storage: Storage) -> None:
        storage.write("a/b/c", b"content")
        assert storage.read("a/b/c") == b"content"
        with storage.open("a/b/c") as stream:
            stream.seek(3)
            assert stream.read() == b"tent"

    @pytest.mark.parametrize("path", OUTSIDE)
    def test_no_path_leads_out(self, storage: Storage, path: str) -> None:
        refuse_outside(storage, path)

    def test_an_empty_file_can_be_written(self, storage: Storage) -> None:
        storage.write("empty", b"")
        assert storage.read("empty") == b""
        found = storage.stat("empty")
        assert found is not None
        assert (found.size, found.is_dir) == (0, False)

    def test_write_refuses_a_taken_path_and_leaves_nothing_behind(self, storage: Storage) -> None:
        storage.write("a/x", b"first")
        with pytest.raises(FileExistsError):
            storage.write("a/x", b"second")
        assert storage.read("a/x") == b"first"
        assert names(storage, "a") == {"a/x"}

    def test_write_refuses_the_path_of_a_directory(self, storage: Storage) -> None:
        storage.write("a/x", b"1")
        with pytest.raises(FileExistsError):
            storage.write("a", b"2")
        assert names(storage) == {"a"}
        assert storage.read("a/x") == b"1"

    def test_overwrite_replaces_and_also_creates(self, storage: Storage) -> None:
        storage.write("x", b"first", overwrite=True)
        storage.write("x", b"2", overwrite=True)
        assert storage.read("x") == b"2"
        assert names(storage) == {"x"}

    def test_of_several_writers_of_one_path_exactly_one_wins(self, storage: Storage) -> None:
        writers = 8
        for turn in range(20):
            outcomes: list[bytes] = []
            barrier = threading.Barrier(writers)

            def race(
                i: int, turn: int = turn, barrier: threading.Barrier = barrier, outcomes: list[bytes] = outcomes
            ) -> None:
                content = f"writer {i}".encode() * 1000
                barrier.wait()
                try:
                    storage.write(f"turn-{turn}/log", content)
                except FileExistsError:
                    return
                outcomes.append(content)

            run_all([lambda i=i: race(i) for i in range(writers)])  # type: ignore[misc]
            assert [storage.read(f"turn-{turn}/log")] == outcomes
            assert names(storage, f"turn-{turn}") == {f"turn-{turn}/log"}

    def test_readers_see_an_overwritten_file_whole(self, storage: Storage) -> None:
        storage.write("x", b"0" * 100_000)
        stop = threading.Event()
        torn: list[int] = []

        def read() -> None:
            while not stop.is_set():
                content = storage.read("x")
                if len(content) != 100_000 or len(set(content)) != 1:
                    torn.append(len(content))

        def write() -> None:
            try:
                for i in range(30):
                    storage.write("x", str(i % 10).encode() * 100_000, overwrite=True)
            finally:
                stop.set()

        run_all([read, read, write])
        assert torn == []

    @pytest.mark.parametrize("target", ["y", "a/b/c/y"])
    def test_rename_moves_a_file_and_makes_parents(self, storage: Storage, target: str) -> None:
        storage.write("x", b"1")
        before = storage.stat("x")
        storage.rename("x", target)
        assert storage.stat("x") is None
        assert storage.read(target) == b"1"
        after = storage.stat(target)
        assert before is not None
        assert after is not None
        assert (after.size, after.mtime_ms) == (before.size, before.mtime_ms)

    def test_rename_moves_a_directory_with_all_in_it(self, storage: Storage) -> None:
        storage.write("from/a/x", b"1")
        storage.write("from/y", b"2")
        storage.rename("from", "p/to")
        assert storage.read("p/to/a/x") == b"1"
        assert storage.read("p/to/y") == b"2"
        assert storage.stat("from") is None

    def test_rename_never_replaces(self, storage: Storage) -> None:
        storage.write("file", b"1")
        storage.write("other", b"2")
        storage.write("dir/x", b"3")
        storage.write("dir2/y", b"4")
        for source, target in [("file", "other"), ("file", "dir"), ("dir", "dir2"), ("dir", "file"), ("file", "file")]:
            with pytest.raises(FileExistsError):
                storage.rename(source, target)
        assert names(storage) == {"file", "other", "dir", "dir2"}
        assert [storage.read(p) for p in ("file", "other", "dir/x", "dir2/y")] == [b"1", b"2", b"3", b"4"]

    def test_rename_never_replaces_an_empty_directory(self, storage: Storage) -> None:
        storage.write("full/x", b"1")
        storage.write("empty/x", b"2")
        storage.delete("empty/x")
        with pytest.raises(FileExistsError):
            storage.rename("full", "empty")
        assert storage.read("full/x") == b"1"

    def test_rename_of_nothing_is_file_not_found(self, storage: Storage) -> None:
        with pytest.raises(FileNotFoundError):
            storage.rename("none", "y")
        assert storage.stat("y") is None

    def test_of_several_movers_of_one_file_the_file_arrives_once(self, storage: Storage) -> None:
        movers = 6
        for turn in range(20):
            storage.write(f"from-{turn}", b"1")
            problems: list[BaseException] = []
            barrier = threading.Barrier(movers)

            def move(
                turn: int = turn,
                barrier: threading.Barrier = barrier,
                problems: list[BaseException] = problems,
            ) -> None:
                barrier.wait()
                try:
                    storage.rename(f"from-{turn}", f"to/{turn}")
                except (FileExistsError, FileNotFoundError) as problem:
                    problems.append(problem)

            run_all([move] * movers)
            assert len(problems) < movers
            assert storage.read(f"to/{turn}") == b"1"
            assert storage.stat(f"from-{turn}") is None

    def test_delete_takes_files_and_whole_directories_and_tolerates_nothing(self, storage: Storage) -> None:
        storage.write("a/b/x", b"1")
        storage.write("a/y", b"2")
        storage.write("z", b"3")
        storage.delete("a")
        storage.delete("z")
        storage.delete("z")
        storage.delete("never/was")
        assert names(storage) == set()

    def test_what_lies_below_a_file_is_nothing(self, storage: Storage) -> None:
        storage.write("file", b"1")
        assert storage.stat("file/x") is None
        assert storage.list_dir("file/x") == []
        assert storage.list_dir("file") == [] or names(storage, "file") == {"file"}
        storage.delete("file/x")
        with pytest.raises(FileNotFoundError):
            storage.read("file/x")
        assert storage.read("file") == b"1"

    def test_list_dir_shows_one_level_hidden_names_included(self, storage: Storage) -> None:
        storage.write("d/_log/x", b"1")
        storage.write("d/.hidden", b"22")
        storage.write("d/part", b"333")
        found = {f.path: (f.size, f.is_dir) for f in storage.list_dir("d")}
        assert found == {"d/_log": (0, True), "d/.hidden": (2, False), "d/part": (3, False)}
        assert storage.list_dir("none") == []

    def test_walk_skips_names_and_all_below_them(self, storage: Storage) -> None:
        for path in [
            "x",
            "a=1/y",
            "a=1/b=2/z",
            "_log/x",
            ".git/a/b",
            "a=1/_tmp/q",
            "a=1/.crc",
            "_p=1/w",
            "v._COPYING_",
        ]:
            storage.write(path, path.encode())
        found = storage.walk(is_hidden)
        assert sorted(f.path for f in found) == ["_p=1/w", "a=1/b=2/z", "a=1/y", "x"]
        assert all(f.size == len(f.path) and not f.is_dir for f in found)
        assert len(storage.walk(lambda name: False)) == 9

    def test_walk_of_nothing_is_empty(self, make_storage: MakeStorage, tmp_path: Path) -> None:
        assert make_storage(tmp_path / "none").walk(is_hidden) == []

    def test_stat_tells_files_directories_and_nothing_apart(self, storage: Storage) -> None:
        storage.write("d/x", b"123")
        file, directory = storage.stat("d/x"), storage.stat("d")
        assert file is not None
        assert directory is not None
        assert (file.path, file.size, file.is_dir) == ("d/x", 3, False)
        assert (directory.path, directory.size, directory.is_dir) == ("d", 0, True)
        assert storage.stat("none") is None
        root = storage.stat("")
        assert root is not None
        assert root.is_dir

    def test_stat_and_listings_agree(self, storage: Storage) -> None:
        storage.write("d/x", b"123")
        assert [storage.stat("d/x")] == storage.list_dir("d") == storage.walk(is_hidden)

    def test_reading_nothing_is_file_not_found(self, storage: Storage) -> None:
        with pytest.raises(FileNotFoundError):
            storage.read("none")
        with pytest.raises(FileNotFoundError):
            storage.open("none")
