"""Load a table's index and bind it to a snapshot; a missing, damaged or outdated index costs a warning."""

from __future__ import annotations

import warnings

import numpy as np

from zskip.errors import IndexFormatError, StorageError, ZskipWarning
from zskip.index import BoundIndex, DamagedIndexError, Index, bind_without_index, refresh
from zskip.records import Bools, Snapshot
from zskip.storage.overlay import Overlay
from zskip.table.handle import Handle
from zskip.table.session import is_case_sensitive, session_versions


def load_index(handle: Handle) -> Index | None:
    """Load the newest version of the index; None where there is none.

    Raises IndexFormatError where another version of zskip wrote it or it is damaged, StorageError where it cannot
    be read, and InputError where `index_path` holds the index of another table.
    """
    if handle.index_storage is None:
        return Index.load(handle.home)
    return Index.load(handle.index_storage, handle.storage.root)


def check_index_version(handle: Handle) -> None:
    """Raise IndexFormatError where another version of zskip wrote the index; a damaged one is rebuilt later."""
    try:
        load_index(handle)
    except DamagedIndexError:
        return


def complete_in_memory(handle: Handle, snapshot: Snapshot, files: Snapshot | None = None) -> BoundIndex:
    """Bind an index that knows all files of a snapshot, the footers of new ones too; nothing is written.

    files: what to bind it to, by default the snapshot itself.
    """
    index = refresh(
        Overlay(handle.home),
        snapshot,
        case_sensitive=is_case_sensitive(handle),
        check=False,
        index_storage=None if handle.index_storage is None else Overlay(handle.index_storage),
        workers=handle.workers,
    )
    return bind_loaded(handle, index, files or snapshot)


def bind_loaded(handle: Handle, index: Index, snapshot: Snapshot) -> BoundIndex:
    """Bind an index as the session reads columns and expressions."""
    return index.bind(snapshot, case_sensitive=is_case_sensitive(handle), versions=session_versions(handle))


def bind_index(handle: Handle, snapshot: Snapshot, *, warn: bool = True) -> BoundIndex:
    """Bind the index to a snapshot's files, or the format's own metadata where no index can be used."""
    if snapshot.reading.opaque:
        return bind_metadata(handle, snapshot)
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore", ZskipWarning)
        return _bind(handle, snapshot)


def bind_metadata(handle: Handle, snapshot: Snapshot) -> BoundIndex:
    """Bind only the format's own metadata: partition values, and any statistics it keeps."""
    return bind_without_index(snapshot, case_sensitive=is_case_sensitive(handle))


def known_rows(bound: BoundIndex, files: Bools) -> int | None:
    """The total rows of some files; None where a file's count is unknown, or rows of it are deleted."""
    deleted = bound.snapshot.reading.deleted
    rows = bound.rows[files] if deleted is None else np.where(deleted, -1, bound.rows)[files]
    return None if (rows < 0).any() else int(rows.sum())


def _bind(handle: Handle, snapshot: Snapshot) -> BoundIndex:
    try:
        index = load_index(handle)
    except DamagedIndexError as error:
        _warn(handle, f"{error}; queries read files that they could skip")
        return bind_metadata(handle, snapshot)
    except (IndexFormatError, StorageError) as error:
        _warn(handle, f"{error}. Until then queries read files that they could skip", advice="")
        return bind_metadata(handle, snapshot)
    bound = bind_metadata(handle, snapshot) if index is None else bind_loaded(handle, index, snapshot)
    gap = _describe_gap(bound, has_index=index is not None)
    if gap and not bound.warn.done:
        _warn(handle, gap)
    return bound


def _describe_gap(bound: BoundIndex, *, has_index: bool) -> str:
    """Why queries read more files than they have to; empty where nothing is missing."""
    if not has_index and bound.snapshot.known is None:
        return "there is no index, so every query reads all files of the partitions it needs"
    unknown = int((bound.rows < 0).sum())
    knows = "the index knows" if has_index else "there is no index, and the table's own metadata knows"
    files = f"{unknown} of the {len(bound.snapshot)} files"
    return f"{knows} nothing of {files}, so every query reads them" if unknown else ""


def _warn(handle: Handle, text: str, advice: str = "; bring the index up to date with Table.index()") -> None:
    warnings.warn(f'"{handle.storage.root}": {text}{advice}', ZskipWarning, stacklevel=6)
