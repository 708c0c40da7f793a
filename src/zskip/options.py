"""The options of a verb, from its signature and docstring: SQL and the shell accept, check and explain these.

A docstring explains options as `name: text; other, another: text`, at the start of a paragraph or after a semicolon or
full stop. The first clause of a text, up to a semicolon or full stop, is for everybody; what follows is for Python.
"as in `verb`" stands for the text of another method of `Table`. A text that begins in quotes lists all the choices.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ELSEWHERE = re.compile(r"as in `(?:Table\.)?(\w+)`")
_CLAUSE_END = re.compile(r"[;.](?:\s|$)")
_CHOICE = re.compile(r'"(\w+)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A parameter of a verb."""

    name: str
    types: tuple[str, ...]
    """As the signature writes them, without None."""
    default: Any
    """`inspect.Parameter.empty` where the caller must give a value."""
    text: str
    """What the docstring says."""

    @property
    def help(self) -> str:
        """What everybody needs to know: the first clause of the text."""
        return _CLAUSE_END.split(self.text, maxsplit=1)[0]

    @property
    def choices(self) -> tuple[str, ...]:
        """All possible values; empty where there are others than the text names."""
        return tuple(dict.fromkeys(_CHOICE.findall(self.text))) if self.text.startswith('"') else ()

    @property
    def is_list(self) -> bool:
        """Whether it takes several names."""
        return "Sequence[str]" in self.types


def options_of(verb: Callable[..., Any], *, without: tuple[str, ...] = ()) -> dict[str, Option]:
    """Read the options of `zskip.write` or of a method of `Table`; without: names of parameters that are none.

    >>> from zskip import Table
    >>> option = options_of(Table.compact)["min_file_size"]
    >>> option.types, option.default, option.help
    (('int', 'str'), None, 'leave files of this size or more alone, by default half of the target')
    """
    return {
        name: Option(
            name=name,
            types=tuple(kind for kind in parameter.annotation.split(" | ") if kind != "None"),
            default=parameter.default,
            text=_find_text(verb, name),
        )
        for name, parameter in inspect.signature(verb).parameters.items()
        if name not in ("self", *without)
    }


def _find_text(verb: Callable[..., Any], name: str) -> str:
    text = _read_texts(verb).get(name, "")
    elsewhere = _ELSEWHERE.match(text)
    if elsewhere is None:
        return text
    return _find_text(getattr(inspect.unwrap(verb).__globals__["Table"], elsewhere[1]), name)


@functools.cache
def _read_texts(verb: Callable[..., Any]) -> dict[str, str]:
    name = rf"(?:{'|'.join(inspect.signature(verb).parameters)})"
    entry = re.compile(rf"(?:^|(?<=[;.] ))({name}(?:(?:, | or ){name})*): ")
    texts: dict[str, str] = {}
    for paragraph in inspect.cleandoc(verb.__doc__ or "").split("\n\n"):
        _, *parts = entry.split(paragraph.replace("\n", " "))
        for names, text in zip(parts[::2], parts[1::2], strict=True):
            texts |= dict.fromkeys(re.split(", | or ", names), text.strip().rstrip(".;"))
    return texts
