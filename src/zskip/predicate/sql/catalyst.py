"""Reads filters as `FilterTree.java` writes them: known shapes of Catalyst's trees, and SQL text for the rest.

Literals come as values, so nothing is printed and parsed again; leaves are those of the reader of texts (`bind.py`).
"""

from __future__ import annotations

import base64
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zskip.errors import ColumnError
from zskip.predicate import calls
from zskip.predicate.bind import TextTest, compare_sides, has_part, is_in, is_in_values, is_null, is_true
from zskip.predicate.calls import Side
from zskip.predicate.casts import cast_term
from zskip.predicate.columns import Attributes, name_parts
from zskip.predicate.elements import element_of, exists, keys_of, values_of
from zskip.predicate.literals import Literal
from zskip.predicate.patterns import like
from zskip.predicate.sql.literals import cast_literal
from zskip.predicate.sql.parse import parse, parse_side
from zskip.predicate.sql.tokens import shorten
from zskip.predicate.tree import (
    And,
    Contains,
    EndsWith,
    Not,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    Term,
    Unknown,
    conjunction,
)
from zskip.predicate.type_names import sql_name
from zskip.records import Field
from zskip.types import INTEGERS, UTF8_LCASE, DataType

Node = Sequence[Any]
"""The kind of a node, and what belongs to it."""
_DEEPEST = 100
"""The deepest nesting of operators, since later walks along the tree are recursive."""
_DEEPEST_CAST = 16
_CASTS = ("cast", "strict cast")
_TEXT_TESTS: dict[str, TextTest] = {"starts": StartsWith, "ends": EndsWith, "contains": Contains}


def from_catalyst(node: Node, attributes: Attributes, *, timezone: str) -> Predicate:
    """Read a filter; parts that are not understood are Unknown.

    timezone: the session's, in which texts write timestamps.

    >>> from zskip.records import Field
    >>> from zskip.types import DataType
    >>> attributes = Attributes([Field(name="a", type=DataType("integer"))], {"t.a": "a"})
    >>> node = ["compare", "(t.a > 3)", ">", ["column", "t.a"], ["literal", "integer", 3]]
    >>> from_catalyst(node, attributes, timezone="UTC")
    Compare(op='>', term=Column(path=('a',), type=DataType(name='integer')), value=3)
    """
    return _Reader(attributes, timezone).part(node).predicate


def from_filters(filters: Mapping[str, Any], fields: Sequence[Field], *, case_sensitive: bool) -> Predicate:
    """Read the conjuncts of a filter as `FilterText.java` describes them, as one predicate over the columns."""
    attributes = Attributes(fields, filters["columns"], case_sensitive=case_sensitive)
    foreign, keys = filters["foreign"], filters.get("keys", {})
    return conjunction(
        tuple(
            Unknown(text_of(tree), "a function of a user, or of another time zone", keys.get(str(i), ""))
            if i in foreign
            else from_catalyst(tree, attributes, timezone=filters["zone"])
            for i, tree in enumerate(filters["trees"])
        )
    )


def term_from_catalyst(node: Node, attributes: Attributes, *, timezone: str) -> Term | None:
    """Read an expression that is no filter; None where it is not understood."""
    return _Reader(attributes, timezone).term(node)


def text_of(node: Node) -> str:
    """The SQL of a filter, for people: long lists are cut.

    >>> text_of(["not", ["and", [["sql", "a"], ["sql", "b"]]]])
    '(NOT (a AND b))'
    """
    kind = node[0]
    if kind in ("and", "or"):
        return "(" + f" {kind.upper()} ".join(map(text_of, node[1])) + ")"
    if kind == "not":
        return f"(NOT {text_of(node[1])})"
    return str(node[1])


@dataclass(frozen=True, slots=True)
class _Part:
    """A predicate, and how deep its operators are nested."""

    predicate: Predicate
    depth: int

    def negate(self) -> _Part:
        """NOT of it, which undoes another one."""
        if isinstance(self.predicate, Not):
            return _Part(self.predicate.child, self.depth - 1)
        return _Part(Not(self.predicate), self.depth + 1)


def _join(kind: type[And | Or], parts: Sequence[_Part], sql: str) -> _Part:
    """Join parts under one operator, flattening parts under the same operator."""
    if len(parts) == 1:
        return parts[0]
    children: list[Predicate] = []
    for part in parts:
        children += part.predicate.children if isinstance(part.predicate, kind) else [part.predicate]
    depth = max(part.depth - isinstance(part.predicate, kind) for part in parts) + 1
    if depth > _DEEPEST:
        return _Part(Unknown(shorten(sql, 200), "nested too deeply"), 0)
    return _Part(kind(tuple(children)), depth)


def _name_unknown(part: _Part, key: str) -> _Part:
    """Name what is not understood of a leaf by the key of the leaf, which is true only where all of it is."""
    predicate = part.predicate
    if isinstance(predicate, And):
        children = (replace(child, key=key) if isinstance(child, Unknown) else child for child in predicate.children)
        return _Part(And(tuple(children)), part.depth)
    return _Part(replace(predicate, key=key), part.depth) if isinstance(predicate, Unknown) else part


class _Reader:
    """Reads the nodes of one filter."""

    def __init__(self, attributes: Attributes, timezone: str) -> None:
        self._attributes = attributes
        self._timezone = timezone
        self._element: Opaque | None = None
        """What the variable of a lambda is."""

    def part(self, node: Node) -> _Part:
        """Read a node."""
        kind = node[0]
        if isinstance(node[-1], dict):
            return _name_unknown(self.part(node[:-1]), node[-1]["key"])
        if kind in ("and", "or"):
            return _join(And if kind == "and" else Or, [self.part(part) for part in node[1]], "...")
        if kind == "not":
            return self.part(node[1]).negate()
        if kind == "not null":
            return self.part(("null", *node[1:])).negate()
        text = node[1]
        if kind == "exists":
            return _Part(self._exists(*node[1:]) or Unknown(shorten(text)), 0)
        if kind == "sql":
            return _Part(parse(text, self._attributes, timezone=self._timezone, lenient=True), 0)
        handler = self._HANDLERS.get(kind)
        predicate = None if handler is None else handler(self, kind, *node[2:])
        return _Part(Unknown(shorten(text)) if predicate is None else predicate, 0)

    def term(self, node: Node) -> Term | None:
        """Read a node as a term, which may be the array of a map's keys or values."""
        if node[0] == "true":
            return self._term(node[2])
        term = self._term(("side", node[1]))
        if term is not None:
            return term
        elements = parse_side(f"explode({node[1]})", self._attributes, timezone=self._timezone, of_elements=True)
        array = elements.arguments[0] if isinstance(elements, Opaque) else None
        return None if isinstance(array, str) else array

    def _compare(self, _: str, op: str, left: Node, right: Node) -> Predicate | None:
        return compare_sides(op, self._side(left), self._side(right), self._timezone)

    def _in(self, _: str, side: Node, data_type: str, values: Sequence[Any]) -> Predicate | None:
        term = self._term(side)
        if term is None:
            return None
        plain = is_in_values(term, data_type, values)
        if plain is not None:
            return plain
        literals = [literal for value in values if (literal := self._literal(data_type, value)) is not None]
        return is_in(term, literals, self._timezone) if len(literals) == len(values) else None

    def _is_null(self, _: str, side: Node) -> Predicate | None:
        term = self._term(side)
        return None if term is None else is_null(term)

    def _text_test(self, kind: str, left: Node, right: Node) -> Predicate | None:
        literal = self._side(right)
        return has_part(_TEXT_TESTS[kind], self._term(left), literal if isinstance(literal, Literal) else None)

    def _like(self, _: str, left: Node, right: Node, escape: str) -> Predicate | None:
        term, literal = self._term(left), self._side(right)
        if not isinstance(literal, Literal) or literal.kind != "string" or escape in ("%", "_"):
            return None
        return None if term is None or term.type.name != "string" else like(term, str(literal.value), escape)

    def _is_true(self, _: str, side: Node) -> Predicate | None:
        return is_true(self._term(side))

    def _exists(self, text: str, array: Node, test: Node) -> Predicate | None:
        element = element_of(self._array(array))
        if element is None:
            return None
        self._element = element
        try:
            return exists(element, self.part(test).predicate, shorten(text))
        finally:
            self._element = None

    def _array(self, node: Node) -> Term | None:
        if node[0] in ("keys", "values"):
            return (keys_of if node[0] == "keys" else values_of)(self._term(node[1]))
        return self._term(node)

    _HANDLERS: dict[str, Callable[..., Predicate | None]] = {  # noqa: RUF012
        "compare": _compare,
        "in": _in,
        "like": _like,
        "null": _is_null,
        "true": _is_true,
        **dict.fromkeys(_TEXT_TESTS, _text_test),
    }

    def _term(self, node: Node) -> Term | None:
        side = self._side(node)
        return None if isinstance(side, Literal) else side

    def _side(self, node: Node) -> Side:
        kind = node[0]
        if kind == "element":
            return self._element
        if kind == "literal":
            return self._literal(node[1], node[2])
        if kind == "column":
            try:
                return self._attributes.find([*name_parts(node[1]), *node[2:]])
            except ColumnError:
                return None
        if kind in _CASTS:
            casts = [node]
            while (node := node[1])[0] in _CASTS:
                casts.append(node)
            term = self._term(node) if len(casts) <= _DEEPEST_CAST else None
            for kind, _, target in reversed(casts):
                name, strict = target.replace(",", ", "), kind == "strict cast"
                term = None if term is None else cast_term(term, name, self._timezone, strict=strict)
            return term
        if kind == "call":
            return calls.call(node[1], [self._side(side) for side in node[2]], self._timezone)
        return parse_side(node[1], self._attributes, timezone=self._timezone) if kind == "side" else None

    def _literal(self, data_type: str, value: Any) -> Literal | None:
        if value is None:
            return Literal("null", sql_name(DataType(data_type)))
        if data_type in INTEGERS:
            return Literal("int", value, data_type)
        if data_type in ("string", UTF8_LCASE):
            return Literal(data_type, value)
        if data_type.startswith("time("):
            return Literal("time", value)
        if data_type.startswith("decimal"):
            return Literal("decimal", decimal.Decimal(value))
        if data_type == "double":
            return Literal("double", float(value))
        if data_type == "float":
            return cast_literal(Literal("string", value), "FLOAT", self._timezone)
        return Literal(data_type, base64.b64decode(value) if data_type == "binary" else value)
