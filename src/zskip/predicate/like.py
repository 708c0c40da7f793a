"""Turns patterns of SQL's LIKE into the simplest equivalent leaf."""

from __future__ import annotations

from collections.abc import Iterator

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

_ANY = ("%", "_")
_Part = tuple[str, bool]
"""A character, and whether it is literal."""


def like(term: Term, pattern: str, escape: str = "\\") -> Predicate | None:
    r"""Read `term LIKE pattern ESCAPE escape` for a string; None for patterns that Spark rejects.

    >>> from zskip.types import DataType
    >>> from zskip.predicate.tree import Column
    >>> like(Column(("s",), DataType("string")), r"100\%%").prefix
    b'100%'
    """
    parts = _parts(pattern, escape)
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
    escapes = set(pattern) - {*_ANY, "\\"}
    others = [reading for escape in escapes if (reading := _parts(pattern, escape)) is not None]
    plain = _parts(pattern, "\\")
    if not others and plain is not None:
        return like(term, pattern)
    readings = others if plain is None else [*others, plain]
    if not readings:
        return None
    prefix = _common_prefix([_literal_prefix(parts) for parts in readings])
    if not prefix:
        return None
    return And((StartsWith(term, prefix.encode()), Unknown(sql, "a pattern with any escape")))


def _parts(pattern: str, escape: str) -> list[_Part] | None:
    """Split a pattern into characters; None if an escape precedes anything but `%`, `_`, or itself."""
    parts: list[_Part] = []
    rest = iter(pattern)
    for character in rest:
        if character != escape:
            parts.append((character, character not in _ANY))
            continue
        following = next(rest, None)
        if following is None or following not in (*_ANY, escape):
            return None
        parts.append((following, True))
    return parts


def _merge_runs(parts: list[_Part]) -> Iterator[_Part]:
    """Merge runs of literal characters, and of `%`."""
    last: _Part | None = None
    for character, literal in parts:
        part = ("x", True) if literal else (character, False)
        if part != last or part == ("_", False):
            yield part
        last = part


def literal_prefix(pattern: str, escape: str = "\\") -> str:
    r"""Return the text that all strings matching a pattern start with.

    >>> literal_prefix(r"a\_b%c")
    'a_b'
    """
    return _literal_prefix(_parts(pattern, escape) or [])


def _literal_prefix(parts: list[_Part]) -> str:
    prefix = ""
    for character, literal in parts:
        if not literal:
            break
        prefix += character
    return prefix


def _common_prefix(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    return first[: next((i for i, c in enumerate(first) if c != last[i]), len(first))]
