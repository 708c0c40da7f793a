"""Tables of the session's catalog: their directories, and how the catalog learns of a rewrite."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np

from zskip.errors import InputError, UnsupportedError, ZskipWarning
from zskip.formats.schema import first_line
from zskip.records import Snapshot
from zskip.spark.jvm.compat import active_session
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.compiled.lists import read_columns
from zskip.spark.jvm.failures import translated
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.relations import FileRelation, read_relation, same_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_CATALOG = "spark_catalog"
_PROVIDERS_WITH_LOG = ("delta", "hudi", "iceberg")
"""Providers with a log of their own: zskip only needs the location of their tables from the catalog."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NamedTable:
    """A table with a name in a catalog."""

    parts: tuple[str, ...]
    relation: FileRelation | None
    """None for a format with a log of its own."""
    root: str
    """Path of the directory, as Hadoop writes it."""
    format_name: str | None = None
    """None where the files show it."""

    @property
    def sql(self) -> str:
        """The name as SQL text."""
        return quote_name(self.parts)


def quote_name(parts: Sequence[str]) -> str:
    """A name of several parts as SQL text.

    >>> quote_name(("db", "a`b.c"))
    '`db`.`a``b.c`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def split_name(spark: SparkSession, name: str) -> tuple[str, ...]:
    """The parts of a name as Spark's parser reads them; empty where it finds no name."""
    from pyspark.errors import ParseException

    try:
        parts = spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(name)
    except ParseException:
        return ()
    return tuple(str(part) for part in Jvm.of(spark).items(parts))


def qualified_name(spark: SparkSession, parts: Sequence[str]) -> tuple[str, ...]:
    """A name with its catalog, and for a single part with its namespace, as Spark completes them."""
    # Spark's `isCatalogRegistered` denies catalogs that cannot be reached.
    has_catalog = parts[0] == DEFAULT_CATALOG or spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None
    if len(parts) > 1 and has_catalog:
        return tuple(parts)
    manager = spark._jsparkSession.sessionState().catalogManager()
    with translated("find the session's current catalog"):
        namespace = () if len(parts) > 1 else tuple(str(part) for part in manager.currentNamespace())
        return (str(manager.currentCatalog().name()), *namespace, *parts)


def is_missing(error: Exception) -> bool:
    """Whether an error of Spark means that a table, database or catalog does not exist."""
    return any(message in str(error) for message in ("NOT_FOUND", "NoSuch", "REQUIRES_SINGLE_PART_NAMESPACE"))


def find_named_table(spark: SparkSession, parts: tuple[str, ...]) -> NamedTable:
    """Look up a table by its name; raises what Spark raises where there is none.

    Raises UnsupportedError for views, tables of other formats, and tables that are not in one directory as zskip would
    leave them.
    """
    jvm, label = Jvm.of(spark), ".".join(parts)
    plan = spark.table(quote_name(parts))._jdf.queryExecution().analyzed()
    while (kind := plan.nodeName()) == "SubqueryAlias":
        plan = plan.child()
    if kind == "View":
        raise UnsupportedError(f'"{label}" is a view; name the table under it')
    relation = read_relation(jvm, plan)
    if not _is_plain(relation):
        log_table = _find_log_table(spark, parts)
        if log_table is not None:
            return log_table
    if isinstance(relation, str):
        raise UnsupportedError(f'"{label}" cannot be opened: {relation}')
    return NamedTable(parts=parts, relation=relation, root=relation.root)


def default_path(spark: SparkSession, parts: tuple[str, ...]) -> str | None:
    """The directory that the session's catalog would give a new table; None where it could not have this name.

    Raises InputError where the table exists, for names in other catalogs, and for names that Spark rejects.
    """
    label = ".".join(parts)
    if len(parts) == 3 and parts[0] != DEFAULT_CATALOG:
        if spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is None:
            return None
        raise InputError(
            f'into="{label}" is a name in the catalog {parts[0]}; give a path, or a name in spark_catalog, for a new '
            "table of plain Parquet"
        )
    catalog = spark._jsparkSession.sessionState().catalog()
    if not 2 <= len(parts) <= 3 or not catalog.databaseExists(parts[-2]):
        return None
    identifier = _identifier(Jvm.of(spark), parts[-1], parts[-2])
    if catalog.tableExists(identifier):
        raise InputError(f'into="{label}" already exists; give a new name')
    if not re.fullmatch(r"\w+", parts[-1], re.ASCII):
        raise InputError(f'into="{label}": names in spark_catalog consist of letters, digits and underscores')
    return unquote(str(catalog.defaultTablePath(identifier).toString()))


def create_statement(
    spark: SparkSession, parts: tuple[str, ...], root: str, like: NamedTable | None, format_name: str
) -> str:
    """The statement that names the files of a table; dropping the table leaves the files, which it does not own.

    like: the table whose columns the new table takes; by default Spark infers them from the files.
    """
    columns = partitioned = ""
    if like is not None:
        columns = f" ({spark.table(like.sql)._jdf.schema().toDDL()})"
        by = [quote_name([column.name]) for column in spark.catalog.listColumns(like.sql) if column.isPartition]
        partitioned = f" PARTITIONED BY ({', '.join(by)})" if by else ""
    location = root.replace("\\", "\\\\").replace("'", "\\'")
    return f"CREATE TABLE {quote_name(parts)}{columns} USING {format_name}{partitioned} LOCATION '{location}'"


def register_table(spark: SparkSession, parts: tuple[str, ...], statement: str) -> None:
    """Run the statement that names a new table; warns with a ZskipWarning where the catalog refuses."""
    name = quote_name(parts)
    try:
        spark.sql(statement)
        if any(column.isPartition for column in spark.catalog.listColumns(name)):
            spark.catalog.recoverPartitions(name)
    except Exception as error:
        warnings.warn(
            f"the new table is written, but the catalog did not register it ({first_line(error)}); run {statement}",
            ZskipWarning,
            stacklevel=6,
        )


def _identifier(jvm: Jvm, table: str, database: str) -> JavaObject:
    return jvm.find("org.apache.spark.sql.catalyst.TableIdentifier")(table, jvm.some(database))


def _is_plain(relation: FileRelation | str) -> bool:
    """Whether a relation is surely of a table without a log, so that the catalog need not be asked again."""
    return isinstance(relation, FileRelation) and str(relation.catalog.provider().toString()).lower() == "some(parquet)"


def _find_log_table(spark: SparkSession, parts: tuple[str, ...]) -> NamedTable | None:
    """A table in the session's own catalog whose format has a log; None for other tables."""
    catalog_name, *namespace, table = qualified_name(spark, parts)
    if catalog_name != DEFAULT_CATALOG or len(namespace) != 1:
        return None
    jvm, catalog = Jvm.of(spark), spark._jsparkSession.sessionState().catalog()
    identifier = _identifier(jvm, table, namespace[0])
    if not catalog.tableExists(identifier):
        return None
    metadata = catalog.getTableMetadata(identifier)
    provider = str(metadata.provider().get()).lower() if not metadata.provider().isEmpty() else ""
    if provider not in _PROVIDERS_WITH_LOG:
        return None
    return NamedTable(
        parts=parts, relation=None, root=unquote(str(metadata.location().toString())), format_name=provider
    )


def check_partitions(spark: SparkSession, named: NamedTable, snapshot: Callable[[], Snapshot]) -> None:
    """Raise UnsupportedError where the catalog's partitions differ from those in the directory.

    snapshot: reads the current snapshot of the table, where the catalog keeps partitions.
    """
    if named.relation is not None and not same_partitions(spark, named.relation, snapshot):
        raise UnsupportedError(
            f'the catalog lists other partitions of "{".".join(named.parts)}" than "{named.root}" holds; run '
            f"MSCK REPAIR TABLE {named.sql}"
        )


def forget_listings(spark: SparkSession) -> None:
    """Make the session list the files of its catalog's tables anew: it keeps them by name, and not by path."""
    spark._jsparkSession.sessionState().catalog().invalidateAllCachedTables()


def notify_catalog(spark: SparkSession, named: NamedTable, snapshot: Callable[[], Snapshot]) -> None:
    """Make Spark forget the files that a table had, and update the table's size and its partitions in the catalog.

    snapshot: reads the current snapshot of the table. A rewrite keeps all rows and values, so row counts and column
    statistics stay valid. Warns with a ZskipWarning where the catalog refuses.
    """
    try:
        # Formats read settings from the active session, which may be another one of the caller's.
        with active_session(spark):
            spark.catalog.refreshTable(named.sql)
            if named.relation is not None:
                _update_sizes(spark, named, named.relation, snapshot())
    except Exception as error:
        warnings.warn(
            f'the catalog did not learn of the new files of "{".".join(named.parts)}" ({first_line(error)}); run '
            f"REFRESH TABLE {named.sql} and ANALYZE TABLE {named.sql} COMPUTE STATISTICS",
            ZskipWarning,
            stacklevel=5,
        )


def _update_sizes(spark: SparkSession, named: NamedTable, relation: FileRelation, snapshot: Snapshot) -> None:
    jvm, catalog = Jvm.of(spark), spark._jsparkSession.sessionState().catalog()
    identifier, java = relation.catalog.identifier(), singleton(jvm, "CatalogPartitions")
    table = catalog.getTableMetadata(identifier)
    size = int(snapshot.sizes.sum())
    if not table.stats().isEmpty() and table.stats().get().sizeInBytes() != size:
        catalog.alterTableStats(identifier, invoke(jvm, java, "resized", table.stats().get(), str(size)))
    if not table.tracksPartitionsInCatalog() or table.partitionColumnNames().isEmpty():
        return
    partitions = jvm.to_list(catalog.listPartitions(identifier, jvm.none))
    sizes = np.bincount(snapshot.partition_of, snapshot.sizes, len(snapshot.partitions)).astype(np.int64).tolist()
    size_by_directory = {p.directory: size for p, size in zip(snapshot.partitions, sizes, strict=True)}
    changed, directories = jvm.list_of(), set()
    paths = jvm.read(invoke(jvm, java, "paths", partitions))
    (sizes_in_catalog,) = read_columns(jvm, partitions, "stats.sizeInBytes.toString")
    for i, (path, size_in_catalog) in enumerate(zip(paths, sizes_in_catalog, strict=True)):
        directory = path[len(relation.root.rstrip("/")) + 1 :]
        directories.add(directory)
        size = size_by_directory.get(directory, 0)
        if size_in_catalog not in (None, str(size)):
            partition = partitions.get(i)
            stats = invoke(jvm, java, "resized", partition.stats().get(), str(size))
            changed.add(invoke(jvm, java, "withStats", partition, stats))
    if not changed.isEmpty():
        catalog.alterPartitions(identifier, jvm.seq(changed))
    if size_by_directory.keys() - directories:
        spark.catalog.recoverPartitions(named.sql)
