"""Open tables and sessions for commands, and show what they gave."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import zskip
from zskip.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_table(path: str, index_path: str | None, format_name: str | None, *, spark: bool = False) -> zskip.Table:
    """Open a table without Spark where that is possible, else through a session."""
    if spark or not (can_open_without_spark(path) and can_open_without_spark(index_path or "")):
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
    """Start or get a local Spark session."""
    from zskip.spark.jvm.session import local_session

    return local_session("zskip")


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
