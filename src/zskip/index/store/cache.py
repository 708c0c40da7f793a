"""What indexes keep in memory, by bytes: what was not used for the longest time goes first."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from zskip.storage import Storage

_MAX_BYTES = 64 << 20
"""The total size of all parts."""
_MAX_PART_BYTES = _MAX_BYTES // 4


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteLimit:
    """A limit of bytes that several caches share."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lock = threading.Lock()
        self.caches: weakref.WeakSet[ByteCache] = weakref.WeakSet()  # type: ignore[type-arg]
        self.clock = itertools.count()

    def shrink(self) -> None:
        """Drop entries until the rest keeps to the limit; the latest one stays whatever its size."""
        caches = [cache for cache in self.caches if cache.entries]
        while sum(cache.bytes for cache in caches) > self.limit and sum(len(cache.entries) for cache in caches) > 1:
            oldest = min((cache for cache in caches if cache.entries), key=lambda cache: cache.last_use())
            oldest.bytes -= oldest.entries.popitem(last=False)[1][1]


class ByteCache(Generic[K, V]):
    """Values by their keys, within a limit; safe to share between threads. What it keeps goes with it."""

    def __init__(self, limit: ByteLimit) -> None:
        self.entries: OrderedDict[K, tuple[V, int, int]] = OrderedDict()
        """Each with its bytes, and the time of its last use."""
        self.bytes = 0
        self._limit = limit
        with limit.lock:
            limit.caches.add(self)

    def get(self, key: K) -> V | None:
        """A value, used now; None where it is not kept."""
        with self._limit.lock:
            if key not in self.entries:
                return None
            value, size, _ = self.entries.pop(key)
            self.entries[key] = value, size, next(self._limit.clock)
            return value

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value, and drop others for it; size: its bytes."""
        with self._limit.lock:
            self._drop(key)
            self.entries[key] = value, size, next(self._limit.clock)
            self.bytes += size
            self._limit.shrink()

    def drop(self, key: K) -> None:
        """Forget a value."""
        with self._limit.lock:
            self._drop(key)

    def _drop(self, key: K) -> None:
        if key in self.entries:
            self.bytes -= self.entries.pop(key)[1]

    def last_use(self) -> int:
        """The time of the last use of the entry that was not used for the longest time."""
        return next(iter(self.entries.values()))[2]


MEMORY = ByteLimit(256 << 20)
"""Of the columns and sketches that all bound indexes of this process keep in memory."""


class PartCache:
    """Parts of indexes that were read over a network; once written, they never change. Threads may share it."""

    def __init__(self) -> None:
        self._parts: ByteCache[Hashable, bytes] = ByteCache(ByteLimit(_MAX_BYTES))

    def get(self, storage: Storage, key: tuple[Hashable, ...], read: Callable[[], bytes]) -> bytes:
        """A part from the cache, or read now; parts on a local disk are not cached.

        key: identifies the part, including the size, time or checksum that changes with its content.
        """
        if storage.kind == "disk":
            return read()
        part = self._parts.get((storage.root, *key))
        if part is None:
            part = read()
            if len(part) <= _MAX_PART_BYTES:
                self._parts.put((storage.root, *key), part, len(part))
        return part

    def forget(self, storage: Storage, key: tuple[Hashable, ...]) -> None:
        """Drop a part that turned out to be damaged, so that it is read again."""
        self._parts.drop((storage.root, *key))


CACHE = PartCache()
"""The cache of this process."""
