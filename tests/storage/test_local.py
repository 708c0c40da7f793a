"""The laws of `Storage`, which any implementation must keep, and what only the local one promises."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from zskip.errors import InputError, StorageError
from zskip.formats.hive import is_hidden
from zskip.storage import LocalStorage, Storage, check_options, storage_for

MakeStorage = Callable[[Path], Storage]
ODD_NAMES = [
    "with space",
    "100%",
    "a%3Db=c",
    "naïve-日本-🙂",
    "new\nline",
    "quote\"'",
    "back\\slash",
    "#hash?query",
    "*[glob]{x}",
    "a:b",
    "..dots",
]


@pytest.fixture
def make_storage() -> MakeStorage:
    return lambda path: LocalStorage(str(path))


@pytest.fixture
def storage(make_storage: MakeStorage, tmp_path: Path) -> Storage:
    return make_storage(tmp_path)


def names(storage: Storage, path: str = "") -> set[str]:
    return {file.path for file in storage.list_dir(path)}


# Writing


def test_write_makes_parents_and_is_read_back(storage: Storage) -> None:
    storage.write("a/b/c", b"content")
    assert storage.read("a/b/c") == b"content"
    with storage.open("a/b/c") as stream:
        stream.seek(3)
        assert stream.read() == b"tent"


def test_an_empty_file_can_be_written(storage: Storage) -> None:
    storage.write("empty", b"")
    assert storage.read("empty") == b""
    found = storage.stat("empty")
    assert found is not None
    assert (found.size, found.is_dir) == (0, False)


def test_write_refuses_a_taken_path_and_leaves_nothing_behind(storage: Storage) -> None:
    storage.write("a/x", b"first")
    with pytest.raises(FileExistsError):
        storage.write("a/x", b"second")
    assert storage.read("a/x") == b"first"
    assert names(storage, "a") == {"a/x"}


def test_write_refuses_the_path_of_a_directory(storage: Storage) -> None:
    storage.write("a/x", b"1")
    with pytest.raises(FileExistsError):
        storage.write("a", b"2")
    assert names(storage) == {"a"}
    assert storage.read("a/x") == b"1"


def test_overwrite_replaces_and_also_creates(storage: Storage) -> None:
    storage.write("x", b"first", overwrite=True)
    storage.write("x", b"2", overwrite=True)
    assert storage.read("x") == b"2"
    assert names(storage) == {"x"}


def test_of_several_writers_of_one_path_exactly_one_wins(storage: Storage) -> None:
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


def test_readers_see_an_overwritten_file_whole(storage: Storage) -> None:
    storage.write("x", b"0" * 100_000)
    stop = threading.Event()
    torn: list[int] = []

    def read() -> None:
        while not stop.is_set():
            content = storage.read("x")
            if len(content) != 100_000 or len(set(content)) != 1:
                torn.append(len(content))

    def write() -> None:
        for i in range(30):
            storage.write("x", str(i % 10).encode() * 100_000, overwrite=True)
        stop.set()

    run_all([read, read, write])
    assert torn == []


def run_all(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=w) for w in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


# Renaming


@pytest.mark.parametrize("target", ["y", "a/b/c/y"])
def test_rename_moves_a_file_and_makes_parents(storage: Storage, target: str) -> None:
    storage.write("x", b"1")
    before = storage.stat("x")
    storage.rename("x", target)
    assert storage.stat("x") is None
    assert storage.read(target) == b"1"
    after = storage.stat(target)
    assert before is not None
    assert after is not None
    assert (after.size, after.mtime_ms) == (before.size, before.mtime_ms)


def test_rename_moves_a_directory_with_all_in_it(storage: Storage) -> None:
    storage.write("from/a/x", b"1")
    storage.write("from/y", b"2")
    storage.rename("from", "p/to")
    assert storage.read("p/to/a/x") == b"1"
    assert storage.read("p/to/y") == b"2"
    assert storage.stat("from") is None


def test_rename_never_replaces(storage: Storage) -> None:
    storage.write("file", b"1")
    storage.write("other", b"2")
    storage.write("dir/x", b"3")
    storage.write("dir2/y", b"4")
    for source, target in [("file", "other"), ("file", "dir"), ("dir", "dir2"), ("dir", "file"), ("file", "file")]:
        with pytest.raises(FileExistsError):
            storage.rename(source, target)
    assert names(storage) == {"file", "other", "dir", "dir2"}
    assert [storage.read(p) for p in ("file", "other", "dir/x", "dir2/y")] == [b"1", b"2", b"3", b"4"]


def test_rename_never_replaces_an_empty_directory(storage: Storage) -> None:
    storage.write("full/x", b"1")
    storage.write("empty/x", b"2")
    storage.delete("empty/x")
    with pytest.raises(FileExistsError):
        storage.rename("full", "empty")
    assert storage.read("full/x") == b"1"


def test_rename_of_nothing_is_file_not_found(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError):
        storage.rename("none", "y")
    assert storage.stat("y") is None


def test_of_several_movers_of_one_file_the_file_arrives_once(storage: Storage) -> None:
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


# Deleting


def test_delete_takes_files_and_whole_directories_and_tolerates_nothing(storage: Storage) -> None:
    storage.write("a/b/x", b"1")
    storage.write("a/y", b"2")
    storage.write("z", b"3")
    storage.delete("a")
    storage.delete("z")
    storage.delete("z")
    storage.delete("never/was")
    assert names(storage) == set()


def test_what_lies_below_a_file_is_nothing(storage: Storage) -> None:
    storage.write("file", b"1")
    assert storage.stat("file/x") is None
    assert storage.list_dir("file/x") == []
    assert storage.list_dir("file") == [] or names(storage, "file") == {"file"}
    storage.delete("file/x")
    with pytest.raises(FileNotFoundError):
        storage.read("file/x")
    assert storage.read("file") == b"1"


# Listing


def test_list_dir_shows_one_level_hidden_names_included(storage: Storage) -> None:
    storage.write("d/_log/x", b"1")
    storage.write("d/.hidden", b"22")
    storage.write("d/part", b"333")
    found = {f.path: (f.size, f.is_dir) for f in storage.list_dir("d")}
    assert found == {"d/_log": (0, True), "d/.hidden": (2, False), "d/part": (3, False)}
    assert storage.list_dir("none") == []


def test_walk_skips_names_and_all_below_them(storage: Storage) -> None:
    for path in ["x", "a=1/y", "a=1/b=2/z", "_log/x", ".git/a/b", "a=1/_tmp/q", "a=1/.crc", "_p=1/w", "v._COPYING_"]:
        storage.write(path, path.encode())
    found = storage.walk(is_hidden)
    assert sorted(f.path for f in found) == ["_p=1/w", "a=1/b=2/z", "a=1/y", "x"]
    assert all(f.size == len(f.path) and not f.is_dir for f in found)
    assert len(storage.walk(lambda name: False)) == 9


def test_walk_of_nothing_is_empty(make_storage: MakeStorage, tmp_path: Path) -> None:
    assert make_storage(tmp_path / "none").walk(is_hidden) == []


def test_stat_tells_files_directories_and_nothing_apart(storage: Storage) -> None:
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


def test_stat_and_listings_agree(storage: Storage) -> None:
    storage.write("d/x", b"123")
    assert [storage.stat("d/x")] == storage.list_dir("d") == storage.walk(is_hidden)


def test_reading_nothing_is_file_not_found(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError):
        storage.read("none")
    with pytest.raises(FileNotFoundError):
        storage.open("none")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_live_a_whole_life(storage: Storage, name: str) -> None:
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


# The local file system only


def test_the_root_may_be_a_file_uri_or_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    roots = [f"file:{tmp_path}", f"file://{tmp_path}", f"{tmp_path}/", "."]
    assert {LocalStorage(root).root for root in roots} == {str(tmp_path)}
    assert LocalStorage(".").uri("") == str(tmp_path)
    assert LocalStorage(".").uri("a/b") == str(tmp_path / "a" / "b")


def refuse(number: int) -> Callable[..., object]:
    def work(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    return work


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "free space and call again"),
        (errno.EDQUOT, "free space and call again"),
        (errno.EACCES, "into="),
        (errno.EROFS, "into="),
        (errno.EIO, "see the cause"),
    ],
)
@pytest.mark.parametrize(
    ("function", "act"),
    [
        ("os.link", lambda s: s.write("d/new", b"1")),
        ("os.replace", lambda s: s.write("d/new", b"1", overwrite=True)),
        ("builtins.open", lambda s: s.write("d/new", b"1")),
        ("os.fsync", lambda s: s.write("d/new", b"1")),
        ("os.link", lambda s: s.rename("d/old", "d/new")),
        ("os.unlink", lambda s: s.delete("d/old")),
        ("builtins.open", lambda s: s.open("d/old")),
        ("os.scandir", lambda s: s.list_dir("d")),
        ("os.scandir", lambda s: s.walk(is_hidden)),
    ],
)
def test_what_the_system_refuses_names_the_path_and_the_way_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    act: Callable[[Storage], object],
    number: int,
    says: str,
) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.write("d/old", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(function, refuse(number))
        with pytest.raises(StorageError, match="cannot") as caught:
            act(storage)
    assert str(tmp_path) in str(caught.value)
    assert says in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert names(storage, "d") == {"d/old"}


@pytest.fixture
def no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse(errno.ENOTSUP))


@pytest.mark.usefixtures("no_hard_links")
class TestWithoutHardLinks:
    def test_write_is_exclusive(self, storage: Storage) -> None:
        test_of_several_writers_of_one_path_exactly_one_wins(storage)
        test_write_refuses_a_taken_path_and_leaves_nothing_behind(storage)

    def test_rename_never_replaces(self, storage: Storage) -> None:
        test_rename_never_replaces(storage)

    def test_rename_moves(self, storage: Storage) -> None:
        test_rename_moves_a_file_and_makes_parents(storage, "a/b/y")

    def test_rename_of_nothing(self, storage: Storage) -> None:
        test_rename_of_nothing_is_file_not_found(storage)

    def test_a_rename_cut_short_leaves_no_empty_file_in_the_place(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage.write("x", b"1")
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", refuse(errno.EIO))
            patch.setattr(os, "rename", refuse(errno.EIO))
            with pytest.raises(StorageError):
                storage.rename("x", "y")
        assert storage.stat("y") is None
        storage.rename("x", "y")
        assert storage.read("y") == b"1"


@pytest.mark.parametrize("given", [[("secret", "hidden")], {"secret": b"hidden"}, {1: "hidden"}, "secret=hidden"])
def test_wrong_options_are_refused_without_their_values(given: object) -> None:
    with pytest.raises(InputError, match=r"storage_options.*of type (list|bytes|dict|str)") as caught:
        check_options(given)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["me:pass@word@host", "htp://me:pass@word@host/b"])
def test_an_endpoint_is_refused_without_its_password(endpoint: str) -> None:
    pytest.importorskip("obstore")
    with pytest.raises(InputError, match="is no URL") as raised:
        storage_for("s3://bucket/t", {"aws_endpoint_url": endpoint, "aws_access_key_id": "x"})
    assert "pass" not in str(raised.value)
