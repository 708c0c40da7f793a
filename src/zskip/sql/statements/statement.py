"""The statements that are zskip's own, from text; anything else is a `Query`, which Spark reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from zskip.errors import PredicateError
from zskip.layout.curves import curve_traits, curves_for
from zskip.options import options_of
from zskip.sql.statements.options import Value, read_options
from zskip.sql.statements.parser import CURVES, Parser, Target
from zskip.sql.statements.skipping_index import INDEX_READERS, IndexStatement
from zskip.sql.statements.text import Token, tokens
from zskip.sql.statements.write import WriteStatement, writer_of
from zskip.table.table import Table

CLUSTER_OPTIONS = options_of(Table.optimize, without=("by", "curve", "where"))
COMPACT_OPTIONS = options_of(Table.compact, without=("where",))
MAINTAIN_OPTIONS = options_of(Table.maintain, without=("by",))
"""What WITH takes: the parameters of the verbs that are no clauses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimize:
    """`OPTIMIZE t [WHERE p] [AUTO | ZORDER | HILBERT | LINEAR | FITTED | AUTO BY (a, b)] [WITH (n = v)]`."""

    target: Target
    where: str | None = None
    where_at: int = field(default=0, compare=False)
    """Offset of the predicate in the statement."""
    by: tuple[str, ...] | None = ()
    """None for the columns that queries filter by. Empty for the table's last layout; without one, small files are
    merged."""
    curve: str | None = None
    options: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Maintain:
    """`OPTIMIZE t INCREMENTAL [ZORDER BY (a, b)] [WITH (name = value)]`."""

    target: Target
    by: tuple[str, ...] = ()
    """Empty for the table's last layout."""
    options: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainSkipping:
    """`EXPLAIN SKIPPING SELECT ...`."""

    query: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verify:
    """`VERIFY t [WHERE ...]`."""

    target: Target
    where: str | None = None
    where_at: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Anything else."""

    text: str


Statement = Optimize | Maintain | ExplainSkipping | Verify | IndexStatement | WriteStatement | Query


def read_statement(sql: str) -> Statement:
    """Read one statement; raises PredicateError for one of zskip's own that does not parse.

    >>> read_statement("optimize events zorder by a, `b c`;").by
    ('a', 'b c')
    >>> read_statement("CREATE SKIPPING INDEX ON t (k BLOOM(0.01), v MINMAX, (a, b) GEO)").sketches
    ('BLOOM(0.01):k', 'GEO:a, b')
    >>> read_statement("SELECT 1")
    Query(text='SELECT 1')
    """
    reader = _reader_of(sql)
    return Query(text=sql) if reader is None else reader(Parser(sql))


def _reader_of(sql: str) -> Callable[[Parser], Statement] | None:
    """Find the reader of a statement by its first words; None for Spark."""
    start = _start(sql)
    words = tuple(token.upper for token in start)
    if words[:1] == ("OPTIMIZE",):
        return _optimize
    if words[:1] == ("VERIFY",):
        return _verify
    if words[:2] in (("CREATE", "TABLE"), ("INSERT", "INTO")):
        return writer_of(sql)
    if words[1:3] == ("SKIPPING", "INDEX"):
        # A column INDEX of a table SKIPPING, described alone, is Spark's.
        describes = words[0] in ("DESCRIBE", "DESC")
        return None if describes and _ends(start, 3) else INDEX_READERS.get(words[0])
    if words[:2] == ("EXPLAIN", "SKIPPING"):
        return _explain
    return None


def _ends(start: list[Token], at: int) -> bool:
    """Whether a statement has at most `at` tokens."""
    return [token.text for token in start[at : at + 1]] in ([""], [";"])


def _start(sql: str) -> list[Token]:
    """The first four tokens, or those before something that does not parse."""
    for count in (4, 3, 2, 1):
        try:
            return tokens(sql, limit=count)
        except PredicateError:
            continue
    return []


def _optimize(parser: Parser) -> Optimize | Maintain:
    parser.take()
    target = parser.target()
    if parser.accept("INCREMENTAL"):
        return _maintain(parser, target)
    where, where_at = parser.predicate()
    curve: str | None = None
    by: tuple[str, ...] | None = ()
    if parser.now.upper in CURVES:
        curve = CURVES[parser.take().upper]
        if curve == "auto" and parser.now.upper != "BY":
            by = None
        else:
            parser.expect("BY")
            by = parser.keys()
    options = read_options(parser, COMPACT_OPTIONS | CLUSTER_OPTIONS) if parser.accept("WITH") else ()
    expected = ["WHERE"] * (where is None and by == () and not options)
    plain = [f"{name.upper()} BY" for name in curves_for(2) if not curve_traits(name).needs_workload]
    expected += plain * (by == () and not options) + ["WITH"] * (not options)
    parser.finish(", ".join(expected) or "a semicolon")
    return Optimize(target=target, where=where, where_at=where_at, by=by, curve=curve, options=options)


def _maintain(parser: Parser, target: Target) -> Maintain:
    by: tuple[str, ...] = ()
    if parser.accept("ZORDER"):
        parser.expect("BY")
        by = parser.keys()
    options = read_options(parser, MAINTAIN_OPTIONS) if parser.accept("WITH") else ()
    parser.finish(", ".join(["ZORDER BY"] * (not by and not options) + ["WITH"] * (not options)) or "a semicolon")
    return Maintain(target=target, by=by, options=options)


def _verify(parser: Parser) -> Verify:
    parser.take()
    target = parser.target()
    where, where_at = parser.predicate()
    parser.finish("a semicolon" if where else "WHERE")
    return Verify(target=target, where=where, where_at=where_at)


def _explain(parser: Parser) -> ExplainSkipping:
    parser.take()
    end = parser.take().end
    if parser.now.kind == "end" or parser.now.text == ";":
        raise parser.error("expected a query")
    # Blanks in front keep the positions of this text in Spark's errors.
    return ExplainSkipping(query=re.sub(r"\S", " ", parser.sql[:end]) + parser.sql[end:])
