"""The session's Iceberg runtime, for rewrites that only Iceberg itself can do.

A rewrite works as in Iceberg's `rewrite_data_files`: the scan tasks of the old files are staged, with the deletes that
apply to them; Iceberg reads their rows, with their ids in tables of version 3; it writes them where zskip has placed
them; and one `RewriteFiles` replaces the old files, and drops the delete files that then apply to none.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from py4j.protocol import Py4JError

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats.compression import Compression
from zskip.formats.iceberg.commit import INFO, REWRITE
from zskip.formats.iceberg.table import PathResolver
from zskip.records import Ints, Snapshot
from zskip.spark.engines.base import EngineCommit, RoutedRows
from zskip.spark.engines.iceberg.catalog import ICEBERG, SessionCatalog
from zskip.spark.jvm import compat
from zskip.spark.jvm.failures import root_cause, text_with_causes
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.storage import Storage

_SPARK = f"{ICEBERG}.spark"
_WITH_ROW_IDS = 3
"""The first version of tables whose rows have ids, which older versions of Iceberg would not keep."""
_OLDEST, _OLDEST_WITH_ROW_IDS = (1, 9), (1, 10)
_READ_ID, _WRITE_ID = "scan-task-set-id", "rewritten-file-scan-task-set-id"
"""The options that name a staged set; with Spark 4.1 its name as that of a table is enough."""
_WRITE_OPTIONS = {
    "write-format": "parquet",
    # One task writes one file.
    "target-file-size-bytes": str(1 << 60),
    "use-table-distribution-and-ordering": "false",
    "fanout-enabled": "false",
    "check-nullability": "false",
}
_TASKS, _CONTENT, _LIST = f"{ICEBERG}.FileScanTask", f"{ICEBERG}.ContentScanTask", "java.util.List"
_FILE = f"{ICEBERG}.ContentFile"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Version:
    """One snapshot of the table, and what is staged of it in Iceberg's caches."""

    table: JavaObject
    """`org.apache.iceberg.BaseTable`."""
    snapshot: JavaObject
    tasks: Mapping[str, JavaObject]
    """`FileScanTask`s by their files' paths."""
    with_deletes: frozenset[str]
    """Paths of the files to which deletes may apply."""
    set_ids: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Ids of staged sets by their files' paths."""


class IcebergEngine:
    """Rewrites one table through the Iceberg runtime that the session has loaded."""

    reads: ClassVar[str | None] = "features that only Iceberg itself keeps in a rewrite"

    def __init__(self, spark: SparkSession, storage: Storage, catalog: SessionCatalog) -> None:
        self._spark = spark
        self._jvm = Jvm.of(spark)
        self._storage = storage
        self._catalog = catalog
        self._opened: _Version | None = None

    def check(self) -> None:
        """Raise UnsupportedError where the runtime is older than the calls that a rewrite needs, or lacks a type."""
        table, version = self._catalog.load(), self._jvm.call(f"{ICEBERG}.IcebergBuild", "version")()
        oldest = _OLDEST_WITH_ROW_IDS if table.operations().current().formatVersion() >= _WITH_ROW_IDS else _OLDEST
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < oldest:
            raise UnsupportedError(
                f'zskip rewrites "{self._catalog.table}" through Iceberg {".".join(map(str, oldest))} or later, and '
                f"the session has loaded {version}; load {compat.iceberg_runtime(self._spark)}. Nothing was written"
            )
        try:
            self._jvm.call(f"{_SPARK}.SparkSchemaUtil", "convert")(table.schema())
        except Py4JError as error:
            raise UnsupportedError(
                f'Iceberg\'s runtime in Spark does not read "{self._catalog.table}" '
                f"({root_cause(text_with_causes(error))}); rewrite it with another engine. Nothing was written"
            ) from error

    def read_rows(self, session: SparkSession, snapshot: Snapshot, ordinal: str) -> DataFrame:
        """The rows in a snapshot's files without the deleted ones, with the number of each row's partition.

        In tables of version 3 with the columns `_row_id` and `_last_updated_sequence_number`.
        """
        import pyspark.sql.functions as F

        version = self._open()
        with compat.active_session(session):
            frame = self._read_staged(session, version, snapshot)
            if len(np.unique(snapshot.partition_of)) == 1:
                return frame.withColumn(ordinal, F.lit(int(snapshot.partition_of[0])))
            locations = [str(version.tasks[path].file().location()) for path in snapshot.paths]
            path = f"{ordinal}_path"
            rows = list(zip(locations, snapshot.partition_of.tolist(), strict=True))
            numbers = compat.frame_of_rows(session, rows, f"{path} string, {ordinal} int")
            columns = frame.columns
            # Iceberg's staged scans of version 3 have no column `_file`.
            located = frame.withColumn(path, F.input_file_name()).join(F.broadcast(numbers), path)
            return located.select(*(F.col(f"`{name}`") for name in columns), ordinal)

    def read_stored(self, session: SparkSession, snapshot: Snapshot) -> DataFrame:
        """All rows in a snapshot's files, deleted ones too, with values as the files have them.

        What an index says of a file has to be true of older snapshots, too, in which its rows were not deleted.
        """
        import pyspark.sql.functions as F

        self.check()
        version = self._open()
        texts = [name for name, text in self._types(version).items() if text == "uuid"]
        tasks = {path: self._restore_rows(version, path) for path in snapshot.paths if path in version.tasks}
        # Other files may be read next: files can lack different sketches.
        with_deletes = version.with_deletes - tasks.keys()
        self._opened = version = replace(version, tasks={**version.tasks, **tasks}, with_deletes=with_deletes)
        with compat.active_session(session):
            frame = self._read_staged(session, version, snapshot)
            return frame.withColumns({name: F.unhex(F.translate(F.col(f"`{name}`"), "-", "")) for name in texts})

    def _types(self, version: _Version) -> Mapping[str, str]:
        """The types of the columns, as Iceberg writes them; raises UnsupportedError where Spark sees other values."""
        types = {str(column.name()): str(column.type()) for column in _items(version.table.schema().columns())}
        if any("uuid" in text and text != "uuid" for text in types.values()):
            raise UnsupportedError(
                f'"{self._catalog.table}" has UUIDs in structs, which Spark does not read as they are'
            )
        return types

    def _restore_rows(self, version: _Version, path: str) -> JavaObject:
        """The task of a file without its deletes."""
        task, jvm = version.tasks[path], self._jvm
        if path not in version.with_deletes:
            return task
        schema = jvm.call(f"{ICEBERG}.SchemaParser", "toJson")(version.table.schema())
        spec = jvm.call(f"{ICEBERG}.PartitionSpecParser", "toJson")(task.spec())
        everything = jvm.call(f"{ICEBERG}.expressions.Expressions", "alwaysTrue")()
        residuals = jvm.call(f"{ICEBERG}.expressions.ResidualEvaluator", "unpartitioned")(everything)
        none = jvm.array(f"{ICEBERG}.DeleteFile", [])
        return jvm.find(f"{ICEBERG}.BaseFileScanTask")(task.file(), none, schema, spec, residuals)

    def _read_staged(self, session: SparkSession, version: _Version, snapshot: Snapshot) -> DataFrame:
        settings, set_id = session._jsparkSession.sessionState().conf(), self._stage(version, snapshot)
        return (
            session.read.format("iceberg")
            .option("split-size", settings.filesMaxPartitionBytes())
            .option("file-open-cost", settings.filesOpenCostInBytes())
            .option(_READ_ID, set_id)
            .load(set_id)
        )

    def count_deleted_rows(self, snapshot: Snapshot) -> Ints:
        """(files,) the rows in deletion vectors, and those of delete files spread over the files that they apply to."""
        version, deletes, uses = self._open(), {}, Counter[str]()
        for path in version.with_deletes:
            deletes[path] = [
                (str(d.location()), int(d.recordCount()), d.contentOffset() is not None)
                for d in _items(version.tasks[path].deletes())
            ]
            uses.update(location for location, _, is_vector in deletes[path] if not is_vector)
        rows = [
            sum(count // (1 if is_vector else uses[location]) for location, count, is_vector in deletes.get(path, ()))
            for path in snapshot.paths
        ]
        return np.array(rows, np.int64)

    def _open(self) -> _Version:
        """The table's current snapshot, to which this rewrite keeps until its commit."""
        if self._opened is None:
            table = self._catalog.load()
            snapshot = table.currentSnapshot()
            if snapshot is None:
                raise ConflictError(f'"{self._catalog.table}" has no snapshot any more; call again')
            self._opened = self._read_tasks(table, snapshot)
        return self._opened

    def _read_tasks(self, table: JavaObject, snapshot: JavaObject) -> _Version:
        jvm, handles = self._jvm, self._jvm.handles
        tasks = self._read_all(table.newScan().useSnapshot(snapshot.snapshotId()).planFiles())
        location = handles.chain(
            handles.virtual(_CONTENT, "file", _FILE), handles.virtual(_FILE, "location", "java.lang.String")
        )
        count = handles.chain(handles.virtual(_TASKS, "deletes", _LIST), handles.virtual(_LIST, "size", "int"))
        resolver = PathResolver(self._storage, table.location())
        paths = [resolver.relative(uri) for uri in jvm.read(jvm.map(tasks, handles.function(location)))]
        counts = jvm.read(jvm.map(tasks, handles.function(count)))
        return _Version(
            table=table,
            snapshot=snapshot,
            tasks={path: tasks.get(i) for i, path in enumerate(paths)},
            with_deletes=frozenset(path for path, n in zip(paths, counts, strict=True) if n),
        )

    def _stage(self, version: _Version, snapshot: Snapshot) -> str:
        """Stage the tasks of a snapshot's files; returns the id by which Spark reads them."""
        if snapshot.paths not in version.set_ids:
            version.set_ids[snapshot.paths] = set_id = self._add_to_cache(version)
            missing = [path for path in snapshot.paths if path not in version.tasks]
            if missing:
                raise self._conflict(f'"{missing[0]}" was removed')
            tasks = self._jvm.list_of(*(version.tasks[path] for path in snapshot.paths))
            self._singleton("ScanTaskSetManager").stageTasks(version.table, set_id, tasks)
        return version.set_ids[snapshot.paths]

    def _add_to_cache(self, version: _Version) -> str:
        set_id = str(uuid.uuid4())
        self._singleton("SparkTableCache").add(set_id, version.table)
        return set_id

    def commit(self, base: Snapshot, rows: RoutedRows, info: Mapping[str, Any]) -> EngineCommit:
        """Write the rows and commit them in place of the files of `base`, or change nothing.

        Deletes of other writers in those files are conflicts; all else that they commit meanwhile stays.
        """
        version, name, new = self._open(), uuid.uuid4().hex, []
        try:
            for spec, frame in self._split_by_spec(version, base, rows):
                new += self._write(version, frame, spec, rows.compression)
            self._check_rows(version, base, rows, new)
            operation = self._prepare(version, base, new, {REWRITE: name, INFO: json.dumps(dict(info))})
        except BaseException:
            _remove(version, new)
            raise
        try:
            self._catalog.commit_operation(operation, lambda: self._catalog.find_committed(name) is not None)
        except ConflictError:
            _remove(version, new)
            raise
        committed = self._catalog.find_committed(name)
        return EngineCommit(
            version=0 if committed is None else int(committed.sequenceNumber()),
            sizes=tuple(int(file.fileSizeInBytes()) for file in new),
            names=tuple(str(file.location()).rpartition("/")[2] for file in new),
            rows=_count(new),
        )

    def _split_by_spec(self, version: _Version, base: Snapshot, rows: RoutedRows) -> Iterator[tuple[int, DataFrame]]:
        """The new files of each partition spec: its id, and the rows in the frame's partitions with its files."""
        import pyspark.sql.functions as F

        spec_of_partition = {
            partition: int(version.tasks[path].file().specId())
            for path, partition in zip(base.paths, base.partition_of.tolist(), strict=True)
        }
        specs = [spec_of_partition.get(partition) for partition in rows.partition_of_file.tolist()]
        for spec in sorted(set(spec_of_partition.values())):
            files = [i for i, other in enumerate(specs) if other == spec]
            is_all = len(set(spec_of_partition.values())) == 1
            yield spec, rows.frame if is_all else rows.frame.where(F.spark_partition_id().isin(files))

    def _write(self, version: _Version, frame: DataFrame, spec: int, compression: Compression) -> list[JavaObject]:
        """Write one file for each partition of a frame; returns Iceberg's `DataFile`s."""
        session, coordinator = frame.sparkSession, self._singleton("FileRewriteCoordinator")
        options = {**_WRITE_OPTIONS, "output-spec-id": str(spec), "compression-codec": compression.codec}
        if compression.level is not None:
            options["compression-level"] = str(compression.level)
        options[_WRITE_ID] = set_id = self._add_to_cache(version)
        try:
            with compat.active_session(session):
                frame.write.format("iceberg").options(**options).mode("append").save(set_id)
            return _items(coordinator.fetchNewFiles(version.table, set_id))
        finally:
            coordinator.clearRewrite(version.table, set_id)
            self._singleton("SparkTableCache").remove(set_id)

    def _check_rows(self, version: _Version, base: Snapshot, rows: RoutedRows, new: Sequence[JavaObject]) -> None:
        """Raise ConflictError where the new files have not as many rows as the old ones without the deleted rows."""
        expected = sum(int(version.tasks[path].file().recordCount()) for path in base.paths)
        changed = [path for path in base.paths if path in version.with_deletes]
        if changed:
            expected = self.read_rows(rows.frame.sparkSession, base, "__zskip_partition").count()
        written = _count(new)
        if written != expected:
            raise ConflictError(
                f'"{self._catalog.table}" has {expected:,} rows in the files to rewrite, but {written:,} were written; '
                "nothing was committed. If nobody else writes to the table, report this"
            )

    def _prepare(
        self, version: _Version, base: Snapshot, new: Sequence[JavaObject], summary: Mapping[str, str]
    ) -> JavaObject:
        """The `RewriteFiles` that replaces the files of `base`, and drops the deletes that only they had.

        The new files keep the sequence number of the version that was read, so that later equality deletes apply to
        them, and earlier ones do not.
        """
        operation = version.table.newRewrite().validateFromSnapshot(version.snapshot.snapshotId())
        operation.dataSequenceNumber(version.snapshot.sequenceNumber())
        for key, value in summary.items():
            operation.set(key, value)
        for path in base.paths:
            operation.deleteFile(version.tasks[path].file())
        for file in new:
            operation.addFile(file)
        for delete in self._find_dangling_deletes(version, base):
            operation.deleteFile(delete)
        return operation

    def _find_dangling_deletes(self, version: _Version, base: Snapshot) -> list[JavaObject]:
        """The live delete files and deletion vectors that apply to no file but those of `base`."""
        jvm, table = self._jvm, version.table
        dangling = jvm.call(f"{ICEBERG}.util.DeleteFileSet", "create")()
        for manifest in _items(version.snapshot.deleteManifests(table.io())):
            read = jvm.call(f"{ICEBERG}.ManifestFiles", "readDeleteManifest")
            dangling.addAll(self._read_all(read(manifest, table.io(), table.specs())))
        for path in version.with_deletes.difference(base.paths):
            dangling.removeAll(version.tasks[path].deletes())
        return _items(dangling)

    def _read_all(self, items: JavaObject) -> JavaObject:
        """A `java.util.List` from one of Iceberg's `CloseableIterable`s."""
        try:
            return self._jvm.call(f"{ICEBERG}.relocated.com.google.common.collect.Lists", "newArrayList")(
                items.iterator()
            )
        finally:
            items.close()

    def release(self) -> None:
        """Forget the version that was read, and what Iceberg's caches hold of it."""
        version, self._opened = self._opened, None
        if version is not None:
            for set_id in version.set_ids.values():
                self._singleton("ScanTaskSetManager").removeTasks(version.table, set_id)
                self._singleton("SparkTableCache").remove(set_id)

    def _conflict(self, what: str) -> ConflictError:
        return ConflictError(
            f'another writer changed "{self._catalog.table}": {what}; nothing was committed, call again'
        )

    def _singleton(self, name: str) -> JavaObject:
        """The one instance of a class of Iceberg's; py4j does not find `get()` beside `get(key)`."""
        owner = f"{_SPARK}.{name}"
        return self._jvm.handles.static(owner, "get", owner).invokeWithArguments(self._jvm.list_of())


def _items(items: JavaObject) -> list[JavaObject]:
    """The items of a Java collection."""
    iterator, result = items.iterator(), []
    while iterator.hasNext():
        result.append(iterator.next())
    return result


def _count(files: Sequence[JavaObject]) -> int:
    """The number of rows in data files."""
    return sum(int(file.recordCount()) for file in files)


def _remove(version: _Version, files: Sequence[JavaObject]) -> None:
    for file in files:
        version.table.io().deleteFile(file.location())
