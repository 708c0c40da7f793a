"""Files, or the rows of a DataFrame, through Arrow: the conditions, the tasks, and the files that they wrote."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zskip.errors import ZskipError
from zskip.formats.compression import Compression, arrow_codec
from zskip.formats.footers.traits import ARROW_SCHEMA, NO_TRAITS, FileTraits
from zskip.layout.joining import join_segments, side_by_side
from zskip.layout.layout import Layout
from zskip.layout.pages import PageOrder
from zskip.records import DataFile, Field, Ints, ReadableFiles, Sample, Snapshot
from zskip.spark.forms import free_name, quote_identifier
from zskip.spark.jvm import compat
from zskip.spark.jvm.arrays import frame_of_texts, lookup
from zskip.spark.jvm.failures import text_with_causes
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.jvm.versions import SessionVersions
from zskip.spark.schema import TableSchema, columns_json, name_as_stored
from zskip.spark.shipping import ship
from zskip.spark.write.arrow.access import Reach, reach_of
from zskip.spark.write.arrow.dividing import Joining, writer
from zskip.spark.write.arrow.placing import SHIPPED, Placement, key_positions, placer, row_placer
from zskip.spark.write.arrow.reading import Reader, describe_tasks, find_columns
from zskip.spark.write.arrow.rows import merger, row_writer
from zskip.spark.write.arrow.schema import (
    FIELD_ID,
    LONG_DIGITS,
    NotArrow,
    NotReadable,
    arrow_schema,
    check_pyarrow,
    foreign_type,
    limit_in,
    same_values,
    without_ids,
)
from zskip.spark.write.arrow.sorting import decode
from zskip.spark.write.arrow.spool import SPOOLED, Spool, spool_placer, spooler
from zskip.spark.write.arrow.tasks import TASKS_A_CORE, group_files, source_of, split_into_tasks
from zskip.spark.write.arrow.writing import SUFFIXES, WRITTEN, FileOptions
from zskip.spark.write.draw import count_by_group
from zskip.spark.write.key_bounds import KeyBounds, MakeBounds, sketched_keys
from zskip.spark.write.keys import with_computed_keys, with_tie
from zskip.spark.write.routing import routes
from zskip.spark.write.sizing import SAMPLED_BYTES, SAMPLED_FILES, SAMPLED_ROWS, Sizes, estimate_sizes
from zskip.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.excludedRules": "",
    # A row is a batch of many: few of them fill the memory of the JVM.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8",
    **compat.SHORT_SHUFFLES,
}
_ROWS_SETTINGS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.optimizer.excludedRules": "",
}
"""Of the plan of a DataFrame."""
_ROWS_A_BATCH, _BATCH_MEMORY, _EXPANSION = 16_384, 16 << 20, 8
"""The most rows and the most bytes of memory in a batch of a DataFrame for Python, and about how many bytes of memory
one byte in files becomes at most."""
_NO_LIMIT = (1 << 31) - 1
_READ = "zskip_read"
_OURS = {"block.size", "page.row.count.limit", "summary.metadata.level", "compression"}
"""Settings of Parquet's writer that a rewrite chooses."""
_CHANGE_VALUES = (
    "spark.sql.parquet.writeLegacyFormat",
    "spark.sql.parquet.binaryAsString",
)
_FAILURES = (
    (
        re.compile(
            r"No module named '(pyarrow|numpy|pandas|obstore|hdfs_native)|must be installed|"
            r"Can't get attribute '\w+' on <module 'pyarrow|module 'pyarrow[\w.]*' has no attribute"
        ),
        "executors have no pyarrow, or one that is too old",
    ),
    (re.compile("MissingDependencyError"), "executors do not reach its storage"),
    (re.compile("Python worker exited unexpectedly"), "a Python worker crashed"),
)
"""Failures of executors that lack something only Arrow needs."""


class Recomputed(Exception):
    """A task that placed rows ran once more for a lost executor, and rows of both runs came: they may be others."""


class Written(NamedTuple):
    """A new file, as reported by the task that wrote it."""

    file: int
    name: str
    rows: int
    bytes: int


class RowsWritten(NamedTuple):
    """What has become of a DataFrame, or of files."""

    files: list[Written]
    rows: int
    """Rows that have been read."""


@dataclass(frozen=True, kw_only=True)
class _ArrowJob:
    """Where and how to write new files."""

    spark: SparkSession
    target: Storage
    staging: str
    """Directory of the new files, relative to the target."""
    compression: Compression
    page_rows: int
    traits: FileTraits = NO_TRAITS
    """What new files keep of old ones."""

    def _check_session(self) -> None:
        """Raise NotArrow if the session writes in a way that pyarrow does not."""
        check_pyarrow()
        if self.compression.codec not in SUFFIXES:
            raise NotArrow(f"pyarrow does not write {self.compression.codec} as Spark does")
        for name in _CHANGE_VALUES:
            if self._conf(name).lower() == "true":
                raise NotArrow(f"the session sets {name}")
        others = sorted(compat.parquet_settings(self.spark) - _OURS)
        if others:
            raise NotArrow(f"the session sets parquet.{others[0]}")

    def _conf(self, name: str) -> str:
        return str(self.spark.conf.get(name))

    def _file_options(
        self,
        schema: pa.Schema,
        schema_json: str,
        row_bytes: float,
        page_order: PageOrder | None = None,
        make_bounds: MakeBounds | None = None,
    ) -> FileOptions:
        reach = reach_of(self.target)
        if reach is None:
            raise NotArrow(f'executors reach "{self.target.root}" only through Spark')
        return FileOptions(
            reach=reach,
            directory=self.staging,
            schema=schema,
            codec=self.compression.codec,
            level=self.compression.level,
            page_rows=self.page_rows,
            row_bytes=row_bytes,
            metadata={
                "org.apache.spark.version": self.spark.version,
                "org.apache.spark.sql.parquet.row.metadata": schema_json,
            },
            page_order=page_order,
            make_bounds=make_bounds,
            **self._kept_traits(schema),
        )

    def _kept_traits(self, schema: pa.Schema) -> dict[str, Any]:
        """The options by which new files keep what `traits` says of the columns of a schema."""
        types = {name: foreign_type(kind) for name, kind in self.traits.types if name in schema.names}
        stored = [types.get(field.name, field.type) for field in schema]
        keys = dict(self.traits.keys)
        for content in self.traits.arrow_schema:
            noted = pa.ipc.read_schema(pa.py_buffer(content))
            if noted.names == schema.names and all(map(same_values, noted.types, stored)):
                keys[ARROW_SCHEMA] = base64.b64encode(content)
        return {"types": types, "keys": keys, "bloom_filters": self.traits.bloom_filters}

    @contextmanager
    def _explain_failures(self) -> Iterator[None]:
        """Raise a failure as NotArrow if Spark may do better."""
        try:
            yield
        except Exception as error:
            text = text_with_causes(error)
            limits = [limit_in(text), *(NotArrow(reason) for known, reason in _FAILURES if known.search(text))]
            limit = next(filter(None, limits), None)
            if limit is None:
                raise
            raise limit from error


@dataclass(frozen=True, kw_only=True)
class ArrowRewrite(_ArrowJob):
    """The files to rewrite, and where and how to write the new ones."""

    schema: TableSchema
    """Only the files to rewrite."""
    readable: ReadableFiles
    """How they are read."""
    source: Storage
    rows: int
    """Rows of all files to rewrite."""

    def write_by_layout(self, layout: Layout) -> RowsWritten:
        """Write every row to the file that a layout assigns; raises NotArrow if Spark itself has to write.

        Tasks may also leave files that they do not report: a commit must leave those out.
        """
        schema = self._check()
        snapshot, options = self.schema.snapshot, self._options(schema, layout.page_order)
        cores = compat.cores(self.spark)
        placement = Placement(
            schema=schema,
            named=arrow_schema(self.schema.data_json),
            layout=layout,
            files=layout.file_count,
            files_a_group=group_files(layout.file_count, snapshot.bytes, cores),
        )
        tasks = split_into_tasks(snapshot, self.readable, TASKS_A_CORE * cores)
        place = placer(placement, self._reach_source(), corrected=self._corrected(), matching=self.readable.matching)
        write = writer(options, placement.files_a_group)
        session = compat.session_for_files(self.spark, _SETTINGS)
        with self._explain_failures():
            shipped = frame_of_texts(session, describe_tasks(tasks)).mapInArrow(ship(place), SHIPPED)
            return _collect(route_batches(shipped, placement), write)

    def write_merged(self, bins: Sequence[Ints]) -> RowsWritten:
        """Write the rows of the files of each bin, one after another, into one file; raises as
        `write_by_layout`.

        bins: for each new file the positions of its files in the snapshot.
        """
        schema = self._check()
        snapshot = self.schema.snapshot
        tasks = [[source_of(file, self.readable) for file in snapshot.take(positions)] for positions in bins]
        merge = merger(
            self._options(schema), self._reach_source(), corrected=self._corrected(), matching=self.readable.matching
        )
        session = compat.session_for_files(self.spark, _SETTINGS)
        with self._explain_failures():
            frame = frame_of_texts(session, describe_tasks(tasks))
            return _collect(frame, merge)

    def estimate_sizes(self, sample: Sample) -> Sizes:
        """Estimate what the rows will take in new files; raises as `write_by_layout`.

        sample: of keys, none of which is an expression.
        """
        schema, snapshot = self._check(), self.schema.snapshot
        numbers = np.linspace(0, len(snapshot) - 1, min(len(snapshot), SAMPLED_FILES)).astype(np.int64)
        access, corrected, few = self._reach_source()(), self._corrected(), SAMPLED_ROWS // len(numbers)

        def first_rows(file: DataFile) -> list[pa.RecordBatch]:
            reader = Reader(access, schema, corrected=corrected, matching=self.readable.matching, few=few)
            batch = next(reader.batches(source_of(file, self.readable)), None)
            if batch is None:
                return []
            most = int(SAMPLED_BYTES / len(numbers) * batch.num_rows / max(batch.nbytes, 1))
            return [decode(batch.slice(0, max(most, 1)))]

        with ThreadPoolExecutor(len(numbers)) as pool:
            batches = [batch for some in pool.map(first_rows, snapshot.take(numbers)) for batch in some]
        if not batches:
            raise NotArrow("the first rows of its files are deleted")
        rows = pa.Table.from_batches(batches)
        named, options = arrow_schema(self.schema.data_json), self._options(schema)
        return estimate_sizes(rows, named, options, sample, self.rows, snapshot.bytes)

    def _check(self) -> pa.Schema:
        """Check the session and a file, and return the new schema; raises NotArrow if Spark has to write."""
        self._check_session()
        if (
            self.schema.snapshot.reading.declared is None
            and FIELD_ID in self.readable.columns
            and self._conf("spark.sql.parquet.fieldId.read.enabled") == "true"
        ):
            raise NotReadable("columns are found by their ids")
        schema = arrow_schema(self.readable.columns)
        snapshot = self.schema.snapshot
        if not len(schema):
            raise NotArrow("it has no columns")
        try:
            with self.source.open(snapshot.paths[0], int(snapshot.sizes[0])) as stream:
                metadata = pq.read_metadata(stream)
        except (pa.ArrowException, OSError, ZskipError) as error:
            # Another writer may have replaced it: Spark reports the cause.
            raise NotReadable(f'"{snapshot.paths[0]}" cannot be read: {error}') from error
        first = source_of(snapshot.file(0), self.readable)
        find_columns(metadata, schema, self.readable.matching, first, corrected=self._corrected())
        return schema

    def _corrected(self) -> bool:
        return self._conf("spark.sql.parquet.datetimeRebaseModeInRead").upper() == "CORRECTED"

    def _reach_source(self) -> Reach:
        reach = reach_of(self.source)
        if reach is None:
            raise NotReadable(f'executors reach "{self.source.root}" only through Spark')
        return reach

    def _options(self, schema: pa.Schema, page_order: PageOrder | None = None) -> FileOptions:
        row_bytes = self.schema.snapshot.bytes / max(self.rows, 1)
        return self._file_options(schema, self.readable.columns, row_bytes, page_order)


@dataclass(frozen=True, kw_only=True)
class ArrowRows(_ArrowJob):
    """The rows of a DataFrame, and where and how to write them."""

    frame: DataFrame
    """The new files' columns, then `ordinal`, an int, the number of the row's Hive partition; of a `rows_session`."""
    ordinal: str
    row_bytes: float
    """Of a row in the new files, about."""
    stored: str | None = None
    """The new files' columns in Spark's JSON, with their names and ids there; None for the names of the frame."""
    is_guess: bool = False
    """Whether no files tell `row_bytes`."""
    snapshot: Snapshot
    """Of the table whose columns the rows have, as the new files' footers are about it."""

    @contextmanager
    def spool(self, fields: Sequence[Field], seed: int) -> Iterator[Spool]:
        """Keep the rows on disk for the block, with a sample of the keys; raises as `write_by_layout`."""
        schema, _ = self._check()
        keys = key_positions(schema if self.stored is None else arrow_schema(self._frame_json()), fields)
        with compat.active_session(self.frame.sparkSession):
            spooled = self._named(self.frame, fields).mapInArrow(
                ship(spooler(schema, keys, seed, arrow_codec(self.compression.codec))), SPOOLED
            )
        with Spool(spooled) as spool:
            with self._explain_failures():
                spool.fill(_SETTINGS)
            yield spool

    def write_spooled(self, layout: Layout, spool: Spool) -> RowsWritten:
        """Write the rows of a spool, each to the file that a layout assigns; raises as `write_by_layout`."""
        placement, options = self._placement(layout, layout.file_count, spool.rows)
        with self._explain_failures():
            shipped = route_batches(spool.batches.mapInArrow(ship(spool_placer(placement)), SHIPPED), placement)
            return _collect(shipped, writer(options, placement.files_a_group))

    def write_by_layout(self, layout: Layout, rows: int) -> RowsWritten:
        """Write every row to the file that a layout assigns; raises NotArrow if Spark itself has to write.

        rows: about how many there are. Tasks may also leave files that they do not report. Raises Recomputed.
        """
        return self._write(layout, layout.file_count, rows)

    def write_by_partition(self, partitions: int, rows: int) -> RowsWritten:
        """Write a file for each Hive partition, whose number is the file's; raises as `write_by_layout`."""
        return self._write(None, partitions, rows)

    def write_joined(self, layout: Layout, rows: int, count_files: Callable[[int], int]) -> RowsWritten:
        """Write rows that nobody has counted; raises as `write_by_layout`.

        Segments of the layout that lie side by side become one file, whose number is that of the first. layout: of an
        unpartitioned table of about so many rows; count_files: of so many rows. A classic session counts rows, and the
        bytes of each group, in the shuffle; a connected one runs the plan once more, for the keys alone.
        """
        layout, levels = side_by_side(layout)
        placement, options = self._placement(layout, layout.file_count, rows)
        joinings: list[Joining] = []

        def divide(sizes: Ints, new_rows: int) -> Ints:
            """The first group of each task; sizes: of each group, in bytes or rows."""
            new_rows = max(new_rows, 1)
            files, cores = count_files(new_rows), compat.cores(self.spark)
            tasks = files / group_files(files, int(new_rows * self.row_bytes), cores)
            of_groups = levels[placement.files_a_group - 1 :: placement.files_a_group]
            of_tasks = sizes.astype(np.float64) * (tasks / max(int(sizes.sum()), 1))
            groups = np.append(join_segments(of_tasks, of_groups), len(sizes))
            joinings.append(Joining(groups, levels, new_rows / files))
            return groups

        with self._explain_failures():
            if compat.is_connected(self.spark):
                counts = count_by_group(self.frame, layout, self.ordinal, placement.files_a_group)
                groups = divide(counts, int(counts.sum()))
                arrived = self._shipped(placement, layout.fields, has_spread=False, groups=groups)
            else:
                shipped = self._shipped(placement, layout.fields, has_spread=False)
                session = compat.private_session(self.spark, _SETTINGS)
                arrived = compat.run_stages(shipped, session, lambda sizes: divide(sizes, _counted(shipped)))
            return _collect(arrived, writer(options, placement.files_a_group, *joinings))

    def write_in_order(self) -> RowsWritten:
        """Write a file for each partition of Spark, in the order of its rows; raises as `write_by_layout`."""
        schema, schema_json = self._check()
        options = self._file_options(schema, schema_json, self.row_bytes)
        with self._explain_failures(), compat.active_session(self.frame.sparkSession):
            rows = self._named(self.frame.drop(self.ordinal))
            return _collect(rows, row_writer(options))

    def _placement(self, layout: Layout | None, files: int, rows: int) -> tuple[Placement, FileOptions]:
        schema, schema_json = self._check()
        make_bounds = None if layout is None else self._make_bounds(layout.fields)
        placement = Placement(
            schema=schema,
            named=None if self.stored is None else arrow_schema(self._frame_json()),
            layout=layout,
            files=files,
            files_a_group=group_files(files, int(rows * self.row_bytes), compat.cores(self.spark)),
            make_bounds=make_bounds,
        )
        page_order = None if layout is None else layout.page_order
        return placement, self._file_options(schema, schema_json, self.row_bytes, page_order, make_bounds)

    def _make_bounds(self, fields: Sequence[Field]) -> MakeBounds | None:
        session = self.frame.sparkSession
        if compat.is_connected(session):  # It does not tell the versions of what computes the keys.
            return None
        timezone = str(session.conf.get("spark.sql.session.timeZone"))
        case_sensitive = str(session.conf.get("spark.sql.caseSensitive")).lower() == "true"
        keys = sketched_keys(
            self.snapshot,
            fields,
            self._frame_json(),
            timezone,
            case_sensitive=case_sensitive,
            versions=SessionVersions(session),
        )
        return partial(KeyBounds, keys) if keys else None

    def _write(self, layout: Layout | None, files: int, rows: int) -> RowsWritten:
        placement, options = self._placement(layout, files, rows)
        has_spread = layout is not None and int(layout.spread.max(initial=1)) > 1
        with self._explain_failures():
            shipped = self._shipped(placement, () if layout is None else layout.fields, has_spread=has_spread)
            # Many rows of the DataFrame fit into a batch for Python, and few of the shuffle, which are large.
            arrived = compat.run_stages(shipped, compat.private_session(self.spark, _SETTINGS))
            return _collect(arrived, writer(options, placement.files_a_group))

    def _shipped(
        self, placement: Placement, fields: Sequence[Field], *, has_spread: bool, groups: Ints | None = None
    ) -> DataFrame:
        """The rows, placed and shipped to their groups; fields: the keys; groups: as `Joining` has them."""
        import pyspark.sql.functions as F

        # Names are resolved as the active session resolves them.
        with compat.active_session(self.frame.sparkSession):
            named = self._named(self.frame, fields)
            hashed = with_tie(named, self.ordinal, free_name("__zskip_tie", named.columns), has_spread=has_spread)
            shipped = hashed.mapInArrow(ship(row_placer(placement)), SHIPPED)
            return route_batches(shipped.observe(_READ, F.sum("read").alias(_READ)), placement, groups)

    def _check(self) -> tuple[pa.Schema, str]:
        self._check_session()
        rows = max(16, min(_ROWS_A_BATCH, int(_BATCH_MEMORY / (_EXPANSION * max(self.row_bytes, 1.0)))))
        conf = self.frame.sparkSession.conf
        if not compat.is_connected(self.spark):
            conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(rows))
            # Since Spark 4.1, which measures all columns after each row for it, unless it is the greatest.
            conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(_BATCH_MEMORY if self.is_guess else _NO_LIMIT))
        text = self.stored or self._frame_json()
        return arrow_schema(text), text

    def _frame_json(self) -> str:
        """The columns of the rows in Spark's JSON, as the DataFrame names them."""
        return without_ids(columns_json(self.frame.drop(self.ordinal)))

    def _named(self, frame: DataFrame, fields: Sequence[Field] = ()) -> DataFrame:
        """The rows under the names in files, with the keys that are expressions of their columns at the end."""
        names = [free_name(f"__zskip_key_{i}", frame.columns) for i in range(len(fields))]
        frame = with_computed_keys(frame, fields, names)
        return _unscaled(frame if self.stored is None else name_as_stored(frame, self.stored))


def _unscaled(frame: DataFrame) -> DataFrame:
    """Give decimals of at most 18 digits as the integers that they are: Spark makes objects of decimals for Arrow.

    A connected session has no expression for that.
    """
    import pyspark.sql.functions as F
    from pyspark.sql.types import DecimalType

    spark = frame.sparkSession
    if compat.is_connected(spark):
        return frame
    unscale = Jvm.of(spark).find("org.apache.spark.sql.catalyst.expressions.UnscaledValue")
    columns = []
    for field in frame.schema.fields:
        column = F.col(quote_identifier(field.name))
        if isinstance(field.dataType, DecimalType) and field.dataType.precision <= LONG_DIGITS:
            column = compat.column_of(spark, unscale(compat.expression_of(spark, column))).alias(field.name)
        columns.append(column)
    return frame.select(*columns)


def rows_session(spark: SparkSession) -> SparkSession:
    """A session like this one for the plan of a DataFrame whose rows are to be written.

    A connected session is its own: its executors have Python running, and the settings matter less since Spark 4.1,
    which limits the bytes of a batch.
    """
    return spark if compat.is_connected(spark) else compat.private_session(spark, _ROWS_SETTINGS)


def route_batches(shipped: DataFrame, placement: Placement, groups: Ints | None = None) -> DataFrame:
    """Bring each batch of the shuffle to the partition of Spark that has the number of its group, or of its task.

    groups: the first group of each task, and the number of groups.
    """
    import pyspark.sql.functions as F

    tasks: Ints = np.arange(-(-placement.files // placement.files_a_group))
    if groups is not None:
        tasks = np.repeat(np.arange(len(groups) - 1), np.diff(groups))
    count = int(tasks[-1]) + 1
    return shipped.repartition(count, lookup(shipped.sparkSession, routes(count)[tasks], F.col("group")))


def _counted(frame: DataFrame) -> int:
    """About how many rows have been placed while a DataFrame ran; what ran twice is counted twice."""
    read = frame._jdf.queryExecution().observedMetrics().apply(_READ)
    return 0 if read.isNullAt(0) else int(read.getLong(0))


def _collect(frame: DataFrame, write: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> RowsWritten:
    """Have tasks write files, and collect what they report."""
    return _rows_written(compat.collect_arrow(frame.mapInArrow(ship(write), WRITTEN)))


def _rows_written(table: pa.Table) -> RowsWritten:
    """Read what tasks report; raises Recomputed."""
    reports = table.to_pylist()
    runs = np.unique(np.frombuffer(b"".join(report.pop("runs") for report in reports), np.int64))
    if len(np.unique(runs >> 32)) < len(runs):
        raise Recomputed("rows of a lost executor came from another run of the plan")
    read = sum(report.pop("read") for report in reports)
    return RowsWritten([Written(**report) for report in reports], read)
