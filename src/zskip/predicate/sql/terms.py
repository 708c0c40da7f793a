"""Terms of SQL text: columns, and calls of functions as names with arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from sqlglot import exp

from zskip.errors import ColumnError
from zskip.predicate import calls, opaque
from zskip.predicate.calls import Side
from zskip.predicate.casts import cast_term
from zskip.predicate.columns import Columns
from zskip.predicate.elements import EXPLODE, element_of, keys_of, values_of
from zskip.predicate.literals import Literal
from zskip.predicate.sql.literals import Node, read_literal, type_name
from zskip.predicate.tree import Column, Opaque, Term

_DEEPEST = 16
"""The deepest nesting of functions that is followed."""


class Terms:
    """Binds nodes of sqlglot's tree to terms."""

    def __init__(self, columns: Columns, timezone: str, *, lenient: bool, short_units: bool) -> None:
        """short_units: whether units may be written as `M` or `D`, which sqlglot reads differently than Spark."""
        self._columns = columns
        self._timezone = timezone
        self._lenient = lenient
        self._short_units = short_units
        self._depth = 0
        self._variable: tuple[str, Opaque] | None = None

    def column(self, node: exp.Column | exp.Dot) -> Column | None:
        """Find the column of a name; None if it leads elsewhere. Raises ColumnError in strict mode."""
        try:
            return self._columns.find(_parts(node))
        except ColumnError:
            if self._lenient:
                return None
            raise

    def literal(self, node: Node) -> Literal | None:
        """Read a literal; None if the node is none."""
        return read_literal(node, self._timezone)

    def side(self, node: Node | None) -> Side:
        """Read a term or a literal; None for others."""
        return None if node is None else self.find(node) or self.literal(node)

    @contextlib.contextmanager
    def variable(self, name: str, element: Opaque) -> Iterator[bool]:
        """Give a name to an element in a lambda; whether there is none already: nested ones are not understood."""
        if self._variable is not None:
            yield False
            return
        self._variable = name, element
        try:
            yield True
        finally:
            self._variable = None

    def array(self, node: Node) -> Term | None:
        """Find the term of an array: a column, or the keys or values of a map; None for others."""
        node = node.unnest()
        make = _ARRAYS.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
        if make is None:
            return self.find(node)
        return make(self.find(node.expressions[0])) if len(node.expressions) == 1 else None

    def elements(self, node: Node) -> Opaque | None:
        """Find the term of `explode(array)`; None for anything else."""
        node = node.unnest()
        if not isinstance(node, exp.Anonymous) or node.name.lower() != EXPLODE or len(node.expressions) != 1:
            return None
        return element_of(self.array(node.expressions[0]))

    def find(self, node: Node) -> Term | None:
        """Find the term of a node; None if it is not understood."""
        node = node.unnest()
        if isinstance(node, exp.Identifier):
            name, element = self._variable or ("", None)
            return element if node.name == name else None
        if isinstance(node, exp.Column | exp.Dot):
            return self.column(node) if _is_name(node) else None
        reader, parts = _READERS.get(type(node), (None, ()))
        if reader is None or any(value and key not in parts for key, value in node.args.items()):
            return None
        if self._depth >= _DEEPEST:
            return None
        self._depth += 1
        try:
            if isinstance(reader, str):
                return self._call(reader, *(self.side(node.args.get(part)) for part in parts))
            return reader(self, node)
        finally:
            self._depth -= 1

    def _call(self, name: str, *sides: Side) -> Term | None:
        return calls.call(name, sides, self._timezone)

    def _cast(self, node: Node) -> Term | None:
        inner = self.find(node.this)
        strict = bool(node.args.get("safe"))
        return None if inner is None else cast_term(inner, type_name(node.to), self._timezone, strict=strict)

    def _to_date(self, node: Node) -> Term | None:
        return self._call("to_date", self.side(node.this))

    def _extract(self, node: Node) -> Term | None:
        return self._call("year", self.side(node.expression)) if node.name.upper() == "YEAR" else None

    def _unit(self, node: Node) -> Literal:
        return Literal("string", "" if self._short_units else node.args["unit"].name)

    def _date_trunc(self, node: Node) -> Term | None:
        return self._call("date_trunc", self._unit(node), self.side(node.this))

    def _trunc(self, node: Node) -> Term | None:
        return self._call("trunc", self.side(node.this), self._unit(node))

    def _date_add(self, node: Node) -> Term | None:
        """Read `date_add` and `date_sub`; sqlglot turns `date_sub(d, 3)` into `d + 3 * -1`."""
        days = node.expression.unnest()
        backwards = isinstance(days, exp.Mul) and self.literal(days.expression) == Literal("int", -1)
        if node.args["unit"].name.upper() != "DAY":
            return None
        number = self.side(days.this if backwards else days)
        return self._call("date_sub" if backwards else "date_add", self.side(node.this), number)

    def _timestamp_add(self, node: Node) -> Term | None:
        unit = Literal("string", node.args["unit"].name)
        return self._call("timestampadd", unit, self.side(node.expression), self.side(node.this))

    def _named(self, node: Node) -> Term | None:
        """Read a function that the parser leaves as a call by name."""
        name, sides = node.name.lower(), [self._argument(node.name.lower(), part) for part in node.expressions]
        if opaque.NAMES.get(name) == "try_variant_get" and len(sides) == 2:
            if self._lenient:
                return None  # What Catalyst prints without a type may be of any.
            sides.append(Literal("string", "variant"))
        return self._call(name, *sides)

    def _argument(self, name: str, node: Node) -> Side:
        """Read an argument; Catalyst prints the cast of a string to bytes, people omit it."""
        node = node.unnest()
        if opaque.NAMES.get(name) in opaque.OF_BYTES and isinstance(node, exp.Cast) and type_name(node.to) == "BINARY":
            inner = self.find(node.this)
            return inner if inner is not None and inner.type.name == "string" else None
        return self.side(node)

    def _bracket(self, node: Node) -> Term | None:
        return self._call("element_at", self.side(node.this), *map(self.side, node.expressions))

    def _trim(self, node: Node) -> Term | None:
        name = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[node.text("position").upper()]
        return self._call(name, self.side(node.this))


def _is_name(node: Node) -> bool:
    """Whether a node is a name; a name longer than `a.b.c.d` is nested in further nodes."""
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        node = node.this
    return isinstance(node, exp.Column)


def _parts(node: Node) -> list[str]:
    fields = []
    while isinstance(node, exp.Dot):
        fields.append(node.name)
        node = node.this
    return [part.name for part in node.parts] + fields[::-1]


_ARRAYS = {"map_keys": keys_of, "map_values": values_of}
_Reader = str | Callable[[Terms, Node], "Term | None"]
_READERS: dict[type[Node], tuple[_Reader, tuple[str, ...]]] = {
    exp.Cast: (Terms._cast, ("this", "to", "_type")),
    exp.TryCast: (Terms._cast, ("this", "to", "safe", "_type")),
    exp.TsOrDsToDate: (Terms._to_date, ("this", "safe")),
    exp.Year: ("year", ("this",)),
    exp.Extract: (Terms._extract, ("this", "expression")),
    exp.TimestampTrunc: (Terms._date_trunc, ("this", "unit")),
    exp.DateTrunc: (Terms._trunc, ("this", "unit")),
    exp.UnixSeconds: ("unix_seconds", ("this",)),
    exp.UnixMillis: ("unix_millis", ("this",)),
    exp.UnixMicros: ("unix_micros", ("this",)),
    exp.UnixDate: ("unix_date", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.TsOrDsAdd: (Terms._date_add, ("this", "expression", "unit")),
    exp.TimestampAdd: (Terms._timestamp_add, ("this", "expression", "unit")),
    exp.Anonymous: (Terms._named, ("this", "expressions")),
    exp.Trim: (Terms._trim, ("this", "position")),
    exp.Neg: ("negative", ("this",)),
    exp.Add: ("+", ("this", "expression")),
    exp.Sub: ("-", ("this", "expression")),
    exp.Mul: ("*", ("this", "expression")),
    exp.Mod: ("mod", ("this", "expression")),
    exp.Bracket: (Terms._bracket, ("this", "expressions")),
}
"""For each kind of node the name of the function, or what reads it, and the arguments that it has, in the function's
order; any other argument means something else."""
