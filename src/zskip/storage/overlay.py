"""A storage that keeps writes in memory, to try steps that must leave no trace."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

from zskip.storage.base import FileInfo, Storage
from zskip.storage.wrapper import StorageWrapper


class Overlay(StorageWrapper):
    """Reads another storage; writes, moves and deletions stay in memory and never reach it."""

    def __init__(self, base: Storage) -> None:
        super().__init__(base)
        self._written: dict[str, bytes | None] = {}
        """None for deleted files."""

    def uri(self, path: str) -> str:
        """The path in the storage below, whether or not a file exists."""
        return self._base.uri(path)

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        files = [self._info(p) for p in self._written if not any(skip(name) for name in p.split("/"))]
        unchanged = [file for file in self._base.walk(skip) if file.path not in self._written]
        return unchanged + [info for info in files if info is not None]

    def list_dir(self, path: str) -> list[FileInfo]:
        files = [self._info(p) for p in self._written if p.rpartition("/")[0] == path]
        unchanged = [file for file in self._base.list_dir(path) if file.path not in self._written]
        return unchanged + [info for info in files if info is not None]

    def stat(self, path: str) -> FileInfo | None:
        return self._info(path) if path in self._written else self._base.stat(path)

    def is_dir(self, path: str) -> bool:
        """Whether a directory exists, apart from those that hold only files written here."""
        return path not in self._written and self._base.is_dir(path)

    def _info(self, path: str) -> FileInfo | None:
        data = self._written[path]
        return None if data is None else FileInfo(path, len(data), 0)

    def read(self, path: str) -> bytes:
        if path not in self._written:
            return self._base.read(path)
        data = self._written[path]
        if data is None:
            raise FileNotFoundError(path)
        return data

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        return io.BytesIO(self.read(path)) if path in self._written else self._base.open(path, size)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Keep a file in memory; raises FileExistsError where the path is taken and `overwrite` is false."""
        if not overwrite and self.stat(path) is not None:
            raise FileExistsError(path)
        self._written[path] = data

    def rename(self, source: str, target: str) -> None:
        """Move a file in memory."""
        if self.stat(target) is not None:
            raise FileExistsError(target)
        self._written[target] = self.read(source)
        self._written[source] = None

    def delete(self, path: str) -> None:
        for written in list(self._written):
            if written.startswith(f"{path}/"):
                self._written[written] = None
        self._written[path] = None
