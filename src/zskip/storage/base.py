"""Where tables lie: the few file operations zskip needs, behind one protocol.

Paths are relative to the root of the storage and use `/`. The implementations are `LocalStorage`, `ObjectStorage` for
object stores, `HdfsStorage` and, for anything that the Spark session reaches, `zskip.spark.jvm.hadoop.HadoopStorage`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

Kind = Literal["disk", "cluster", "objects"]
"""A disk of this machine; a file system across a network; an object store, where each call is a request or more, a
rename is a copy, and a directory is there while a key begins with its name."""


class FileInfo(NamedTuple):
    """One file or directory as a listing shows it."""

    path: str
    """Relative to the root of the storage."""
    size: int
    """In bytes; 0 for a directory."""
    mtime_ms: int
    """Modification time, milliseconds since 1970."""
    is_dir: bool = False

    def is_version(self, size: int, mtime_ms: int) -> bool:
        """Whether the file is as it was when somebody saw it with this size and time.

        Where one of the two times has no part of a second, the other's does not count: object stores tell them to the
        millisecond in a listing and to the second where one object is looked at.
        """
        whole = not (self.mtime_ms % 1000 and mtime_ms % 1000)
        same = self.mtime_ms // 1000 == mtime_ms // 1000 if whole else self.mtime_ms == mtime_ms
        return same and self.size == size


class Storage(Protocol):
    """The file operations that zskip needs.

    Failures of the file system are raised as `StorageError`, except where a method says otherwise.
    """

    @property
    def root(self) -> str:
        """The absolute path or URI of the root, without a trailing slash."""

    @property
    def kind(self) -> Kind:
        """What is fast there and what is slow."""

    @property
    def options(self) -> Mapping[str, str]:
        """What else reaches the same place, such as deltalake, must be told; empty on a disk."""

    def uri(self, path: str) -> str:
        """The absolute path or URI of a file, as Spark, DuckDB or pyarrow take it."""

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        """All files below the root, without those whose name, or a parent's name, `skip` accepts."""

    def list_dir(self, path: str) -> list[FileInfo]:
        """What lies directly in a directory, hidden names included; empty where there is none."""

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory, or None where there is none."""

    def is_dir(self, path: str) -> bool:
        """Whether there is a directory; cheaper than `stat` where files and directories are asked for apart."""

    def read(self, path: str) -> bytes:
        """The whole content; raises FileNotFoundError where there is none."""

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """A seekable binary stream for reading.

        size: in bytes, where it is known, which saves asking for it.
        """

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file at once, parents included: readers see all of it or none.

        Raises FileExistsError where the path is taken and `overwrite` is false, and of several
        writers racing for one path exactly one succeeds.
        """

    def is_exclusive(self) -> bool:
        """Whether of several writers racing for one path with `write` exactly one succeeds, as a commit needs it.

        Object stores are asked, by writing and deleting an object, since some pass over the condition of a request.
        """

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory, making parents of the target.

        Raises FileNotFoundError where there is no source and FileExistsError where there is a target.
        """

    def delete(self, path: str) -> None:
        """Remove a file or a directory with all in it; nothing where there is none."""


Look = Callable[[BinaryIO, int], Any]
"""Says what is in an open file of some bytes: in lists, tuples, text and numbers alone, which any process can take."""


class Workers(Protocol):
    """Other processes that look at files of a table, many at a time: they need neither this one nor its packages."""

    def look(self, what: str, make: Callable[[], Look], files: Sequence[tuple[str, int]]) -> Iterator[list[Any]]:
        """What each file says, batch after batch in their order; None for a file that nothing was learned of.

        what: is done with the files, for people. make: makes what looks at them, once for some files; raised errors
        count as nothing learned. files: paths, and their sizes in bytes.
        """


MANY_FILES = 500
"""From so many on it is worth asking workers."""


def expect(stream: BinaryIO, start: int, size: int) -> None:
    """Tell the system which bytes of an open file are read next, where it takes advice: they then come in one go."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(AttributeError, OSError, OverflowError):
            os.posix_fadvise(stream.fileno(), start, size, os.POSIX_FADV_WILLNEED)
