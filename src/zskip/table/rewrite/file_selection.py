"""Select the files to rewrite: those of some partitions, or those that a planner chose."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from zskip.errors import ConflictError, PredicateError
from zskip.formats.footers.inspection import Inspection, inspect_footers
from zskip.predicate import columns_of, is_unread, parse
from zskip.records import FileIdentity, LiveFiles, Snapshot
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_metadata, complete_in_memory
from zskip.table.session import is_case_sensitive, merges_schemas
from zskip.table.version import TableVersion

if TYPE_CHECKING:
    from zskip.spark.formats import Reader


def select_partitions(version: TableVersion, where: str | None) -> Snapshot:
    """Select the files of partitions for which `where` is true; with hidden partitions, files all of whose rows match.

    Raises PredicateError where it is no predicate, where it names other columns, or where partition values alone
    cannot decide it; ColumnError for unknown columns.
    """
    handle, snapshot, columns = version.handle, version.snapshot, version.columns
    if where is None:
        return snapshot
    predicate = parse(where, columns, timezone=version.timezone)
    names = snapshot.partition_names
    for column in columns_of(predicate):
        if column.path[0] not in names and not snapshot.has_hidden_partitions:
            has = f"the partition columns are {', '.join(sorted(names))}" if names else "this table has none"
            raise PredicateError(f'"{column.path[0]}" in where="{where}" is not a partition column; {has}')
    # What is true of all rows of a file is so without the deleted ones.
    stored = dataclasses.replace(snapshot, reading=dataclasses.replace(snapshot.reading, deleted=None))
    if snapshot.grouped_by and snapshot.reading.feature is None:
        # Footers know the values of partition columns that the files hold.
        # Log files change rows, but never their partition.
        unchanged = dataclasses.replace(stored, reading=dataclasses.replace(stored.reading, changed=None))
        bound = complete_in_memory(handle, snapshot, unchanged)
    else:
        bound = bind_metadata(handle, stored)
    result = bound.prune(predicate)
    if (result.kept & ~result.full).any() and is_unread(predicate) and handle.spark is not None:
        from zskip.spark.scan.statement import prune_statement

        fields = [field for field in columns.fields if field.name in names or snapshot.has_hidden_partitions]
        result = prune_statement(handle.spark, bound, where, fields, case_sensitive=version.case_sensitive)
    if (result.kept & ~result.full).any():
        unknown = "; ".join(leaf.sql for leaf in result.leaves if leaf.reason)
        raise PredicateError(
            f'where="{where}" cannot be decided for each partition ({unknown}); '
            "compare partition columns with literals, such as \"day >= DATE '2024-01-01'\""
        )
    return snapshot.select(result.kept)


def inspect_selected(handle: Handle, reader: Reader) -> tuple[Reader, Inspection]:
    """Read the footers of the files to rewrite, those of a reader; raises UnsupportedError where columns would go.

    Returns the reader with the columns of partitions that files hold, too, which a rewrite keeps.
    """
    from zskip.spark.schema import add_columns

    files = reader.snapshot
    footers = inspect_footers(
        handle.storage,
        files,
        merge=merges_schemas(handle, files),
        inferred=None if files.reading.declared is not None else reader.schema.data_json,
        case_sensitive=is_case_sensitive(handle),
        workers=handle.workers,
    )
    if footers.hidden:
        reader = reader.with_schema(add_columns(handle.need_session("a rewrite"), reader.schema, footers.hidden))
    return reader, footers


def select_unchanged(snapshot: Snapshot, files: frozenset[FileIdentity]) -> Snapshot:
    """Select the files that a planner chose; raises ConflictError where one of them changed."""
    numbers = LiveFiles(snapshot).find(files)
    if (changed := int((numbers < 0).sum())) > 0:
        raise ConflictError(
            f'another writer changed {changed} of the files of "{snapshot.root}" that were to be rewritten; nothing '
            "was committed, call again"
        )
    is_selected = np.zeros(len(snapshot), np.bool_)
    is_selected[numbers] = True
    return snapshot.select(is_selected)
