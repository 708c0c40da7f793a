"""Select the files to rewrite: those of some partitions, or those that a planner chose."""

from __future__ import annotations

import dataclasses

import numpy as np

from zskip.errors import ConflictError, PredicateError
from zskip.index import refresh
from zskip.predicate import Columns, columns_of, parse
from zskip.records import Snapshot
from zskip.storage.overlay import Overlay
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_metadata
from zskip.table.session import is_case_sensitive, time_zone
from zskip.table.unchanged_files import FileIdentity, LiveFiles


def select_partitions(handle: Handle, snapshot: Snapshot, where: str | None) -> Snapshot:
    """Select the files of partitions for which `where` is true; with hidden partitions, files all of whose rows match.

    Raises PredicateError where it is no predicate, where it names other columns, or where partition values alone
    cannot decide it; ColumnError for unknown columns.
    """
    if where is None:
        return snapshot
    case_sensitive = is_case_sensitive(handle)
    columns = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=case_sensitive)
    predicate = parse(where, columns, timezone=time_zone(handle))
    names = snapshot.partition_names
    for column in columns_of(predicate):
        if column.path[0] not in names and not snapshot.has_hidden_partitions:
            has = f"the partition columns are {', '.join(sorted(names))}" if names else "this table has none"
            raise PredicateError(f'"{column.path[0]}" in where="{where}" is no partition column; {has}')
    # What is true of all rows of a file is so without the deleted ones.
    stored = dataclasses.replace(snapshot, reading=dataclasses.replace(snapshot.reading, deleted=None))
    if snapshot.grouped_by and snapshot.reading.feature is None:
        # Footers know the values of partition columns that the files hold; the overlay writes nothing.
        index = refresh(Overlay(handle.storage), snapshot, workers=handle.workers)
        # Log files change rows, but never their partition.
        bound = index.bind(
            dataclasses.replace(stored, reading=dataclasses.replace(stored.reading, changed=None)),
            case_sensitive=case_sensitive,
        )
    else:
        bound = bind_metadata(handle, stored)
    result = bound.prune(predicate)
    if (result.kept & ~result.full).any():
        unknown = "; ".join(leaf.sql for leaf in result.leaves if leaf.reason)
        raise PredicateError(
            f'where="{where}" cannot be decided for each partition ({unknown}); '
            "compare partition columns with literals, such as \"day >= DATE '2024-01-01'\""
        )
    return snapshot.select(result.kept)


def select_unchanged(snapshot: Snapshot, files: frozenset[FileIdentity] | None) -> Snapshot:
    """Select the files that a planner chose, None for all; raises ConflictError where one of them changed."""
    if files is None:
        return snapshot
    numbers = LiveFiles(snapshot).find(files)
    if (changed := int((numbers < 0).sum())) > 0:
        raise ConflictError(
            f'another writer changed {changed} of the files of "{snapshot.root}" that were to be rewritten; nothing '
            "was committed, call again"
        )
    is_selected = np.zeros(len(snapshot), np.bool_)
    is_selected[numbers] = True
    return snapshot.select(is_selected)
