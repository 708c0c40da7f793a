"""Commits to Iceberg tables by the session's Iceberg runtime, where only it keeps what a table has.

A rewrite works as in Iceberg's `rewrite_data_files`: the scan tasks of the old files are staged, with the deletes that
apply to them; Iceberg reads their rows, with their ids in tables of version 3; it writes them where zskip has placed
them; and one `RewriteFiles` replaces the old files, and drops the delete files that then apply to none.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats.compression import Compression
from zskip.formats.iceberg.commit import INFO, REWRITE
from zskip.records import Snapshot
from zskip.spark.formats.base import EngineCommit, RoutedRows
from zskip.spark.formats.iceberg.catalog import ICEBERG, SessionCatalog
from zskip.spark.formats.iceberg.scan_tasks import ScanTasks, TableVersion, items_of
from zskip.spark.jvm import compat
from zskip.spark.jvm.failures import root_cause, text_with_causes
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WITH_ROW_IDS = 3
"""The first version of tables whose rows have ids, which older versions of Iceberg would not keep."""
_OLDEST, _OLDEST_WITH_ROW_IDS = (1, 9), (1, 10)
_WRITE_ID = "rewritten-file-scan-task-set-id"
"""The option that names the set of files that a write replaces."""
_WRITE_OPTIONS = {
    "write-format": "parquet",
    # One task writes one file.
    "target-file-size-bytes": str(1 << 60),
    "use-table-distribution-and-ordering": "false",
    "fanout-enabled": "false",
    "check-nullability": "false",
}


class IcebergEngine:
    """Rewrites one table through the Iceberg runtime that the session has loaded."""

    def __init__(self, spark: SparkSession, catalog: SessionCatalog, tasks: ScanTasks) -> None:
        """tasks: of the version that is rewritten."""
        self._spark = spark
        self._jvm = Jvm.of(spark)
        self._catalog = catalog
        self._tasks = tasks

    def check(self, compression: Compression | None) -> None:
        """Raise UnsupportedError where the runtime is older than the calls that a rewrite needs, or lacks a type."""
        table, version = self._catalog.load(), self._jvm.call(f"{ICEBERG}.IcebergBuild", "version")()
        oldest = _OLDEST_WITH_ROW_IDS if table.operations().current().formatVersion() >= _WITH_ROW_IDS else _OLDEST
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < oldest:
            raise UnsupportedError(
                f'zskip rewrites "{self._catalog.table}" through Iceberg {".".join(map(str, oldest))} or later, and '
                f"the session has loaded {version}; load {compat.iceberg_runtime(self._spark)}. Nothing was written"
            )
        try:
            self._jvm.call(f"{ICEBERG}.spark.SparkSchemaUtil", "convert")(table.schema())
        except Py4JError as error:
            raise UnsupportedError(
                f'Iceberg\'s runtime in Spark does not read "{self._catalog.table}" '
                f"({root_cause(text_with_causes(error))}); rewrite it with another engine. Nothing was written"
            ) from error

    def commit(self, base: Snapshot, rows: RoutedRows, info: Mapping[str, Any]) -> EngineCommit:
        """Write the rows and commit them in place of the files of `base`, or change nothing.

        Deletes of other writers in those files are conflicts; all else that they commit meanwhile stays.
        """
        version, name, new = self._tasks.open(), uuid.uuid4().hex, []
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

    def _split_by_spec(
        self, version: TableVersion, base: Snapshot, rows: RoutedRows
    ) -> Iterator[tuple[int, DataFrame]]:
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

    def _write(self, version: TableVersion, frame: DataFrame, spec: int, compression: Compression) -> list[JavaObject]:
        """Write one file for each partition of a frame; returns Iceberg's `DataFile`s."""
        session, coordinator = frame.sparkSession, self._tasks.singleton("FileRewriteCoordinator")
        options = {**_WRITE_OPTIONS, "output-spec-id": str(spec), "compression-codec": compression.codec}
        if compression.level is not None:
            options["compression-level"] = str(compression.level)
        options[_WRITE_ID] = set_id = self._tasks.add_to_cache(version)
        try:
            with compat.active_session(session):
                frame.write.format("iceberg").options(**options).mode("append").save(set_id)
            return items_of(coordinator.fetchNewFiles(version.table, set_id))
        finally:
            coordinator.clearRewrite(version.table, set_id)
            self._tasks.singleton("SparkTableCache").remove(set_id)

    def _check_rows(self, version: TableVersion, base: Snapshot, rows: RoutedRows, new: Sequence[JavaObject]) -> None:
        """Raise ConflictError where the new files have not as many rows as the old ones without the deleted rows."""
        expected = sum(int(version.tasks[path].file().recordCount()) for path in base.paths)
        changed = [path for path in base.paths if path in version.with_deletes]
        if changed:
            expected = self._tasks.read_live(rows.frame.sparkSession, base).count()
        written = _count(new)
        if written != expected:
            raise ConflictError(
                f'"{self._catalog.table}" has {expected:,} rows in the files to rewrite, but {written:,} were written; '
                "nothing was committed. If nobody else writes to the table, report this"
            )

    def _prepare(
        self, version: TableVersion, base: Snapshot, new: Sequence[JavaObject], summary: Mapping[str, str]
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

    def _find_dangling_deletes(self, version: TableVersion, base: Snapshot) -> list[JavaObject]:
        """The live delete files and deletion vectors that apply to no file but those of `base`."""
        jvm, table = self._jvm, version.table
        dangling = jvm.call(f"{ICEBERG}.util.DeleteFileSet", "create")()
        for manifest in items_of(version.snapshot.deleteManifests(table.io())):
            read = jvm.call(f"{ICEBERG}.ManifestFiles", "readDeleteManifest")
            dangling.addAll(self._tasks.read_all(read(manifest, table.io(), table.specs())))
        for path in version.with_deletes.difference(base.paths):
            dangling.removeAll(version.tasks[path].deletes())
        return items_of(dangling)


def _count(files: Sequence[JavaObject]) -> int:
    """The number of rows in data files."""
    return sum(int(file.recordCount()) for file in files)


def _remove(version: TableVersion, files: Sequence[JavaObject]) -> None:
    for file in files:
        version.table.io().deleteFile(file.location())
