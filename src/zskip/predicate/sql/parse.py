"""Parses SQL text, written by people or printed by Catalyst, into a predicate.

sqlglot reads the text (Spark dialect); this module interprets the forms that statistics can answer. Lenient mode is
for text that Spark has checked already: parts that are not understood become Unknown. Strict mode is for text that a
user wrote: unknown columns and syntax errors raise.
"""

from __future__ import annotations

from contextlib import suppress

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from zskip.errors import ColumnError, PredicateError
from zskip.predicate.calls import UNIT_ALIASES
from zskip.predicate.columns import Columns
from zskip.predicate.functions.times import UNITS
from zskip.predicate.literals import Literal
from zskip.predicate.opaque import CONDITION, NAMES
from zskip.predicate.sql import element_tests
from zskip.predicate.sql.extractions import call_extractions
from zskip.predicate.sql.leaves import Leaves
from zskip.predicate.sql.literals import Node
from zskip.predicate.sql.terms import Terms
from zskip.predicate.sql.tokens import Token, has_plain_units, hide_escapes, is_deep, mark_calls, shorten, tokens_of
from zskip.predicate.text import to_sql
from zskip.predicate.tree import Column, Opaque, Predicate, Term, Unknown, nodes
from zskip.types import DataType

_UNITS = {*UNITS, *UNIT_ALIASES}
_CALLS = {*NAMES, *element_tests.NAMES}


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
    except RecursionError:
        return Unknown(shorten(sql, 200), "nested too deeply")
    except (PredicateError, ValueError, ArithmeticError):
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


def parse_condition(sql: str, columns: Columns, *, timezone: str) -> tuple[Predicate, tuple[Column, ...]]:
    """Read a condition of any functions, and the columns that it names; parts that are not understood are Unknown.

    Raises ColumnError for unknown columns, PredicateError for text that is no condition.
    """
    try:
        return _Text(call_extractions(sql), columns, timezone, lenient=False).condition()
    except RecursionError:
        raise PredicateError(f'"{shorten(sql, 200)}" is nested too deeply') from None


def parse_value(sql: str, columns: Columns, *, timezone: str = "UTC") -> Term:
    """Read an expression, or a condition that zskip understands as a whole, whose values are true, false and null.

    Raises as `parse_term` does.

    >>> from zskip.records import Field
    >>> from zskip.types import DataType
    >>> parse_value("note LIKE '%late%'", Columns([Field(name="note", type=DataType("string"))])).type.name
    'boolean'
    """
    try:
        return parse_term(sql, columns, timezone=timezone)
    except PredicateError:
        with suppress(ColumnError, PredicateError):
            condition, named = parse_condition(sql, columns, timezone=timezone)
            # The text of a moment means another one in other time zones.
            is_plain = not any(column.type.name == "timestamp" for column in named)
            if named and is_plain and not any(isinstance(part, Unknown) for part in nodes(condition)):
                return Opaque(CONDITION, (to_sql(condition), *named), DataType("boolean"))
        raise


def parse_side(sql: str, columns: Columns, *, timezone: str, of_elements: bool = False) -> Term | Literal | None:
    """Read one side of a comparison that Catalyst printed; None if it is not understood.

    of_elements: whether it may be `explode(array)`.
    """
    try:
        return _Text(sql, columns, timezone, lenient=True).side(of_elements=of_elements)
    except (PredicateError, ValueError, ArithmeticError, RecursionError):
        return None


class Query:
    """A whole query, whose conditions become predicates one by one; raises PredicateError for text that is none.

    >>> from zskip.records import Field
    >>> from zskip.types import DataType
    >>> query = Query("SELECT a FROM t WHERE a > 3 AND f(a)")
    >>> columns = Columns([Field(name="a", type=DataType("integer"))])
    >>> query.predicate(query.tree.args["where"].this, columns).children[0]
    Compare(op='>', term=Column(path=('a',), type=DataType(name='integer')), value=3)
    """

    def __init__(self, sql: str) -> None:
        tokens = _tokens_of(sql)
        self._short_units = not has_plain_units(tokens, _UNITS)
        if is_deep(tokens):
            raise PredicateError(f'"{shorten(sql)}" is nested too deeply')
        try:
            trees = Dialect.get_or_raise("spark").parser().parse(tokens, sql)
        except sqlglot.errors.SqlglotError as error:
            raise PredicateError(f'cannot read the query "{shorten(sql)}": {_describe(error)}') from error
        self.tree: Node = trees[0] if len(trees) == 1 else None
        if not isinstance(self.tree, exp.Query):
            raise PredicateError(f'"{shorten(sql)}" is no query')

    def predicate(self, condition: Node, columns: Columns, timezone: str = "UTC") -> Predicate:
        """Read a condition of the tree; parts that are not understood are Unknown."""
        terms = Terms(columns, timezone, lenient=True, short_units=self._short_units)
        return Leaves(terms, timezone, lenient=True, is_printed=False).read(condition)


def _tokens_of(sql: str) -> list[Token]:
    tokens = hide_escapes(sql, tokens_of(sql))
    mark_calls(tokens, _CALLS)  # Versions of sqlglot differ in what they make of these.
    return tokens


class _Text:
    """One text, read by sqlglot."""

    def __init__(self, sql: str, columns: Columns, timezone: str, lenient: bool) -> None:
        self._sql = sql
        self._tokens = _tokens_of(sql)
        odd_units = not has_plain_units(self._tokens, _UNITS)
        self._terms = Terms(columns, timezone, lenient=lenient, short_units=odd_units)
        self._leaves = Leaves(self._terms, timezone, lenient=lenient, is_printed=lenient)

    def predicate(self) -> Predicate:
        """Parse the text as a predicate."""
        if is_deep(self._tokens):
            raise RecursionError
        return self._leaves.read(self._parse())

    def condition(self) -> tuple[Predicate, tuple[Column, ...]]:
        """Parse the text as a predicate, and find the columns that it names."""
        node = self._parse()
        found = (self._terms.column(column) for column in node.find_all(exp.Column) if column.arg_key != "collate")
        columns = tuple(dict.fromkeys(column for column in found if column is not None))
        return self.predicate(), columns

    def side(self, *, of_elements: bool = False) -> Term | Literal | None:
        """Parse the text as a term or a literal; None if it is neither.

        of_elements: whether it may be `explode(array)`, which is not of one row.
        """
        if is_deep(self._tokens):
            return None
        node = self._parse()
        elements = self._terms.elements(node) if of_elements else None
        return elements or self._terms.side(node)

    def term(self) -> Term:
        """Parse the text as a term, or as the elements of an array."""
        term = self.side(of_elements=True)
        if term is None or isinstance(term, Literal):
            raise PredicateError(
                f'"{shorten(self._sql, 200)}" is no column and no expression that can be indexed; take a column, a '
                'function that zskip knows of columns of the right types, such as "lower(email)", or register your own'
            )
        return term

    def _parse(self) -> Node:
        sql = shorten(self._sql)
        parser = Dialect.get_or_raise("spark").parser()
        try:
            trees = parser.parse_into(exp.Condition, self._tokens, self._sql) if self._tokens else []
        except sqlglot.errors.SqlglotError as error:
            raise PredicateError(f'cannot read the predicate "{sql}": {_describe(error)}') from error
        if len(trees) != 1 or trees[0] is None:
            raise PredicateError(f'cannot read the predicate "{sql}": a part is missing')
        return trees[0]


def _describe(error: sqlglot.errors.SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if details and details[0].get("description"):
        first = details[0]
        problem = "a part is missing" if "<class" in first["description"] else first["description"]
        return f'{problem} near "{first.get("highlight") or "its end"}", character {first.get("col")}'
    return "it does not parse as a condition of Spark SQL"
