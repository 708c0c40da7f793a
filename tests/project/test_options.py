"""Every option of a verb, as its signature and docstring have it, is one of SQL and the shell, or it says why not."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import zskip
from zskip import cli
from zskip.layout.builds import BUILDS
from zskip.layout.curves import CURVES
from zskip.options import Option, options_of
from zskip.sql.statements.statement import read_statement
from zskip.table.refresh_index import COLLECTORS, GRANULARITIES
from zskip.table.write.write import MODES

SQL_PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
VERBS: dict[str, Callable[..., Any]] = {"write": zskip.write} | {
    name: member
    for name, member in vars(zskip.Table).items()
    if not name.startswith("_") and inspect.isfunction(member)
}
COMMANDS = {"what_if": "what-if"}
NO_COMMAND = {
    "append": "rows come from files: write --mode append",
    "describe_index": "sql with DESCRIBE SKIPPING INDEX",
    "df": "query",
    "plan": "files --json, and explain",
    "plot": "report",
    "prune": "files --json",
    "workload": "a group of commands: show, clear",
}
NOT_IN_SHELL = {
    ("write", "df"): "the argument SOURCE",
    ("files", "deletes"): "what deletes rows is for engines, from Python",
    ("record", "on"): "the argument on|off",
    ("report", "path"): "--output, since PATH is the table",
}
OTHER_DEFAULTS = {("index", "collect"): "footers, which need no Spark"}
STATEMENTS = {
    "compact": "OPTIMIZE t WITH ({})",
    "maintain": "OPTIMIZE t INCREMENTAL WITH ({})",
    "optimize": "OPTIMIZE t ZORDER BY a WITH ({})",
    "write": "CREATE TABLE t CLUSTER BY a WITH ({}) AS SELECT 1",
}
CLAUSES = {
    ("compact", "where"): "WHERE",
    ("maintain", "by"): "ZORDER BY",
    ("optimize", "by"): "ZORDER BY",
    ("optimize", "curve"): "HILBERT BY",
    ("optimize", "where"): "WHERE",
    ("write", "branch"): "INSERT INTO catalog.db.t.branch_x; a new table has no branches",
    ("write", "by"): "CLUSTER BY",
    ("write", "df"): "AS SELECT",
    ("write", "format"): "USING",
    ("write", "partition_by"): "PARTITIONED BY",
    ("write", "target"): "the name after CREATE TABLE",
    ("write", "mode"): "INSERT INTO appends; a statement that overwrites is Spark's",
}
NO_OPTIONS_IN_SQL = {
    "advise": "advice is for Python and the shell",
    "append": "INSERT INTO is Spark's statement",
    "clean": "files are no matter of SQL",
    "describe_index": "DESCRIBE SKIPPING INDEX; it has no options",
    "df": "a query",
    "explain": "EXPLAIN SKIPPING takes a query, and does not run it",
    "files": "EXPLAIN SKIPPING",
    "history": "for Python and the shell",
    "index": "CREATE and DROP SKIPPING INDEX list sketches; their sizes are for Python and the shell",
    "info": "for Python and the shell",
    "plan": "EXPLAIN SKIPPING",
    "plot": "a picture",
    "prune": "EXPLAIN SKIPPING",
    "record": "for Python and the shell",
    "report": "a file",
    "verify": "WHERE; other random queries are for Python and the shell",
    "what_if": "for Python and the shell",
    "workload": "for Python and the shell",
}
VALUES = {"bool": "true", "float": "0.5", "int": "3"}

OPTIONS = [(verb, option) for verb, function in VERBS.items() for option in options_of(function).values()]
IDS = [f"{verb}-{option.name}" for verb, option in OPTIONS]


def test_every_verb_is_here_once() -> None:
    assert {*NO_COMMAND} <= {*VERBS}
    assert {*VERBS} == {*STATEMENTS, *NO_OPTIONS_IN_SQL}
    assert not {*STATEMENTS} & {*NO_OPTIONS_IN_SQL}
    known = {(verb, option.name) for verb, option in OPTIONS}
    assert {*NOT_IN_SHELL, *OTHER_DEFAULTS, *CLAUSES} <= known


@pytest.mark.parametrize(("verb", "option"), OPTIONS, ids=IDS)
def test_the_shell_takes_it(verb: str, option: Option) -> None:
    if verb in NO_COMMAND or (verb, option.name) in NOT_IN_SHELL:
        return
    command: Any = get_command(cli.app)
    for name in COMMANDS.get(verb, verb).split():
        command = command.commands[name]
    (parameter,) = (parameter for parameter in command.params if parameter.name == option.name)
    if option.choices:
        kind, *_ = typing.get_args(inspect.signature(command.callback).parameters[option.name].annotation)
        (choices,) = (
            each for each in (kind, *typing.get_args(kind)) if isinstance(each, type) and issubclass(each, Enum)
        )
        assert tuple(choice.value for choice in choices) == option.choices
    assert parameter.required == (option.default is inspect.Parameter.empty)
    if not parameter.required and (verb, option.name) not in OTHER_DEFAULTS:
        default = getattr(parameter.default, "value", parameter.default)
        assert (default or None) == (option.default or None)
    if (verb, option.name) != ("write", "target"):
        assert not re.search(r'`|\bas in\b|\w="', parameter.help), "a sentence for a shell, not for Python"
        assert re.fullmatch(r'["A-Z0-9].+\.', parameter.help)
        assert len(parameter.help) <= 200


@pytest.mark.parametrize(("verb", "option"), OPTIONS, ids=IDS)
def test_sql_takes_it(verb: str, option: Option) -> None:
    if verb in NO_OPTIONS_IN_SQL or (verb, option.name) in CLAUSES:
        return
    text = VALUES.get(option.types[0], "'x'")
    statement: Any = read_statement(STATEMENTS[verb].format(f"{option.name} = {text}"))
    ((name, value),) = statement.options
    assert name == option.name
    assert value == {"true": True, "0.5": 0.5, "3": 3, "'x'": ("x",) if option.is_list else "x"}[text]
    section = re.search(rf"\n## {STATEMENTS[verb].split()[0]}\b(.*?)\n## ", SQL_PAGE.read_text(), re.DOTALL)
    assert section is not None
    assert f"`{option.name}`" in section[1] or f"{option.name} = " in section[1]


def test_a_text_explains_every_option() -> None:
    silent = [(verb, option.name) for verb, option in OPTIONS if not option.help]
    assert not silent


CHECKED = {
    ("index", "collect"): COLLECTORS,
    ("index", "granularity"): GRANULARITIES,
    ("maintain", "sketches"): ("auto",),
    ("optimize", "build"): BUILDS,
    ("optimize", "curve"): ("auto", *CURVES),
    ("optimize", "sampling"): ("bernoulli", "reservoir"),
    ("what_if", "curve"): ("auto", *CURVES),
    ("write", "curve"): ("auto", *CURVES),
    ("write", "format"): ("parquet", "delta", "iceberg"),
    ("write", "mode"): MODES,
}


def test_the_choices_of_a_docstring_are_those_that_are_checked() -> None:
    choices = {(verb, option.name): sorted(option.choices) for verb, option in OPTIONS if option.choices}
    assert choices == {at: sorted(values) for at, values in CHECKED.items()}


class Table:
    """Stands for the class of that name."""

    def one(self, a: int, *, b: int | str | None = None, c: str = "x", d: bool = False) -> None:
        """Do one thing: a: is no option here.

        Args:
            a: How many, or
                more: over two lines. For Python, too.
            b: Either.

            d: "x" or "y". For Python: "z".

        c: is no option here.
        """

    def two(self, a: int, b: str = "") -> None:
        """Do another.

        Args:
            b: As in `Table.one`.
            a: this
        """


def test_a_docstring_is_read_as_the_convention_has_it() -> None:
    options = options_of(Table.one)
    assert {name: option.text for name, option in options.items()} == {
        "a": "How many, or more: over two lines. For Python, too.",
        "b": "Either.",
        "c": "",
        "d": '"x" or "y". For Python: "z".',
    }
    helps = [option.help for option in options.values()]
    assert helps == ["How many, or more: over two lines", "Either", "", '"x" or "y"']
    assert [option.choices for option in options.values()] == [(), (), (), ("x", "y", "z")]
    assert [option.types for option in options.values()] == [("int",), ("int", "str"), ("str",), ("bool",)]
    assert options["a"].default is inspect.Parameter.empty
    other = options_of(Table.two, without=("a",))
    assert [*other] == ["b"]
    assert other["b"].text == "Either."
