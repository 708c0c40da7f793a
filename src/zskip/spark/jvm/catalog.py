"""The tables of the session's catalog: where one lies, and what the catalog is told after a rewrite."""

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
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.relations import FileRelation, obstacle, read_relation, same_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALOG = "org.apache.spark.sql.catalyst.catalog"
_OBJECT = "java.lang.Object"
_BIG = "scala.math.BigInt"
_BYTES = re.compile(r"Some\(CatalogStatistics\((\d+),")
_OWN_LOG = ("delta", "hudi", "iceberg")
"""Providers whose tables have a log of their own: of the catalog they need the place alone."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NamedTable:
    """A table that a catalog knows by a name."""

    parts: tuple[str, ...]
    relation: FileRelation | None
    """None for a format with a log of its own."""
    root: str
    """Path of the directory, as Hadoop writes it."""
    format_name: str | None = None
    """None for what lies there."""

    @property
    def sql(self) -> str:
        """The name as SQL text."""
        return quote_name(self.parts)


def quote_name(parts: Sequence[str]) -> str:
    """A name of several parts as SQL text that means exactly these.

    >>> quoted(("db", "a`b.c"))
    '`db`.`a``b.c`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def split_name(spark: SparkSession, name: str) -> tuple[str, ...]:
    """The parts of a name as Spark's parser reads it; empty for what is no name to it."""
    try:
        found = spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(name)
    except Exception:
        return ()
    return tuple(str(part) for part in Jvm.of(spark).to_list(found))


def is_missing(error: Exception) -> bool:
    """Whether Spark says that there is no table, database or catalog of a name."""
    return any(said in str(error) for said in ("NOT_FOUND", "NoSuch", "REQUIRES_SINGLE_PART_NAMESPACE"))


def find_named_table(spark: SparkSession, parts: tuple[str, ...]) -> NamedTable:
    """The table of a name; raises what Spark raises where there is none.

    Raises UnsupportedError for views, tables of other formats, and tables that do not lie in one directory as zskip
    would leave them.
    """
    jvm, label = Jvm.of(spark), ".".join(parts)
    plan = spark.table(quote_name(parts))._jdf.queryExecution().analyzed()
    while plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    if plan.nodeName() == "View":
        raise UnsupportedError(f'"{label}" is a view; name the table under it')
    logged = _with_log(spark, parts)
    if logged is not None:
        return logged
    relation = read_relation(jvm, plan)
    if not isinstance(relation, FileRelation) or relation.catalog is None:
        reason = relation if isinstance(relation, str) else "it is no table that lies in files"
        raise UnsupportedError(f'"{label}" cannot be a table of zskip: {reason}')
    odd = obstacle(jvm, relation)
    if odd is not None:
        raise UnsupportedError(f'"{label}" cannot be a table of zskip: {odd}')
    return NamedTable(parts=parts, relation=relation, root=relation.root)


def default_path(spark: SparkSession, parts: tuple[str, ...]) -> str | None:
    """Where the session's catalog has the directory of a table that is yet to come; None for what is no name there.

    Raises InputError where the table exists, for names of other catalogs, and for such as Spark does not take.
    """
    label = ".".join(parts)
    if len(parts) == 3 and parts[0] != "spark_catalog":
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
        raise InputError(f'into="{label}" is a table already; give a new name')
    if not re.fullmatch(r"\w+", parts[-1], re.ASCII):
        raise InputError(f'into="{label}": names in spark_catalog are of letters, digits and underscores')
    return unquote(str(catalog.defaultTablePath(identifier).toString()))


def create_statement(spark: SparkSession, parts: tuple[str, ...], root: str, like: NamedTable | None) -> str:
    """The statement that gives files of plain Parquet a name; the table does not own them: to drop it leaves them.

    like: the table whose columns it has; without, they are what Spark sees there.
    """
    columns = partitioned = ""
    if like is not None:
        columns = f" ({spark.table(like.sql)._jdf.schema().toDDL()})"
        by = [quote_name([column.name]) for column in spark.catalog.listColumns(like.sql) if column.isPartition]
        partitioned = f" PARTITIONED BY ({', '.join(by)})" if by else ""
    place = root.replace("\\", "\\\\").replace("'", "\\'")
    return f"CREATE TABLE {quote_name(parts)}{columns} USING parquet{partitioned} LOCATION '{place}'"


def register_table(spark: SparkSession, parts: tuple[str, ...], creation: str) -> None:
    """Give a new table its name by a statement; a catalog that cannot be told costs a ZskipWarning."""
    name = quote_name(parts)
    try:
        spark.sql(creation)
        if any(column.isPartition for column in spark.catalog.listColumns(name)):
            spark.catalog.recoverPartitions(name)
    except Exception as error:
        warnings.warn(
            f"the new table is written, but the catalog could not be told ({first_line(error)}); run {creation}",
            ZskipWarning,
            stacklevel=6,
        )


def _identifier(jvm: Jvm, table: str, database: str) -> JavaObject:
    return jvm.find("org.apache.spark.sql.catalyst.TableIdentifier")(table, jvm.some(database))


def _with_log(spark: SparkSession, parts: tuple[str, ...]) -> NamedTable | None:
    """A table of the session's own catalog whose format keeps a log."""
    if len(parts) == 3 and parts[0] != "spark_catalog":
        return None
    jvm, catalog = Jvm.of(spark), spark._jsparkSession.sessionState().catalog()
    database = parts[-2] if len(parts) > 1 else spark.catalog.currentDatabase()
    identifier = _identifier(jvm, parts[-1], database)
    if not catalog.tableExists(identifier):
        return None
    found = catalog.getTableMetadata(identifier)
    provider = str(found.provider().get()).lower() if not found.provider().isEmpty() else ""
    if provider not in _OWN_LOG:
        return None
    return NamedTable(parts=parts, relation=None, root=unquote(str(found.location().toString())), format_name=provider)


def check_partitions(spark: SparkSession, named: NamedTable, snapshot: Snapshot) -> None:
    """Raise UnsupportedError where the catalog knows other partitions than lie in the directory."""
    if named.relation is not None and not same_partitions(spark, named.relation, snapshot):
        raise UnsupportedError(
            f'the catalog knows other partitions of "{".".join(named.parts)}" than lie in "{named.root}"; run '
            f"MSCK REPAIR TABLE {named.sql}"
        )


def notify_catalog(spark: SparkSession, named: NamedTable, snapshot: Callable[[], Snapshot]) -> None:
    """Have Spark forget which files a table had, and the catalog know how large it is now.

    snapshot: takes one of the table as it is. A rewrite keeps rows and values: their numbers and statistics stay as
    they were. A catalog that cannot be told costs a ZskipWarning.
    """
    try:
        spark.catalog.refreshTable(named.sql)
        if named.relation is not None:
            _resize(spark, named.relation, snapshot())
    except Exception as error:
        warnings.warn(
            f'the catalog could not be told what "{".".join(named.parts)}" holds now ({first_line(error)}); run '
            f"REFRESH TABLE {named.sql} and ANALYZE TABLE {named.sql} COMPUTE STATISTICS",
            ZskipWarning,
            stacklevel=5,
        )


def _resize(spark: SparkSession, relation: FileRelation, snapshot: Snapshot) -> None:
    jvm, catalog = Jvm.of(spark), spark._jsparkSession.sessionState().catalog()
    identifier = relation.catalog.identifier()
    table = catalog.getTableMetadata(identifier)
    size = int(snapshot.sizes.sum())
    if not table.stats().isEmpty() and _size(table.stats().toString()) != size:
        catalog.alterTableStats(identifier, _resized(jvm, table.stats().get(), size))
    if not table.tracksPartitionsInCatalog() or table.partitionColumnNames().isEmpty():
        return
    partitions = jvm.to_list(catalog.listPartitions(identifier, jvm.none))
    sizes = np.bincount(snapshot.partition_of, snapshot.sizes, len(snapshot.partitions)).astype(np.int64).tolist()
    of_directory = {p.directory: size for p, size in zip(snapshot.partitions, sizes, strict=True)}
    changed = jvm.list_of()
    for i, directory, known in _described(jvm, partitions, relation.root):
        now = of_directory.get(directory, 0)
        if known is not None and known != now:
            partition = partitions.get(i)
            changed.add(_partition(jvm, partition, _resized(jvm, partition.stats().get(), now)))
    if not changed.isEmpty():
        catalog.alterPartitions(identifier, jvm.seq(changed))


def _described(jvm: Jvm, partitions: JavaObject, root: str) -> list[tuple[int, str, int | None]]:
    """Place, directory below the root, and bytes of each partition; None where the catalog does not know them."""
    handles, partition = jvm.handles, f"{_CATALOG}.CatalogTablePartition"
    text = handles.virtual(_OBJECT, "toString", "java.lang.String")
    path = handles.constructor("org.apache.hadoop.fs.Path", "java.net.URI")
    location = handles.chain(handles.virtual(partition, "location", "java.net.URI"), path, text)
    stats = handles.chain(handles.virtual(partition, "stats", "scala.Option"), text)
    places = jvm.read(jvm.map(partitions, handles.function(location)))
    known = jvm.read(jvm.map(partitions, handles.function(stats)))
    start = len(root.rstrip("/")) + 1
    return [(i, place[start:], _size(said)) for i, (place, said) in enumerate(zip(places, known, strict=True))]


def _size(said: str) -> int | None:
    found = _BYTES.match(said)
    return int(found[1]) if found else None


def _resized(jvm: Jvm, stats: JavaObject, size: int) -> JavaObject:
    # Scala's large numbers become numbers of Python on the way: they are made and used without leaving the JVM.
    handles = jvm.handles
    made = handles.constructor(f"{_CATALOG}.CatalogStatistics", _BIG, "scala.Option", "scala.collection.immutable.Map")
    from_text = handles.feed(made, 0, handles.static(_BIG, "apply", _BIG, "java.lang.String"))
    rest = handles.bind(from_text, 1, stats.rowCount(), stats.colStats())
    return jvm.some(handles.function(rest).apply(str(size)))


def _partition(jvm: Jvm, partition: JavaObject, stats: JavaObject) -> JavaObject:
    return jvm.find(f"{_CATALOG}.CatalogTablePartition")(
        partition.spec(),
        partition.storage(),
        partition.parameters(),
        partition.createTime(),
        partition.lastAccessTime(),
        stats,
    )
