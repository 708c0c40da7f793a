"""Turns the parse trees of sqlglot into leaves of a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from zskip.errors import PredicateError
from zskip.predicate.bind import (
    TextTest,
    compare_sides,
    has_part,
    is_in,
    is_nan_value,
    is_null,
    is_true,
    not_equal,
    null_safe_equal,
)
from zskip.predicate.literals import Literal
from zskip.predicate.nullness import equals
from zskip.predicate.patterns import like, like_with_any_escape
from zskip.predicate.sql.element_tests import read_element_test
from zskip.predicate.sql.literals import Node, text_of
from zskip.predicate.sql.terms import Terms
from zskip.predicate.tree import (
    And,
    Compare,
    Constant,
    Contains,
    EndsWith,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
    Unknown,
)

_COMPARISONS: dict[type[Node], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_TEXT_TESTS: dict[type[Node], TextTest] = {
    exp.StartsWith: StartsWith,
    exp.EndsWith: EndsWith,
    exp.Contains: Contains,
}
_ARGUMENTS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
"""The arguments of sqlglot's nodes that are handled; a node with any other argument means something else."""


_NO_CONDITIONS = (exp.Query, exp.Alias, exp.DDL, exp.Tuple)


class Leaves:
    """Turns parsed expressions into bound predicates."""

    def __init__(self, terms: Terms, timezone: str, *, lenient: bool, is_printed: bool) -> None:
        """is_printed: whether Spark printed the text, which in 3.5 leaves out the escapes of patterns."""
        self._terms = terms
        self._timezone = timezone
        self._lenient = lenient
        self._is_printed = is_printed

    def read(self, node: Node) -> Predicate:
        """Bind a node; what is not understood is Unknown."""
        node = node.unnest()
        if isinstance(node, _NO_CONDITIONS) and not self._lenient:
            raise PredicateError(f'"{text_of(node)}" is no predicate; give a condition such as "a > 3 AND b = \'x\'"')
        predicate = self._logical(node)
        if predicate is None:
            self._check_columns(node)
            return _unknown(node)
        return predicate

    def _check_columns(self, node: Node) -> None:
        """Raise ColumnError for a misspelt column even in a part that is not understood."""
        if not self._lenient:
            for column in node.find_all(exp.Column):
                if column.arg_key != "collate":
                    self._terms.column(column)

    def _logical(self, node: Node) -> Predicate | None:
        if isinstance(node, exp.And | exp.Or):
            return _join(And if isinstance(node, exp.And) else Or, map(self.read, _operands(node, type(node))))
        if isinstance(node, exp.Not):
            child = self.read(node.this)
            return child.child if isinstance(child, Not) else Not(child)
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        if isinstance(node, exp.Cast):
            return self._boolean_term(node)
        handler = self._HANDLERS.get(type(node))
        has_other_arguments = any(value and key not in _ARGUMENTS for key, value in node.args.items())
        predicate = None if handler is None or has_other_arguments else handler(self, node)
        return Not(predicate) if predicate is not None and node.args.get("negate") else predicate

    def _comparison(self, node: Node) -> Predicate | None:
        return self._compare(_COMPARISONS[type(node)], node.this, node.expression)

    def _compare(self, op: str, left: Node, right: Node) -> Predicate | None:
        """Bind `left op right` of a term and a literal in either order, or of two terms; None for anything else."""
        return compare_sides(op, self._terms.side(left), self._terms.side(right), self._timezone)

    def _not_equal(self, node: Node) -> Predicate | None:
        return not_equal(self._terms.side(node.this), self._terms.side(node.expression), self._timezone)

    def _null_safe(self, node: Node) -> Predicate | None:
        sides = self._terms.side(node.this), self._terms.side(node.expression)
        if not any(isinstance(side, Term) for side in sides):
            return self._truth_test(node.this, node.expression)
        return null_safe_equal(*sides, self._timezone)

    def _not_null_safe(self, node: Node) -> Predicate | None:
        equal = self._null_safe(node)
        return None if equal is None else Not(equal)

    def _between(self, node: Node) -> Predicate | None:
        bounds = [
            self._compare(">=", node.this, node.args["low"]),
            self._compare("<=", node.this, node.args["high"]),
        ]
        if bounds == [None, None]:
            return None
        self._check_columns(node)
        return And(tuple(_unknown(node) if bound is None else bound for bound in bounds))

    def _in(self, node: Node) -> Predicate | None:
        term = self._term(node.this)
        if term is None:
            return None
        literals = []
        for value in node.expressions:
            literal = self._literal(value)
            if literal is None:
                return None
            literals.append(literal)
        return is_in(term, literals, self._timezone)

    def _is(self, node: Node) -> Predicate | None:
        if not isinstance(node.expression, exp.Null | exp.Boolean):
            return None
        term = self._term(node.this)
        if term is None:
            return self._truth_test(node.this, node.expression)
        if isinstance(node.expression, exp.Null):
            return is_null(term)
        if term.type.name != "boolean":
            return None
        return And((Not(IsNull(term)), Compare("=", term, int(bool(node.expression.this)))))

    def _truth_test(self, condition: Node, value: Node) -> Predicate | None:
        """Bind `(condition) IS TRUE`, FALSE or NULL, or `<=>` any of these; None for anything else."""
        if not isinstance(condition, exp.Paren) or not isinstance(value, exp.Null | exp.Boolean):
            return None
        return equals(self.read(condition), bool(value.this) if isinstance(value, exp.Boolean) else None)

    def _call(self, node: Node) -> Predicate | None:
        """Bind `isnull(c)`, `isnotnull(c)`, and tests of elements."""
        name, arguments = node.name.lower(), node.expressions
        term = self._term(arguments[0]) if name in ("isnull", "isnotnull") and len(arguments) == 1 else None
        if term is None:
            return read_element_test(node, self._terms, self.read, self._timezone)
        null = is_null(term)
        return null if name == "isnull" else Not(null)

    def _is_nan(self, node: Node) -> Predicate | None:
        return is_nan_value(self._term(node.this))

    def _text_test(self, node: Node) -> Predicate | None:
        leaf = _TEXT_TESTS[type(node)]
        return has_part(leaf, self._term(node.this), self._literal(node.expression))

    def _like(self, node: Node) -> Predicate | None:
        term_and_pattern = self._pattern(node)
        if term_and_pattern is None:
            return None
        if self._is_printed:
            return like_with_any_escape(*term_and_pattern, text_of(node))
        return like(*term_and_pattern)

    def _escape(self, node: Node) -> Predicate | None:
        pattern, escape = node.this, self._literal(node.expression)
        term_and_pattern = self._pattern(pattern)
        if term_and_pattern is None or escape is None or escape.kind != "string" or len(str(escape.value)) != 1:
            return None
        predicate = None if escape.value in ("%", "_") else like(*term_and_pattern, str(escape.value))
        return Not(predicate) if predicate is not None and pattern.args.get("negate") else predicate

    def _pattern(self, node: Node) -> tuple[Term, str] | None:
        if not isinstance(node, exp.Like):
            return None
        term, literal = self._term(node.this), self._literal(node.expression)
        if term is None or literal is None or term.type.name != "string" or literal.kind != "string":
            return None
        return term, str(literal.value)

    def _boolean_term(self, node: Node) -> Predicate | None:
        return is_true(self._term(node))

    _HANDLERS: dict[type[Node], Callable[[Leaves, Node], Predicate | None]] = {  # noqa: RUF012
        **dict.fromkeys(_COMPARISONS, _comparison),
        exp.NEQ: _not_equal,
        exp.NullSafeEQ: _null_safe,
        exp.NullSafeNEQ: _not_null_safe,
        exp.Between: _between,
        exp.In: _in,
        exp.Is: _is,
        exp.Anonymous: _call,
        exp.IsNan: _is_nan,
        **dict.fromkeys(_TEXT_TESTS, _text_test),
        exp.Like: _like,
        exp.Escape: _escape,
        exp.Column: _boolean_term,
        exp.Dot: _boolean_term,
    }

    def _term(self, node: Node) -> Term | None:
        return self._terms.find(node)

    def _literal(self, node: Node) -> Literal | None:
        return self._terms.literal(node)


def _join(kind: type[And | Or], parts: Iterable[Predicate]) -> Predicate:
    """Join parts under one operator, flattening parts under the same operator."""
    return kind(tuple(child for part in parts for child in (part.children if isinstance(part, kind) else (part,))))


def _unknown(node: Node) -> Unknown:
    return Unknown(text_of(node))


def _operands(node: Node, kind: type[Node]) -> list[Node]:
    """Collect the operands of a chain of one operator, without recursion, since chains may be thousands long."""
    operands: list[Node] = []
    todo = [node]
    while todo:
        current = todo.pop().unnest()
        if type(current) is kind:
            todo += [current.expression, current.this]
        else:
            operands.append(current)
    return operands
