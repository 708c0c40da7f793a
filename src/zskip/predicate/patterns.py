"""Patterns of SQL's LIKE: the prefix and the texts that a match must contain, and a test of a single string."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable

from zskip.predicate.tree import Contains, EndsWith, Like, StartsWith

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
