"""Tests of the elements of arrays, and of the keys and values of maps, which only sketches of those can answer.

Three-valued logic needs no care here: a sketch only rules out that a test is true, whatever else it may be.
"""

from __future__ import annotations

from zskip.predicate.opaque import literal_value
from zskip.predicate.tree import (
    And,
    Compare,
    Exists,
    IsNull,
    Not,
    Opaque,
    Or,
    Predicate,
    Term,
    TermLeaf,
    Unknown,
    conjunction,
    conjuncts,
    replace_terms,
)
from zskip.types import NESTED, DataType

EXPLODE = "explode"


def element_of(array: Term | None) -> Opaque | None:
    """Return the term of an array's elements; None for what is no array, and for elements without an order.

    >>> from zskip.predicate.tree import Column
    >>> element_of(Column(("tags",), DataType("nested", elements=DataType("string")))).type
    DataType(name='string')
    """
    data_type = None if array is None else array.type.elements
    if array is None or data_type is None or data_type.form is None or data_type.is_char:
        return None
    return Opaque(EXPLODE, (array,), data_type)


def keys_of(value: Term | None) -> Opaque | None:
    """Return the array of a map's keys; None for what is no map."""
    return _array("map_keys", value, None if value is None else value.type.keys)


def values_of(value: Term | None) -> Opaque | None:
    """Return the array of a map's values; None for what is no map."""
    return _array("map_values", value, None if value is None else value.type.values)


def _array(function: str, value: Term | None, elements: DataType | None) -> Opaque | None:
    if value is None or elements is None:
        return None
    return Opaque(function, (value,), DataType(NESTED.name, elements=elements))


def exists(element: Opaque, test: Predicate, sql: str) -> Predicate | None:
    """Bind the existence of an element that makes a test true; None if nothing is understood of the test.

    sql: the whole text. What is not understood of an AND stays, as an Unknown beside what is.
    """
    test = _push_not(test, negated=False)
    if isinstance(test, Or):
        choices = [exists(element, choice, sql) for choice in test.children]
        known = tuple(choice for choice in choices if choice is not None)
        return Or(known) if len(known) == len(choices) else None
    parts = tuple(conjuncts(test))
    known = tuple(part for part in parts if _is_about(element, part))
    if not known:
        return None
    test = Exists(element, conjunction(known))
    return test if len(known) == len(parts) else And((test, Unknown(sql)))


def implied_tests(part: Predicate) -> tuple[Predicate, ...]:
    """List what must be true of some key, and of some value, of a map where a test of `m['k']` is true.

    part: a leaf or the negation of one; nothing is implied by a test of anything else.
    """
    leaf = part.child if isinstance(part, Not) else part
    if not isinstance(leaf, TermLeaf) or isinstance(part, IsNull):
        return ()
    term = leaf.term
    if not isinstance(term, Opaque) or term.function != "element_at":
        return ()
    value, key = term.arguments
    assert isinstance(key, str)
    assert not isinstance(value, str)
    some_key, some_value = element_of(keys_of(value)), element_of(values_of(value))
    if some_key is None or some_value is None:
        return ()
    return Compare("=", some_key, str(literal_value(key)).encode()), replace_terms(part, {term: some_value})


def _push_not(test: Predicate, *, negated: bool) -> Predicate:
    """Move NOT to the leaves."""
    if isinstance(test, Not):
        return _push_not(test.child, negated=not negated)
    if isinstance(test, And | Or):
        kind = And if isinstance(test, And) != negated else Or
        return kind(tuple(_push_not(child, negated=negated) for child in test.children))
    return Not(test) if negated else test


def _is_about(element: Opaque, part: Predicate) -> bool:
    leaf = part.child if isinstance(part, Not) else part
    return isinstance(leaf, TermLeaf) and leaf.term == element
