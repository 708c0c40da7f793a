"""The reader of Delta tables: zskip's where files hold the rows, else the session's Delta Lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import UnsupportedError
from zskip.formats import DeltaFormat
from zskip.formats.compression import Compression
from zskip.formats.delta.commit import parse_partition
from zskip.formats.delta.deletes import read_descriptor
from zskip.formats.delta.version import LogVersion
from zskip.records import HiddenColumn, Ints, Matching, ReadableFiles, Snapshot
from zskip.spark.formats.delta.log import DELTA, LoggedFiles, is_loaded, open_version, restore_rows
from zskip.spark.formats.reader import Reader
from zskip.spark.forms import free_name
from zskip.spark.jvm.catalog import quote_name
from zskip.spark.jvm.compat import active_session, frame_of_rows
from zskip.spark.jvm.failures import translated
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.jvm.statuses import qualify_root
from zskip.spark.scan.relation import Pruning
from zskip.spark.schema import add_numbers, complete, free_ordinal, names_without_default, ordinal_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST_ID = "baseRowId"
_TRACKED = (_FIRST_ID, "defaultRowCommitVersion")
"""What an entry of the log calls the id of a file's first row, and the version of all rows that do not say theirs."""


class DeltaReader(Reader):
    """Reads a Delta table; tables with deletion vectors, mapped columns and the like through Delta Lake."""

    _table: DeltaFormat

    @cached_property
    def files_hold_rows(self) -> bool:
        """Whether there are no deletion vectors, no other names in files, and no ids of rows."""
        return super().files_hold_rows and not self._version.tracks_rows

    @property
    def _version(self) -> LogVersion:
        return self._table.log_version(self.snapshot.version)

    def check_rewritable(self, compression: Compression | None) -> None:
        """Raise UnsupportedError where a rewrite of the version could not be committed; see `Reader`."""
        _ = self.snapshot  # The table answers for the version that was read last.
        super().check_rewritable(compression)

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
        version = self._read_uncached().format("delta").option("versionAsOf", snapshot.version)
        with translated(f'open "{snapshot.root}" with Delta Lake'):
            return version.load(qualify_root(snapshot.root))

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows of the files without deleted ones, with the columns by which Delta tracks rows, if it does."""
        from pyspark.sql import DataFrame

        if self.files_hold_rows or not is_loaded(session):
            return super().live_rows(session)
        with active_session(session):
            log, version = open_version(session, self.snapshot)
            files, jvm = self._logged.of(self.snapshot), Jvm.of(session)
            frame = log.createDataFrame(version, jvm.seq_of(*files), False, jvm.none)
            frame = jvm.call(f"{DELTA}.RowTracking", "preserveRowTrackingColumns")(frame, version)
            numbered = _add_partition_numbers(DataFrame(frame, session), self.snapshot)
            return numbered.drop(*(field.name for field in self.snapshot.partition_fields))

    def readable_files(self) -> ReadableFiles | None:
        """By the vectors and the ids of rows that the log has for each file."""
        if self.files_hold_rows or not is_loaded(self._spark):
            return super().readable_files()
        entries = self._logged.entries(self.snapshot)
        tracking = self._version.tracking_columns
        names = [name for name in tracking if name is not None]
        if len(names) < len(tracking) or any(
            entry.get(key) is None for entry in entries.values() for key in _TRACKED if names
        ):
            return None
        vectors = {path: entry["deletionVector"] for path, entry in entries.items() if entry.get("deletionVector")}
        try:
            deletes = {path: (read_descriptor(vector, self._storage.root),) for path, vector in vectors.items()}
        except UnsupportedError:
            return None
        columns = self._version.rules.stored or self.schema.data_json
        return ReadableFiles(
            columns=add_numbers(columns, dict.fromkeys(names)),
            matching=Matching(self._version.mapping_mode == "id", names_without_default(columns)),
            deletes=deletes,
            hidden={path: _hidden_columns(names, entry) for path, entry in entries.items()},
        )

    @cached_property
    def _logged(self) -> LoggedFiles:
        return self._collect(self.snapshot)

    def _collect(self, snapshot: Snapshot) -> LoggedFiles:
        with active_session(self._spark):
            return LoggedFiles(self._spark, open_version(self._spark, snapshot)[1], snapshot.root)

    def stored_columns(self, live: DataFrame) -> str | None:
        """The columns of files, with their names and ids there, where columns are mapped."""
        stored = self._version.rules.stored
        return None if stored is None else complete(stored, live.drop(ordinal_of(live)))

    def _read_stored(self, session: SparkSession) -> DataFrame:
        from pyspark.sql import DataFrame

        if self.feature is None:
            return super()._read_stored(session)
        with active_session(session):
            log, version = open_version(session, self.snapshot)
            files, jvm = [restore_rows(file) for file in self._logged.of(self.snapshot)], Jvm.of(session)
            return DataFrame(log.createDataFrame(version, jvm.seq_of(*files), False, jvm.none), session)

    def count_deleted_rows(self, snapshot: Snapshot) -> Ints | None:
        """(files,) the rows in the deletion vector of each file."""
        if snapshot.reading.feature is None or not is_loaded(self._spark):
            return None
        logged = self._logged if snapshot.version == self.snapshot.version else self._collect(snapshot)
        vectors = (entry.get("deletionVector") for entry in logged.entries(snapshot).values())
        return np.array([0 if vector is None else vector["cardinality"] for vector in vectors], np.int64)


def _hidden_columns(names: Sequence[str], entry: Mapping[str, Any]) -> list[HiddenColumn]:
    """What tracks the rows of a file; names: of the columns, none in a table that does not."""
    return [HiddenColumn(name, entry.get(key), key == _FIRST_ID) for name, key in zip(names, _TRACKED, strict=False)]


def _add_partition_numbers(frame: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Add the number of each row's partition, looked up by the partition values."""
    import pyspark.sql.functions as F

    names, ordinal = [field.name for field in snapshot.partition_fields], free_ordinal(frame.columns)
    if not names:
        return frame.withColumn(ordinal, F.lit(0))
    texts = [parse_partition(partition.directory) for partition in snapshot.partitions]
    rows = [(i, *(values[name] for name in names)) for i, values in enumerate(texts)]
    columns = [free_name(f"__zskip_value_{i}", frame.columns) for i in range(len(names))]
    schema = ", ".join([f"{ordinal} int", *(f"{name} string" for name in columns)])
    numbers = frame_of_rows(frame.sparkSession, rows, schema)
    condition = F.lit(True)
    for name, column in zip(names, columns, strict=True):
        condition = condition & frame[quote_name([name])].eqNullSafe(numbers[column].cast(frame.schema[name].dataType))
    return frame.join(F.broadcast(numbers), condition).drop(*columns)
