"""`(name = value, ...)` after WITH."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from zskip.options import Option
from zskip.sql.statements.parser import Parser
from zskip.sql.statements.text import string_of, syntax_error

Value = str | int | float | bool | tuple[str, ...]
_KINDS: dict[str, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
}
_TEXT = (str, "a string")


def read_options(parser: Parser, known: Mapping[str, Option]) -> tuple[tuple[str, Value], ...]:
    """Read options, each once; raises PredicateError for anything else."""
    parser.expect("(")
    options: dict[str, Value] = {}
    while True:
        token = parser.now
        name = parser.part("an option").lower()
        if name not in known:
            raise syntax_error(parser.sql, token, _no_option(name, known))
        if name in options:
            raise syntax_error(parser.sql, token, f'the option "{name}" is given twice')
        parser.expect("=")
        options[name] = _read_value(parser, known[name])
        if not parser.accept(","):
            break
    parser.expect(")", "a comma and an option, or )")
    return tuple(options.items())


def _read_value(parser: Parser, option: Option) -> Value:
    token = parser.now
    value = _value(parser)
    kinds = dict(_KINDS.get(kind, _TEXT) for kind in option.types)
    if float in kinds and type(value) is int:
        value = float(value)
    if type(value) not in kinds:
        raise syntax_error(parser.sql, token, f'the option "{option.name}" is {" or ".join(kinds.values())}')
    return tuple(name.strip() for name in value.split(",")) if option.is_list and isinstance(value, str) else value


def _no_option(name: str, known: Mapping[str, Option]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if name in ("by", "curve", "where"):
        return f'no option "{name}"; write it as a clause: WHERE ..., or ZORDER, HILBERT or LINEAR BY (a, b)'
    return f'no option "{name}"; ' + (f'did you mean "{near[0]}"?' if near else "the options: " + ", ".join(known))


def _value(parser: Parser) -> str | int | float | bool:
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
        return sign * float(parser.take().text)
    raise parser.error("expected a string, a number, true or false")
