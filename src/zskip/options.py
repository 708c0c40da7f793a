"""The options of a verb, from its signature and docstring: SQL and the shell accept, check and explain these.

A docstring explains them in its section `Args:`. The first sentence of a text is for everybody, the rest for Python.
"As in `verb`" stands for the text of another method of `Table`. A text that begins in quotes lists all the choices.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ELSEWHERE = re.compile(r"As in `(?:Table\.)?(\w+)`")
_SECTION = re.compile(r"^Args:\n((?: .*\n?|\n)*)", re.MULTILINE)
_SENTENCE_END = re.compile(r"\.(?:\s|$)")
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
        """What everybody needs to know: the first sentence of the text."""
        return _SENTENCE_END.split(self.text, maxsplit=1)[0]

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
    (('int', 'str'), None, 'Leave files of this size or more alone; by default half of the target')
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
    section = _SECTION.search(inspect.cleandoc(verb.__doc__ or ""))
    entries = re.split(r"\n(?=    \w)", section[1].strip("\n")) if section else []
    return {name.strip(): " ".join(text.split()) for name, _, text in (entry.partition(": ") for entry in entries)}
