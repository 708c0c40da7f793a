"""A storage that keeps one directory elsewhere, for formats that have a place of their own for metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from zskip.storage.base import FileInfo, Storage
from zskip.storage.wrapper import StorageWrapper


class RedirectedStorage(StorageWrapper):
    """Wraps another storage and redirects paths below one directory to another directory."""

    def __init__(self, base: Storage, directory: str, home: str) -> None:
        """directory: as callers name it; home: where it is stored."""
        super().__init__(base)
        self._directory = directory
        self._home = home

    def _stored(self, path: str) -> str:
        return _replace_prefix(path, self._directory, self._home)

    def _visible(self, info: FileInfo) -> FileInfo:
        return info._replace(path=_replace_prefix(info.path, self._home, self._directory))

    def uri(self, path: str) -> str:
        """The absolute path or URI of a file where it is stored."""
        return self._base.uri(self._stored(path))

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        return [self._visible(info) for info in self._base.walk(skip)]

    def list_dir(self, path: str) -> list[FileInfo]:
        return [self._visible(info) for info in self._base.list_dir(self._stored(path))]

    def stat(self, path: str) -> FileInfo | None:
        info = self._base.stat(self._stored(path))
        return None if info is None else self._visible(info)

    def is_dir(self, path: str) -> bool:
        return self._base.is_dir(self._stored(path))

    def read(self, path: str) -> bytes:
        return self._base.read(self._stored(path))

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        return self._base.open(self._stored(path), size)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._base.write(self._stored(path), data, overwrite=overwrite)

    def rename(self, source: str, target: str) -> None:
        self._base.rename(self._stored(source), self._stored(target))

    def delete(self, path: str) -> None:
        self._base.delete(self._stored(path))


def _replace_prefix(path: str, old: str, new: str) -> str:
    """Replace the directory at the beginning of a path, if the path lies in it.

    >>> [_replace_prefix(path, "_zskip", ".hoodie/zskip") for path in ("_zskip/index/m", "_zskip", "_zskip2/a")]
    ['.hoodie/zskip/index/m', '.hoodie/zskip', '_zskip2/a']
    """
    return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path
