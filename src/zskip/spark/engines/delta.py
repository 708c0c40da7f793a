"""The session's Delta Lake, for tables that only Delta itself can read or commit to.

A rewrite is one of Delta's own transactions on the version that was read, as in its OPTIMIZE, so Delta detects
concurrent commits.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats.delta.commit import MARK, parse_partition
from zskip.formats.delta.values import relative_path
from zskip.records import Ints, Snapshot
from zskip.spark.engines.base import EngineCommit, RoutedRows
from zskip.spark.jvm.catalog import quote_name
from zskip.spark.jvm.compat import active_session, frame_of_rows
from zskip.spark.jvm.failures import text_with_causes
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import storage_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DELTA = "org.apache.spark.sql.delta"
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_CONFLICT = re.compile(
    r"\b(Concurrent\w+|MetadataChanged|ProtocolChanged)Exception\b|\bDELTA_(CONCURRENT|METADATA|PROTOCOL)_\w+"
)
_DATA_CHANGE, _DELETION_VECTOR = 5, 8
"""Positions of `dataChange` and `deletionVector` among the arguments of `AddFile.copy`, counted from 1."""
_METHODS = {
    "DeltaLog.update": {3},
    "DeltaLog.getSnapshotAt": {4},
    "DeltaLog.createDataFrame": {4},
    "DeltaLog.startTransaction": {2},
    "OptimisticTransaction.writeFiles": {4},
    "RowTracking.preserveRowTrackingColumns": {2},
    "actions.AddFile.removeWithTimestamp": {2},
    "DeltaOperations$Optimize.copy": {5},
}
"""The methods of Delta that a rewrite calls, and their numbers of arguments."""
_WRITE_SETTINGS = {
    "spark.databricks.delta.stats.collect": "true",
    "spark.databricks.delta.optimizeWrite.enabled": "false",
    "spark.databricks.delta.autoCompact.enabled": "false",
}


def is_loaded(spark: SparkSession) -> bool:
    """Whether the session has Delta Lake as an extension and as its catalog."""
    extensions = str(spark.conf.get("spark.sql.extensions", "")).split(",")
    catalog = str(spark.conf.get("spark.sql.catalog.spark_catalog", ""))
    return _EXTENSION in {name.strip() for name in extensions} and catalog == _CATALOG


def read_version(spark: SparkSession, root: str, version: int) -> DataFrame:
    """All rows of one version of a table, read and pruned by Delta itself."""
    return spark.read.format("delta").option("versionAsOf", version).load(_uri(root))


def read_files(spark: SparkSession, snapshot: Snapshot, ordinal: str) -> DataFrame:
    """The rows in a snapshot's files, read by Delta itself, with the number of each row's partition.

    Without deleted rows. Includes the columns with which Delta tracks rows, if the table has them.
    """
    from pyspark.sql import DataFrame

    with active_session(spark):
        log, version = _open(spark, snapshot)
        files = _files(spark, version, snapshot)
        jvm = Jvm.of(spark)
        frame = log.createDataFrame(version, jvm.seq_of(*files), False, jvm.none)
        frame = jvm.call(f"{_DELTA}.RowTracking", "preserveRowTrackingColumns")(frame, version)
        return _add_partition_numbers(DataFrame(frame, spark), snapshot, ordinal)


def read_stored(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """All rows in a snapshot's files, deleted ones too, read by Delta itself.

    What an index says of a file has to be true of the versions of the table before the deletion, too.
    """
    from pyspark.sql import DataFrame

    with active_session(spark):
        log, version = _open(spark, snapshot)
        files = [_restore_rows(file) for file in _files(spark, version, snapshot)]
        jvm = Jvm.of(spark)
        return DataFrame(log.createDataFrame(version, jvm.seq_of(*files), False, jvm.none), spark)


class DeltaEngine:
    """Rewrites a Delta table through the session's Delta Lake."""

    reads: ClassVar[str | None] = "a feature that only Delta Lake writes"

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root

    def check(self) -> None:
        """Raise UnsupportedError where zskip does not support this version of Delta Lake."""
        jvm = Jvm.of(self._spark)
        try:
            missing = [name for name, counts in _METHODS.items() if not counts & _argument_counts(jvm, name)]
        except Exception as error:
            missing = [str(error).splitlines()[0]]
        if missing:
            raise UnsupportedError(
                f'the session\'s Delta Lake, which has to rewrite "{self._root}", is not supported '
                f"({missing[0]}); load delta-spark 4.4. Nothing was written"
            )

    def read_rows(self, session: SparkSession, snapshot: Snapshot, ordinal: str) -> DataFrame:
        """The rows in a snapshot's files, read by Delta itself."""
        return read_files(session, snapshot, ordinal)

    def count_deleted_rows(self, snapshot: Snapshot) -> Ints:
        """(files,) the rows in the deletion vector of each file."""
        with active_session(self._spark):
            files = _files(self._spark, _open(self._spark, snapshot)[1], snapshot)
        paths = [relative_path(str(file.path()), self._root) for file in files]
        vectors = [file.deletionVector() for file in files]
        rows = {path: int(v.cardinality()) for path, v in zip(paths, vectors, strict=True) if v is not None}
        return np.array([rows.get(path, 0) for path in snapshot.paths], np.int64)

    def release(self) -> None:
        """Do nothing: Delta holds no state for a rewrite."""

    def commit(self, base: Snapshot, rows: RoutedRows, info: Mapping[str, Any]) -> EngineCommit:
        """Write the rows and commit them in place of the files of `base`, in a transaction on its version."""
        session, jvm = rows.frame.sparkSession, Jvm.of(self._spark)
        rewrite = {MARK: {"rewrite": uuid.uuid4().hex, **info}}
        settings = {
            **_WRITE_SETTINGS,
            **rows.compression.settings,
            "parquet.page.row.count.limit": str(rows.page_rows),
            "spark.sql.parquet.compression.codec": rows.compression.codec,
            "spark.databricks.delta.commitInfo.userMetadata": json.dumps(rewrite),
        }
        for name, value in settings.items():
            session.conf.set(name, value)
        with active_session(session):
            log, version = _open(session, base)
            old = _files(session, version, base)
            expected = _count_rows(old)
            if expected is None:
                expected = int(log.createDataFrame(version, jvm.seq_of(*old), False, jvm.none).count())
            transaction = log.startTransaction(jvm.none, jvm.some(version))
            transaction.trackFilesRead(jvm.seq_of(*old))
            files = transaction.writeFiles(rows.frame._jdf, jvm.none, True, jvm.seq_of())
            added = [_clear_data_change(file) for file in jvm.to_list(files)]
            try:
                written_rows = _count_rows(added)
                if written_rows != expected:
                    raise ConflictError(
                        f'"{self._root}" has {expected} rows in the files to rewrite, but {written_rows} were written; '
                        "nothing was committed. If nobody else writes to the table, report this"
                    )
                now_ms = int(time.time() * 1000)
                actions = [file.removeWithTimestamp(now_ms, False) for file in old] + added
                number = transaction.commit(jvm.seq_of(*actions), _operation(jvm, info.get("by", ())))
            except Exception as error:
                text = "" if isinstance(error, ConflictError) else text_with_causes(error)
                if text and not _CONFLICT.search(text):
                    # The commit may have succeeded: its files stay, and VACUUM deletes them if no version names them.
                    raise
                self._remove(added)
                if not text:
                    raise
                raise ConflictError(
                    f'another writer changed "{self._root}" since the rewrite read it; nothing was committed, '
                    f"call again ({_CONFLICT.search(text)[0]})"  # type: ignore[index]
                ) from error
        return EngineCommit(
            version=int(number),
            sizes=tuple(int(file.size()) for file in added),
            names=tuple(relative_path(str(file.path()), self._root).rpartition("/")[2] for file in added),
        )

    def _remove(self, files: Sequence[JavaObject]) -> None:
        storage = storage_for(self._spark, self._root)
        for file in files:
            storage.delete(relative_path(str(file.path()), self._root))


def _uri(root: str) -> str:
    return f"file://{root}" if root.startswith("/") else root


def _open(spark: SparkSession, snapshot: Snapshot) -> tuple[JavaObject, JavaObject]:
    """Delta's log of a table, and the version of a snapshot."""
    jvm = Jvm.of(spark)
    path = jvm.find("org.apache.hadoop.fs.Path")(_uri(snapshot.root))
    log = jvm.call(f"{_DELTA}.DeltaLog", "forTable")(spark._jsparkSession, path)
    log.update(False, jvm.none, jvm.none)
    return log, log.getSnapshotAt(snapshot.version, jvm.none, jvm.none, False)


def _files(spark: SparkSession, version: JavaObject, snapshot: Snapshot) -> list[JavaObject]:
    """The `AddFile`s of a snapshot's files; raises ConflictError where the log lacks one."""
    jvm, snapshot_paths = Jvm.of(spark), set(snapshot.paths)
    listed = version.allFiles().collectAsList()
    path = jvm.handles.function(jvm.handles.virtual(f"{_DELTA}.actions.AddFile", "path", "java.lang.String"))
    paths = [relative_path(text, snapshot.root) for text in jvm.read(jvm.map(listed, path))]
    files = [listed.get(i) for i, name in enumerate(paths) if name in snapshot_paths]
    if len(files) != len(snapshot_paths):
        raise ConflictError(f'the version {snapshot.version} of "{snapshot.root}" has other files now; call again')
    return files


def _count_rows(files: Sequence[JavaObject]) -> int | None:
    """Number of rows without deleted ones; None where the log does not know."""
    counts = [file.numLogicalRecords() for file in files]
    return None if any(count.isEmpty() for count in counts) else sum(int(count.get()) for count in counts)


def _add_partition_numbers(frame: DataFrame, snapshot: Snapshot, ordinal: str) -> DataFrame:
    """Add the number of each row's partition, looked up by the partition values."""
    import pyspark.sql.functions as F

    names = [field.name for field in snapshot.partition_fields]
    if not names:
        return frame.withColumn(ordinal, F.lit(0))
    texts = [parse_partition(partition.directory) for partition in snapshot.partitions]
    rows = [(i, *(values[name] for name in names)) for i, values in enumerate(texts)]
    columns = [f"{ordinal}_{i}" for i in range(len(names))]
    schema = ", ".join([f"{ordinal} int", *(f"{name} string" for name in columns)])
    numbers = frame_of_rows(frame.sparkSession, rows, schema)
    condition = F.lit(True)
    for name, column in zip(names, columns, strict=True):
        condition = condition & frame[quote_name([name])].eqNullSafe(numbers[column].cast(frame.schema[name].dataType))
    return frame.join(F.broadcast(numbers), condition).drop(*columns)


def _clear_data_change(file: JavaObject) -> JavaObject:
    """The same file, marked as one without new rows."""
    return _copy(file, _DATA_CHANGE, False)


def _restore_rows(file: JavaObject) -> JavaObject:
    """The same file without a deletion vector."""
    restored = file if file.deletionVector() is None else _copy(file, _DELETION_VECTOR, None)
    if restored.deletionVector() is not None:
        raise UnsupportedError("this version of Delta Lake is not supported, load delta-spark 4.4")
    return restored


def _copy(file: JavaObject, position: int, value: Any) -> JavaObject:
    """The same file with another value at a position of `AddFile.copy`."""
    arguments = [getattr(file, f"copy$default${i}")() for i in range(1, _count_copy_arguments(file.getClass()) + 1)]
    arguments[position - 1] = value
    return file.copy(*arguments)


def _count_copy_arguments(owner: JavaObject) -> int:
    """Number of arguments of a case class's `copy`."""
    return sum(str(method.getName()).startswith("copy$default$") for method in owner.getMethods())


def _argument_counts(jvm: Jvm, name: str) -> set[int]:
    """The numbers of arguments of the methods with a name, in a class of Delta."""
    owner, _, method = name.rpartition(".")
    owner_class = jvm.class_of(f"{_DELTA}.{owner}")
    signatures = jvm.once(f"methods of {owner}", lambda: [str(item.toString()) for item in owner_class.getMethods()])
    matches = [re.search(rf"[.]{re.escape(method)}\((.*?)\)", signature) for signature in signatures]
    return {len(match[1].split(",")) for match in matches if match is not None}


def _operation(jvm: Jvm, by: Sequence[str]) -> JavaObject:
    """The operation that Delta's history records."""
    make = jvm.find(f"{_DELTA}.DeltaOperations$Optimize")
    return make(jvm.seq_of(), jvm.seq_of(*by), False, jvm.none, False)
