"""Patterns of SQL's LIKE: the prefix and the texts that a match must contain, and a test of a single string."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from zskip.predicate.tree import Contains, EndsWith, Like

_ANY = {"%": ".*", "_": "."}


def literal_prefix(pattern: str, escape: str = "\\") -> bytes:
    r"""Return the UTF-8 bytes that all strings matching a pattern start with.

    >>> literal_prefix("ab%c"), literal_prefix(r"a\_b_"), literal_prefix("%a")
    (b'ab', b'a_b', b'')
    """
    prefix = []
    for character, literal in _characters(pattern, escape):
        if not literal:
            break
        prefix.append(character)
    return "".join(prefix).encode()


def runs(pattern: str, escape: str = "\\") -> list[bytes]:
    r"""Return the runs of UTF-8 bytes that all strings matching a pattern contain.

    >>> runs(r"%ab_c\%d%%e")
    [b'ab', b'c%d', b'e']
    """
    texts = [""]
    for character, literal in _characters(pattern, escape):
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
    matcher = re.compile(_regex(leaf.pattern, leaf.escape), re.DOTALL)

    def matches(value: bytes) -> bool | None:
        try:
            return matcher.fullmatch(value.decode()) is not None
        except UnicodeDecodeError:
            return None

    return matches


def _regex(pattern: str, escape: str) -> str:
    return "".join(re.escape(c) if literal else _ANY[c] for c, literal in _characters(pattern, escape))


def _characters(pattern: str, escape: str) -> Iterator[tuple[str, bool]]:
    """Yield each character, and whether it is literal."""
    rest = iter(pattern)
    for character in rest:
        if escape and character == escape:
            yield next(rest, escape), True
        else:
            yield character, character not in _ANY
