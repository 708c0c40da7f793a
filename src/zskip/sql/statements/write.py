"""CREATE TABLE ... CLUSTER BY ... AS SELECT, and INSERT INTO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from zskip.errors import PredicateError
from zskip.formats import FORMATS
from zskip.options import options_of
from zskip.sql.statements.options import Value, read_options
from zskip.sql.statements.parser import Parser, Target
from zskip.sql.statements.text import tokens
from zskip.table.opening import write

WRITE_OPTIONS = options_of(write, without=("df", "target", "by", "partition_by", "format", "mode", "branch"))
"""What WITH takes: the parameters of `zskip.write` that are no clauses; a table that exists is an error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateTable:
    """`CREATE TABLE t [USING delta] [PARTITIONED BY (c)] CLUSTER BY (a, b) [WITH (name = value)] AS SELECT ...`."""

    target: Target
    query: str
    by: tuple[str, ...]
    format_name: str | None = None
    partition_by: tuple[str, ...] = ()
    options: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Insert:
    """`INSERT INTO t SELECT ...`; Spark reads what follows the name of a table in its catalog."""

    target: Target
    query: str
    """What follows the target."""


WriteStatement = CreateTable | Insert


def writer_of(sql: str) -> Callable[[Parser], WriteStatement] | None:
    """Find the reader of a CREATE TABLE or INSERT INTO; None for Spark.

    A CREATE TABLE is zskip's if it says CLUSTER BY before its AS, and names one of zskip's formats or none.
    """
    try:
        words = [token.upper or token.text for token in tokens(sql)]
    except PredicateError:
        return None
    if words[0] == "INSERT":
        return _read_insert
    head = words[: words.index("AS")] if "AS" in words else []
    is_clustered = ("CLUSTER", "BY") in pairwise(head)
    using = head[head.index("USING") + 1] if "USING" in head[:-1] else "PARQUET"
    return _read_create if is_clustered and using.lower() in FORMATS else None


def _read_create(parser: Parser) -> CreateTable:
    """Read a CREATE TABLE ... CLUSTER BY ... AS SELECT."""
    parser.take()
    parser.take()
    target = parser.target()
    format_name = parser.part("a format").lower() if parser.accept("USING") else None
    partition_by = parser.partition_fields() if parser.accept("PARTITIONED", "BY") else ()
    parser.expect("CLUSTER", "USING, PARTITIONED BY or CLUSTER BY")
    parser.expect("BY")
    by = parser.keys()
    options = read_options(parser, WRITE_OPTIONS) if parser.accept("WITH") else ()
    parser.expect("AS", "AS" if options else "WITH or AS")
    return CreateTable(
        target=target,
        query=_rest(parser),
        by=by,
        format_name=format_name,
        partition_by=partition_by,
        options=options,
    )


def _read_insert(parser: Parser) -> Insert:
    """Read an INSERT INTO."""
    parser.take()
    parser.take()
    parser.accept("TABLE")
    target = parser.target()
    return Insert(target=target, query=_rest(parser))


def _rest(parser: Parser) -> str:
    """The query that is left."""
    if parser.now.kind == "end" or parser.now.text == ";":
        raise parser.error("expected a query")
    return parser.sql[parser.now.start :].rstrip().rstrip(";")
