"""List what crashed operations left in a table, and delete it."""

from __future__ import annotations

from zskip.errors import TableNotFoundError
from zskip.formats import find_leftovers, find_unpublished, measure_leftover
from zskip.formats.parquet import log
from zskip.index import DamagedIndexError, find_garbage
from zskip.records import Cleaning
from zskip.storage import Storage
from zskip.table.handle import Handle
from zskip.table.index_binding import load_index

_Leftovers = list[tuple[Storage, str, str]]
"""The storage, the path in it, and why nobody needs it."""


def clean(handle: Handle, *, delete: bool) -> Cleaning:
    """List what no reader and no running process needs; delete: and delete just that."""
    storage = handle.storage
    unpublished_tables = _unpublished_tables(handle)
    if storage.stat("") is None and not unpublished_tables:
        raise TableNotFoundError(f'"{storage.root}" does not exist; check the path')
    unfinished = log.list_pending(storage)
    if delete:
        for entry in unfinished:
            log.finish(storage, entry)
    all_leftovers = [*_table_leftovers(handle), *_index_leftovers(handle), *unpublished_tables]
    records = tuple(measure_leftover(*leftover) for leftover in all_leftovers)
    if delete:
        for home, path, _ in all_leftovers:
            home.delete(path)
    return Cleaning(path=storage.root, leftovers=records, unfinished=len(unfinished), deleted=delete)


def _table_leftovers(handle: Handle) -> _Leftovers:
    return [(handle.home, path, reason) for path, reason in find_leftovers(handle.home, handle.format)]


def _index_leftovers(handle: Handle) -> _Leftovers:
    """Garbage of the index; none of a damaged one, since a refresh rebuilds it from its sound parts.

    Raises IndexFormatError where another version of zskip wrote it.
    """
    home = handle.index_storage or handle.home
    try:
        load_index(handle)
    except DamagedIndexError:
        return []
    return [(home, path, reason) for path, reason in find_garbage(home)]


def _unpublished_tables(handle: Handle) -> _Leftovers:
    """Hidden directories that should have become this table."""
    above, _, name = handle.storage.root.rpartition("/")
    if not name or above.endswith(":/") or (not above and ":" in handle.storage.root):
        return []
    parent = handle.storage_at(above or "/")
    return [(parent, path, reason) for path, reason in find_unpublished(parent, name)]
