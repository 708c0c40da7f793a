"""A user's predicates and keys, read over the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from zskip.errors import ColumnError, InputError, UnsupportedError
from zskip.predicate import (
    Column,
    Columns,
    Compare,
    Constant,
    Predicate,
    Term,
    Unknown,
    columns_of,
    columns_under,
    conjunction,
    conjuncts,
    find_key,
    from_pyarrow,
    is_condition,
    key_term,
    nodes,
    opaque,
    parse,
    parse_condition,
    replace_terms,
)
from zskip.records import Field, Snapshot
from zskip.sketch import Matches, are_same, implies, normal, parse_sketch_on
from zskip.table.handle import Handle
from zskip.table.session import (
    ESCAPES,
    describe_condition,
    differences,
    find_misread,
    is_case_sensitive,
    session_time_zone,
    time_zone,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read_where(handle: Handle, snapshot: Snapshot, where: str | pc.Expression | None) -> Predicate:
    """Read a user's predicate; None is true of every row."""
    if where is None:
        return Constant(True)
    columns = table_columns(handle, snapshot)
    if isinstance(where, pc.Expression):
        return from_pyarrow(where, columns)
    if not isinstance(where, str):
        raise InputError(f"where={where!r} is neither SQL text nor an expression of pyarrow.compute")
    difference = next(differences(handle, where), None)
    predicate = parse(where, columns, timezone=time_zone(handle))
    return predicate if difference is None else Unknown(where, difference)


def clustering_fields(
    by: Sequence[str], snapshot: Snapshot, *, case_sensitive: bool, timezone: str
) -> tuple[Field, ...]:
    """Find what rows are to be clustered by: columns, fields inside structs, or expressions of them.

    timezone: of expressions on timestamps. Raises ColumnError for what cannot be a key.
    """
    columns = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=case_sensitive)
    fields: list[Field] = []
    for name in by:
        field = find_key(columns, name, timezone=timezone)
        _check_partitions(columns, snapshot, name, field, timezone)
        if " collate" in field.type.name:
            raise ColumnError(
                f'cannot cluster by "{name}" of type {field.type}: its order depends on the version of a library; give '
                "it the collation UTF8_LCASE, or store its texts in lower case in a column without a collation"
            )
        if field.type.form is None:
            raise ColumnError(f'cannot cluster by "{name}" of type {field.type}: it has no order; {_way_out(field)}')
        if field in fields:
            spelled = f', which is "{field.name}",' if name != field.name else ""
            raise ColumnError(f'column "{name}"{spelled} is named twice in "by"; name each column once')
        fields.append(field)
    return tuple(fields)


def _check_partitions(columns: Columns, snapshot: Snapshot, name: str, field: Field, timezone: str) -> None:
    if field.name in snapshot.partition_names:
        raise ColumnError(f'"{name}" is a partition column; its values already lie in separate files. Leave it out')
    term = key_term(columns, field, timezone=timezone)
    for column in () if term is None else columns_under(term):
        # Files do not hold these.
        if any(partition.name == column.path[0] for partition in snapshot.partition_fields):
            raise ColumnError(
                f'"{name}" is an expression of the partition column "{column.path[0]}", by which files are apart '
                'already; leave it out of "by"'
            )


def _way_out(field: Field) -> str:
    if field.type.name == "variant":
        return f"choose a path into it and a type, such as {field.name if not field.computed else 'v'}:a::int"
    inside = [f"{field.name}.{part}" for part, data_type in field.type.fields if data_type.form is not None]
    return f"choose {f'its fields, such as {inside[0]}' if inside else 'columns of atomic types'}"


def check_keys(frame: DataFrame, snapshot: Snapshot, keys: Sequence[Field]) -> None:
    """Raise UnsupportedError for an expression that the session of some rows would compute as another one.

    snapshot: of the table, with its columns; keys: what the rows are clustered by.
    """
    from zskip.spark.forms import field_sql, form_sql

    fields = (*snapshot.fields, *snapshot.partition_fields)
    columns, timezone = Columns(fields, case_sensitive=True), session_time_zone(frame.sparkSession)
    for key in keys:
        if key.computed:
            term = key_term(columns, key, timezone=timezone)
            if is_condition(term):
                _check_condition(frame, columns, key.name, timezone)
            is_exact = term is not None and not is_condition(term) and opaque.collated_column(term) is None
            meanings = {field_sql(key): term if is_exact else None, form_sql(field_sql(key), key.type): None}
            if find_misread(frame, meanings, fields):
                raise UnsupportedError(other_meaning(key.name))


def _check_condition(frame: DataFrame, columns: Columns, text: str, timezone: str) -> None:
    described = describe_condition(frame, text)
    ours, theirs = (
        parse_sketch_on(f"{Matches()}:{text}", columns, timezone=timezone, described=each).condition
        for each in ("", described)
    )
    if not are_same(ours, theirs):
        raise UnsupportedError(other_meaning(text))


def other_meaning(text: str) -> str:
    """Why the session may not compute an expression, and the way out."""
    return (
        f'"{text}" means something else in this session, which has a function of that name of its own or reads strings '
        f"otherwise ({ESCAPES}); drop the function or the setting, or use another session"
    )


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
    conditions: dict[Predicate, Predicate] = {}
    for field in fields:
        for zone in ("UTC", time_zone(handle)):  # Recorded predicates are in UTC.
            term = key_term(columns, field, timezone=zone)
            if term is not None:
                terms[term] = Column(field.path, field.type)
            if is_condition(term):
                condition = normal(parse_condition(field.name, columns, timezone=zone)[0])
                conditions[condition] = Compare("=", Column(field.path, field.type), 1)
    return [_add_implied(replace_terms(predicate, terms), predicate, conditions) for predicate in predicates]


def _add_implied(named: Predicate, predicate: Predicate, conditions: Mapping[Predicate, Predicate]) -> Predicate:
    """Add what is true of the keys wherever a predicate is true; named: the predicate, of the keys' names."""
    facts = tuple(conjuncts(normal(predicate))) if conditions else ()
    implied = [test for condition, test in conditions.items() if implies(facts, condition)]
    return conjunction((named, *dict.fromkeys(implied)))


def is_only_about(predicate: Predicate, names: set[tuple[str, ...]]) -> bool:
    """Whether zskip understands a predicate, and it mentions these columns and no others."""
    paths = {column.path for column in columns_of(predicate)}
    return bool(paths) and paths <= names and not any(isinstance(node, Unknown) for node in nodes(predicate))
