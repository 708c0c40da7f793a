"""The laws of `Storage` on a disk, and what only the local one promises."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from storage_laws import MakeStorage, StorageLaws, live, names

from zskip.errors import InputError, StorageError
from zskip.formats.hive import is_hidden
from zskip.storage import LocalStorage, Storage, check_options, storage_for

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


class TestOnADisk(StorageLaws):
    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_live_a_whole_life(self, storage: Storage, name: str) -> None:
        live(storage, name)


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
class TestWithoutHardLinks(StorageLaws):
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


# Links and lost replies


def test_nothing_is_moved_or_deleted_through_a_link_that_leads_out(tmp_path: Path) -> None:
    (tmp_path / "other" / "d").mkdir(parents=True)
    (tmp_path / "other" / "d" / "x").write_bytes(b"1")
    storage = LocalStorage(str(tmp_path / "root"))
    storage.write("a/y", b"2")
    (tmp_path / "root" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "root" / "in").symlink_to(tmp_path / "root" / "a")
    for act in (
        lambda: storage.delete("out/d"),
        lambda: storage.delete("out/d/x"),
        lambda: storage.rename("out/d/x", "x"),
        lambda: storage.rename("a/y", "out/d/y"),
    ):
        with pytest.raises(StorageError, match="does not lie below"):
            act()
    assert [path.name for path in (tmp_path / "other" / "d").iterdir()] == ["x"]
    storage.rename("in/y", "in/z")
    assert names(storage, "a") == {"a/z"}
    storage.delete("out")
    assert (tmp_path / "other" / "d" / "x").exists(), "the link itself is deleted"
    assert not (tmp_path / "root" / "out").is_symlink()


def lose_reply(monkeypatch: pytest.MonkeyPatch, name: str, error: OSError) -> None:
    """What NFS does where a reply is lost: it has done what it was asked, and says that it cannot."""
    work = getattr(os, name)

    def lossy(source: str, target: str) -> None:
        work(source, target)
        raise error

    monkeypatch.setattr(os, name, lossy)


def test_a_link_whose_reply_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.write("x", b"1")
    storage.write("taken", b"2")
    lose_reply(monkeypatch, "link", FileExistsError(errno.EEXIST, "File exists"))
    storage.write("new", b"3")
    storage.rename("x", "moved")
    assert {name: storage.read(name) for name in names(storage)} == {"new": b"3", "moved": b"1", "taken": b"2"}
    for act in (lambda: storage.write("taken", b"4"), lambda: storage.rename("new", "taken")):
        with pytest.raises(FileExistsError):
            act()
    assert storage.read("taken") == b"2"


def test_a_rename_whose_reply_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.write("d/x", b"1")
    storage.write("y", b"2")
    monkeypatch.setattr(os, "link", refuse(errno.ENOTSUP))
    lose_reply(monkeypatch, "rename", FileNotFoundError(errno.ENOENT, "No such file"))
    storage.rename("d", "moved")
    storage.rename("y", "moved/y")
    assert names(storage, "moved") == {"moved/x", "moved/y"}
    with pytest.raises(FileNotFoundError):
        storage.rename("d", "again")


@pytest.mark.parametrize("given", [[("secret", "hidden")], {"secret": b"hidden"}, {1: "hidden"}, "secret=hidden"])
def test_wrong_options_are_refused_without_their_values(given: object) -> None:
    with pytest.raises(InputError, match=r"storage_options.*of type (list|bytes|dict|str)") as caught:
        check_options(given)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["me:pass@word@host", "htp://me:pass@word@host/b"])
def test_an_endpoint_is_refused_without_its_password(endpoint: str) -> None:
    pytest.importorskip("obstore")
    with pytest.raises(InputError, match="is not a URL") as raised:
        storage_for("s3://bucket/t", {"aws_endpoint_url": endpoint, "aws_access_key_id": "x"})
    assert "pass" not in str(raised.value)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_moves_to_another_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    """Or under another mount of the same one, where no link leads to either."""
    storage, link = LocalStorage(str(tmp_path)), os.link

    def across(source: str, target: str) -> None:
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        if not has_links:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        link(source, target)

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(name.encode())
    monkeypatch.setattr(os, "link", across)
    with pytest.raises(FileExistsError):
        storage.rename("a/f", "b/f")
    assert ((tmp_path / "a" / "f").read_bytes(), (tmp_path / "b" / "f").read_bytes()) == (b"a", b"b")
    storage.rename("a/f", "b/g")
    assert sorted(os.listdir(tmp_path / "b")) == ["f", "g"]
    assert (tmp_path / "b" / "g").read_bytes() == b"a"
    assert os.listdir(tmp_path / "a") == []
