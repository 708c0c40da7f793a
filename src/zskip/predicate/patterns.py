"""Patterns of SQL's LIKE: the simplest leaf of each, what a match must contain, and a test of a single string."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

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

_ANY = {"%": ".*", "_": "."}
Character = tuple[str, bool]
"""A character, and whether it is literal."""


def characters(pattern: str, escape: str = "\\") -> list[Character] | None:
    """Split a pattern; None for those that Spark rejects: an escape precedes `%`, `_` or itself."""
    parts: list[Character] = []
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


def literal_prefix(parts: Iterable[Character]) -> str:
    r"""Return the text that all strings matching a pattern start with.

    >>> [literal_prefix(characters(pattern)) for pattern in ("ab%c", r"a\_b_", "%a")]
    ['ab', 'a_b', '']
    """
    return "".join(character for character, _ in itertools.takewhile(lambda part: part[1], parts))


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


def prefix_of(leaf: StartsWith | Like) -> bytes:
    """Return the UTF-8 bytes that all strings start with that make the leaf true."""
    if isinstance(leaf, StartsWith):
        return leaf.prefix
    return literal_prefix(characters(leaf.pattern, leaf.escape) or ()).encode()


def runs(pattern: str, escape: str = "\\") -> list[bytes]:
    r"""Return the runs of UTF-8 bytes that all strings matching a pattern contain.

    >>> runs(r"%ab_c\%d%%e")
    [b'ab', b'c%d', b'e']
    """
    texts = [""]
    for character, literal in characters(pattern, escape) or ():
        if literal:
            texts[-1] += character
        elif texts[-1]:
            texts.append("")
    return [text.encode() for text in texts if text]


def next_prefix(prefix: bytes) -> bytes | None:
    """Return the least byte string above all that start with `prefix`; None if there is none.

    >>> next_prefix(b"ab"), next_prefix(bytes([97, 255])), next_prefix(bytes([255]))
    (b'ac', b'b', None)
    """
    trimmed = prefix.rstrip(bytes([255]))
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def test(leaf: EndsWith | Contains | Like) -> Callable[[bytes], bool | None]:
    """Return a function that tells whether a UTF-8 string makes the leaf true; None if it cannot tell."""
    if isinstance(leaf, EndsWith):
        return lambda value: value.endswith(leaf.suffix)
    if isinstance(leaf, Contains):
        return lambda value: leaf.part in value
    parts = characters(leaf.pattern, leaf.escape)
    if parts is None:
        return lambda value: None
    matcher = re.compile("".join(re.escape(c) if literal else _ANY[c] for c, literal in parts), re.DOTALL)

    def matches(value: bytes) -> bool | None:
        try:
            return matcher.fullmatch(value.decode()) is not None
        except UnicodeDecodeError:
            return None

    return matches
