"""ADVISE, and the statements about a table's workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zskip.options import options_of
from zskip.sql.statements.options import Value, read_options
from zskip.sql.statements.parser import Parser, Target
from zskip.table.table import Table

ADVISE_OPTIONS = options_of(Table.advise)


@dataclass(frozen=True, kw_only=True, slots=True)
class Advise:
    """`ADVISE t [WITH (name = value)]`."""

    target: Target
    options: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordWorkload:
    """`ALTER WORKLOAD ON t RECORD ON | OFF`."""

    target: Target
    on: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowWorkload:
    """`SHOW WORKLOAD ON t`, and `CLEAR WORKLOAD ON t`."""

    target: Target
    clear: bool = False


WorkloadStatement = Advise | RecordWorkload | ShowWorkload


def read_advise(parser: Parser) -> Advise:
    """Read an ADVISE."""
    parser.take()
    target = parser.target()
    options = read_options(parser, ADVISE_OPTIONS) if parser.accept("WITH") else ()
    parser.finish("a semicolon" if options else "WITH")
    return Advise(target=target, options=options)


def _alter(parser: Parser) -> RecordWorkload:
    target = parser.target_after(2)
    parser.expect("RECORD")
    on = parser.accept("ON")
    if not on:
        parser.expect("OFF", "ON or OFF")
    parser.finish("a semicolon")
    return RecordWorkload(target=target, on=on)


def _show(parser: Parser) -> ShowWorkload:
    clear = parser.now.upper == "CLEAR"
    target = parser.target_after(2)
    parser.finish("a semicolon")
    return ShowWorkload(target=target, clear=clear)


WORKLOAD_READERS: dict[str, Callable[[Parser], WorkloadStatement]] = {"ALTER": _alter, "SHOW": _show, "CLEAR": _show}
"""The readers of statements by their first word, before WORKLOAD ON."""
