"""A storage as it would be after some writes, which stay in memory: to try what must leave no trace."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

from zskip.storage.base import FileInfo, Storage
from zskip.storage.on_top import OnTop


class Overlay(OnTop):
    """Reads through to another storage; what is written, moved or deleted here never reaches it."""

    def __init__(self, base: Storage) -> None:
        super().__init__(base)
        self._written: dict[str, bytes | None] = {}
        """None for what was deleted."""

    def uri(self, path: str) -> str:
        """The path in the storage below, whether there is anything or not."""
        return self._base.uri(path)

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        """All files below the root, without those whose name, or a parent's name, `skip` accepts."""
        written = [self._info(p) for p in self._written if not any(skip(name) for name in p.split("/"))]
        found = [file for file in self._base.walk(skip) if file.path not in self._written]
        return found + [info for info in written if info is not None]

    def list_dir(self, path: str) -> list[FileInfo]:
        """What lies directly in a directory."""
        below = [self._info(p) for p in self._written if p.rpartition("/")[0] == path]
        found = [file for file in self._base.list_dir(path) if file.path not in self._written]
        return found + [info for info in below if info is not None]

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory, or None where there is none."""
        return self._info(path) if path in self._written else self._base.stat(path)

    def is_dir(self, path: str) -> bool:
        """Whether there is a directory, those that hold nothing but what was written here left out."""
        return path not in self._written and self._base.is_dir(path)

    def _info(self, path: str) -> FileInfo | None:
        data = self._written[path]
        return None if data is None else FileInfo(path, len(data), 0)

    def read(self, path: str) -> bytes:
        """The whole content; raises FileNotFoundError where there is none."""
        if path not in self._written:
            return self._base.read(path)
        data = self._written[path]
        if data is None:
            raise FileNotFoundError(path)
        return data

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """A seekable binary stream for reading."""
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

    def deleted(self) -> list[str]:
        """Paths that were deleted, in that order, whether there was anything or not."""
        return [path for path, data in self._written.items() if data is None]

    def delete(self, path: str) -> None:
        """Forget a file, or all below a directory."""
        for known in list(self._written):
            if known.startswith(f"{path}/"):
                self._written[known] = None
        self._written[path] = None
