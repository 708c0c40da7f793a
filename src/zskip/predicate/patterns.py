"""Patterns of SQL's LIKE: what a match must start with and hold, and whether one given string matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from zskip.predicate.tree import Contains, EndsWith, Like

_ANY = {"%": ".*", "_": "."}


def literal_prefix(pattern: str, escape: str = "\\") -> bytes:
    r"""The UTF-8 bytes that all strings which match a pattern start with.

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
    r"""The UTF-8 bytes that all strings which match a pattern hold, as long as they stand together.

    >>> runs(r"%ab_c\%d%%e")
    [b'ab', b'c%d', b'e']
    """
    found = [""]
    for character, literal in _characters(pattern, escape):
        if literal:
            found[-1] += character
        elif found[-1]:
            found.append("")
    return [run.encode() for run in found if run]


def next_prefix(prefix: bytes) -> bytes | None:
    """The least byte string above all that start with `prefix`; None where there is none.

    >>> next_prefix(b"ab"), next_prefix(bytes([97, 255])), next_prefix(bytes([255]))
    (b'ac', b'b', None)
    """
    kept = prefix.rstrip(bytes([255]))
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def test(leaf: EndsWith | Contains | Like) -> Callable[[bytes], bool | None]:
    """A function that says whether a string in UTF-8 makes the leaf true; None where it cannot tell."""
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
    """Each character, and whether it stands for itself."""
    rest = iter(pattern)
    for character in rest:
        if escape and character == escape:
            yield next(rest, escape), True
        else:
            yield character, character not in _ANY
