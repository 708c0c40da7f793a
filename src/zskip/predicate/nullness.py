"""Where a whole predicate is null: `(a > 3) IS NULL` is `a IS NULL`, and so on down to the leaves."""

from __future__ import annotations

from zskip.predicate.tree import And, Constant, IsNull, Not, Or, Predicate, Unknown, nodes, terms_of

_MOST = 100
"""Nodes of what is written: each AND and OR inside another doubles them."""


def is_null(predicate: Predicate) -> Predicate | None:
    """`predicate IS NULL`, never null itself; None where a part is not understood, or it would be too long.

    >>> from zskip.predicate.tree import Column, Compare
    >>> from zskip.types import DataType
    >>> is_null(Compare(">", Column(("a",), DataType("integer")), 3))
    IsNull(term=Column(path=('a',), type=DataType(name='integer')))
    """
    while isinstance(predicate, Not):
        predicate = predicate.child
    if isinstance(predicate, Unknown):
        return None
    if isinstance(predicate, Constant | IsNull):
        return Constant(isinstance(predicate, Constant) and predicate.value is None)
    if isinstance(predicate, And | Or):
        return _of_children(predicate)
    found = tuple(dict.fromkeys(IsNull(term) for term in terms_of(predicate)))
    return found[0] if len(found) == 1 else Or(found)


def _of_children(predicate: And | Or) -> Predicate | None:
    """Some child is null, and none settles the rest: none is false in an AND, none true in an OR."""
    parts = []
    for child in predicate.children:
        null = is_null(child)
        if null is None:
            return None
        parts.append((child if isinstance(predicate, And) else Not(child), null))
    nulls = tuple(dict.fromkeys(null for _, null in parts))
    if len(nulls) < 2:  # All are null in the same rows, where nothing settles anything.
        return nulls[0] if nulls else Constant(False)
    found = And((Or(nulls), *(Or(part) for part in parts)))
    return found if _is_short(found) else None


def equals(predicate: Predicate, value: bool | None) -> Predicate | None:
    """`predicate <=> value`, which is `predicate IS value`; None as above.

    >>> equals(Constant(None), True)
    And(children=(Constant(value=None), Not(child=Constant(value=True))))
    """
    null = is_null(predicate)
    if value is None or null is None or not _is_short(predicate):
        return null if value is None else None
    return And((predicate if value else Not(predicate), Not(null)))


def _is_short(predicate: Predicate) -> bool:
    return sum(1 for _ in nodes(predicate)) <= _MOST
