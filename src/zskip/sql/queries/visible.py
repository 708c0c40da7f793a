"""Queries in which zskip's tables are read through its own choice of files; in all else they stay as Spark has them."""

from __future__ import annotations

import dataclasses
import logging
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zskip.errors import ZskipError, ZskipWarning
from zskip.index import BoundIndex
from zskip.predicate import Predicate
from zskip.records import Field, PruneResult, ScanReport
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import storage_for
from zskip.spark.jvm.relations import (
    FileRelation,
    columns_with_defaults,
    is_own,
    obstacle,
    read_relation,
    same_partitions,
)
from zskip.spark.scan.filters.catalyst import Filters
from zskip.spark.scan.filters.constants import prune_filters
from zskip.spark.scan.logical import exchanged, frame_of, leaves
from zskip.spark.scan.rule.file_index import OnFilters, PrunedFileIndex, Pruning
from zskip.spark.scan.rule.plans import planned_index
from zskip.spark.schema import TableSchema, read_schema
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.read.query import recording
from zskip.table.session import is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("zskip.sql")

INDEX_HOME = "_zskip"

OnScan = Callable[[str, ScanReport], None]
"""Takes a table's name or path, and what a scan of it read."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Source:
    """A table of a query, read through zskip."""

    label: str
    schema: TableSchema
    stats: BoundIndex
    case_sensitive: bool
    on_filters: OnFilters | None = None
    """Notes scans for the table's workload."""


MakeIndex = Callable[["SparkSession", Source, Pruning], JavaObject]
"""Gives a `FileIndex` in the JVM."""


def plain_index(spark: SparkSession, source: Source, pruning: Pruning) -> JavaObject:
    """The index that a query reads through."""
    return planned_index(spark, PrunedFileIndex(spark, source.schema, pruning))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Seen:
    """A query with zskip's tables in it, and those of its tables that are not read through zskip."""

    frame: DataFrame
    left: tuple[tuple[str, str], ...] = ()
    """Name and reason of each."""


def visible(
    spark: SparkSession,
    frame: DataFrame,
    on_scan: OnScan | None = None,
    make_index: MakeIndex = plain_index,
    *,
    own: bool = False,
) -> Seen:
    """The same query with zskip's tables read through zskip; what was a command has run, and stays as it is.

    own: exchange those, too, that come from `Table.df()` and are read through zskip already.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    try:
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        return _Exchange(spark, on_scan, make_index, own).apply(frame)
    except Exception as error:
        _log.warning("the query is left to Spark\n%s", traceback.format_exc())
        _warn(f"zskip could not look into this query, so Spark reads every file ({_first_line(error)})")
        return Seen(frame=frame)


class _Exchange:
    """Exchanges the relations of one query; each table is looked at once."""

    def __init__(self, spark: SparkSession, on_scan: OnScan | None, make_index: MakeIndex, own: bool) -> None:
        self._spark = spark
        self._jvm = Jvm.of(spark)
        self._on_scan = on_scan
        self._make_index = make_index
        self._own = own
        self._indexes: dict[tuple[str, str, str], JavaObject] = {}
        self._left: dict[str, str] = {}

    def apply(self, frame: DataFrame) -> Seen:
        execution = frame._jdf.queryExecution()
        # Commands in it have run, and are no more than their results here.
        plan = execution.commandExecuted()
        pairs = []
        cached = self._uncached_leaves(execution)
        for leaf in leaves(self._jvm, plan):
            relation = read_relation(self._jvm, leaf)
            if isinstance(relation, FileRelation):
                if cached is not None and not any(leaf.equals(other) for other in cached):
                    self._left[relation.label] = "Spark has it cached"
                    continue
                other = self._other(relation)
                if other is not None:
                    pairs.append((leaf, other))
            elif relation is not None:
                self._left.setdefault(str(leaf.nodeName()), relation)
        made = frame_of(self._spark, exchanged(self._spark, plan, pairs)) if pairs else frame
        return Seen(frame=made, left=tuple(self._left.items()))

    def _uncached_leaves(self, execution: JavaObject) -> list[JavaObject] | None:
        """The leaves that Spark reads rather than to take them from its cache; None where it caches nothing."""
        if self._spark._jsparkSession.sharedState().cacheManager().isEmpty():
            return None
        return list(leaves(self._jvm, execution.withCachedData()))

    def _other(self, relation: FileRelation) -> JavaObject | None:
        """The leaf that takes a relation's place; None where Spark is to read it."""
        files = relation.files
        if is_own(relation) and not self._own:
            return None
        key = (relation.root, files.dataSchema().json(), files.partitionSchema().json())
        if key not in self._indexes:
            self._indexes[key] = self._index(relation)
        index = self._indexes[key]
        if index is None:
            return None
        leaf = relation.leaf
        arguments = [leaf.productElement(i) for i in range(1, leaf.productArity())]
        return leaf.copy(_over(self._spark, self._jvm, relation, index), *arguments)

    def _index(self, relation: FileRelation) -> JavaObject | None:
        storage = storage_for(self._spark, relation.root)
        if storage.stat(INDEX_HOME) is None:
            self._left[relation.label] = "zskip has not indexed it"
            return None
        reason = None if is_own(relation) else obstacle(self._jvm, relation)
        if reason is None:
            try:
                source = self._source(Handle(storage, self._spark, format_name="parquet"), relation)
            except ZskipError as error:
                reason = str(error)
            else:
                if source is not None:
                    return self._make_index(self._spark, source, self._pruning(source))
                reason = "the catalog knows other partitions than lie in its directory"
        self._left[relation.label] = reason
        _warn(f"{relation.label} is read in full: {reason}")
        return None

    def _source(self, handle: Handle, relation: FileRelation) -> Source | None:
        files = relation.files
        found = handle.format.snapshot()
        schema = read_schema(self._spark, found, declared=(files.dataSchema(), files.partitionSchema()))
        if not same_partitions(self._spark, relation, found):
            return None
        defaults = columns_with_defaults(files.dataSchema())
        # Files that lack such a column do not hold nulls, so nothing is said of it.
        fields = tuple(field for field in schema.snapshot.fields if field.name not in defaults)
        snapshot = dataclasses.replace(schema.snapshot, fields=fields)
        return Source(
            label=relation.label,
            schema=schema,
            stats=bind_index(handle, snapshot),
            case_sensitive=is_case_sensitive(handle),
            on_filters=recording(handle, snapshot),
        )

    def _pruning(self, source: Source) -> Pruning:
        def prune(filters: Filters) -> PruneResult:
            sensitive = source.case_sensitive
            return prune_filters(source.stats, filters, fields_of(source), case_sensitive=sensitive)

        def on_scan(report: ScanReport) -> None:
            if self._on_scan is not None:
                self._on_scan(source.label, report)

        return Pruning(
            prune=prune,
            stats=source.stats,
            rows=source.stats.rows,
            on_scan=on_scan,
            on_filters=source.on_filters,
        )


def predicate_of(source: Source, filters: Filters) -> Predicate:
    """Filters of a scan as a predicate over the columns of its table."""
    return filters.predicate(fields_of(source), case_sensitive=source.case_sensitive)


def fields_of(source: Source) -> tuple[Field, ...]:
    """All columns of a table."""
    return (*source.stats.snapshot.fields, *source.stats.snapshot.partition_fields)


def _over(spark: SparkSession, jvm: Jvm, relation: FileRelation, index: JavaObject) -> JavaObject:
    """The same `HadoopFsRelation` over other files."""
    files = relation.files
    return jvm.find("org.apache.spark.sql.execution.datasources.HadoopFsRelation")(
        index,
        files.partitionSchema(),
        files.dataSchema(),
        jvm.none,
        files.fileFormat(),
        files.options(),
        spark._jsparkSession,
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _warn(text: str) -> None:
    warnings.warn(text, ZskipWarning, stacklevel=2)
