"""Hudi's own writer: an optimize as one replacecommit.

Hudi's `INSERT OVERWRITE` replaces all files in a partition when it commits. This engine writes files the same way, but
its commit names only the file groups that were read, so that rows appended in the meantime stay. Like Hudi's
clustering, it keeps the columns that Hudi adds to each row, the commit time included.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zskip.errors import ConflictError, StorageError, UnsupportedError
from zskip.formats import HOME, staging
from zskip.formats.compression import Compression
from zskip.formats.hudi.format import INFO_KEY, NOTE, HudiFormat
from zskip.formats.hudi.protocol import check_rewritable, metadata_parts
from zskip.formats.hudi.timeline import Timeline, read_timeline
from zskip.records import Snapshot
from zskip.spark.formats.base import EngineCommit, RoutedRows
from zskip.spark.formats.hudi.bundle import HUDI, is_loaded
from zskip.spark.jvm.failures import root_cause, text_with_causes
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.statuses import qualify_root
from zskip.storage.redirected import RedirectedStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
_OLDEST = (1, 2)
_ACTION = "replacecommit"
_KRYO = "org.apache.spark.serializer.KryoSerializer"
_BUCKET = re.compile(r"0000[0-9]{4}-")
"""The start of a file id under a bucket index, which assigns records to files by their keys."""
_LARGEST = str(1 << 50)
_SETTINGS = {
    "hoodie.datasource.write.operation": "insert_overwrite",
    # Neither this commit nor those of others may be mistaken for dead ones.
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    # Leave the table as it is: no upgrade, no cleaning, no other service.
    "hoodie.write.auto.upgrade": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.write.complex.keygen.validation.enable": "false",
    # Never split a file of the layout.
    "hoodie.parquet.max.file.size": _LARGEST,
}
_INDEXES = {
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.record.index.enable",
}
"""The settings that keep the parts of a metadata table up to date."""
_LOCK_SETTINGS = "hoodie[.]write[.]lock[.]"
_CONFLICT = re.compile("HoodieWriteConflictException|HoodieHeartbeatException|Could not read commit details")
_LOG = logging.getLogger("zskip.hudi")


class HudiEngine:
    """Writes to one table through the bundle that the session has loaded."""

    def __init__(self, spark: SparkSession, table: HudiFormat) -> None:
        self._spark = spark
        self._table = table
        self._storage = table.storage
        self._home = RedirectedStorage(self._storage, HOME, table.home)
        self._jvm = Jvm.of(spark)

    def check(self, compression: Compression | None) -> None:
        """Raise UnsupportedError where the session, the table or a level of compression rules out a commit."""
        root = self._storage.root
        if compression is not None and compression.level is not None:
            raise UnsupportedError(
                f'Hudi, which writes the files of "{root}", takes no level of a codec; write '
                f'compression="{compression.codec}"'
            )
        if not is_loaded(self._spark):
            raise UnsupportedError(
                f'to rewrite the Hudi table "{root}" the session needs Hudi\'s bundle; start it with '
                f"spark.jars.packages={_BUNDLE} and spark.serializer={_KRYO}. Nothing was written"
            )
        version = self._jvm.call(f"{HUDI}.HoodieVersion", "get")()
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            raise UnsupportedError(
                f'zskip commits to "{root}" through Hudi 1.2 or later, and the session has loaded {version}; '
                f"load {_BUNDLE}. Nothing was written"
            )
        if self._spark.conf.get("spark.serializer", "") != _KRYO:
            raise UnsupportedError(f'Hudi writes to "{root}" only where spark.serializer={_KRYO}; start Spark with it')
        check_rewritable(root, self._table.options(), self._table.avro_schema())

    def commit(self, base: Snapshot, rows: RoutedRows, info: Mapping[str, Any]) -> EngineCommit:
        """Write the rows and commit them in place of the files of `base`, or change nothing.

        Raises ConflictError where one of those files was changed, or may be about to be by a writer that does not check
        for conflicts.
        """
        self._check_buckets(base)
        self._check_live(base)
        client = self._client(rows)
        try:
            staged, instant = staging.begin(self._home, lambda path: self._sweep(client, path)), ""
            try:
                with self._translate_conflicts():
                    instant = client.startCommit(_ACTION)
                self._home.write(f"{staged}/{NOTE}", instant.encode())
                with self._translate_conflicts():
                    stats = self._write(client, instant, rows)
                self._check_written(stats, rows)
                completed = self._check_live(base, instant)
                with self._translate_conflicts():
                    self._complete(client, instant, stats, base, info)
                self._check_after(base, instant, completed)
            except BaseException:
                if self._undo(client, instant):
                    self._home.delete(staged)
                raise
            self._home.delete(staged)
        finally:
            client.close()
        return EngineCommit(
            version=int(instant),
            sizes=tuple(int(stat.getFileSizeInBytes()) for stat in stats),
            names=tuple(str(stat.getPath()).rpartition("/")[2] for stat in stats),
            rows=rows.rows,
        )

    def _client(self, rows: RoutedRows) -> JavaObject:
        options = self._table.options()
        parts = metadata_parts(options)
        settings = {
            **_SETTINGS,
            **{name: "true" for part, name in _INDEXES.items() if part in parts},
            **self._locks(),
            "hoodie.datasource.write.table.type": options["hoodie.table.type"],
            "hoodie.metadata.enable": str("files" in parts).lower(),
            "hoodie.parquet.compression.codec": rows.compression.codec,
            "hoodie.write.table.version": options.get("hoodie.table.version", "6"),
        }
        java_settings = self._jvm.find("java.util.HashMap")()
        for name, value in settings.items():
            java_settings.put(name, value)
        create = self._jvm.call(f"{HUDI}.DataSourceUtils", "createHoodieClient")
        name = options["hoodie.table.name"]
        with self._translate_conflicts():
            return create(
                self._spark._jsc, self._table.avro_schema(), qualify_root(self._storage.root), name, java_settings
            )

    def _locks(self) -> dict[str, str]:
        """The session's settings for the lock that all writers to its Hudi tables share."""
        rows = self._spark.sql("SET").where(f"key RLIKE '^(spark[.])?{_LOCK_SETTINGS}'").collect()
        return {row[0].removeprefix("spark."): row[1] for row in rows}

    def _write(self, client: JavaObject, instant: str, rows: RoutedRows) -> list[JavaObject]:
        jvm, option = self._jvm, f"{HUDI}.common.util.Option"
        operation = jvm.find(f"{HUDI}.common.model.WriteOperationType").INSERT_OVERWRITE
        table = client.initTable(operation, jvm.call(option, "of")(instant))
        meta = table.getMetaClient()
        client.preWrite(instant, operation, meta)
        requested = jvm.find(f"{HUDI}.common.table.timeline.HoodieInstant$State").REQUESTED
        empty = jvm.call(option, "empty")()
        table.getActiveTimeline().transitionRequestedToInflight(
            meta.createNewInstant(requested, _ACTION, instant), empty
        )
        insert = jvm.call(f"{HUDI}.HoodieDatasetBulkInsertHelper", "bulkInsert")
        # The first flag would make Hudi close files at every change of partition; the second keeps Hudi's own columns.
        written = insert(rows.frame._jdf, instant, table, client.getConfig(), False, True)
        return [status.getStat() for status in written.collectAsList()]

    def _check_written(self, stats: Sequence[JavaObject], rows: RoutedRows) -> None:
        written, failed = sum(s.getNumWrites() for s in stats), sum(s.getTotalWriteErrors() for s in stats)
        if written != rows.rows or failed or len(stats) > rows.files:
            raise ConflictError(
                f'"{self._storage.root}" has {rows.rows:,} rows to rewrite into {rows.files:,} files, but {written:,} '
                f"were written into {len(stats):,}, and {failed:,} failed; nothing was committed. If nobody else "
                "writes to the table, report this"
            )

    def _complete(
        self, client: JavaObject, instant: str, stats: Sequence[JavaObject], base: Snapshot, info: Mapping[str, Any]
    ) -> None:
        jvm, option = self._jvm, f"{HUDI}.common.util.Option"
        extra, replaced = jvm.find("java.util.HashMap")(), jvm.find("java.util.HashMap")()
        extra.put(INFO_KEY, json.dumps(dict(info)))
        for partition, groups in _groups(base).items():
            replaced.put(partition, jvm.list_of(*groups))
        if not client.commitStats(
            instant, jvm.list_of(*stats), jvm.call(option, "of")(extra), _ACTION, replaced, jvm.call(option, "empty")()
        ):
            raise ConflictError(f'Hudi refused the commit to "{self._storage.root}"; nothing was committed, call again')

    def _check_buckets(self, base: Snapshot) -> None:
        groups = [group for ids in _groups(base).values() for group in ids]
        if groups and all(_BUCKET.match(group) for group in groups):
            raise UnsupportedError(
                f'the Hudi table "{self._storage.root}" has a bucket index, which assigns each row to a file by its '
                "key; cluster it with Hudi (CALL run_clustering). Nothing was written"
            )

    def _check_live(self, base: Snapshot, own_instant: str = "") -> frozenset[str]:
        """Raise ConflictError where a file of `base` has changed or is about to; returns the complete instants."""
        timeline = read_timeline(self._storage)
        self._check_pending(timeline, own_instant)
        current = self._table.snapshot()
        sizes = dict(zip(current.paths, current.sizes.tolist(), strict=True))
        logs, base_logs = _log_files(current), _log_files(base)
        for path, size in zip(base.paths, base.sizes.tolist(), strict=True):
            if sizes.get(path) != size or logs.get(path) != base_logs.get(path):
                raise self._conflict(f'"{path}" was changed')
        return timeline.complete

    def _check_after(self, base: Snapshot, own_instant: str, completed: frozenset[str]) -> None:
        """Raise ConflictError where a writer that does not check for conflicts committed or began in the meantime."""
        groups = {(partition, group) for partition, ids in _groups(base).items() for group in ids}
        timeline = read_timeline(self._storage)
        self._check_pending(timeline, own_instant)
        for instant in sorted(timeline.complete - completed - {own_instant}):
            changed = self._table.changed_file_groups(instant)
            if changed is None or changed & groups:
                raise self._conflict(f"the instant {instant} changed what is rewritten")

    def _check_pending(self, timeline: Timeline, own_instant: str) -> None:
        pending = sorted(timeline.unguarded - {own_instant})
        if pending:
            raise self._conflict(
                f"the instant {pending[0]} is pending, and its writer does not check for conflicts "
                "(hoodie.write.concurrency.mode), or is dead: then a write or clean by Hudi rolls it back"
            )

    def _conflict(self, what: str) -> ConflictError:
        return ConflictError(f'"{self._storage.root}" is being written to: {what}; nothing was committed, call again')

    def _sweep(self, client: JavaObject, staged: str) -> None:
        """Roll back the commit of an optimize whose process died."""
        try:
            instant = self._home.read(f"{staged}/{NOTE}").decode()
        except FileNotFoundError:
            instant = ""
        if instant in read_timeline(self._storage).pending:
            with self._translate_conflicts():
                client.rollback(instant)
        self._home.delete(staged)

    def _undo(self, client: JavaObject, instant: str) -> bool:
        """Roll back a commit; returns false where it stays pending, for a later optimize.

        Raises StorageError where it is complete and cannot be rolled back.
        """
        root = self._storage.root
        try:
            timeline = read_timeline(self._storage)
            if instant in timeline.pending | timeline.complete:
                client.rollback(instant)
        except Exception as error:
            if instant in read_timeline(self._storage).complete:
                raise StorageError(
                    f'"{root}" changed while the instant {instant} was committed, which Hudi then could not '
                    f"roll back ({root_cause(text_with_causes(error))}); roll it back with CALL rollback_to_instant"
                ) from error
            _LOG.warning('the instant %s stays pending in "%s": %s', instant, root, error)
            return False
        return True

    @contextmanager
    def _translate_conflicts(self) -> Iterator[None]:
        """Raise Hudi's conflicts as ConflictError."""
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            text = text_with_causes(error)
            if _CONFLICT.search(text):
                raise self._conflict(root_cause(text)) from error
            raise


def _log_files(snapshot: Snapshot) -> dict[str, frozenset[tuple[str | None, int | None]]]:
    """Path and size of the log files of each file group that has some, by the path of its base file."""
    logs_by_path = {} if snapshot.reading.read_deletes is None else snapshot.reading.read_deletes()
    return {path: frozenset((log.path, log.size) for log in logs) for path, logs in logs_by_path.items()}


def _groups(base: Snapshot) -> dict[str, list[str]]:
    """The ids of a snapshot's file groups, by partition."""
    groups: dict[str, list[str]] = {}
    for path, partition in zip(base.paths, base.partition_of.tolist(), strict=True):
        name = path.rpartition("/")[2]
        groups.setdefault(base.partitions[partition].directory, []).append(name.partition("_")[0])
    return groups
