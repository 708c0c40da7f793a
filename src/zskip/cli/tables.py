"""Open tables and sessions for commands, and show what they gave."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

import zskip
from zskip.cli.app import app
from zskip.cli.options import AsJson, FormatName, IndexPath, TablePath, name_flags, takes_options_of
from zskip.cli.remote import REMOTE, remote_session
from zskip.errors import InputError
from zskip.options import options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_table(path: str, index_path: str | None, format_name: str | None, *, spark: bool = False) -> zskip.Table:
    """Open a table without Spark where that is possible and no server is named, else through a session."""
    if spark or REMOTE.get() or not (can_open_without_spark(path) and can_open_without_spark(index_path or "")):
        return zskip.table(start_session(), path, index_path=index_path, format=format_name)
    return zskip.open(path, index_path=index_path, format=format_name)


def can_open_without_spark(path: str) -> bool:
    """Whether zskip reaches a path without Spark."""
    from importlib.util import find_spec

    from zskip.storage import is_remote

    scheme, separator, _ = path.partition("://")
    if scheme.lower() == "hdfs":
        return find_spec("hdfs_native") is not None or find_spec("pyspark") is None
    return not separator or scheme == "file" or is_remote(path)


def start_session() -> SparkSession:
    """The session of the server that `--remote` or PySpark's own variable names, or a local one."""
    url = os.environ.get("SPARK_REMOTE") if REMOTE.get() is None else REMOTE.get()
    if url is not None:
        return remote_session(url)
    from zskip.spark.jvm.session import local_session

    return local_session("zskip")


def table_command(
    verb: Callable[..., Any],
    example: str,
    *,
    name: str | None = None,
    starts_spark: Callable[[Mapping[str, Any]], bool] = lambda options: False,
    more: str = "",
    adds: tuple[str, ...] = (),
) -> None:
    """Make a command of a method of `Table`: with its options, explained as its docstring does; it prints the result.

    starts_spark: whether it needs a session, by its options; more: what else to say of the command; adds: properties of
    the result for the JSON document. It exits with 1 if a result has an `ok` that is false.
    """

    def run(
        path: TablePath,
        *,
        index_path: IndexPath = None,
        format_name: FormatName = None,
        as_json: AsJson = False,
        **options: Any,
    ) -> None:
        table = open_table(path, index_path, format_name, spark=starts_spark(options))
        result = getattr(table, verb.__name__)(**options)
        show(result, as_json, **{name: getattr(result, name) for name in adds})
        if not getattr(result, "ok", True):
            raise typer.Exit(1)

    summary = name_flags(inspect.cleandoc(verb.__doc__ or "").partition("\n\n")[0], options_of(verb))
    run.__name__ = name or verb.__name__
    run.__doc__ = "\n\n".join(filter(None, (summary, more, f"Example: zskip {run.__name__} {example}")))
    app.command(name=run.__name__)(takes_options_of(verb)(run))


def show(result: object, as_json: bool, **more: object) -> None:
    """Print what a call gave, for people, or as one JSON document with `more` entries."""
    from zskip.cli.show import plain, print_json, print_result

    print_json({**plain(result), **more}) if as_json else print_result(result)


@contextlib.contextmanager
def explain_spark_errors() -> Iterator[None]:
    """Raise Spark's error about a user's query as one sentence."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise InputError(f"Spark refuses the query: {str(error).strip().splitlines()[0]}") from error
