"""What rows are clustered by: columns, fields inside structs, expressions, and conditions, under one spelling each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from sqlglot import TokenType

from zskip.errors import ColumnError, PredicateError
from zskip.predicate import opaque
from zskip.predicate.columns import Columns
from zskip.predicate.elements import EXPLODE
from zskip.predicate.sql.parse import parse_value
from zskip.predicate.sql.tokens import Token, tokens_of
from zskip.predicate.text import term_sql
from zskip.predicate.tree import Column, Opaque, Term, parts_of
from zskip.records import Field

_MAY_BE_EXPRESSION = re.compile(r"[(\[:%*+<>=']|\s[-/]\s|^-")
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
        term = parse_value(name, columns, timezone=timezone)
    except (ColumnError, PredicateError) as error:
        if isinstance(error, ColumnError) and not _holds_query(_tokens_of(name)):
            raise
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
        return parse_value(field.name, columns, timezone=timezone) if field.computed else None
    except (ColumnError, PredicateError):
        return None


def _check_function(name: str, term: Term) -> None:
    for part in parts_of(term):
        if isinstance(part, Opaque) and (part.function == "geo_distance" or opaque.evaluator(part.function)):
            raise ColumnError(
                f'cannot cluster by "{name}": Spark, which computes keys, does not know {part.function}; store it as a '
                "column"
            )


def _tokens_of(name: str) -> list[Token]:
    try:
        return tokens_of(name)
    except PredicateError:
        return []


def _holds_query(tokens: Sequence[Token]) -> bool:
    return any(token.token_type is TokenType.SELECT for token in tokens)


def _explain(name: str) -> str:
    tokens = _tokens_of(name)
    if _holds_query(tokens):
        return (
            f'cannot cluster by "{name}": a query is not of one row. A key is a column, a field of a struct, or an '
            'expression of them such as "lower(email)" (docs/keys.md lists which); store the answer of the query as a '
            "column of the table, and cluster by that"
        )
    calls = [token for token, after in pairwise(tokens) if after.token_type is TokenType.L_PAREN]
    for called in (token.text.lower() for token in calls):
        reason = next((reason for reason, names in _REASONS.items() if called in names.split()), None)
        if reason is not None:
            return f'cannot cluster by "{name}": {called} {reason}; take an expression of the columns of one row'
    names = (token.text.lower() for token in calls if token.token_type is TokenType.VAR)
    own = next((called for called in names if not opaque.is_in_sql(called)), None)
    if own is not None:
        return (
            f'"{name}" is no column, and no expression that rows can be clustered by: zskip does not know the function '
            f"{own}. One of your own is not in every session that keeps the table clustered; store its values as a "
            "column, and cluster by that"
        )
    return (
        f'"{name}" is no column, and no expression that rows can be clustered by: zskip does not know the function, or '
        "not of such arguments; take one in docs/keys.md, or store it as a column"
    )
