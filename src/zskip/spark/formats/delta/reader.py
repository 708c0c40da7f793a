"""The reader of Delta tables: zskip's where files hold the rows, else the session's Delta Lake."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from zskip.formats import DeltaFormat
from zskip.formats.delta.commit import parse_partition
from zskip.formats.delta.values import relative_path
from zskip.records import Ints, Snapshot
from zskip.spark.formats.delta.commits import DeltaEngine
from zskip.spark.formats.delta.log import DELTA, is_loaded, open_version, read_files, restore_rows, uri_of
from zskip.spark.formats.reader import Reader
from zskip.spark.jvm.catalog import quote_name
from zskip.spark.jvm.compat import active_session, frame_of_rows
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.relation import ORDINAL, Pruning
from zskip.spark.schema import complete

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaReader(Reader):
    """Reads a Delta table; tables with deletion vectors, mapped columns and the like through Delta Lake."""

    _table: DeltaFormat

    @cached_property
    def engine(self) -> DeltaEngine | None:
        """Delta Lake, for tables with features of which zskip does not know what they ask of files."""
        if not is_loaded(self._spark) or self._table.unknown_feature() is None:
            return None
        return DeltaEngine(self._spark, self._storage.root)

    @cached_property
    def files_hold_rows(self) -> bool:
        """Whether there are no deletion vectors, no other names in files, and no ids of rows."""
        return super().files_hold_rows and not self._table.tracks_rows() and self.engine is None

    @property
    def _reads_stored(self) -> bool:
        return is_loaded(self._spark)

    def frame(self, prune: Callable[[Snapshot], Pruning]) -> DataFrame:
        """The rows as users see them, of which each query reads the files that its filters leave."""
        if self.feature is not None and is_loaded(self._spark):
            return self._prune_whole(prune)
        return super().frame(prune)

    def whole(self) -> DataFrame:
        """The rows as users see them, by Delta Lake where the session has it."""
        if not is_loaded(self._spark):
            return super().whole()
        snapshot = self.snapshot
        version = self._spark.read.format("delta").option("versionAsOf", snapshot.version)
        return version.load(uri_of(snapshot.root))

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows of the files without deleted ones, with the columns by which Delta tracks rows, if it does."""
        from pyspark.sql import DataFrame

        if self.files_hold_rows or not is_loaded(session):
            return super().live_rows(session)
        with active_session(session):
            log, version = open_version(session, self.snapshot)
            files, jvm = read_files(session, version, self.snapshot), Jvm.of(session)
            frame = log.createDataFrame(version, jvm.seq_of(*files), False, jvm.none)
            frame = jvm.call(f"{DELTA}.RowTracking", "preserveRowTrackingColumns")(frame, version)
            numbered = _add_partition_numbers(DataFrame(frame, session), self.snapshot)
            # Delta Lake's own writer puts rows into their partitions by these columns.
            names = [] if self.engine is not None else [field.name for field in self.snapshot.partition_fields]
            return numbered.drop(*names)

    def stored_columns(self, live: DataFrame) -> str | None:
        """The columns of files, with their names and ids there, where columns are mapped."""
        stored = self._table.row_rules().stored
        return None if stored is None else complete(stored, live.drop(ORDINAL))

    def count_live_rows(self, stored: Ints) -> Ints:
        """(files,) the rows that the log counts."""
        deleted = self.count_deleted_rows(self.snapshot)
        return stored if deleted is None else stored - deleted

    def _read_stored(self, session: SparkSession) -> DataFrame:
        from pyspark.sql import DataFrame

        if self.feature is None:
            return super()._read_stored(session)
        with active_session(session):
            log, version = open_version(session, self.snapshot)
            files, jvm = [restore_rows(file) for file in read_files(session, version, self.snapshot)], Jvm.of(session)
            return DataFrame(log.createDataFrame(version, jvm.seq_of(*files), False, jvm.none), session)

    def count_deleted_rows(self, snapshot: Snapshot) -> Ints | None:
        """(files,) the rows in the deletion vector of each file."""
        if snapshot.reading.feature is None or not is_loaded(self._spark):
            return None
        with active_session(self._spark):
            files = read_files(self._spark, open_version(self._spark, snapshot)[1], snapshot)
        paths = [relative_path(str(file.path()), self._storage.root) for file in files]
        vectors = [file.deletionVector() for file in files]
        rows = {path: int(v.cardinality()) for path, v in zip(paths, vectors, strict=True) if v is not None}
        return np.array([rows.get(path, 0) for path in snapshot.paths], np.int64)


def _add_partition_numbers(frame: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Add the number of each row's partition, looked up by the partition values."""
    import pyspark.sql.functions as F

    names = [field.name for field in snapshot.partition_fields]
    if not names:
        return frame.withColumn(ORDINAL, F.lit(0))
    texts = [parse_partition(partition.directory) for partition in snapshot.partitions]
    rows = [(i, *(values[name] for name in names)) for i, values in enumerate(texts)]
    columns = [f"{ORDINAL}_{i}" for i in range(len(names))]
    schema = ", ".join([f"{ORDINAL} int", *(f"{name} string" for name in columns)])
    numbers = frame_of_rows(frame.sparkSession, rows, schema)
    condition = F.lit(True)
    for name, column in zip(names, columns, strict=True):
        condition = condition & frame[quote_name([name])].eqNullSafe(numbers[column].cast(frame.schema[name].dataType))
    return frame.join(F.broadcast(numbers), condition).drop(*columns)
