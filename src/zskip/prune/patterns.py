"""Patterns of SQL's LIKE: what a match must start with, and whether one given string matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from zskip.predicate import Contains, EndsWith, Like

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
