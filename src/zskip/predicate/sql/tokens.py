"""Splits the tokens of a predicate at AND, OR, NOT and their parentheses, without recursion.

Catalyst writes a chain of a thousand ORs with a thousand nested parentheses. sqlglot would descend into each, so it
reads only the leaves between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect

from zskip.errors import PredicateError
from zskip.predicate.sql.junctions import Part, join, shorten
from zskip.predicate.tree import And, Or, Predicate

Token = Any
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_JUNCTIONS = {TokenType.AND, TokenType.OR}
_QUERY = {TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.FROM, TokenType.TABLE}
_PREFIX = {TokenType.DASH, TokenType.PLUS, TokenType.NOT, TokenType.TILDE}
_NOT_IN_SPARK = {TokenType.DAMP, TokenType.XOR}
"""Operators that Spark does not have; text with one is not split."""
_DEEPEST_LEAF = 50


def tokens_of(sql: str) -> list[Token]:
    """Tokenize a text. Raises PredicateError if it is not SQL, or more than one statement."""
    try:
        tokens = list(Dialect.get_or_raise("spark").tokenize(sql))
    except sqlglot.errors.SqlglotError as error:
        raise PredicateError(f'cannot read the predicate "{shorten(sql)}": {error}') from error
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise PredicateError(f'cannot read the predicate "{shorten(sql)}": it holds a semicolon; give one condition')
    return tokens


def split(sql: str, tokens: list[Token], leaf: Callable[[list[Token]], Predicate]) -> Predicate:
    """Parse a text; `leaf` reads the leaves and reports missing parts."""
    pairs = _pairs(tokens)
    if pairs is None or any(token.token_type in _NOT_IN_SPARK for token in tokens):
        return leaf(tokens)
    groups = [_Group(len(tokens))]
    index = 0
    while True:
        negated = False
        while index < len(tokens) and tokens[index].token_type is TokenType.NOT:
            negated, index = not negated, index + 1
        group = groups[-1]
        if _is_group(tokens, pairs, index, group.end):
            groups.append(_Group(pairs[index], negated))
            index += 1
            continue
        start, index = index, _leaf_end(tokens, pairs, index, group.end)
        if start == index:
            leaf(tokens)  # It usually reports what is missing.
            raise PredicateError(f'cannot read the predicate "{shorten(sql)}": a part is missing')
        part = Part(leaf(tokens[start:index]), 0)
        while True:
            group.add(part.negate() if negated else part)
            if index < group.end:
                group.join(tokens[index].token_type is TokenType.OR)
                index += 1
                break
            part, negated = group.close(sql), group.negated
            groups.pop()
            if not groups:
                return part.predicate
            group, index = groups[-1], index + 1


def is_deep(tokens: list[Token]) -> bool:
    """Whether a leaf is nested so deeply that its recursive reader might not return."""
    depth = run = cases = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        run = run + 1 if kind in _PREFIX else 0
        cases += kind is TokenType.CASE
        if max(depth, run, cases) > _DEEPEST_LEAF:
            return True
    return False


@dataclass(slots=True)
class _Group:
    """The content of two parentheses: a disjunction of conjunctions."""

    end: int
    negated: bool = False
    parts: list[list[Part]] = field(default_factory=lambda: [[]])

    def add(self, part: Part) -> None:
        self.parts[-1].append(part)

    def join(self, alternative: bool) -> None:
        if alternative:
            self.parts.append([])

    def close(self, sql: str) -> Part:
        return join(Or, [join(And, parts, sql) for parts in self.parts], sql)


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


def _is_group(tokens: list[Token], pairs: dict[int, int], index: int, end: int) -> bool:
    """Whether a parenthesis at the start of an operand holds a condition: no operator is applied to it."""
    if index >= end or tokens[index].token_type is not TokenType.L_PAREN:
        return False
    after = pairs[index] + 1
    stands_alone = after == end or tokens[after].token_type in _JUNCTIONS
    return stands_alone and tokens[index + 1].token_type not in _QUERY


def _leaf_end(tokens: list[Token], pairs: dict[int, int], index: int, end: int) -> int:
    """Find the end of a leaf: the next AND or OR outside any BETWEEN, CASE, or parenthesis of the leaf."""
    betweens = cases = 0
    while index < end:
        kind = tokens[index].token_type
        if kind is TokenType.CASE:
            cases += 1
        elif kind is TokenType.END and cases:
            cases -= 1
        elif kind is TokenType.BETWEEN and not cases:
            betweens += 1
        elif kind in _JUNCTIONS and not cases:
            if kind is TokenType.OR or not betweens:
                return index
            betweens -= 1
        index = pairs.get(index, index) + 1
    return index


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


@dataclass(frozen=True, slots=True)
class TruthTest:
    """`(condition) IS [NOT] TRUE`, FALSE or NULL, or `<=>` any of these."""

    condition: list[Token]
    value: bool | None
    negated: bool


_FLAGS = {"TRUE": True, "FALSE": False, "NULL": None}


def truth_test(tokens: list[Token]) -> TruthTest | None:
    """Read the truth value that a leaf tests a condition for; None for any other leaf."""
    end = (_pairs(tokens) or {}).get(0)
    if end is None or tokens[0].token_type is not TokenType.L_PAREN or tokens[1].token_type in _QUERY:
        return None
    *test, value = [token.text.upper() for token in tokens[end + 1 :]] or [""]
    if test not in (["IS"], ["IS", "NOT"], ["<=>"]) or value not in _FLAGS:
        return None
    return TruthTest(tokens[1:end], _FLAGS[value], test[-1] == "NOT")


@dataclass(frozen=True, slots=True)
class LongList:
    """`term IN (...)` with so many elements that parsing each as an expression takes too long."""

    head: list[Token]
    """The tokens with only the first element."""
    elements: list[list[Token]]


_LONG = 20


def long_list(tokens: list[Token]) -> LongList | None:
    """Return the list at the end of a leaf; None if it is short or not a plain list."""
    if len(tokens) < 2 * _LONG or tokens[-1].token_type is not TokenType.R_PAREN:
        return None
    start = next((index for index, token in enumerate(tokens) if token.token_type is TokenType.IN), len(tokens))
    opening = start + 1
    if not 1 < opening < len(tokens) or (_pairs(tokens) or {}).get(opening) != len(tokens) - 1:
        return None
    parts = list(elements(tokens[opening + 1 : -1]))
    if len(parts) < _LONG or not all(parts) or parts[0][0].token_type in _QUERY:
        return None
    return LongList([*tokens[: opening + 1], *parts[0], tokens[-1]], parts)


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
