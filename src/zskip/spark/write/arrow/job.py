"""A rewrite through Arrow on the driver: whether it can be, its tasks, and what they have written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.errors import ZskipError
from zskip.formats.compression import Compression
from zskip.layout.layout import Layout
from zskip.records import Ints, Snapshot
from zskip.spark.jvm import compat
from zskip.spark.jvm.arrays import lookup
from zskip.spark.jvm.failures import text_with_causes
from zskip.spark.schema import TableSchema
from zskip.spark.shipping import by_value
from zskip.spark.write.arrow.access import Reach, reach_of
from zskip.spark.write.arrow.placing import SHIPPED, Placement, placer
from zskip.spark.write.arrow.reading import Source
from zskip.spark.write.arrow.schema import FIELD_ID, NotArrow, arrow_schema, check_file, check_pyarrow, reason_in
from zskip.spark.write.arrow.writing import SUFFIXES, WRITTEN, Bin, FileOptions, merger, writer
from zskip.spark.write.routing import routes
from zskip.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.excludedRules": "",
    # A row is a batch of many: few of them fill the memory of the JVM.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8",
}
_OURS = {"block.size", "page.row.count.limit", "summary.metadata.level", "compression"}
"""Settings of Parquet's writer that a rewrite decides by itself."""
_CHANGE_VALUES = (
    "spark.sql.parquet.writeLegacyFormat",
    "spark.sql.parquet.binaryAsString",
)
_TROUBLE = (
    (
        re.compile(r"No module named '(pyarrow|numpy|pandas|obstore|hdfs_native)|must be installed"),
        "executors have no pyarrow, or one that is too old",
    ),
    (re.compile("MissingDependencyError"), "executors do not reach its storage"),
    (re.compile("Python worker exited unexpectedly"), "a Python worker crashed"),
)
"""What executors may lack that Spark itself does not need."""
_TASK_BYTES = 128 << 20
_LEAST_TASK_BYTES = 4 << 20
_TASKS_A_CORE = 4
_WRITTEN_BYTES = 64 << 20
"""Of the files, as they are, that one task writes anew."""


class Written(NamedTuple):
    """A new file, as the task says that has written it."""

    file: int
    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrowRewrite:
    """What is written anew, where, and how."""

    spark: SparkSession
    schema: TableSchema
    """Of the files to rewrite only, with the ids that the new files get."""
    source: Storage
    target: Storage
    staging: str
    """Directory of the new files, relative to the target."""
    compression: Compression
    page_rows: int
    rows: int
    """Of all files to rewrite."""

    def by_layout(self, layout: Layout, *, sort: bool) -> list[Written]:
        """Write every row into the file that a layout names; raises NotArrow where Spark itself has to write.

        What tasks have written and do not report does not count: whoever commits must leave it out.
        """
        import pyspark.sql.functions as F

        schema = self._checked()
        snapshot, options = self.schema.snapshot, self._options(schema)
        tasks = split_into_tasks(snapshot, _TASKS_A_CORE * self.spark.sparkContext.defaultParallelism)
        placement = Placement(
            reach=self._reach_source(),
            schema=schema,
            layout=layout,
            tasks=tasks,
            sort=sort,
            corrected=self._corrected(),
        )
        files = layout.file_count
        together = max(1, int(_WRITTEN_BYTES * files / max(snapshot.bytes, 1)))
        together = min(together, max(1, files // (_TASKS_A_CORE * self.spark.sparkContext.defaultParallelism)))
        session = compat.private_session(self.spark, _SETTINGS)
        with self._running(), by_value():
            numbers = session.range(0, len(tasks), 1, len(tasks))
            shipped = numbers.mapInArrow(placer(placement), SHIPPED)
            writers = -(-files // together)
            place = F.expr(f"CAST(file DIV {together} AS INT)")
            shipped = shipped.repartition(writers, lookup(session, routes(writers), place))
            if together > 1:
                shipped = shipped.sortWithinPartitions("file")
            return _read(compat.collect_arrow(shipped.mapInArrow(writer(options, together), WRITTEN)))

    def merged(self, bins: Sequence[Ints]) -> list[Written]:
        """Write the rows of the files of each bin, one after another, into one file; raises as `by_layout`.

        bins: for each new file the places of the files in the snapshot.
        """
        schema = self._checked()
        snapshot = self.schema.snapshot
        given = [
            Bin(i, tuple((snapshot.paths[p], int(snapshot.sizes[p]), 0) for p in places.tolist()))
            for i, places in enumerate(bins)
        ]
        merge = merger(self._options(schema), self._reach_source(), given, corrected=self._corrected())
        session = compat.private_session(self.spark, _SETTINGS)
        with self._running(), by_value():
            numbers = session.range(0, len(given), 1, len(given))
            return _read(compat.collect_arrow(numbers.mapInArrow(merge, WRITTEN)))

    def _checked(self) -> pa.Schema:
        """The schema of the new files; raises NotArrow where Spark has to write, as far as the driver can tell."""
        self._check_session()
        schema = arrow_schema(self.schema.data.json())
        snapshot = self.schema.snapshot
        if not len(schema):
            raise NotArrow("it has no columns")
        try:
            with self.source.open(snapshot.paths[0], int(snapshot.sizes[0])) as stream:
                metadata = pq.read_metadata(stream)
        except (pa.ArrowException, OSError, ZskipError) as error:
            # Another writer may have replaced it: Spark says what is the matter.
            raise NotArrow(f'"{snapshot.paths[0]}" cannot be read: {error}') from error
        check_file(metadata, schema, corrected=self._corrected())
        return schema

    def _check_session(self) -> None:
        check_pyarrow()
        if self.compression.codec not in SUFFIXES:
            raise NotArrow(f"pyarrow does not write {self.compression.codec} as Spark does")
        for name in _CHANGE_VALUES:
            if self._conf(name).lower() == "true":
                raise NotArrow(f"the session sets {name}")
        if (
            self.schema.snapshot.declared is None
            and FIELD_ID in self.schema.data_json
            and self._conf("spark.sql.parquet.fieldId.read.enabled") == "true"
        ):
            raise NotArrow("columns are found by their ids")
        conf = self.spark._jsparkSession.sessionState().newHadoopConf()
        others = sorted(set(conf.getPropsWithPrefix("parquet.")) - _OURS)
        if others:
            raise NotArrow(f"the session sets parquet.{others[0]}")

    def _conf(self, name: str) -> str:
        return str(self.spark.conf.get(name))

    def _corrected(self) -> bool:
        return self._conf("spark.sql.parquet.datetimeRebaseModeInRead").upper() == "CORRECTED"

    def _reach_source(self) -> Reach:
        reach = reach_of(self.source)
        if reach is None:
            raise NotArrow(f'executors reach "{self.source.root}" only through Spark')
        return reach

    def _options(self, schema: pa.Schema) -> FileOptions:
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
            row_bytes=self.schema.snapshot.bytes / max(self.rows, 1),
            metadata={
                "org.apache.spark.version": self.spark.version,
                "org.apache.spark.sql.parquet.row.metadata": self.schema.data.json(),
            },
        )

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Raise a failure as NotArrow where Spark may do better."""
        try:
            yield
        except Exception as error:
            text = text_with_causes(error)
            reason = reason_in(text) or next((reason for known, reason in _TROUBLE if known.search(text)), None)
            if reason is None:
                raise
            raise NotArrow(reason) from error


def _read(table: pa.Table) -> list[Written]:
    return [Written(**row) for row in table.to_pylist()]


def split_into_tasks(snapshot: Snapshot, least: int) -> list[list[Source]]:
    """The files of a snapshot as tasks of about as many bytes, large ones in parts.

    least: number of tasks there should be, if the files are large enough.
    """
    size = min(_TASK_BYTES, max(_LEAST_TASK_BYTES, -(-snapshot.bytes // least)))
    tasks: list[list[Source]] = [[]]
    held = 0
    for file in snapshot:
        parts = max(1, round(file.size / size))
        for part in range(parts):
            if tasks[-1] and held + file.size // parts > 1.25 * size:
                tasks.append([])
                held = 0
            tasks[-1].append(Source(file.path, file.size, file.partition, part, parts))
            held += file.size // parts
    return tasks
