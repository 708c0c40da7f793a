"""Open the table that a statement names, by a path or by a name in the session's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.errors import TableNotFoundError, UnsupportedError
from zskip.formats import FORMATS
from zskip.spark.jvm.catalog import quote_name
from zskip.sql.statements.parser import Target
from zskip.table.address import open_name, open_path
from zskip.table.handle import Handle, classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHER_FORMATS = ("orc", "csv", "json", "text", "avro", "binaryFile")


def find_table(spark: SparkSession, target: Target) -> Handle:
    """Open the table that a statement is about.

    Raises TableNotFoundError where there is none, and UnsupportedError for views, tables of other formats, tables
    that do not lie in one directory as zskip would leave them, and versions of a table that are no branches.
    """
    jvm_session = classic(spark)
    if target.path is None:
        handle = _open_named(spark, jvm_session, target)
    else:
        handle = open_path(target.path, jvm_session, None, None)
    return handle.attach(spark, target.path)


def refresh(handle: Handle) -> None:
    """Let Spark forget the files that it listed at the table's path."""
    handle.need_session("a statement").catalog.refreshByPath(handle.address)


def _open_named(spark: SparkSession, jvm_session: SparkSession | None, target: Target) -> Handle:
    """Open the table of a name, or of a format and a path, such as delta.`/data/t`."""
    handle = None if _may_be_path(spark, target.parts) else open_name(target.parts, jvm_session)
    if handle is not None:
        return handle
    kind = target.parts[0].lower() if len(target.parts) == 2 else ""
    if kind == "parquet" or (kind in FORMATS and "/" in target.parts[1]):
        return open_path(target.parts[1], jvm_session, None, kind)
    if kind in _OTHER_FORMATS and "/" in target.parts[1]:
        raise UnsupportedError(f'"{target}" is of the format {kind}; zskip works on {", ".join(FORMATS)}')
    raise TableNotFoundError(f"no table \"{target}\"; check the name, or give a path: '/data/t' or parquet.`/data/t`")


def _may_be_path(spark: SparkSession, parts: tuple[str, ...]) -> bool:
    return (
        len(parts) == 2
        and parts[0].lower() in (*FORMATS, *_OTHER_FORMATS)
        and not spark.catalog.databaseExists(quote_name(parts[:1]))
    )
