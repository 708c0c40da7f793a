"""Say what crashed operations left in a table, and remove it."""

from __future__ import annotations

from zskip.errors import TableNotFoundError
from zskip.formats import find_leftovers, find_unpublished, measure_leftover
from zskip.formats.parquet import log
from zskip.index import DamagedIndexError, find_garbage
from zskip.records import Cleaning
from zskip.storage import Storage
from zskip.table.handle import Handle
from zskip.table.index_binding import load_index

_Found = list[tuple[Storage, str, str]]
"""Where it lies, its path there, and why nobody needs it."""


def clean(handle: Handle, *, delete: bool) -> Cleaning:
    """List what no reader and no living process needs, and delete just that where it is asked for."""
    storage = handle.storage
    beside = _beside(handle)
    if storage.stat("") is None and not beside:
        raise TableNotFoundError(f'"{storage.root}" does not exist; check the path')
    unfinished = log.list_pending(storage)
    if delete:
        for entry in unfinished:
            log.finish(storage, entry)
    found = [*_inside(handle), *_of_index(handle), *beside]
    records = tuple(measure_leftover(*leftover) for leftover in found)
    if delete:
        for where, path, _ in found:
            where.delete(path)
    return Cleaning(path=storage.root, leftovers=records, unfinished=len(unfinished), deleted=delete)


def _inside(handle: Handle) -> _Found:
    found = find_leftovers(handle.home, handle.format_on)
    return [(handle.home, path, reason) for path, reason in found]


def _of_index(handle: Handle) -> _Found:
    """Garbage of the index; none of one that is damaged, which a refresh builds from what is still sound.

    Raises IndexFormatError where another version of zskip wrote it.
    """
    home = handle.index_storage or handle.home
    try:
        index = load_index(handle)
    except DamagedIndexError:
        return []
    return [] if index is None else [(home, path, reason) for path, reason in find_garbage(home)]


def _beside(handle: Handle) -> _Found:
    """Directories that were to become this table."""
    above, _, name = handle.storage.root.rpartition("/")
    if not name or above.endswith(":/") or (not above and ":" in handle.storage.root):
        return []
    parent = handle.storage_at(above or "/")
    return [(parent, path, reason) for path, reason in find_unpublished(parent, name)]
