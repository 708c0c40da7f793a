"""SHOW TABLE HEALTH and MAINTAIN TABLES: statements about all tables of a database or a directory."""

from __future__ import annotations

from dataclasses import dataclass

from zskip.lake import Lake, lake
from zskip.options import options_of
from zskip.sql.statements.options import Value, read_options
from zskip.sql.statements.parser import Parser, Target
from zskip.sql.statements.text import string_of

_EXCLUDE = options_of(lake, without=("spark", "tables"))
HEALTH_OPTIONS = {**options_of(Lake.survey), **_EXCLUDE}
LAKE_OPTIONS = {**options_of(Lake.maintain, without=("budget",)), **_EXCLUDE}
"""What WITH takes: the parameters of the verbs that are no clauses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowHealth:
    """`SHOW TABLE HEALTH IN db [WITH (deep = 10, exclude = 'tmp_*')]`."""

    target: Target
    options: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MaintainTables:
    """`MAINTAIN TABLES IN db [BUDGET '1TB'] [WITH (name = value)]`."""

    target: Target
    budget: str | None = None
    options: tuple[tuple[str, Value], ...] = ()


def read_show_health(parser: Parser) -> ShowHealth:
    """Read a SHOW TABLE HEALTH."""
    target = _tables_after(parser, 3)
    options = read_options(parser, HEALTH_OPTIONS) if parser.accept("WITH") else ()
    parser.finish("a semicolon" if options else "WITH")
    return ShowHealth(target=target, options=options)


def read_maintain_tables(parser: Parser) -> MaintainTables:
    """Read a MAINTAIN TABLES."""
    target = _tables_after(parser, 2)
    budget = None
    if parser.accept("BUDGET"):
        if parser.now.kind not in ("string", "number"):
            raise parser.error("expected a size such as '1TB'")
        token = parser.take()
        budget = string_of(token.text) if token.kind == "string" else token.text
    options = read_options(parser, LAKE_OPTIONS) if parser.accept("WITH") else ()
    parser.finish("a semicolon" if options else "WITH" if budget is not None else "BUDGET, WITH")
    return MaintainTables(target=target, budget=budget, options=options)


def _tables_after(parser: Parser, words: int) -> Target:
    """Step over some words and IN, and read a database or a directory."""
    for _ in range(words):
        parser.take()
    parser.expect("IN", "IN and a database, or IN 'path'")
    if parser.now.kind == "string":
        return Target(path=string_of(parser.take().text))
    return Target(parts=parser.parts("a database, or 'path'"))
