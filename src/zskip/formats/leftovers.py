"""What operations that were cut short have left in a table, found without a change to anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from zskip.formats import claims, new_table
from zskip.formats.base import HOME, OPERATIONS, TableFormat
from zskip.formats.parquet import log
from zskip.formats.staging import STAGING
from zskip.records import Leftover
from zskip.storage import Storage
from zskip.storage.overlay import Overlay

TEMPORARY_MS = 6 * 3_600_000
"""Age from which on a file without a name of its own is no longer being written."""


def find_leftovers(storage: Storage, open_on: Callable[[Storage], TableFormat]) -> list[tuple[str, str]]:
    """Paths in a table that no reader and no living process needs, and why; in the order in which they may go.

    open_on: opens the table's format over another storage of the same table: its `abort` says what a rewrite has left.
    """
    found: list[tuple[str, str]] = []
    for directory in storage.list_dir(STAGING):
        if claims.is_abandoned(storage, directory):
            tried = Overlay(storage)
            open_on(tried).abort(directory.path)
            for path in tried.deleted():
                staged = path.startswith(f"{STAGING}/")
                reason = "staged for a rewrite that never ended" if staged else "moved for a rewrite without a commit"
                found.append((path, reason))
    found += [(path, "replaced by a rewrite that is finished") for path in log.dead_trash(storage)]
    found += [(path, "half written") for path in _temporary(storage)]
    return [(path, reason) for path, reason in found if storage.stat(path) is not None]


def _temporary(storage: Storage) -> Iterator[str]:
    horizon = time.time() * 1000 - TEMPORARY_MS
    for directory in (HOME, OPERATIONS, log.LOG):
        for file in storage.list_dir(directory):
            name = file.path.rpartition("/")[2]
            if not file.is_dir and name.startswith(".") and name.endswith(".tmp") and file.mtime_ms < horizon:
                yield file.path


def find_unpublished(parent: Storage, name: str) -> list[tuple[str, str]]:
    """Hidden directories of dead processes that were to become the table `name`."""
    return [(path, "a table that was never finished (into=)") for path in new_table.find_abandoned(parent, name)]


def measure_leftover(storage: Storage, path: str, reason: str) -> Leftover:
    """A leftover with all that lies in it."""
    sizes = list(_sizes(storage, path))
    return Leftover(path=storage.uri(path), reason=reason, files=len(sizes), bytes=sum(sizes))


def _sizes(storage: Storage, path: str) -> Iterator[int]:
    found = storage.stat(path)
    if found is not None and not found.is_dir:
        yield found.size
    elif found is not None:
        for file in storage.list_dir(path):
            yield from _sizes(storage, file.path)
