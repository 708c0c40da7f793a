"""A stream over something that gives bytes from any place on."""

from __future__ import annotations

import io
import os
from typing import Protocol

from zskip.storage.base import FileInfo

_READ_AHEAD = 64 << 10
"""Bytes that are asked for at least, so that many small reads are few requests."""


class RangeStream(io.RawIOBase):
    """A seekable binary stream; what it is over says how long it is, and reads."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0

    def _length(self) -> int:
        """The number of bytes, asked for where a place is counted from the end."""
        raise NotImplementedError

    def _next(self, count: int) -> bytes:
        """At most `count` bytes from `_position` on, which moves past them; none at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Where the next byte comes from."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go somewhere, at least to the start."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = max(0, (self._length() if start is None else start) + offset)
        return self._position

    def readinto(self, buffer: object) -> int:
        """Fill a buffer as far as one read goes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)


class Ranges(Protocol):
    """A storage that reads parts of files."""

    def uri(self, path: str) -> str:
        """The absolute path or URI of a file."""

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory, or None where there is none."""

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Bytes of a file from `start` on, fewer where it ends before."""


class ReadAhead(RangeStream):
    """A file across a network: each read is one request, but that small ones read ahead."""

    def __init__(self, storage: Ranges, path: str, size: int | None) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._size = size
        self._ahead = (0, b"")

    def _length(self) -> int:
        if self._size is None:
            found = self._storage.stat(self._path)
            if found is None or found.is_dir:
                raise FileNotFoundError(f'"{self._storage.uri(self._path)}" does not exist')
            self._size = found.size
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, or all that are left."""
        return self._next(self._length() - self._position if size is None or size < 0 else size)

    def readall(self) -> bytes:
        """All bytes that are left."""
        return self.read()

    def _next(self, count: int) -> bytes:
        start, held = self._ahead
        offset = self._position - start
        if not (offset >= 0 and offset + count <= len(held)):
            wanted = max(count, _READ_AHEAD) if self._size is None or count < _READ_AHEAD else count
            if self._size is not None:
                wanted = min(wanted, self._size - self._position)
            held = self._storage.read_range(self._path, self._position, wanted) if wanted > 0 and count > 0 else b""
            self._ahead, offset = (self._position, held), 0
        data = held[offset : offset + count]
        self._position += len(data)
        return data
