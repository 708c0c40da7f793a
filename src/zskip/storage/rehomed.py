"""A storage in which one directory lies elsewhere: for tables whose format has a place of its own for such things."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from zskip.storage.base import FileInfo, Storage
from zskip.storage.on_top import OnTop


class Rehomed(OnTop):
    """Another storage, of which what is asked for below one directory is kept below another one."""

    def __init__(self, base: Storage, directory: str, home: str) -> None:
        """directory: as callers name it; home: where it lies."""
        super().__init__(base)
        self._directory = directory
        self._home = home

    def _there(self, path: str) -> str:
        return _moved(path, self._directory, self._home)

    def _here(self, found: FileInfo) -> FileInfo:
        return found._replace(path=_moved(found.path, self._home, self._directory))

    def uri(self, path: str) -> str:
        """The absolute path or URI of a file where it lies."""
        return self._base.uri(self._there(path))

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        """All files below the root, without those whose name, or a parent's name, `skip` accepts."""
        return [self._here(found) for found in self._base.walk(skip)]

    def list_dir(self, path: str) -> list[FileInfo]:
        """What lies directly in a directory."""
        return [self._here(found) for found in self._base.list_dir(self._there(path))]

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory, or None where there is none."""
        found = self._base.stat(self._there(path))
        return None if found is None else self._here(found)

    def is_dir(self, path: str) -> bool:
        """Whether there is a directory."""
        return self._base.is_dir(self._there(path))

    def read(self, path: str) -> bytes:
        """The whole content; raises FileNotFoundError where there is none."""
        return self._base.read(self._there(path))

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """A seekable binary stream for reading."""
        return self._base.open(self._there(path), size)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file at once."""
        self._base.write(self._there(path), data, overwrite=overwrite)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory."""
        self._base.rename(self._there(source), self._there(target))

    def delete(self, path: str) -> None:
        """Remove a file or a directory with all in it."""
        self._base.delete(self._there(path))


def _moved(path: str, old: str, new: str) -> str:
    """A path with another beginning, where it has the old one.

    >>> [_moved(path, "_zskip", ".hoodie/zskip") for path in ("_zskip/index/m", "_zskip", "_zskip2/a")]
    ['.hoodie/zskip/index/m', '.hoodie/zskip', '_zskip2/a']
    """
    return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path
