"""The words of a predicate: where AND, OR, NOT and their parentheses split it, without recursion.

Catalyst writes a chain of a thousand ORs with a thousand parentheses inside each other; sqlglot, which descends into
each, reads only what stands between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import TokenType
from sqlglot.dialects.dialect import Dialect

from zskip.errors import PredicateError
from zskip.predicate.tree import And, Not, Or, Predicate, Unknown

Token = Any
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_JOINING = {TokenType.AND, TokenType.OR}
_QUERY = {TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.FROM, TokenType.TABLE}
_PREFIX = {TokenType.DASH, TokenType.PLUS, TokenType.NOT, TokenType.TILDE}
_WHOLE = {TokenType.DAMP, TokenType.XOR}
"""Operators that Spark does not have: where one stands nothing is split."""
_DEEPEST_LEAF = 50
_DEEPEST = 100
"""Operators inside each other; whatever walks along the tree later does so by recursion."""


def tokens_of(sql: str) -> list[Token]:
    """The tokens of a text. Raises PredicateError where it is none of SQL, or more than one statement."""
    try:
        found = list(Dialect.get_or_raise("spark").tokenize(sql))
    except sqlglot.errors.SqlglotError as error:
        raise PredicateError(f'cannot read the predicate "{shortened(sql)}": {error}') from error
    if any(token.token_type is TokenType.SEMICOLON for token in found):
        raise PredicateError(f'cannot read the predicate "{shortened(sql)}": it holds a semicolon; give one condition')
    return found


def shortened(sql: str, most: int = 500) -> str:
    """A text for people, cut where it is long."""
    return sql if len(sql) <= most else f"{sql[:most]}..."


def split(sql: str, tokens: list[Token], leaf: Callable[[list[Token]], Predicate]) -> Predicate:
    """The predicate that a text writes; its leaves are read by `leaf`, which finds what is missing."""
    pairs = _pairs(tokens)
    if pairs is None or any(token.token_type in _WHOLE for token in tokens):
        return leaf(tokens)
    groups = [_Group(len(tokens))]
    place = 0
    while True:
        negated = False
        while place < len(tokens) and tokens[place].token_type is TokenType.NOT:
            negated, place = not negated, place + 1
        group = groups[-1]
        if _is_group(tokens, pairs, place, group.end):
            groups.append(_Group(pairs[place], negated))
            place += 1
            continue
        start, place = place, _leaf_end(tokens, pairs, place, group.end)
        if start == place:
            leaf(tokens)  # Most often it says what is missing.
            raise PredicateError(f'cannot read the predicate "{shortened(sql)}": a part is missing')
        found = _Part(leaf(tokens[start:place]), 0)
        while True:
            group.add(found.negated() if negated else found)
            if place < group.end:
                group.join(tokens[place].token_type is TokenType.OR)
                place += 1
                break
            found, negated = group.close(sql), group.negated
            groups.pop()
            if not groups:
                return found.predicate
            group, place = groups[-1], place + 1


def is_deep(tokens: list[Token]) -> bool:
    """Whether a leaf is nested so deeply that its reader, which descends into it, might not return."""
    depth = run = cases = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        run = run + 1 if kind in _PREFIX else 0
        cases += kind is TokenType.CASE
        if max(depth, run, cases) > _DEEPEST_LEAF:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Part:
    predicate: Predicate
    depth: int

    def negated(self) -> _Part:
        if isinstance(self.predicate, Not):
            return _Part(self.predicate.child, self.depth - 1)
        return _Part(Not(self.predicate), self.depth + 1)


@dataclass(slots=True)
class _Group:
    """What stands between two parentheses: a disjunction of conjunctions."""

    end: int
    negated: bool = False
    parts: list[list[_Part]] = field(default_factory=lambda: [[]])

    def add(self, part: _Part) -> None:
        self.parts[-1].append(part)

    def join(self, alternative: bool) -> None:
        if alternative:
            self.parts.append([])

    def close(self, sql: str) -> _Part:
        return _joined(Or, [_joined(And, parts, sql) for parts in self.parts], sql)


def _joined(kind: type[And | Or], parts: list[_Part], sql: str) -> _Part:
    """Parts under one operator; what is under the same operator already is taken as it is."""
    if len(parts) == 1:
        return parts[0]
    children: list[Predicate] = []
    for part in parts:
        children += part.predicate.children if isinstance(part.predicate, kind) else [part.predicate]
    depth = max(part.depth - isinstance(part.predicate, kind) for part in parts) + 1
    if depth > _DEEPEST:
        return _Part(Unknown(shortened(sql, 200), "nested too deeply"), 0)
    return _Part(kind(tuple(children)), depth)


def _pairs(tokens: list[Token]) -> dict[int, int] | None:
    """The place of the closing parenthesis for each opening one; None where they do not match."""
    found, opened = {}, []
    for place, token in enumerate(tokens):
        if token.token_type in _OPENING:
            opened.append(place)
        elif token.token_type in _CLOSING:
            if not opened:
                return None
            found[opened.pop()] = place
    return None if opened else found


def _is_group(tokens: list[Token], pairs: dict[int, int], place: int, end: int) -> bool:
    """Whether a parenthesis at the start of an operand holds a condition: nothing is done with what it holds."""
    if place >= end or tokens[place].token_type is not TokenType.L_PAREN:
        return False
    behind = pairs[place] + 1
    alone = behind == end or tokens[behind].token_type in _JOINING
    return alone and tokens[place + 1].token_type not in _QUERY


def _leaf_end(tokens: list[Token], pairs: dict[int, int], place: int, end: int) -> int:
    """Where a leaf ends: at the next AND or OR that belongs to no BETWEEN, CASE or parenthesis in it."""
    betweens = cases = 0
    while place < end:
        kind = tokens[place].token_type
        if kind is TokenType.CASE:
            cases += 1
        elif kind is TokenType.END and cases:
            cases -= 1
        elif kind is TokenType.BETWEEN and not cases:
            betweens += 1
        elif kind in _JOINING and not cases:
            if kind is TokenType.OR or not betweens:
                return place
            betweens -= 1
        place = pairs.get(place, place) + 1
    return place


def has_plain_units(tokens: list[Token], units: Collection[str]) -> bool:
    """Whether `date_trunc` and `trunc` are given literal units of these names alone.

    Of others sqlglot makes what Spark does not: of `M` a minute, and of a column that is called `day` the unit.
    """
    pairs = _pairs(tokens) or {}
    for place, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        if name not in ("date_trunc", "trunc") or tokens[place + 1].token_type is not TokenType.L_PAREN:
            continue
        end = pairs.get(place + 1, place + 1)
        unit, comma = (place + 2, place + 3) if name == "date_trunc" else (end - 1, end - 2)
        if comma >= len(tokens) or tokens[unit].token_type is not TokenType.STRING:
            return False
        if tokens[comma].token_type is not TokenType.COMMA or tokens[unit].text.upper() not in units:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Tested:
    """`(condition) IS [NOT] TRUE`, FALSE or NULL, or `<=>` any of these."""

    condition: list[Token]
    value: bool | None
    negated: bool


_FLAGS = {"TRUE": True, "FALSE": False, "NULL": None}


def tested(tokens: list[Token]) -> Tested | None:
    """What a leaf tests a condition for; None where it does something else."""
    end = (_pairs(tokens) or {}).get(0)
    if end is None or tokens[0].token_type is not TokenType.L_PAREN or tokens[1].token_type in _QUERY:
        return None
    *test, value = [token.text.upper() for token in tokens[end + 1 :]] or [""]
    if test not in (["IS"], ["IS", "NOT"], ["<=>"]) or value not in _FLAGS:
        return None
    return Tested(tokens[1:end], _FLAGS[value], test[-1] == "NOT")


@dataclass(frozen=True, slots=True)
class LongList:
    """`term IN (...)` of so many elements that reading each as an expression takes too long."""

    head: list[Token]
    """With the first element alone."""
    elements: list[list[Token]]


_LONG = 20


def long_list(tokens: list[Token]) -> LongList | None:
    """The list at the end of a leaf; None where it is short, or not a plain list."""
    if len(tokens) < 2 * _LONG or tokens[-1].token_type is not TokenType.R_PAREN:
        return None
    start = next((place for place, token in enumerate(tokens) if token.token_type is TokenType.IN), len(tokens))
    opening = start + 1
    if opening >= len(tokens) or (_pairs(tokens) or {}).get(opening) != len(tokens) - 1:
        return None
    parts = list(elements(tokens[opening + 1 : -1]))
    if len(parts) < _LONG or not all(parts) or parts[0][0].token_type in _QUERY:
        return None
    return LongList([*tokens[: opening + 1], *parts[0], tokens[-1]], parts)


def elements(tokens: list[Token]) -> Iterator[list[Token]]:
    """What stands between the commas."""
    start = depth = 0
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.COMMA and not depth:
            yield tokens[start:place]
            start = place + 1
        elif kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth -= 1
    yield tokens[start:]
