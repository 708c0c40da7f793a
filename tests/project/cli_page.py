"""The commands in docs/cli.md, from their help: `python tests/project/cli_page.py` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from zskip import cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
_GENERATED = re.compile(r"(?<=<!-- from the help of the commands -->\n).*?(?=## Limits)", re.DOTALL)
_SHARED = ("--index-path", "--format", "--json", "--remote")
"""Options that the head of the page explains."""


def text() -> str:
    """The page as it should be."""
    sections = "\n".join(_section(name, command) for name, command in commands())
    return _GENERATED.sub(lambda _: f"\n{sections}\n", PAGE.read_text("utf-8"))


def commands(group: Any = None, prefix: str = "zskip") -> Iterator[tuple[str, Any]]:
    """All commands with their names, those of groups included."""
    for name, command in (group or get_command(cli.app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def _section(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    own = [option for option in options if option.opts[0] not in _SHARED or "|" in (option.metavar or "")]
    title = " ".join([name, *(argument.metavar for argument in arguments)])
    words, _, example = " ".join(command.help.split()).partition(" Example: ")
    lines = [f"## {title}", "", words, "", f"    {example}", ""]
    lines += [f"- {_flags(option)}: {_help(option)}" for option in own]
    return "\n".join(lines).rstrip() + "\n"


def _flags(option: Any) -> str:
    first, *others = [*option.opts, *option.secondary_opts]
    return ", ".join(f"`{flag}`" for flag in [f"{first} {option.metavar or ''}".rstrip(), *others])


def _help(option: Any) -> str:
    default = getattr(option.default, "value", option.default)
    if default is None or isinstance(default, bool):
        return option.help
    return f"{option.help} Default: `{default}`."


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
