"""The laws of `Storage` that an object store keeps, and what is its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import obstore
import pytest
from bucket import Bucket
from faulty import Proxy
from storage_laws import OUTSIDE, live, names, refuse_outside

from zskip.errors import InputError, StorageError
from zskip.formats.hive import is_hidden
from zskip.storage import Storage, storage_for

ODD_NAMES = [
    "with space",
    "100%",
    "a%3Db=c",
    "naïve-日本-🙂",
    "quote\"'",
    "back\\slash",
    "#hash?query",
    "*[glob]{x}",
    "a+b:c",
]


@pytest.fixture
def storage(bucket: Bucket) -> Storage:
    return storage_for(bucket.uri("some dir/t%20"), bucket.options)


def test_what_is_written_is_read_and_listed(storage: Storage) -> None:
    for path in ("x", "a=1/y", "a=1/_hidden", "_log/z", "empty"):
        storage.write(path, path.encode() if path != "empty" else b"")
    assert storage.read("a=1/y") == b"a=1/y"
    assert storage.read("empty") == b""
    assert sorted(f.path for f in storage.walk(is_hidden)) == ["a=1/y", "empty", "x"]
    assert len(storage.walk(lambda name: False)) == 5
    assert names(storage) == {"x", "a=1", "_log", "empty"}
    assert names(storage, "a=1") == {"a=1/y", "a=1/_hidden"}
    assert storage.list_dir("none") == []
    assert storage.stat("x") == next(f for f in storage.walk(is_hidden) if f.path == "x")
    directory = storage.stat("a=1")
    assert directory is not None
    assert directory.is_dir
    assert storage.stat("") is not None
    assert storage.stat("none") is None
    assert [storage.is_dir(path) for path in ("", "a=1", "x", "none")] == [True, True, False, False]


def test_a_stream_reads_what_it_is_asked_for(storage: Storage) -> None:
    content = bytes(range(256)) * 1000
    storage.write("x", content)
    for size in (None, len(content)):
        with storage.open("x", size) as stream:
            assert stream.seek(-5, 2) == len(content) - 5
            assert stream.read() == content[-5:]
            assert stream.seek(100_000) == 100_000
            assert [stream.read(7), stream.read(100_000)] == [content[100_000:100_007], content[100_007:200_007]]
            assert stream.tell() == 200_007
            stream.seek(0)
            assert stream.read() == content
            assert stream.read(1) == b""
    for read in (storage.read, lambda path: storage.open(path).read()):
        with pytest.raises(FileNotFoundError):
            read("none")


def test_writes_do_not_replace_unless_told(storage: Storage) -> None:
    storage.write("a/x", b"1")
    with pytest.raises(FileExistsError, match="a/x"):
        storage.write("a/x", b"2")
    assert storage.read("a/x") == b"1"
    storage.write("a/x", b"3", overwrite=True)
    assert storage.read("a/x") == b"3"


def test_of_several_writers_of_one_path_exactly_one_wins(storage: Storage) -> None:
    def write(i: int) -> int | None:
        try:
            storage.write("log/1", b"the same of all")
        except FileExistsError:
            return None
        return i

    with ThreadPoolExecutor(8) as pool:
        assert len([i for i in pool.map(write, range(16)) if i is not None]) == 1


@pytest.mark.parametrize("wrong", ["late", "reset"])
def test_a_write_whose_answer_is_lost_knows_whether_it_has_won(bucket: Bucket, proxy: Proxy, wrong: str) -> None:
    storage = storage_for(bucket.uri("t"), bucket.options | {"aws_endpoint_url": proxy.endpoint})
    first = iter([wrong])
    proxy.fault = lambda method, path, chance: next(first, None) if method == "PUT" else None
    try:
        storage.write("x", b"1")
    except StorageError:
        assert bucket.names() == []
    else:
        assert storage.read("x") == b"1"
    assert proxy.broken[wrong] == 1


def test_a_rename_moves_files_and_directories_and_replaces_nothing(storage: Storage) -> None:
    storage.write("from/a/x", b"1")
    storage.write("from/y", b"2")
    storage.write("other", b"3")
    storage.rename("from", "p/to")
    assert storage.read("p/to/a/x") == b"1"
    assert names(storage) == {"p", "other"}
    storage.rename("p/to/y", "y")
    for source, target in (("y", "other"), ("other", "p"), ("p", "y")):
        with pytest.raises(FileExistsError):
            storage.rename(source, target)
    with pytest.raises(FileNotFoundError):
        storage.rename("none", "new")
    assert names(storage) == {"p", "other", "y"}


def test_delete_takes_files_and_directories_and_tolerates_nothing(storage: Storage, bucket: Bucket) -> None:
    for path in ("a/b/x", "a/y", "a2/z", "z"):
        storage.write(path, b"1")
    for path in ("a", "z", "z", "never/was"):
        storage.delete(path)
    assert bucket.names() == ["some dir/t%20/a2/z"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_live_a_whole_life(storage: Storage, name: str) -> None:
    live(storage, name)


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out(storage: Storage, path: str) -> None:
    refuse_outside(storage, path)


def test_a_store_without_conditional_requests_is_looked_at_first(storage: Storage, monkeypatch: Any) -> None:
    put = obstore.put

    def without(*args: Any, mode: str | None = None, **more: Any) -> Any:
        if mode == "create":
            raise obstore.exceptions.NotSupportedError("put with a condition is not implemented")
        return put(*args, mode=mode, **more)

    monkeypatch.setattr(obstore, "put", without)
    storage.write("x", b"1")
    with pytest.raises(FileExistsError):
        storage.write("x", b"2")
    assert storage.read("x") == b"1"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"aws_acess_key_id": "x"}, 'did you mean "aws_access_key_id"'),
        ({"aws_endpoint_url": "nonsense"}, "not a URL"),
        ({"timeout": "soon"}, "soon"),
        ({"max_retries": "few"}, "few"),
    ],
)
def test_options_that_cannot_be_right(bucket: Bucket, options: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        storage_for(bucket.uri("t"), bucket.options | options)


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.walk(is_hidden),
        lambda s: s.list_dir("d"),
        lambda s: s.stat("d"),
        lambda s: s.read("d"),
        lambda s: s.open("d").read(),
        lambda s: s.write("d", b"1"),
        lambda s: s.write("d", b"1", overwrite=True),
        lambda s: s.delete("d"),
        lambda s: s.rename("d", "e"),
    ],
)
def test_a_refusal_names_the_object_and_the_way_out(
    bucket: Bucket, proxy: Proxy, act: Callable[[Storage], object]
) -> None:
    storage = storage_for(bucket.uri("t"), bucket.options | {"aws_endpoint_url": proxy.endpoint})
    proxy.fault = lambda method, path, chance: "forbidden"
    with pytest.raises(StorageError) as caught:
        act(storage)
    # What was asked of one object without a body in the answer has only its status.
    assert "credentials" in str(caught.value)
    assert bucket.uri("t") in str(caught.value)
