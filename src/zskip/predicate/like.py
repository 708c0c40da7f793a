"""Turns patterns of SQL's LIKE into the simplest equivalent leaf."""

from __future__ import annotations

from collections.abc import Iterator

from zskip.predicate.patterns import Character, characters, literal_prefix
from zskip.predicate.tree import (
    And,
    Compare,
    Contains,
    EndsWith,
    Like,
    Predicate,
    StartsWith,
    Term,
    Unknown,
)


def like(term: Term, pattern: str, escape: str = "\\") -> Predicate | None:
    r"""Read `term LIKE pattern ESCAPE escape` for a string; None for patterns that Spark rejects.

    >>> from zskip.types import DataType
    >>> from zskip.predicate.tree import Column
    >>> like(Column(("s",), DataType("string")), r"100\%%").prefix
    b'100%'
    """
    parts = characters(pattern, escape)
    if parts is None:
        return None
    text = "".join(character for character, literal in parts if literal).encode()
    shape = "".join("x" if literal else character for character, literal in _merge_runs(parts))
    if shape in ("", "x"):
        return Compare("=", term, text)
    if shape in ("%", "x%"):
        return StartsWith(term, text)
    if shape == "%x":
        return EndsWith(term, text)
    return Contains(term, text) if shape == "%x%" else Like(term, pattern, escape)


def like_with_any_escape(term: Term, pattern: str, sql: str) -> Predicate | None:
    """Read a pattern whose escape is unknown, since Spark 3.5 does not print it.

    With any escape, a matching string starts with the common prefix of all readings of the pattern.
    """
    escapes = set(pattern) - {"%", "_", "\\"}
    others = [reading for escape in escapes if (reading := characters(pattern, escape)) is not None]
    plain = characters(pattern, "\\")
    if not others and plain is not None:
        return like(term, pattern)
    readings = others if plain is None else [*others, plain]
    if not readings:
        return None
    prefix = _common_prefix([literal_prefix(parts) for parts in readings])
    if not prefix:
        return None
    return And((StartsWith(term, prefix.encode()), Unknown(sql, "a pattern with any escape")))


def _merge_runs(parts: list[Character]) -> Iterator[Character]:
    """Merge runs of literal characters, and of `%`."""
    last: Character | None = None
    for character, literal in parts:
        part = ("x", True) if literal else (character, False)
        if part != last or part == ("_", False):
            yield part
        last = part


def _common_prefix(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    return first[: next((i for i, c in enumerate(first) if c != last[i]), len(first))]
