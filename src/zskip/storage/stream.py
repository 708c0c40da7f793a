"""Streams over files that are read by byte ranges."""

from __future__ import annotations

import io
import os
from typing import Protocol

from zskip.storage.base import FileInfo

_READ_AHEAD = 64 << 10
"""Bytes that are requested at least, so that many small reads take few requests."""


class RangeStream(io.RawIOBase):
    """A seekable binary stream; subclasses tell its length and read."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0

    def _length(self) -> int:
        """The number of bytes; called when a position is counted from the end."""
        raise NotImplementedError

    def _next(self, count: int) -> bytes:
        """At most `count` bytes from `_position` on, advancing it; none at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, not before the start."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = max(0, (self._length() if start is None else start) + offset)
        return self._position

    def readinto(self, buffer: object) -> int:
        """Fill a buffer as far as one read goes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)


class RangeReader(Protocol):
    """A storage that reads parts of files."""

    def uri(self, path: str) -> str:
        """The absolute path or URI of a file."""

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory; None if it does not exist."""

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Bytes of a file from `start` on, fewer at its end."""


class ReadAhead(RangeStream):
    """A file across a network: each read is one request, and small reads fetch more than they need."""

    def __init__(self, storage: RangeReader, path: str, size: int | None) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._size = size
        self._ahead = (0, b"")

    def _length(self) -> int:
        if self._size is None:
            info = self._storage.stat(self._path)
            if info is None or info.is_dir:
                raise FileNotFoundError(f'"{self._storage.uri(self._path)}" does not exist')
            self._size = info.size
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        """Up to `size` bytes, or all remaining ones."""
        return self._next(self._length() - self._position if size is None or size < 0 else size)

    def readall(self) -> bytes:
        """All remaining bytes."""
        return self.read()

    def _next(self, count: int) -> bytes:
        start, buffer = self._ahead
        offset = self._position - start
        if not (offset >= 0 and offset + count <= len(buffer)):
            length = max(count, _READ_AHEAD) if self._size is None or count < _READ_AHEAD else count
            if self._size is not None:
                length = min(length, self._size - self._position)
            buffer = self._storage.read_range(self._path, self._position, length) if length > 0 and count > 0 else b""
            self._ahead, offset = (self._position, buffer), 0
        data = buffer[offset : offset + count]
        self._position += len(data)
        return data
