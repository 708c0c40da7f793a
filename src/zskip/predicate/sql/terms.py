"""Terms of SQL text: columns, monotone functions, and opaque functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from zskip.errors import ColumnError
from zskip.predicate import functions, opaque
from zskip.predicate.casts import cast_term
from zskip.predicate.columns import Columns
from zskip.predicate.elements import EXPLODE, element_of, keys_of, values_of
from zskip.predicate.functions.times import ADDED_UNITS
from zskip.predicate.literals import Literal
from zskip.predicate.sql.literals import Node, literal_text, read_literal, type_name
from zskip.predicate.sql.sums import add_interval, add_literal, multiply_literal, widen
from zskip.predicate.tree import Call, Column, Opaque, Term

_DEEPEST = 16
"""The deepest nesting of functions that is followed."""
UNIT_ALIASES = {"YYYY": "YEAR", "YY": "YEAR", "MM": "MONTH", "MON": "MONTH", "DD": "DAY"}
_ADDED_UNITS = {
    **{unit: (0, micros) for unit, micros in ADDED_UNITS.items()},
    "DAY": (1, 0),
    "WEEK": (7, 0),
}
"""Days and microseconds of a unit."""


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
            is_variable = self._variable is not None and node.name == self._variable[0]
            return self._variable[1] if is_variable and self._variable is not None else None
        if isinstance(node, exp.Column | exp.Dot):
            return self.column(node) if _is_name(node) else None
        handler, parts = _HANDLERS.get(type(node), (None, frozenset[str]()))
        if handler is None or any(value and key not in parts for key, value in node.args.items()):
            return None
        if self._depth >= _DEEPEST:
            return None
        self._depth += 1
        try:
            return handler(self, node)
        finally:
            self._depth -= 1

    def _cast(self, node: Node) -> Term | None:
        inner = self.find(node.this)
        return None if inner is None else self.cast(inner, type_name(node.to))

    def cast(self, term: Term, target: str) -> Term | None:
        """Cast a term to another type; None if the cast is not monotone."""
        return cast_term(term, target, self._timezone)

    def _call(self, name: str, term: Term | None, *arguments: int | str) -> Call | None:
        return None if term is None else functions.call(name, term, *arguments)

    def _date(self, node: Node) -> Term | None:
        """Read an argument that Spark takes as a date: dates, and timestamps cut to theirs."""
        term = self.find(node)
        return None if term is None or term.type.name == "string" else self.cast(term, "DATE")

    def _year(self, node: Node) -> Term | None:
        return self._call("year", self._date(node.this))

    def _extract(self, node: Node) -> Term | None:
        return self._call("year", self._date(node.expression)) if node.name.upper() == "YEAR" else None

    def _to_date(self, node: Node) -> Term | None:
        return self._date(node.this)

    def _unit(self, node: Node) -> str:
        unit = node.args["unit"].name.upper()
        return "" if self._short_units else UNIT_ALIASES.get(unit, unit)

    def _date_trunc(self, node: Node) -> Term | None:
        term = self.find(node.this)
        if term is not None and term.type.name == "date":
            term = self.cast(term, "TIMESTAMP")
        return self._call("date_trunc", term, self._unit(node), self._timezone)

    def _trunc(self, node: Node) -> Term | None:
        return self._call("trunc", self._date(node.this), self._unit(node))

    def _unix(self, node: Node) -> Term | None:
        return self._call(_UNIX[type(node)], self.find(node.this))

    def _round(self, node: Node) -> Term | None:
        """Read floor and ceil; a float or a short integer is cast to a double first."""
        term = self.find(node.this)
        if term is not None and term.type.name in ("float", "byte", "short", "integer"):
            term = self.cast(term, "DOUBLE")
        return self._call("floor" if isinstance(node, exp.Floor) else "ceil", term)

    def _substring(self, node: Node) -> Term | None:
        start, length = self._whole(node.args.get("start")), self._whole(node.args.get("length"))
        if start not in (0, 1) or length is None:
            return None
        return self._call("substring", self.find(node.this), max(length, 0))

    def _left(self, node: Node) -> Term | None:
        length = self._whole(node.expression)
        return None if length is None else self._call("substring", self.find(node.this), max(length, 0))

    def _date_add(self, node: Node) -> Term | None:
        """Read `date_add` and `date_sub`; sqlglot turns `date_sub(d, 3)` into `d + 3 * -1`."""
        days = node.expression.unnest()
        backwards = isinstance(days, exp.Mul) and self._whole(days.expression) == -1
        number = self._whole(days.this if backwards else days)
        if number is None or node.args["unit"].name.upper() != "DAY":
            return None
        return self._call("date_add", self._date(node.this), -number if backwards else number)

    def _timestamp_add(self, node: Node) -> Term | None:
        number, unit = self._whole(node.expression), _ADDED_UNITS.get(node.args["unit"].name.upper())
        term = self.find(node.this)
        if number is None or unit is None or term is None:
            return None
        if term.type.name == "date":
            term = self.cast(term, "TIMESTAMP")
        return self._call("shift", term, unit[0] * number, unit[1] * number, self._timezone)

    def _opaque(self, node: Node) -> Term | None:
        """Read a function that the parser leaves as a call by name."""
        name, arguments = opaque.NAMES.get(node.name.lower(), node.name.lower()), node.expressions
        special = {"element_at": self._element_at, "try_variant_get": self._variant_get, "pmod": self._remainder}
        if name in special:
            return special[name](name, arguments)
        return self._opaque_call(name, arguments)

    def _element_at(self, _: str, nodes: Sequence[Node]) -> Term | None:
        value, key = (self.find(nodes[0]), self._text(nodes[1])) if len(nodes) == 2 else (None, None)
        return None if value is None or key is None else opaque.element_at(value, key)

    def _bracket(self, node: Node) -> Term | None:
        return self._element_at("", [node.this, *node.expressions])

    def _variant_get(self, _: str, nodes: Sequence[Node]) -> Term | None:
        """Read an extraction; what Catalyst prints without a type may be of any."""
        if len(nodes) not in ((3,) if self._lenient else (2, 3)):
            return None
        value, path = self.find(nodes[0]), self._text(nodes[1])
        target = self._text(nodes[2]) if len(nodes) == 3 else "'variant'"
        if value is None or path is None or target is None:
            return None
        return opaque.variant_get(value, path, target[1:-1], self._timezone)

    def _remainder(self, name: str, nodes: Sequence[Node]) -> Term | None:
        """Read `pmod` and `mod` of an integer by a positive number, of the wider type of both."""
        term, number = (self.find(nodes[0]), self._whole(nodes[1])) if len(nodes) == 2 else (None, None)
        if term is None or not number or number < 0 or not term.type.is_integer:
            return None
        widened = widen(term, nodes[1].unnest(), number)
        return None if widened is None else opaque.remainder(name, widened, number)

    def _modulo(self, node: Node) -> Term | None:
        return self._remainder("mod", [node.this, node.expression])

    def _text(self, node: Node) -> str | None:
        literal = self.literal(node)
        return literal_text(literal) if literal is not None and literal.kind == "string" else None

    def _trim(self, node: Node) -> Term | None:
        name = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[node.text("position").upper()]
        return self._opaque_call(name, [node.this])

    def _opaque_call(self, name: str, nodes: Sequence[Node]) -> Term | None:
        arguments: list[Term | str] = []
        for node in nodes:
            literal = self.literal(node)
            argument = literal_text(literal) if literal is not None else self._argument(name, node)
            if argument is None:
                return None
            arguments.append(argument)
        return opaque.call(name, tuple(arguments), self._timezone)

    def _argument(self, name: str, node: Node) -> Term | None:
        """Read an argument that Spark casts implicitly: Catalyst prints the cast, people omit it."""
        node = node.unnest()
        if name in opaque.OF_DATES:
            return self._date(node)
        if name in opaque.OF_BYTES and isinstance(node, exp.Cast) and type_name(node.to) == "BINARY":
            inner = self.find(node.this)
            return inner if inner is not None and inner.type.name == "string" else None
        return self.find(node)

    def _negative(self, node: Node) -> Term | None:
        return self._call("negative", self.find(node.this))

    def _sum(self, node: Node) -> Term | None:
        sign = -1 if isinstance(node, exp.Sub) else 1
        left, right = node.this.unnest(), node.expression.unnest()
        term = self.find(left)
        if term is not None:
            return self._add(term, right, sign)
        term = self.find(right)
        if term is not None and sign < 0:
            term = None if isinstance(left, exp.Interval) else self._call("negative", term)
        return None if term is None else self._add(term, left, 1)

    def _product(self, node: Node) -> Term | None:
        for factor, other in ((node.this, node.expression), (node.expression, node.this)):
            literal = self.literal(other)
            term = None if literal is None else self.find(factor)
            if literal is not None and term is not None:
                return multiply_literal(term, literal, other)
        return None

    def _add(self, term: Term, node: Node, sign: int) -> Term | None:
        if isinstance(node, exp.Interval):
            return add_interval(term, node, sign, self._timezone)
        literal = self.literal(node)
        return None if literal is None else add_literal(term, literal, node, sign)

    def _whole(self, node: Node | None) -> int | None:
        literal = None if node is None else self.literal(node)
        return (
            literal.value if literal is not None and isinstance(literal.value, int) and literal.kind == "int" else None
        )


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


_UNIX = {
    exp.UnixSeconds: "unix_seconds",
    exp.UnixMillis: "unix_millis",
    exp.UnixMicros: "unix_micros",
    exp.UnixDate: "unix_date",
}
_ARRAYS = {"map_keys": keys_of, "map_values": values_of}
_Handler = Callable[[Terms, Node], "Term | None"]


def _handler(method: _Handler, *parts: str) -> tuple[_Handler, frozenset[str]]:
    return method, frozenset(("this", *parts))


_HANDLERS: dict[type[Node], tuple[_Handler, frozenset[str]]] = {
    exp.Cast: _handler(Terms._cast, "to", "_type"),
    exp.TryCast: _handler(Terms._cast, "to", "safe", "_type"),
    exp.TsOrDsToDate: _handler(Terms._to_date, "safe"),
    exp.Year: _handler(Terms._year),
    exp.Extract: _handler(Terms._extract, "expression"),
    exp.TimestampTrunc: _handler(Terms._date_trunc, "unit"),
    exp.DateTrunc: _handler(Terms._trunc, "unit"),
    **dict.fromkeys(_UNIX, _handler(Terms._unix)),
    exp.Floor: _handler(Terms._round),
    exp.Ceil: _handler(Terms._round),
    exp.Substring: _handler(Terms._substring, "start", "length"),
    exp.Left: _handler(Terms._left, "expression"),
    exp.TsOrDsAdd: _handler(Terms._date_add, "expression", "unit"),
    exp.TimestampAdd: _handler(Terms._timestamp_add, "expression", "unit"),
    exp.Anonymous: _handler(Terms._opaque, "expressions"),
    exp.Trim: _handler(Terms._trim, "position"),
    exp.Neg: _handler(Terms._negative),
    exp.Add: _handler(Terms._sum, "expression"),
    exp.Sub: _handler(Terms._sum, "expression"),
    exp.Mul: _handler(Terms._product, "expression"),
    exp.Mod: _handler(Terms._modulo, "expression"),
    exp.Bracket: _handler(Terms._bracket, "expressions"),
}
"""The handler of a function, and the arguments of its node that it reads; any other means something else."""
