"""The protocol of a storage: the few file operations zskip needs.

Paths are relative to the root of the storage and use `/`. The implementations are `LocalStorage`, `ObjectStorage` for
object stores, `HdfsStorage` and, for everything the Spark session reaches, `zskip.spark.jvm.hadoop.HadoopStorage`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

from zskip.errors import StorageError

Kind = Literal["disk", "cluster", "objects"]
"""A disk of this machine; a file system across a network; an object store, where each call is one or more requests, a
rename is a copy, and a directory exists while a key begins with its name."""


class FileInfo(NamedTuple):
    """One file or directory as a listing shows it."""

    path: str
    """Relative to the root of the storage."""
    size: int
    """In bytes; 0 for a directory."""
    mtime_ms: int
    """Modification time, milliseconds since 1970."""
    is_dir: bool = False
    identity: int = 0
    """Differs from that of any other file that has or had the same path; 0 if unknown. From a disk's inode and change
    time, or a store's ETag: copies keep sizes and modification times."""

    def is_unchanged(self, size: int, mtime_ms: int, identity: int = 0) -> bool:
        """Whether the file still has this size, modification time and, where both are known, identity.

        Object stores report milliseconds in a listing and whole seconds for a single object. If either time has no
        fraction of a second, fractions are ignored.
        """
        in_seconds = not (self.mtime_ms % 1000 and mtime_ms % 1000)
        is_same_time = self.mtime_ms // 1000 == mtime_ms // 1000 if in_seconds else self.mtime_ms == mtime_ms
        return is_same_time and self.size == size and (0 in (identity, self.identity) or self.identity == identity)


def identity_on_disk(inode: int, ctime_ns: int) -> int:
    """The identity of a file on a disk; `BoundIndex.java` computes the same."""
    return (inode * 0x9E3779B97F4A7C15 + ctime_ns // 1000) & 0x7FFFFFFFFFFFFFFF


def identity_of_etag(etag: str | None) -> int:
    """The identity of an object; services quote the same ETag in some answers and not in others.

    >>> identity_of_etag('W/"5d41402a"') == identity_of_etag("5d41402a") != identity_of_etag(None) == 0
    True
    """
    if not etag:
        return 0
    digest = hashlib.blake2b(etag.removeprefix("W/").strip('"').encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def leads_out(path: str) -> bool:
    """Whether a path is absolute or has `..` in it, and so may not lie below the root.

    >>> [leads_out(path) for path in ("a/..b", "a/../b", "..", "/a", "")]
    [False, True, True, True, False]
    """
    return path[:1] == "/" or (".." in path and ".." in path.split("/"))


def check_inside(path: str, root: str) -> str:
    """The path; raises StorageError for one that leads out of the root.

    Each storage checks all paths that it is given: they also come from files that others may have written.
    """
    if leads_out(path):
        raise outside_error(path, root)
    return path


def outside_error(path: str, root: str) -> StorageError:
    """The error for a path that does not lie below the root."""
    return StorageError(f'"{path}" does not lie below "{root}"; see which file names it, and who may write there')


class Storage(Protocol):
    """The file operations that zskip needs.

    Failures of the file system are raised as `StorageError`, except where a method says otherwise; so is a path that is
    absolute or has `..` in it.
    """

    @property
    def root(self) -> str:
        """The absolute path or unescaped URI of the root, without a trailing slash."""

    @property
    def kind(self) -> Kind:
        """Which operations are fast there and which are slow."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options that another library, such as deltalake, needs to reach the same directory; empty on a disk."""

    def uri(self, path: str) -> str:
        """The absolute path or unescaped URI of a file, as Spark, DuckDB or pyarrow take it."""

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        """All files below the root, without those whose name, or a parent's name, `skip` accepts."""

    def list_dir(self, path: str) -> list[FileInfo]:
        """All entries directly in a directory, hidden names included; empty if the directory does not exist."""

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory; None if it does not exist."""

    def is_dir(self, path: str) -> bool:
        """Whether a directory exists; cheaper than `stat` where files and directories take separate requests."""

    def read(self, path: str) -> bytes:
        """The whole content; raises FileNotFoundError if the file does not exist."""

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """A seekable binary stream for reading.

        size: in bytes, if known, which saves a request.
        """

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file atomically, creating its parents: readers see all of it or nothing.

        Raises FileExistsError if the path is taken and `overwrite` is false. If several writers race for one path,
        exactly one succeeds.
        """

    def is_exclusive(self) -> bool:
        """Whether exactly one of several writers racing for one path with `write` succeeds, as a commit needs it.

        Object stores are probed by writing and deleting an object, since some ignore a request's condition.
        """

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory, creating the target's parents.

        Raises FileNotFoundError if the source does not exist and FileExistsError if the target does, and StorageError
        if a link leads one of them out of the root.
        """

    def delete(self, path: str) -> None:
        """Remove a file, or a directory with everything in it; nothing happens if it does not exist.

        A link is removed itself. Raises StorageError if one leads out of the root on the way to the path.
        """


FileParser = Callable[[BinaryIO, int], Any]
"""Reads an open file of a given size in bytes into lists, tuples, text and numbers, which any process can unpickle."""


class Workers(Protocol):
    """Other processes that read a table's files in parallel. They need neither this process nor its packages."""

    def parse_files(
        self, task: str, make_parser: Callable[[], FileParser], files: Sequence[tuple[str, int]]
    ) -> Iterator[list[Any]]:
        """Parse files batch after batch, in their order; None for a file that could not be parsed.

        task: a description for people. make_parser: makes the parser, once for several files; a file whose parsing
        raises counts as not parsed. files: paths and their sizes in bytes.
        """


MANY_FILES = 500
"""The number of files from which workers pay off."""


def prefetch(stream: BinaryIO, start: int, size: int) -> None:
    """Advise the system which bytes of an open file are read next, if it takes advice: it then reads them at once."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(AttributeError, OSError, OverflowError):
            os.posix_fadvise(stream.fileno(), start, size, os.POSIX_FADV_WILLNEED)
