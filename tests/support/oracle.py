"""What a predicate is for one row, as SQL says: the slow and obvious oracle of everything that prunes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from call_values import value_of

from zskip.predicate import (
    And,
    Call,
    Column,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    Exists,
    In,
    IsNull,
    Like,
    Not,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    Term,
)
from zskip.predicate.tree import replace_terms

Row = Mapping[tuple[str, ...], Any]
"""Path of a column to a value in the form of its type; None is null."""


def below(a: Any, b: Any) -> bool:
    """Spark's order: NaN above all."""
    if isinstance(a, float) and (math.isnan(a) or math.isnan(b)):
        return math.isnan(b) and not math.isnan(a)
    return bool(a < b)


def compared(op: str, a: Any, b: Any) -> bool:
    """One of `=`, `<`, `<=`, `>` and `>=` of two values that are not null."""
    less, more = below(a, b), below(b, a)
    return {"=": not less and not more, "<": less, "<=": not more, ">": more, ">=": not less}[op]


def like(text: str, pattern: str, escape: str) -> bool:
    """SQL's LIKE, character by character."""
    if not pattern:
        return not text
    if pattern[0] == escape and len(pattern) > 1:
        return text[:1] == pattern[1] and like(text[1:], pattern[2:], escape)
    if pattern[0] == "%":
        return any(like(text[i:], pattern[1:], escape) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:], escape)


class NoValue(Exception):
    """A function has no value here, or none that we know: Spark may fail, give null or wrap around."""


def value(term: Term, row: Row) -> Any:
    """What a term is in one row; raises NoValue."""
    if isinstance(term, Opaque):
        return of_opaque(term, row)
    return row[term.path] if isinstance(term, Column) else of_call(term, value(term.term, row))


OPAQUE: dict[str, Callable[..., Any]] = {
    "lower": lambda text: text.decode().lower().encode(),
    "length": lambda text: len(text.decode()),
    "concat": lambda *texts: b"".join(texts),
    "substring_index": lambda text, mark, count: mark.join(text.split(mark)[:count]),
    "element_at": lambda entries, key: entries.get(key),
    "map_keys": list,
    "map_values": lambda entries: list(entries.values()),
    "mod": lambda number, by: abs(number) % by * (1 if number >= 0 else -1),
}


def of_opaque(term: Opaque, row: Row) -> Any:
    """What an opaque term is in one row, null where an argument is; literals are plain strings and numbers."""
    found = [value(part, row) if not isinstance(part, str) else _literal(part) for part in term.arguments]
    return None if None in found else OPAQUE[term.function](*found)


def _literal(text: str) -> Any:
    return text[1:-1].encode() if text.startswith("'") else int(text.removesuffix("L"))


def of_call(call: Call, argument: Any) -> Any:
    """What a function is of one value, null of null; raises NoValue."""
    found = value_of(call, argument)
    if found is None and argument is not None:
        raise NoValue
    return found


def truth(predicate: Predicate, row: Row) -> bool | None:
    """True, False or None; raises NoValue where a function has none."""
    if isinstance(predicate, And | Or):
        found = [truth(child, row) for child in predicate.children]
        decisive = isinstance(predicate, Or)
        return decisive if decisive in found else None if None in found else not decisive
    if isinstance(predicate, Not):
        inner = truth(predicate.child, row)
        return None if inner is None else not inner
    if isinstance(predicate, Constant):
        return predicate.value
    if isinstance(predicate, CompareTerms):
        left, right = value(predicate.left, row), value(predicate.right, row)
        return None if left is None or right is None else compared(predicate.op, left, right)
    if isinstance(predicate, Exists):
        return _exists(predicate, row)
    held = value(predicate.term, row)
    if isinstance(predicate, IsNull):
        return held is None
    return None if held is None else _of_value(predicate, held)


def _exists(predicate: Exists, row: Row) -> bool | None:
    array, element = predicate.term.arguments[0], Column(("x",), predicate.term.type)
    assert not isinstance(array, str)
    elements, test = value(array, row), replace_terms(predicate.test, {predicate.term: element})
    found = None if elements is None else [truth(test, {element.path: one}) for one in elements]
    return None if found is None else True if True in found else None if None in found else False


def _of_value(leaf: Any, held: Any) -> bool:
    if isinstance(leaf, StartsWith):
        return bool(held.startswith(leaf.prefix))
    if isinstance(leaf, EndsWith):
        return bool(held.endswith(leaf.suffix))
    if isinstance(leaf, Contains):
        return leaf.part in held
    if isinstance(leaf, Like):
        return like(held.decode(), leaf.pattern, leaf.escape)
    if isinstance(leaf, In):
        return any(compared("=", held, v) for v in leaf.values)
    assert isinstance(leaf, Compare)
    return compared(leaf.op, held, leaf.value)
