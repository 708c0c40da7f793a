"""Parts of an index that were read across a network, kept in memory: once written, they never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from zskip.storage import Storage

_MOST = 64 << 20
"""Bytes of all parts together."""
_LARGEST = _MOST // 4


class PartCache:
    """The parts that were read last; safe to share between threads."""

    def __init__(self, most: int = _MOST, largest: int = _LARGEST) -> None:
        """most, largest: bytes of all parts, and of one that is kept."""
        self._lock = threading.Lock()
        self._parts: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0
        self._most, self._largest = most, largest

    def get(self, storage: Storage, key: tuple[Hashable, ...], read: Callable[[], bytes]) -> bytes:
        """A part as it was read before, or read now; of what lies on a disk nothing is kept.

        key: what is read, and by which size, time or checksum it would be known to be another one.
        """
        if storage.kind == "disk":
            return read()
        whole = (storage.root, *key)
        with self._lock:
            held = self._parts.get(whole)
            if held is not None:
                self._parts.move_to_end(whole)
                return held
        data = read()
        if len(data) <= self._largest:
            with self._lock:
                self._bytes += len(data) - len(self._parts.pop(whole, b""))
                self._parts[whole] = data
                while self._bytes > self._most:
                    self._bytes -= len(self._parts.popitem(last=False)[1])
        return data

    def forget(self, storage: Storage, key: tuple[Hashable, ...]) -> None:
        """Drop a part that has turned out to be damaged, so that it is read again."""
        with self._lock:
            self._bytes -= len(self._parts.pop((storage.root, *key), b""))


CACHE = PartCache()
"""Of this process."""
