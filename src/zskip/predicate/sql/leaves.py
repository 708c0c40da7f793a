"""The leaves of a predicate, from the trees that sqlglot makes of their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from zskip.predicate.casts import alike, peeled
from zskip.predicate.like import like, like_with_any_escape
from zskip.predicate.literals import Literal, common, compare, is_nan, is_type, never
from zskip.predicate.sql.literals import Node
from zskip.predicate.sql.terms import Terms
from zskip.predicate.tree import (
    And,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
    Unknown,
)
from zskip.types import Encoded, Form

_COMPARISONS: dict[type[Node], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""Operator, and the operator with its sides exchanged."""
_EXCHANGED = dict(_COMPARISONS.values())
_TEXT_TESTS: dict[type[Node], type[StartsWith | EndsWith | Contains]] = {
    exp.StartsWith: StartsWith,
    exp.EndsWith: EndsWith,
    exp.Contains: Contains,
}
_ARGUMENTS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
"""The parts of sqlglot's nodes that are looked at; a node with any other part means something else."""


class Leaves:
    """Turns parsed expressions into bound predicates."""

    def __init__(self, terms: Terms, timezone: str, *, lenient: bool) -> None:
        self._terms = terms
        self._timezone = timezone
        self._lenient = lenient
        self._listed: Sequence[Literal] = ()

    def read(self, node: Node, listed: Sequence[Literal] = ()) -> Predicate:
        """What a node says; listed: the literals of the list that it holds, where that is long."""
        self._listed = listed
        return self._bound(node)

    def _bound(self, node: Node) -> Predicate:
        node = node.unnest()
        found = self._logical(node)
        if found is None:
            self._check_columns(node)
            return _unknown(node)
        return found

    def _check_columns(self, node: Node) -> None:
        """A misspelt column in a part that is not understood is an error all the same."""
        if not self._lenient:
            for column in node.find_all(exp.Column):
                if column.arg_key != "collate":
                    self._terms.column(column)

    def _logical(self, node: Node) -> Predicate | None:
        if isinstance(node, exp.And | exp.Or):
            children = tuple(self._bound(child) for child in _operands(node, type(node)))
            return And(children) if isinstance(node, exp.And) else Or(children)
        if isinstance(node, exp.Not):
            return Not(self._bound(node.this))
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        handler = self._HANDLERS.get(type(node))
        strange = any(value and key not in _ARGUMENTS for key, value in node.args.items())
        found = None if handler is None or strange else handler(self, node)
        return Not(found) if found is not None and node.args.get("negate") else found

    def _comparison(self, node: Node) -> Predicate | None:
        op, _ = _COMPARISONS[type(node)]
        return self._compared(op, node.this, node.expression)

    def _compared(self, op: str, left: Node, right: Node) -> Predicate | None:
        """`left op right` of a term and a literal, either first, or of two terms; None for anything else."""
        one, other = self._term(left), self._term(right)
        if one is not None and other is not None:
            sides = alike(one, other, self._timezone)
            return None if sides is None else CompareTerms(op, *sides)
        if one is not None:
            return self._with_literal(op, one, self._literal(right))
        return None if other is None else self._with_literal(_EXCHANGED[op], other, self._literal(left))

    def _with_literal(self, op: str, term: Term, literal: Literal | None) -> Predicate | None:
        side = self._beside(term, literal)
        return None if side is None else compare(op, *side, self._timezone)

    def _different(self, node: Node) -> Predicate | None:
        term = self._term(node.this)
        if term is not None and term == self._term(node.expression):
            return never(term)
        equal = self._compared("=", node.this, node.expression)
        return None if equal is None else Not(equal)

    def _null_safe(self, node: Node) -> Predicate | None:
        one, other = self._term(node.this), self._term(node.expression)
        if one is not None and other is not None:
            return _same(one, other, self._timezone)
        term, written = (one, node.expression) if one is not None else (other, node.this)
        side = None if term is None else self._beside(term, self._literal(written))
        if side is None:
            return None
        term, literal = side
        if literal.kind == "null":
            return IsNull(term) if literal.value is None or is_type(term.type, str(literal.value)) else None
        equal = compare("=", term, literal, self._timezone)
        return None if equal is None else And((Not(IsNull(term)), equal))

    def _null_unsafe(self, node: Node) -> Predicate | None:
        equal = self._null_safe(node)
        return None if equal is None else Not(equal)

    def _between(self, node: Node) -> Predicate | None:
        bounds = [
            self._compared(">=", node.this, node.args["low"]),
            self._compared("<=", node.this, node.args["high"]),
        ]
        if bounds == [None, None]:
            return None
        self._check_columns(node)
        return And(tuple(_unknown(node) if bound is None else bound for bound in bounds))

    def _in(self, node: Node) -> Predicate | None:
        term = self._term(node.this)
        if term is None:
            return None
        literals = list(self._listed)
        for value in node.expressions if not literals else ():
            literal = self._literal(value)
            if literal is None:
                return None
            literals.append(literal)
        term, casts = peeled(term)
        together = common(term, literals, casts)
        return None if together is None else in_list(term, together, self._timezone)

    def _is(self, node: Node) -> Predicate | None:
        term = self._term(node.this)
        if term is None or not isinstance(node.expression, exp.Null | exp.Boolean):
            return None
        if isinstance(node.expression, exp.Null):
            return IsNull(peeled(term)[0])
        if term.type.name != "boolean":
            return None
        return And((Not(IsNull(term)), Compare("=", term, int(bool(node.expression.this)))))

    def _named(self, node: Node) -> Predicate | None:
        """`isnull(c)` and `isnotnull(c)`."""
        name, arguments = node.name.lower(), node.expressions
        term = self._term(arguments[0]) if name in ("isnull", "isnotnull") and len(arguments) == 1 else None
        if term is None:
            return None
        null = IsNull(peeled(term)[0])
        return null if name == "isnull" else Not(null)

    def _is_nan(self, node: Node) -> Predicate | None:
        """Never null; what is no float is cast to a double, and no NaN."""
        term = self._term(node.this)
        if term is None:
            return None
        term, _ = peeled(term)
        if term.type.form is Form.FLOAT:
            return And((Not(IsNull(term)), Compare("=", term, float("nan"))))
        return And((Not(IsNull(term)), never(term))) if term.type.is_integer or term.type.is_decimal else None

    def _text_test(self, node: Node) -> Predicate | None:
        leaf = _TEXT_TESTS[type(node)]
        term, literal = self._term(node.this), self._literal(node.expression)
        if term is None or literal is None or term.type.name != "string" or literal.kind not in ("string", "null"):
            return None
        return Constant(None) if literal.kind == "null" else leaf(term, str(literal.value).encode())

    def _like(self, node: Node) -> Predicate | None:
        found = self._pattern(node)
        if found is None:
            return None
        if self._lenient:
            return like_with_any_escape(*found, node.sql(dialect="spark")[:500])
        return like(*found)

    def _escape(self, node: Node) -> Predicate | None:
        pattern, escape = node.this, self._literal(node.expression)
        found = self._pattern(pattern)
        if found is None or escape is None or escape.kind != "string" or len(str(escape.value)) != 1:
            return None
        matches = None if escape.value in ("%", "_") else like(*found, str(escape.value))
        return Not(matches) if matches is not None and pattern.args.get("negate") else matches

    def _pattern(self, node: Node) -> tuple[Term, str] | None:
        if not isinstance(node, exp.Like):
            return None
        term, literal = self._term(node.this), self._literal(node.expression)
        if term is None or literal is None or term.type.name != "string" or literal.kind != "string":
            return None
        return term, str(literal.value)

    def _bare(self, node: Node) -> Predicate | None:
        term = self._term(node)
        return Compare("=", term, 1) if term is not None and term.type.name == "boolean" else None

    _HANDLERS: dict[type[Node], Callable[[Leaves, Node], Predicate | None]] = {  # noqa: RUF012
        **dict.fromkeys(_COMPARISONS, _comparison),
        exp.NEQ: _different,
        exp.NullSafeEQ: _null_safe,
        exp.NullSafeNEQ: _null_unsafe,
        exp.Between: _between,
        exp.In: _in,
        exp.Is: _is,
        exp.Anonymous: _named,
        exp.IsNan: _is_nan,
        **dict.fromkeys(_TEXT_TESTS, _text_test),
        exp.Like: _like,
        exp.Escape: _escape,
        exp.Column: _bare,
        exp.Dot: _bare,
    }

    def _beside(self, term: Term, literal: Literal | None) -> tuple[Term, Literal] | None:
        """A term and the literal it is compared with: without casts that change nothing, with those that Spark adds."""
        if literal is None:
            return None
        if term.type.name == "date" and literal.kind in ("timestamp", "timestamp_ntz"):
            wider = self._terms.cast(term, literal.kind.upper())
            return None if wider is None else (wider, literal)
        inner, casts = peeled(term)
        if not casts:
            return term, literal
        together = common(inner, [literal], casts)
        return None if together is None else (inner, together[0])

    def _term(self, node: Node) -> Term | None:
        return self._terms.find(node)

    def _literal(self, node: Node) -> Literal | None:
        return self._terms.literal(node)


def _same(left: Term, right: Term, timezone: str) -> Predicate | None:
    """`left <=> right`: both null, or neither and equal; never null itself."""
    sides = alike(left, right, timezone)
    if sides is None:
        return None
    one, other = (IsNull(peeled(side)[0]) for side in sides)
    return Or((And((one, other)), And((Not(one), Not(other), CompareTerms("=", *sides)))))


def _unknown(node: Node) -> Unknown:
    return Unknown(node.sql(dialect="spark")[:500])


def in_list(term: Term, literals: Sequence[Literal], timezone: str) -> Predicate | None:
    """`term IN (...)`; None where a value cannot be compared exactly."""
    values: set[Encoded] = set()
    extra: list[Predicate] = []
    for literal in literals:
        equal = compare("=", term, literal, timezone)
        if equal is None:
            return None
        if isinstance(equal, Compare) and not is_nan(equal.value):
            values.add(equal.value)
        elif equal != never(term) and equal not in extra:
            extra.append(equal)
    found = In(term, tuple(sorted(values)))
    return Or((found, *extra)) if extra else found


def _operands(node: Node, kind: type[Node]) -> list[Node]:
    """The operands of a chain of one operator, without recursion: chains may be thousands long."""
    found: list[Node] = []
    todo = [node]
    while todo:
        current = todo.pop().unnest()
        if type(current) is kind:
            todo += [current.expression, current.this]
        else:
            found.append(current)
    return found
