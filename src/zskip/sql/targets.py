"""Open the table that a statement names, by a path or by a name in the session's catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zskip.errors import TableNotFoundError, UnsupportedError
from zskip.formats import FORMATS
from zskip.spark.jvm.catalog import NamedTable, check_partitions, find_named_table, is_missing, quote_name
from zskip.spark.jvm.compat import check_session
from zskip.sql.statements.parser import Target
from zskip.table import Table
from zskip.table.address import find_catalog, open_in_catalog
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHER_FORMATS = ("orc", "csv", "json", "text", "avro", "binaryFile")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TargetTable:
    """The table of a statement."""

    handle: Handle
    table: Table

    def refresh(self, spark: SparkSession) -> None:
        """Let Spark forget the files that it listed at the table's path."""
        spark.catalog.refreshByPath(self.table.path)


def find_table(spark: SparkSession, target: Target) -> TargetTable:
    """Open the table that a statement is about.

    Raises TableNotFoundError where there is none, and UnsupportedError for views, tables of other formats and tables
    that do not lie in one directory as zskip would leave them.
    """
    check_session(spark)
    if target.path is not None:
        return _open_at(spark, target.path)
    catalog = find_catalog(".".join(target.parts), spark)
    if catalog is not None:
        handle = open_in_catalog(catalog, spark, None)
        return TargetTable(handle=handle, table=Table(handle))
    named = _find_named(spark, target)
    if named is None:
        format_name, path = target.parts
        return _open_at(spark, path, format_name=format_name.lower())
    table = _open_at(spark, named.root, named, named.format_name)
    check_partitions(spark, named, table.handle.format.snapshot)
    return table


def _open_at(
    spark: SparkSession, path: str, named: NamedTable | None = None, format_name: str | None = None
) -> TargetTable:
    from zskip.spark.jvm.hadoop import storage_for

    handle = Handle(storage_for(spark, path), spark, format_name=format_name, catalog_table=named)
    return TargetTable(handle=handle, table=Table(handle))


def _find_named(spark: SparkSession, target: Target) -> NamedTable | None:
    """Find a name in the catalog; None for a format and a path, such as delta.`/data/t`."""
    try:
        if _may_be_path(spark, target.parts):
            raise LookupError("a path")
        return find_named_table(spark, target.parts)
    except UnsupportedError:
        raise
    except Exception as error:
        kind = target.parts[0].lower() if len(target.parts) == 2 else ""
        if kind == "parquet" or (kind in FORMATS and "/" in target.parts[1]):
            return None
        if kind in _OTHER_FORMATS and "/" in target.parts[1]:
            supported = ", ".join(FORMATS)
            raise UnsupportedError(f'"{target}" is of the format {kind}; zskip works on {supported}') from error
        if is_missing(error):
            raise TableNotFoundError(
                f"no table \"{target}\"; check the name, or give a path: '/data/t' or parquet.`/data/t`"
            ) from error
        raise UnsupportedError(
            f'"{target}" cannot be a table of zskip: {str(error).strip().splitlines()[0]}'
        ) from error


def _may_be_path(spark: SparkSession, parts: tuple[str, ...]) -> bool:
    return (
        len(parts) == 2
        and parts[0].lower() in (*FORMATS, *_OTHER_FORMATS)
        and not spark.catalog.databaseExists(quote_name(parts[:1]))
    )
