"""Finds the remains of interrupted operations in a table; changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

from zskip.formats import claims, new_table
from zskip.formats.base import HOME, OPERATIONS
from zskip.formats.parquet import log
from zskip.formats.staging import STAGING
from zskip.formats.table_format import TableFormat
from zskip.records import Leftover
from zskip.storage import Storage

TEMPORARY_MS = 6 * 3_600_000
"""The age from which a temporary file counts as abandoned."""


def find_leftovers(storage: Storage, table: TableFormat) -> list[tuple[str, str]]:
    """Paths that no reader and no living process needs, with reasons, in a safe order of deletion.

    storage: has the table, with zskip's own files.
    """
    leftovers: list[tuple[str, str]] = []
    for directory in storage.list_dir(STAGING):
        remains = table.find_remains(directory.path) if claims.is_abandoned(storage, directory) else None
        if remains is not None:
            leftovers += [(path, "moved for a rewrite without a commit") for path in remains]
            leftovers.append((directory.path, "staged for a rewrite that never ended"))
    leftovers += [(path, "replaced by a rewrite that is finished") for path in log.list_dead_trash(storage)]
    leftovers += [(path, "half written") for path in _temporary(storage)]
    return [(path, reason) for path, reason in leftovers if storage.stat(path) is not None]


def _temporary(storage: Storage) -> Iterator[str]:
    newest_ms = time.time() * 1000 - TEMPORARY_MS
    for directory in (HOME, OPERATIONS, log.LOG):
        for file in storage.list_dir(directory):
            name = file.path.rpartition("/")[2]
            if not file.is_dir and name.startswith(".") and name.endswith(".tmp") and file.mtime_ms < newest_ms:
                yield file.path


def find_unpublished(parent: Storage, name: str) -> list[tuple[str, str]]:
    """Hidden directories of dead processes that were meant to become the table `name`."""
    return [(path, "a table that was never finished (into=)") for path in new_table.find_abandoned(parent, name)]


def measure_leftover(storage: Storage, path: str, reason: str) -> Leftover:
    """A leftover with the number and size of its files."""
    sizes = list(_sizes(storage, path))
    return Leftover(path=storage.uri(path), reason=reason, files=len(sizes), bytes=sum(sizes))


def _sizes(storage: Storage, path: str) -> Iterator[int]:
    info = storage.stat(path)
    if info is not None and not info.is_dir:
        yield info.size
    elif info is not None:
        for file in storage.list_dir(path):
            yield from _sizes(storage, file.path)
