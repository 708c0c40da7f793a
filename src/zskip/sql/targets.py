"""The table that a statement names: by a path, or by a name that the session's catalog knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zskip.errors import TableNotFoundError, UnsupportedError
from zskip.formats import FORMATS
from zskip.spark.jvm.compat import check_session
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.sql.queries.relations import FileRelation, obstacle, read_relation, same_partitions
from zskip.sql.statements.parser import Target
from zskip.sql.statements.text import quoted
from zskip.table import Table
from zskip.table.address import find_catalog, in_catalog
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHER_FORMATS = ("orc", "csv", "json", "text", "avro", "binaryFile")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Found:
    """A table of Parquet files, and how Spark knows it."""

    handle: Handle
    table: Table
    name: tuple[str, ...] = ()
    """In the catalog; empty for a path."""

    def refresh(self, spark: SparkSession) -> None:
        """Let Spark forget which files it saw in the table."""
        if self.name:
            spark.catalog.refreshTable(quoted(self.name))
        spark.catalog.refreshByPath(self.table.path)


def find_table(spark: SparkSession, target: Target) -> Found:
    """Open the table that a statement is about.

    Raises TableNotFoundError where there is none, and UnsupportedError for views, tables of other formats and tables
    that do not lie in one directory as zskip would leave them.
    """
    check_session(spark)
    if target.path is not None:
        return _at(spark, target.path)
    catalog = find_catalog(".".join(target.parts), spark)
    if catalog is not None:
        handle = in_catalog(catalog, spark, None)
        return Found(handle=handle, table=Table(handle))
    relation = _named(spark, target)
    if relation is None:
        format_name, path = target.parts
        return _at(spark, path, format_name=format_name.lower())
    reason = obstacle(Jvm.of(spark), relation)
    if reason is not None:
        raise UnsupportedError(f'"{target}" cannot be a table of zskip: {reason}')
    found = _at(spark, relation.root, target.parts)
    if not same_partitions(spark, relation, found.handle.format.snapshot()):
        raise UnsupportedError(
            f'the catalog knows other partitions of "{target}" than lie in "{relation.root}"; run '
            f"MSCK REPAIR TABLE {quoted(target.parts)}"
        )
    return found


def _at(spark: SparkSession, path: str, name: tuple[str, ...] = (), format_name: str | None = None) -> Found:
    from zskip.spark.jvm.hadoop import storage_for

    handle = Handle(storage_for(spark, path), spark, format_name=format_name)
    return Found(handle=handle, table=Table(handle), name=name)


def _named(spark: SparkSession, target: Target) -> FileRelation | None:
    """What a name stands for in the catalog; None for a format and a path, such as delta.`/data/t`."""
    try:
        plan = _plan(spark, target.parts)
    except Exception as error:
        kind = target.parts[0].lower() if len(target.parts) == 2 else ""
        if kind == "parquet" or (kind in FORMATS and "/" in target.parts[1]):
            return None
        if kind in _OTHER_FORMATS and "/" in target.parts[1]:
            known = ", ".join(FORMATS)
            raise UnsupportedError(f'"{target}" is of the format {kind}; zskip works on {known}') from error
        if "NOT_FOUND" in str(error) or "NoSuch" in str(error):
            raise TableNotFoundError(
                f"no table \"{target}\"; check the name, or give a path: '/data/t' or parquet.`/data/t`"
            ) from error
        raise UnsupportedError(
            f'"{target}" cannot be a table of zskip: {str(error).strip().splitlines()[0]}'
        ) from error
    return _relation(Jvm.of(spark), plan, target)


def _plan(spark: SparkSession, parts: tuple[str, ...]) -> JavaObject:
    if (
        len(parts) == 2
        and parts[0].lower() in (*FORMATS, *_OTHER_FORMATS)
        and not spark.catalog.databaseExists(quoted(parts[:1]))
    ):
        raise LookupError("a path")
    return spark.table(quoted(parts))._jdf.queryExecution().analyzed()


def _relation(jvm: Jvm, plan: JavaObject, target: Target) -> FileRelation:
    while plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    if plan.nodeName() == "View":
        raise UnsupportedError(f'"{target}" is a view; name the table under it')
    relation = read_relation(jvm, plan)
    if isinstance(relation, FileRelation) and relation.catalog is not None:
        return relation
    reason = relation if isinstance(relation, str) else "it is no table that lies in files"
    raise UnsupportedError(f'"{target}" cannot be a table of zskip: {reason}')
