"""Options of commands: those of a verb, from its signature and docstring, and those that several commands share."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any

import typer

from zskip.errors import InputError
from zskip.options import Option, options_of

TablePath = Annotated[str, typer.Argument(metavar="PATH", help="Path of the table.")]
IndexPath = Annotated[str | None, typer.Option(metavar="DIR", help="Directory of the index, for a read-only table.")]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="Format of the table: parquet, delta, iceberg or hudi; detected by default."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

_FLAGS = {"sketches": ("--sketch",)}
"""Flags that do not have the name of their option."""
_REPEATED = ("sketches", "drop")
"""Options whose flag may be repeated; other lists are names with commas between."""
_METAVARS = {
    "compression": "CODEC",
    "drop": "SPEC",
    "into": "PATH",
    "sketches": "SPEC",
    "unseen": "SHARE",
    "where": "SQL",
    "workload": "FILE",
}
"""What stands for values in help where their type does not tell."""
_TYPES: dict[tuple[str, ...], tuple[type, str | None]] = {
    ("bool",): (bool, None),
    ("float",): (float, "N"),
    ("int",): (int, "N"),
    ("int", "str"): (str, "SIZE"),
}
_PART_OF_NAME = re.compile(r"""'[^']*'|`[^`]*`|"[^"]*"|.""", re.DOTALL)
"""A quoted text, or any other character."""
_ARGUMENT = re.compile(r'\b(\w+)="(\w+)"|`(\w+)`')


def takes_options_of(
    verb: Callable[..., Any], *, without: tuple[str, ...] = (), **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a verb, in front of its own that have no place: it gets those that are set.

    without: names of parameters that are none; defaults: where they are not those of the verb.
    """
    options = options_of(verb, without=without)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(command, include_extras=True)
        own = [p.replace(annotation=hints[p.name]) for p in inspect.signature(command).parameters.values()][:-1]
        placed = [p for p in own if p.kind is not p.KEYWORD_ONLY]
        derived = [
            _parameter(option, options, defaults.get(option.name, option.default)) for option in options.values()
        ]

        def run(**given: Any) -> None:
            values = {name: _argument(option, given.pop(name)) for name, option in options.items()}
            command(**given, **{name: value for name, value in values.items() if value is not None})

        parameters = [*placed, *derived, *own[len(placed) :]]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in parameters])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _parameter(option: Option, options: dict[str, Option], default: Any) -> inspect.Parameter:
    kind: Any
    kind, metavar = _TYPES.get(option.types, (str, "TEXT"))
    metavar = _METAVARS.get(option.name, "A,B,C" if option.is_list else metavar)
    if option.choices:
        # typer checks the names of an enumeration.
        choices = {choice: choice for choice in option.choices}
        kind, metavar = Enum(option.name, choices, type=str), "|".join(choices)
    flags: tuple[str, ...] = (flag_of(option.name),)
    if _is_repeated(option):
        kind, flags = list[str], _FLAGS.get(option.name, flags)
    if default == ():
        default = None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[
            kind | None if default is None else kind,
            typer.Option(*flags, metavar=metavar, help=_help(option, options)),
        ],
    )


def _is_repeated(option: Option) -> bool:
    return option.name in _REPEATED and option.is_list


def _help(option: Option, options: dict[str, Option]) -> str:
    return f"{name_flags(option.help, options)}{'; may be repeated' if _is_repeated(option) else ''}."


def name_flags(text: str, options: Mapping[str, Option]) -> str:
    """Write the text of a docstring about flags."""

    def flag(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return f"{flag_of(name)} {match[2] or ''}".rstrip() if name in options else match[0].replace("`", "")

    return _ARGUMENT.sub(flag, text)


def _argument(option: Option, value: Any) -> Any:
    """The value for the verb, from what the shell gave."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str) and option.is_list:
        names = column_names(value, option.name)
        # A verb that takes one name takes "auto" as well.
        return names[0] if len(names) == 1 and "str" in option.types else names
    return value


def flag_of(name: str) -> str:
    """The flag of an option."""
    return f"--{name.replace('_', '-')}"


def column_names(text: str, name: str) -> list[str]:
    """Split names at commas outside of parentheses and quotes; raises InputError for an empty one.

    >>> column_names("concat(a, lower(b)), get_json_object(js, '$.x)'), id", "by")
    ['concat(a, lower(b))', "get_json_object(js, '$.x)')", 'id']
    """
    names, depth = [""], 0
    for part in _PART_OF_NAME.findall(text):
        depth += (part in "([") - (part in ")]")
        if part == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += part
    names = [name.strip() for name in names]
    if not all(names):
        raise InputError(
            f'{flag_of(name)} "{text}" has an empty name; write columns with one comma between, such as a,b,c'
        )
    return names
