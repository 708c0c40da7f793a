"""Patterns of SQL's LIKE to the simplest leaf that says the same."""

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
"""A character, and whether it stands for itself."""


def like(term: Term, pattern: str, escape: str = "\\") -> Predicate | None:
    r"""`term LIKE pattern ESCAPE escape` for a string; None for patterns that Spark refuses.

    >>> from zskip.types import DataType
    >>> from zskip.predicate.tree import Column
    >>> like(Column(("s",), DataType("string")), r"100\%%").prefix
    b'100%'
    """
    parts = _parts(pattern, escape)
    if parts is None:
        return None
    text = "".join(character for character, itself in parts if itself).encode()
    shape = "".join("x" if itself else character for character, itself in _merged(parts))
    if shape in ("", "x"):
        return Compare("=", term, text)
    if shape in ("%", "x%"):
        return StartsWith(term, text)
    if shape == "%x":
        return EndsWith(term, text)
    return Contains(term, text) if shape == "%x%" else Like(term, pattern, escape)


def like_of_any_escape(term: Term, pattern: str, sql: str) -> Predicate | None:
    """The same of a pattern whose escape is not known: Spark 3.5 prints none.

    The strings that match start, whatever the escape, with what all readings of the pattern have in common.
    """
    others = [found for character in set(pattern) - {*_ANY, "\\"} if (found := _parts(pattern, character)) is not None]
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
    """The characters of a pattern; None where an escape stands before anything but `%`, `_` and itself."""
    found: list[_Part] = []
    rest = iter(pattern)
    for character in rest:
        if character != escape:
            found.append((character, character not in _ANY))
            continue
        following = next(rest, None)
        if following is None or following not in (*_ANY, escape):
            return None
        found.append((following, True))
    return found


def _merged(parts: list[_Part]) -> Iterator[_Part]:
    """The parts with runs of literal characters, and of `%`, as one."""
    last: _Part | None = None
    for character, itself in parts:
        part = ("x", True) if itself else (character, False)
        if part != last or part == ("_", False):
            yield part
        last = part


def literal_prefix(pattern: str, escape: str = "\\") -> str:
    r"""What all strings that match a pattern start with.

    >>> literal_prefix(r"a\_b%c")
    'a_b'
    """
    return _literal_prefix(_parts(pattern, escape) or [])


def _literal_prefix(parts: list[_Part]) -> str:
    prefix = ""
    for character, itself in parts:
        if not itself:
            break
        prefix += character
    return prefix


def _common_prefix(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    return first[: next((i for i, c in enumerate(first) if c != last[i]), len(first))]
