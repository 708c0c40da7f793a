"""Parses SQL text, written by people or printed by Catalyst, into a predicate.

sqlglot reads the text (Spark dialect); this module interprets the forms that statistics can answer. Lenient mode is
for text that Spark has checked already: parts that are not understood become Unknown. Strict mode is for text that a
user wrote: unknown columns and syntax errors raise.
"""

from __future__ import annotations

import re

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect

from zskip.errors import PredicateError
from zskip.predicate.columns import Columns
from zskip.predicate.functions.times import UNITS
from zskip.predicate.literals import MOST_DIGITS, Literal
from zskip.predicate.nullness import equals
from zskip.predicate.opaque import NAMES
from zskip.predicate.sql import element_tests
from zskip.predicate.sql.extractions import call_extractions
from zskip.predicate.sql.junctions import shorten
from zskip.predicate.sql.leaves import Leaves
from zskip.predicate.sql.literals import Node
from zskip.predicate.sql.terms import Terms
from zskip.predicate.sql.tokens import (
    Token,
    has_plain_units,
    is_deep,
    long_list,
    mark_calls,
    split,
    tokens_of,
    truth_test,
)
from zskip.predicate.tree import Not, Predicate, Term, Unknown, nodes

_STRANGE_ESCAPE = re.compile(r"(?:[^\\]|\\[\\'\"])*?\\(?![\\'\"])", re.DOTALL)
_UNITS = {*UNITS, "YYYY", "YY", "MM", "MON", "DD"}
_CALLS = {*NAMES, *element_tests.NAMES}
_TEXTS = {TokenType.STRING, TokenType.NUMBER}


def parse(sql: str, columns: Columns, *, timezone: str = "UTC", lenient: bool = False) -> Predicate:
    """Read one predicate and bind it to the columns of a table.

    timezone: the session's time zone, for timestamps without one. Unless `lenient`, raises PredicateError for text that
    is no predicate and ColumnError for unknown columns.

    >>> from zskip.records import Field
    >>> from zskip.types import DataType
    >>> columns = Columns([Field(name="a", type=DataType("integer"))])
    >>> parse("a BETWEEN 1 AND 2.5", columns) == parse("1 <= a AND a < 3", columns)
    False
    >>> parse("NOT a >= 7", columns)
    Not(child=Compare(op='>=', term=Column(path=('a',), type=DataType(name='integer')), value=7))
    """
    try:
        return _Text(sql if lenient else call_extractions(sql), columns, timezone, lenient).predicate()
    except PredicateError:
        if not lenient:
            raise
        return Unknown(sql)


def parse_term(sql: str, columns: Columns, *, timezone: str = "UTC") -> Term:
    """Read an expression of columns that an index may sketch.

    Raises ColumnError for unknown columns, PredicateError for text that is not understood.

    >>> from zskip.predicate import term_sql
    >>> from zskip.records import Field
    >>> from zskip.types import DataType
    >>> term_sql(parse_term("LOWER( Email )", Columns([Field(name="email", type=DataType("string"))])))
    'lower(email)'
    """
    return _Text(call_extractions(sql), columns, timezone, lenient=False).term()


def parse_side(sql: str, columns: Columns, *, timezone: str, of_elements: bool = False) -> Term | Literal | None:
    """Read one side of a comparison that Catalyst printed; None if it is not understood.

    of_elements: whether it may be `explode(array)`.
    """
    try:
        return _Text(sql, columns, timezone, lenient=True).side(of_elements=of_elements)
    except (PredicateError, ValueError, ArithmeticError, RecursionError):
        return None


class _Text:
    """One text, split at its ANDs and ORs; sqlglot reads the leaves."""

    def __init__(self, sql: str, columns: Columns, timezone: str, lenient: bool) -> None:
        self._sql = sql
        self._lenient = lenient
        self._escapes = _STRANGE_ESCAPE.match(sql) is not None
        self._tokens = tokens_of(sql)
        # Versions of sqlglot differ in what they make of these.
        mark_calls(self._tokens, _CALLS)
        odd_units = not has_plain_units(self._tokens, _UNITS)
        self._terms = Terms(columns, timezone, lenient=lenient, short_units=odd_units)
        self._leaves = Leaves(self._terms, timezone, lenient=lenient)
        self._parser = Dialect.get_or_raise("spark").parser()

    def predicate(self) -> Predicate:
        """Parse the text as a predicate."""
        return split(self._sql, self._tokens, self._leaf)

    def side(self, *, of_elements: bool = False) -> Term | Literal | None:
        """Parse the text as a term or a literal; None if it is neither.

        of_elements: whether it may be `explode(array)`, which is not of one row.
        """
        if is_deep(self._tokens) or (self._escapes and any(map(self._has_strange_escape, self._tokens))):
            return None
        node = self._parse(self._tokens)
        elements = self._terms.elements(node) if of_elements else None
        return elements or self._terms.find(node) or self._terms.literal(node)

    def term(self) -> Term:
        """Parse the text as a term, or as the elements of an array."""
        term = self.side(of_elements=True)
        if term is None or isinstance(term, Literal):
            raise PredicateError(
                f'"{shorten(self._sql, 200)}" is no column and no expression that can be indexed; take a column, a '
                'function that zskip knows of columns of the right types, such as "lower(email)", or register your own'
            )
        return term

    def _leaf(self, tokens: list[Token]) -> Predicate:
        sql = self._sql[tokens[0].start : tokens[-1].end + 1] if tokens else ""
        try:
            if self._escapes and any(map(self._has_strange_escape, tokens)):
                return Unknown(shorten(sql, 200), "a string with escapes")
            if is_deep(tokens):
                return Unknown(shorten(sql, 200), "nested too deeply")
            listed = long_list(tokens)
            if listed is None:
                predicate = self._leaves.read(self._parse(tokens))
                return self._truth_test(tokens) or predicate if _is_partial(predicate) else predicate
            node = self._parse(listed.head)
            membership = node.find(exp.In)
            if self._lenient and membership is not None and self._terms.find(membership.this) is None:
                # The list takes long to read and would not change this.
                return Unknown(shorten(sql, 200), "not supported")
            literals = self._literals(listed.elements)
            return self._leaves.read(node if literals else self._parse(tokens), literals)
        except RecursionError:
            return Unknown(shorten(sql, 200), "nested too deeply")
        except (PredicateError, ValueError, ArithmeticError):
            if not self._lenient:
                raise
            return Unknown(sql)

    def _has_strange_escape(self, token: Token) -> bool:
        """Whether a token is a string with escapes that sqlglot may read differently; names have no escapes."""
        text = self._sql[token.start : token.end + 1]
        return token.token_type is not TokenType.IDENTIFIER and _STRANGE_ESCAPE.match(text) is not None

    def _truth_test(self, tokens: list[Token]) -> Predicate | None:
        """Read `(condition) IS NULL` and the like; None for anything else."""
        test = truth_test(tokens)
        if test is None:
            return None
        try:
            predicate = equals(split(self._sql, test.condition, self._leaf), test.value)
        except PredicateError:
            return None
        return Not(predicate) if predicate is not None and test.negated else predicate

    def _parse(self, tokens: list[Token]) -> Node:
        sql = shorten(self._sql)
        try:
            trees = self._parser.parse_into(exp.Condition, tokens, self._sql) if tokens else []
        except sqlglot.errors.SqlglotError as error:
            raise PredicateError(f'cannot read the predicate "{sql}": {_describe(error)}') from error
        if len(trees) != 1 or trees[0] is None:
            raise PredicateError(f'cannot read the predicate "{sql}": a part is missing')
        if isinstance(trees[0], exp.Query | exp.Alias | exp.DDL | exp.Tuple):
            raise PredicateError(f'"{sql}" is no predicate; give a condition such as "a > 3 AND b = \'x\'"')
        return trees[0]

    def _literals(self, elements: list[list[Token]]) -> list[Literal]:
        """Read the literals of a long list; empty if some element is no plain literal.

        Elements of one shape, such as `DATE '...'`, are parsed once; then only their text changes.
        """
        shapes: dict[tuple[object, ...], tuple[Node, Node | None]] = {}
        literals = []
        for element in elements:
            index = next((i for i, token in enumerate(element) if token.token_type in _TEXTS), len(element))
            text = element[index].text if index < len(element) else ""
            rest = [(token.token_type, token.text) for token in element[:index] + element[index + 1 :]]
            shape = (*rest, index, element[min(index, len(element) - 1)].token_type, _scale(element, text))
            if shape not in shapes:
                shapes[shape] = self._template(element, text)
            node, literal_node = shapes[shape]
            if literal_node is not None:
                literal_node.args["this"] = text
            literal = self._terms.literal(node)
            if literal is None or (literal_node is None and text):
                return []
            literals.append(literal)
        return literals

    def _template(self, element: list[Token], text: str) -> tuple[Node, Node | None]:
        """Return the node of an element, and the literal in it that holds its text; None if the text cannot change."""
        try:
            node = self._parse(element)
        except PredicateError:
            return exp.Placeholder(), None  # No literal; parsing the whole list reports what is wrong, if anything.
        literals = [
            literal for literal in node.find_all(exp.Literal) if not isinstance(literal.parent, exp.DataTypeParam)
        ]
        scale = _scale(element, text)
        if scale is not None:
            for size, number in zip(node.find_all(exp.DataTypeParam), (MOST_DIGITS, scale), strict=True):
                size.set("this", exp.Literal.number(number))
        return node, literals[0] if len(literals) == 1 and literals[0].this == text else None


def _is_partial(predicate: Predicate) -> bool:
    return any(isinstance(node, Unknown) for node in nodes(predicate))


def _scale(element: list[Token], text: str) -> int | None:
    """Count the digits after the point of a literal such as `1.50BD`, from which sqlglot makes its type."""
    return len(text.partition(".")[2]) if element[-1].text.upper() == "BD" else None


def _describe(error: sqlglot.errors.SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if details and details[0].get("description"):
        first = details[0]
        problem = "a part is missing" if "<class" in first["description"] else first["description"]
        return f'{problem} near "{first.get("highlight") or "its end"}", character {first.get("col")}'
    return "it does not parse as a condition of Spark SQL"
