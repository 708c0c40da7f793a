"""A stream over something that gives bytes from any place on."""

from __future__ import annotations

import io
import os


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
