"""The text by which a predicate is remembered."""

from __future__ import annotations

from collections.abc import Iterable

from zskip.predicate import And, In, Not, Or, Predicate, conjunction, conjuncts, to_sql

_VALUES = 64
"""Of a long IN, which is thinned out: its ends stay, so that it meets about as many files."""


def text_of(predicates: Iterable[Predicate]) -> str:
    """All of these as SQL in UTC, the parts in order, so that one predicate has one text."""
    parts = [part for predicate in predicates for part in conjuncts(predicate)]
    texts = {to_sql(part): part for part in map(_thinned, parts)}
    return to_sql(conjunction(tuple(texts[text] for text in sorted(texts))))


def _thinned(predicate: Predicate) -> Predicate:
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(map(_thinned, predicate.children)))
    if isinstance(predicate, Not):
        return Not(_thinned(predicate.child))
    if isinstance(predicate, In) and len(predicate.values) > _VALUES:
        last = len(predicate.values) - 1
        places = sorted({i * last // (_VALUES - 1) for i in range(_VALUES)})
        return In(predicate.term, tuple(predicate.values[i] for i in places))
    return predicate
