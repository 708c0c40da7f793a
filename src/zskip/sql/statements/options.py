"""`(name = value, ...)` after WITH."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from zskip.sql.statements.parser import Parser
from zskip.sql.statements.text import string_of, syntax_error

Option = str | int | float | bool
_TYPES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def read_options(parser: Parser, known: Mapping[str, tuple[type, ...]]) -> tuple[tuple[str, Option], ...]:
    """Read options, each once; known: the types of each. Raises PredicateError for anything else."""
    parser.expect("(")
    options: dict[str, Option] = {}
    while True:
        token = parser.now
        name = parser.part("an option").lower()
        if name not in known:
            raise syntax_error(parser.sql, token, _no_option(name, known))
        if name in options:
            raise syntax_error(parser.sql, token, f'the option "{name}" is given twice')
        parser.expect("=")
        token = parser.now
        value = _value(parser)
        if type(value) not in known[name]:
            kinds = " or ".join(_TYPES[kind] for kind in known[name])
            raise syntax_error(parser.sql, token, f'the option "{name}" is {kinds}')
        options[name] = value
        if not parser.accept(","):
            break
    parser.expect(")", "a comma and an option, or )")
    return tuple(options.items())


def _no_option(name: str, known: Mapping[str, tuple[type, ...]]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if name in ("by", "curve", "where"):
        return f'no option "{name}"; write it as a clause: WHERE ..., or ZORDER, HILBERT or LINEAR BY (a, b)'
    return f'no option "{name}"; ' + (f'did you mean "{near[0]}"?' if near else "the options: " + ", ".join(known))


def _value(parser: Parser) -> Option:
    if parser.now.kind == "string":
        return string_of(parser.take().text)
    if parser.accept("TRUE"):
        return True
    if parser.accept("FALSE"):
        return False
    sign = -1 if parser.accept("-") else 1
    if parser.now.kind == "number" and parser.now.text.isdecimal():
        return sign * int(parser.take().text)
    if parser.now.kind == "number":
        return sign * read_number(parser)
    raise parser.error("expected a string, a number, true or false")


def read_number(parser: Parser) -> float:
    """Read a number such as 0.2; raises PredicateError for anything else."""
    place = parser.now
    try:
        return float(parser.take().text) if place.kind == "number" else float("x")
    except ValueError as error:
        raise syntax_error(parser.sql, place, "expected a number") from error
