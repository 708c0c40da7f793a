"""The tokens of SQL text, checked and changed before sqlglot parses them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect

from zskip.errors import PredicateError
from zskip.predicate.sql.literals import UNCERTAIN

Token = Any
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_PREFIX = {TokenType.DASH, TokenType.PLUS, TokenType.NOT, TokenType.TILDE}
_DEEPEST = 30
_STRANGE_ESCAPE = re.compile(r"(?:[^\\]|\\[\\'\"])*?\\(?![\\'\"])", re.DOTALL)


def shorten(sql: str, most: int = 500) -> str:
    """Cut a long text for people."""
    return sql if len(sql) <= most else f"{sql[:most]}..."


def tokens_of(sql: str) -> list[Token]:
    """Tokenize a text. Raises PredicateError if it is not SQL, or more than one statement."""
    try:
        tokens = list(Dialect.get_or_raise("spark").tokenize(sql))
    except sqlglot.errors.SqlglotError as error:
        raise PredicateError(f'cannot read the predicate "{shorten(sql)}": {error}') from error
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise PredicateError(f'cannot read the predicate "{shorten(sql)}": it holds a semicolon; give one condition')
    return tokens


def hide_escapes(sql: str, tokens: list[Token]) -> list[Token]:
    """Make literals without a value of the strings with escapes that sqlglot may read differently than Spark.

    Names have no escapes.
    """
    if not _STRANGE_ESCAPE.match(sql):
        return tokens
    return [_hidden(token, sql[token.start : token.end + 1]) for token in tokens]


def _hidden(token: Token, text: str) -> Token:
    if token.token_type is TokenType.IDENTIFIER or not _STRANGE_ESCAPE.match(text):
        return token
    return type(token)(TokenType.STRING, UNCERTAIN + text.strip("'\""), start=token.start, end=token.end)


def is_deep(tokens: list[Token]) -> bool:
    """Whether a text is nested so deeply that sqlglot, which is recursive, might not return."""
    depth = run = cases = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        run = run + 1 if kind in _PREFIX else 0
        cases = max(cases + (kind is TokenType.CASE) - (kind is TokenType.END), 0)
        if max(depth, run, cases) > _DEEPEST:
            return True
    return False


def _pairs(tokens: list[Token]) -> dict[int, int] | None:
    """Map each opening parenthesis to the closing one; None if they do not match."""
    pairs, open_indexes = {}, []
    for index, token in enumerate(tokens):
        if token.token_type in _OPENING:
            open_indexes.append(index)
        elif token.token_type in _CLOSING:
            if not open_indexes:
                return None
            pairs[open_indexes.pop()] = index
    return None if open_indexes else pairs


def mark_calls(tokens: list[Token], names: Collection[str]) -> None:
    """Let sqlglot take calls of these functions for ones that it does not know."""
    pairs = _pairs(tokens) or {}
    for opening, closing in pairs.items():
        if opening and tokens[opening - 1].text.lower() in names:
            tokens[closing].comments.append(exp.SQLGLOT_ANONYMOUS)


def has_plain_units(tokens: list[Token], units: Collection[str]) -> bool:
    """Whether `date_trunc` and `trunc` have only literal units of these names.

    sqlglot reads others differently than Spark: `M` as a minute, and a column named `day` as the unit.
    """
    pairs = _pairs(tokens) or {}
    for index, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        if name not in ("date_trunc", "trunc") or tokens[index + 1].token_type is not TokenType.L_PAREN:
            continue
        end = pairs.get(index + 1, index + 1)
        unit, comma = (index + 2, index + 3) if name == "date_trunc" else (end - 1, end - 2)
        if comma >= len(tokens) or tokens[unit].token_type is not TokenType.STRING:
            return False
        if tokens[comma].token_type is not TokenType.COMMA or tokens[unit].text.upper() not in units:
            return False
    return True


def elements(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens between the commas."""
    start = depth = 0
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.COMMA and not depth:
            yield tokens[start:index]
            start = index + 1
        elif kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth -= 1
    yield tokens[start:]
