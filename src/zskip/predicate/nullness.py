"""IS NULL of a whole predicate, pushed down to the leaves: `(a > 3) IS NULL` becomes `a IS NULL`."""

from __future__ import annotations

from zskip.predicate.tree import And, Constant, Exists, IsNull, Not, Or, Predicate, Unknown, nodes, terms_of

_MOST = 100
"""Most nodes of a result: each nested AND or OR doubles them."""


def is_null(predicate: Predicate) -> Predicate | None:
    """Return `predicate IS NULL`, never null itself; None if a part is unknown or the result would be too long.

    >>> from zskip.predicate.tree import Column, Compare
    >>> from zskip.types import DataType
    >>> is_null(Compare(">", Column(("a",), DataType("integer")), 3))
    IsNull(term=Column(path=('a',), type=DataType(name='integer')))
    """
    while isinstance(predicate, Not):
        predicate = predicate.child
    if isinstance(predicate, Unknown | Exists):
        return None
    if isinstance(predicate, Constant | IsNull):
        return Constant(isinstance(predicate, Constant) and predicate.value is None)
    if isinstance(predicate, And | Or):
        return _is_null_junction(predicate)
    nulls = tuple(dict.fromkeys(IsNull(term) for term in terms_of(predicate)))
    return nulls[0] if len(nulls) == 1 else Or(nulls)


def _is_null_junction(predicate: And | Or) -> Predicate | None:
    """Some child is null, and no child decides the result: none is false in an AND, none true in an OR."""
    parts = []
    for child in predicate.children:
        null = is_null(child)
        if null is None:
            return None
        parts.append((child if isinstance(predicate, And) else Not(child), null))
    nulls = tuple(dict.fromkeys(null for _, null in parts))
    if len(nulls) < 2:  # All are null in the same rows, where no child decides.
        return nulls[0] if nulls else Constant(False)
    result = And((Or(nulls), *(Or(part) for part in parts)))
    return result if _is_short(result) else None


def equals(predicate: Predicate, value: bool | None) -> Predicate | None:
    """Return `predicate <=> value`, the same as `predicate IS value`; None as for `is_null`.

    >>> equals(Constant(None), True)
    And(children=(Constant(value=None), Not(child=Constant(value=True))))
    """
    null = is_null(predicate)
    if value is None or null is None or not _is_short(predicate):
        return null if value is None else None
    return And((predicate if value else Not(predicate), Not(null)))


def _is_short(predicate: Predicate) -> bool:
    return sum(1 for _ in nodes(predicate)) <= _MOST
