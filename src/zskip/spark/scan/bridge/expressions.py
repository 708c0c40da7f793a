"""Expressions of a query, as the JSON of the filter that they are not null, and what an index knows of them."""

from __future__ import annotations

from zskip.index import BoundIndex
from zskip.predicate import Column, IsNull, Not, Term
from zskip.records import ColumnStats
from zskip.spark.scan.bridge.filters import Filters


def find_term(index: BoundIndex, described: str) -> Term | None:
    """Find the term of a column, or of an expression as `FilterText.java` describes it; None where it is not known."""
    if not described.startswith("{"):
        stats = index.column((described,))
        return None if stats is None else Column((described,), stats.type)
    fields = (*index.snapshot.fields, *index.snapshot.partition_fields)
    predicate = Filters(described=described).predicate(fields, case_sensitive=index.case_sensitive)
    known = isinstance(predicate, Not) and isinstance(predicate.child, IsNull)
    return predicate.child.term if known else None  # type: ignore[union-attr]


def find_stats(index: BoundIndex, described: str) -> ColumnStats | None:
    """Find the statistics of a column or an expression in each file; None if there are none."""
    term = find_term(index, described)
    return None if term is None else index.expression(term)
