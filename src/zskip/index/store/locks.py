"""Locks by key: who reads one part of an index does not wait for who reads another."""

from __future__ import annotations

import threading
from collections.abc import Hashable


class KeyedLocks:
    """One lock for each key."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}

    def of(self, key: Hashable) -> threading.Lock:
        """The lock of a key, always the same one."""
        with self._guard:
            return self._locks.setdefault(key, threading.Lock())
