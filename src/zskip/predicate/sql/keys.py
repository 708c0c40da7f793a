"""What rows are clustered by: columns, fields inside structs, and expressions, under one spelling each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zskip.errors import ColumnError, PredicateError
from zskip.predicate import opaque
from zskip.predicate.columns import Columns
from zskip.predicate.elements import EXPLODE
from zskip.predicate.sql.parse import parse_term
from zskip.predicate.text import term_sql
from zskip.predicate.tree import Column, Opaque, Term
from zskip.records import Field

_MAY_BE_EXPRESSION = re.compile(r"[(\[:%*+]|\s[-/]\s|^-")
_CALL = re.compile(r"(\w+)\s*\(")
_REASONS = {
    "has another value each time it is computed": (
        "rand randn random uuid shuffle monotonically_increasing_id now current_timestamp current_date localtimestamp "
        "current_time curdate input_file_name spark_partition_id current_user user version"
    ),
    "is of many rows": (
        "sum count avg mean min max first last any_value collect_list collect_set stddev variance "
        "approx_count_distinct count_if max_by min_by median mode percentile row_number rank dense_rank lag lead ntile"
    ),
    "gives more than one row": "explode explode_outer posexplode inline stack",
    "holds a query": "select exists",
}
"""Why functions are none of a row, by their names."""


def find_key(columns: Columns, name: str, *, timezone: str) -> Field:
    """Find what rows may be clustered by; its name is the normal spelling.

    timezone: of expressions on timestamps. Raises ColumnError for what is no column, no field inside structs, and no
    expression of them.

    >>> from zskip.types import DataType
    >>> columns = Columns([Field(name="Email", type=DataType("string")), Field(name="ts", type=DataType("timestamp"))])
    >>> [find_key(columns, name, timezone="UTC").name for name in ("email", "LOWER(email)", "date(ts)")]
    ['Email', 'lower(Email)', 'CAST(ts AS DATE)']
    """
    try:
        return _collated(columns.key(name))
    except ColumnError:
        if not _MAY_BE_EXPRESSION.search(name):
            raise
    try:
        term = parse_term(name, columns, timezone=timezone)
    except PredicateError as error:
        raise ColumnError(_explain(name)) from error
    if isinstance(term, Column):
        return _collated(columns.key(term_sql(term)))
    if isinstance(term, Opaque) and term.function == EXPLODE:
        raise ColumnError(_explain(name))
    _check_function(name, term)
    text = term_sql(term)
    if any(field.name.lower() == text.lower() for field in columns.fields):
        raise ColumnError(f'"{name}" is called like the column "{text}"; rename the column, or take it as the key')
    return Field(name=text, type=term.type, computed=True)


def _collated(field: Field) -> Field:
    """The key of a column with a collation that has one, the field itself otherwise."""
    key = opaque.collation_key(Column(field.path, field.type))
    return field if key is None else Field(name=term_sql(key), type=key.type, computed=True)


def key_term(columns: Columns, field: Field, *, timezone: str) -> Term | None:
    """Return the expression of a key; None for columns, and where the table does not have its columns any more."""
    try:
        return parse_term(field.name, columns, timezone=timezone) if field.computed else None
    except (ColumnError, PredicateError):
        return None


def _check_function(name: str, term: Term) -> None:
    for part in _parts_of(term):
        if isinstance(part, Opaque) and (part.function == "geo_distance" or opaque.evaluator(part.function)):
            raise ColumnError(
                f'cannot cluster by "{name}": Spark, which computes keys, does not know {part.function}; store it as a '
                "column"
            )


def _parts_of(term: Term) -> Iterator[Term]:
    yield term
    inner = () if isinstance(term, Column) else term.arguments if isinstance(term, Opaque) else (term.term,)
    for part in inner:
        if not isinstance(part, str):
            yield from _parts_of(part)


def _explain(name: str) -> str:
    for called in (match.lower() for match in _CALL.findall(name)):
        reason = next((reason for reason, names in _REASONS.items() if called in names.split()), None)
        if reason is not None:
            return f'cannot cluster by "{name}": {called} {reason}; take an expression of the columns of one row'
    return (
        f'"{name}" is no column, and no expression that rows can be clustered by: zskip does not know the function, or '
        "not of such arguments; take one in docs/keys.md, or store it as a column"
    )
