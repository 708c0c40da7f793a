"""A user's predicate, read over the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from zskip.errors import InputError
from zskip.predicate import (
    Column,
    Columns,
    Constant,
    Predicate,
    Term,
    Unknown,
    columns_of,
    from_pyarrow,
    key_term,
    nodes,
    parse,
    replace_terms,
)
from zskip.records import Field, Snapshot
from zskip.table.handle import Handle
from zskip.table.session import is_case_sensitive, time_zone


def read_where(handle: Handle, snapshot: Snapshot, where: str | pc.Expression | None) -> Predicate:
    """Read a user's predicate; None is true of every row."""
    if where is None:
        return Constant(True)
    columns = table_columns(handle, snapshot)
    if isinstance(where, pc.Expression):
        return from_pyarrow(where, columns)
    if not isinstance(where, str):
        raise InputError(f"where={where!r} is neither SQL text nor an expression of pyarrow.compute")
    return parse(where, columns, timezone=time_zone(handle))


def table_columns(handle: Handle, snapshot: Snapshot) -> Columns:
    """All columns, by the names that a user writes."""
    return Columns(
        (*snapshot.fields, *snapshot.partition_fields),
        case_sensitive=is_case_sensitive(handle),
        where=f'"{handle.storage.root}"',
    )


def name_keys(
    handle: Handle, snapshot: Snapshot, fields: Sequence[Field], predicates: Sequence[Predicate]
) -> list[Predicate]:
    """Read conditions on those of some keys that are expressions as conditions on columns of the keys' names."""
    columns = table_columns(handle, snapshot)
    terms: dict[Term, Term] = {}
    for field in fields:
        for zone in ("UTC", time_zone(handle)):  # Recorded predicates are in UTC.
            term = key_term(columns, field, timezone=zone)
            if term is not None:
                terms[term] = Column(field.path, field.type)
    return [replace_terms(predicate, terms) for predicate in predicates] if terms else list(predicates)


def is_only_about(predicate: Predicate, names: set[tuple[str, ...]]) -> bool:
    """Whether zskip understands a predicate, and it mentions these columns and no others."""
    paths = {column.path for column in columns_of(predicate)}
    return bool(paths) and paths <= names and not any(isinstance(node, Unknown) for node in nodes(predicate))
