"""A memory cache of index parts that were read over a network; once written, they never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from zskip.storage import Storage

_MAX_BYTES = 64 << 20
"""The total size of all parts."""
_MAX_PART_BYTES = _MAX_BYTES // 4


class PartCache:
    """The most recently used parts; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, storage: Storage, key: tuple[Hashable, ...], read: Callable[[], bytes]) -> bytes:
        """A part from the cache, or read now; parts on a local disk are not cached.

        key: identifies the part, including the size, time or checksum that changes with its content.
        """
        if storage.kind == "disk":
            return read()
        full_key = (storage.root, *key)
        with self._lock:
            part = self._parts.get(full_key)
            if part is not None:
                self._parts.move_to_end(full_key)
                return part
        data = read()
        if len(data) <= _MAX_PART_BYTES:
            with self._lock:
                self._bytes += len(data) - len(self._parts.pop(full_key, b""))
                self._parts[full_key] = data
                while self._bytes > _MAX_BYTES:
                    self._bytes -= len(self._parts.popitem(last=False)[1])
        return data

    def forget(self, storage: Storage, key: tuple[Hashable, ...]) -> None:
        """Drop a part that turned out to be damaged, so that it is read again."""
        with self._lock:
            self._bytes -= len(self._parts.pop((storage.root, *key), b""))


CACHE = PartCache()
"""The cache of this process."""
