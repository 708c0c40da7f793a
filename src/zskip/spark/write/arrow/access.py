"""How tasks open the files of a table and publish new ones: on disks, in object stores, on HDFS."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pyarrow as pa

from zskip.spark.jvm.hadoop import HadoopStorage
from zskip.storage import LocalStorage, Storage, storage_for

_WHOLE = 64 << 20
"""A file across a network of at most so many bytes comes in one request."""


def scratch_file(suffix: str) -> str:
    """Create an empty file where Spark keeps its own."""
    directory = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
    handle, name = tempfile.mkstemp(prefix="zskip-", suffix=suffix, dir=directory)
    os.close(handle)
    return name


class DiskAccess:
    """A directory that all executors see under the same path. Paths are relative to the table."""

    def __init__(self, root: str) -> None:
        self._root = root

    def open(self, path: str, size: int | None) -> Any:
        """What pyarrow reads a file of some bytes from, as many as there are for None."""
        return pa.OSFile(os.path.join(self._root, path))

    def scratch(self, path: str) -> str:
        """A local file in which to write what `publish` gives the name `path`; other files do not have it.

        It has a hidden name beside it: a directory that is gone is not created again.
        """
        directory, name = os.path.split(os.path.join(self._root, path))
        return os.path.join(directory, f".{name}.tmp")

    def publish(self, scratch: str, path: str) -> None:
        """Give a written file its name."""
        os.rename(scratch, os.path.join(self._root, path))


class RemoteAccess:
    """A directory of an object store or of HDFS, reached without Hadoop."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def open(self, path: str, size: int | None) -> Any:
        """The content of a small file, a stream over a large one."""
        is_small = size is not None and size <= _WHOLE
        return pa.BufferReader(self._storage.read(path)) if is_small else self._storage.open(path, size)

    def scratch(self, path: str) -> str:
        """A file where Spark keeps its own."""
        return scratch_file(".parquet")

    def publish(self, scratch: str, path: str) -> None:
        """Upload it, without reading it into memory."""
        with open(scratch, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            # No two attempts share a name. The clients of stores take any buffer.
            self._storage.write(path, cast("bytes", content), overwrite=True)
        os.remove(scratch)


Access = DiskAccess | RemoteAccess
"""The files of one table, as a task on an executor reaches them."""
Reach = Callable[[], Access]
"""Runs on an executor."""


def reach_of(storage: Storage) -> Reach | None:
    """What reaches a storage from executors; None where only Spark does."""
    if isinstance(storage, LocalStorage):
        root = storage.root
        return lambda: DiskAccess(root)
    if isinstance(storage, HadoopStorage):
        connect = storage.connecting()
    else:
        connect = partial(storage_for, storage.root, dict(storage.options))
    return None if connect is None else lambda: RemoteAccess(connect())
