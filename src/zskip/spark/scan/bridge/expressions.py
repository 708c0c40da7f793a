"""Expressions of a query, as the JSON of the filter that they are not null, and what an index knows of them."""

from __future__ import annotations

from zskip.index import BoundIndex
from zskip.predicate import Column, IsNull, Not, Term
from zskip.records import ColumnStats
from zskip.spark.scan.bridge.filters import Filters


def find_term(index: BoundIndex, key: str) -> Term | None:
    """Find the term of a key: a column, or an expression as `FilterText.java` describes it; None if it is not known."""
    stats = index.column((key,))
    if stats is not None or not key.startswith("{"):
        return None if stats is None else Column((key,), stats.type)
    fields = (*index.snapshot.fields, *index.snapshot.partition_fields)
    predicate = Filters(described=key).predicate(fields, case_sensitive=index.case_sensitive)
    known = isinstance(predicate, Not) and isinstance(predicate.child, IsNull)
    return predicate.child.term if known else None  # type: ignore[union-attr]


def find_stats(index: BoundIndex, key: str) -> ColumnStats | None:
    """Find the statistics of a key in each file; None if there are none."""
    term = find_term(index, key)
    return None if term is None else index.expression(term)


def find_typed_stats(index: BoundIndex, key: str, type_json: str) -> ColumnStats | None:
    """The same, if they are of the type that the query expects, in Spark's JSON."""
    stats = find_stats(index, key)
    return stats if stats is not None and f'"{stats.type}"' == type_json and not stats.type.is_char else None
