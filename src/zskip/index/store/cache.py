"""What indexes keep in memory, by bytes: what was not used for the longest time goes first."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from zskip.storage import Storage

_MAX_PART_BYTES = 16 << 20

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Values by their keys, within a limit of bytes; safe to share between threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        """Each with its bytes, the one used last at the end."""
        # The collection of garbage may drop entries while this thread holds the lock.
        self._lock = threading.RLock()

    def get(self, key: K) -> V | None:
        """A value, used now; None where it is not kept."""
        with self._lock:
            if key not in self.entries:
                return None
            self.entries.move_to_end(key)
            return self.entries[key][0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of so many bytes, and drop others for it; the latest one stays whatever its size."""
        with self._lock:
            self.drop(key)
            self.entries[key] = value, size
            self.bytes += size
            while self.bytes > self.limit and len(self.entries) > 1:
                self.drop(next(iter(self.entries)))

    def drop(self, key: K) -> None:
        """Forget a value."""
        with self._lock:
            if key in self.entries:
                self.bytes -= self.entries.pop(key)[1]


MEMORY: ByteCache[tuple[object, Hashable], object] = ByteCache(256 << 20)
"""The columns and sketches that all bound indexes of this process keep in memory, by their owner and key."""
_PARTS: ByteCache[Hashable, bytes] = ByteCache(64 << 20)
"""Parts of indexes that were read over a network; once written, they never change."""


class OwnValues(Generic[K, V]):
    """The values of one owner in `MEMORY`, which go with it. Who reads one of them does not wait for another."""

    def __init__(self) -> None:
        self._owner = object()
        self._guard = threading.Lock()
        self._locks: dict[K, threading.Lock] = defaultdict(threading.Lock)
        weakref.finalize(self, _drop_all, self._owner)

    def get(self, key: K, read: Callable[[], tuple[V, int]]) -> V:
        """A value; `read` gives it with its bytes where it is not kept."""
        with self._guard:
            lock = self._locks[key]
        with lock:
            known: tuple[V] | None = MEMORY.get((self._owner, key))  # type: ignore[assignment]
            if known is None:
                value, size = read()
                known = (value,)
                MEMORY.put((self._owner, key), known, size)
            return known[0]


def _drop_all(owner: object) -> None:
    for key in list(MEMORY.entries):
        if key[0] is owner:
            MEMORY.drop(key)


def read_part(storage: Storage, key: tuple[Hashable, ...], read: Callable[[], bytes]) -> bytes:
    """A part of an index from the cache, or read now; parts on a local disk are not cached.

    key: identifies the part, including the size, time or checksum that changes with its content.
    """
    if storage.kind == "disk":
        return read()
    part = _PARTS.get((storage.root, *key))
    if part is None:
        part = read()
        if len(part) <= _MAX_PART_BYTES:
            _PARTS.put((storage.root, *key), part, len(part))
    return part


def forget_part(storage: Storage, key: tuple[Hashable, ...]) -> None:
    """Drop a part that turned out to be damaged, so that it is read again."""
    _PARTS.drop((storage.root, *key))
