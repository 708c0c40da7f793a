"""Tests of the elements of arrays in SQL text: `array_contains`, `exists`, `arrays_overlap` and `map_contains_key`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from zskip.predicate.bind import compare_sides, is_in
from zskip.predicate.elements import element_of, exists, keys_of
from zskip.predicate.sql.literals import Node, text_of
from zskip.predicate.sql.terms import Terms
from zskip.predicate.tree import Opaque, Predicate

NAMES = {"array_contains", "exists", "arrays_overlap", "map_contains_key", "map_keys", "map_values", "array", "explode"}
"""Functions that this module or `terms` reads, so sqlglot has to leave them as calls by name."""
_Bind = Callable[[Node], Predicate]


def read_element_test(node: Node, terms: Terms, bind: _Bind, timezone: str) -> Predicate | None:
    """Bind a test of elements; None for other calls, and where nothing is understood.

    bind: binds the test in a lambda.
    """
    handler = _HANDLERS.get(node.name.lower())
    if handler is None or len(node.expressions) != 2:
        return None
    first, second = node.expressions
    element, test = handler(first, second, terms, bind, timezone)
    return None if element is None or test is None else exists(element, test, text_of(node))


_Test = tuple["Opaque | None", "Predicate | None"]


def _contains(array: Node, value: Node, terms: Terms, _: _Bind, timezone: str) -> _Test:
    element = element_of(terms.array(array))
    return element, compare_sides("=", element, terms.literal(value), timezone)


def _contains_key(value: Node, key: Node, terms: Terms, _: _Bind, timezone: str) -> _Test:
    element = element_of(keys_of(terms.find(value)))
    return element, compare_sides("=", element, terms.literal(key), timezone)


def _exists(array: Node, function: Node, terms: Terms, bind: _Bind, _: str) -> _Test:
    element = element_of(terms.array(array))
    names = [part.name for part in function.expressions] if isinstance(function, exp.Lambda) else []
    if element is None or len(names) != 1:
        return None, None
    with terms.variable(names[0], element) as is_outermost:
        return element, bind(function.this) if is_outermost else None


def _overlap(left: Node, right: Node, terms: Terms, _: _Bind, timezone: str) -> _Test:
    """A null in a list makes the result null at most, where it is not true."""
    array, listed = (left, right) if _is_list(right) else (right, left)
    element = element_of(terms.array(array)) if _is_list(listed) else None
    if element is None:
        return None, None
    literals = [terms.literal(value) for value in listed.unnest().expressions]
    known = [literal for literal in literals if literal is not None and literal.kind != "null"]
    return element, is_in(element, known, timezone) if None not in literals else None


def _is_list(node: Node) -> bool:
    node = node.unnest()
    return isinstance(node, exp.Anonymous) and node.name.lower() == "array"


_HANDLERS: dict[str, Callable[[Node, Node, Terms, _Bind, str], _Test]] = {
    "array_contains": _contains,
    "map_contains_key": _contains_key,
    "exists": _exists,
    "arrays_overlap": _overlap,
}
