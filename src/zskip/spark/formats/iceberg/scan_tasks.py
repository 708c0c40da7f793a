"""One version of an Iceberg table as the session's Iceberg scans it: tasks of files, staged for Spark to read."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats.iceberg.commit import HIDDEN_IDS
from zskip.formats.iceberg.deletes import POSITIONS, VECTOR
from zskip.formats.iceberg.table import PathResolver
from zskip.records import Deletes, HiddenColumn, Ints, Matching, ReadableFiles, Snapshot
from zskip.spark.formats.iceberg.catalog import ICEBERG, SessionCatalog, read_all
from zskip.spark.forms import free_name
from zskip.spark.jvm import compat
from zskip.spark.jvm.compiled.lists import read_columns
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.schema import add_numbers, free_ordinal, names_without_default

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from zskip.storage import Storage

_SPARK = f"{ICEBERG}.spark"
_READ_ID = "scan-task-set-id"
"""The option that names a staged set; with Spark 4.1 its name as that of a table is enough."""
_OF_FILES = ("file.location", "file.recordCount", "file.firstRowId", "file.dataSequenceNumber")
"""What `_File` takes."""
_OF_DELETES = ("location", "content", "format", "fileSizeInBytes", "recordCount", "contentOffset")
"""What `_Delete` takes."""
_TRACKED_SINCE = 3
"""The format version in which rows have ids."""
_UUID = '"uuid"'
"""In the JSON of types."""


class _Delete(NamedTuple):
    """A delete file, or a deletion vector in one."""

    location: str
    content: str
    format: str
    size: int
    rows: int
    offset: int | None
    """Of a vector."""

    @property
    def is_vector(self) -> bool:
        return self.offset is not None


class _File(NamedTuple):
    """What Iceberg says of a data file."""

    location: str
    rows: int
    first_row_id: int | None
    sequence_number: int | None
    deletes: Sequence[_Delete]
    """What may apply to it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SnapshotTasks:
    """One snapshot of the table, and what is staged of it in Iceberg's caches."""

    table: JavaObject
    """`org.apache.iceberg.BaseTable`."""
    snapshot: JavaObject
    tasks: Mapping[str, JavaObject]
    """`FileScanTask`s by their files' paths."""
    files: Mapping[str, _File]
    set_ids: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Ids of staged sets by their files' paths."""


class ScanTasks:
    """The scan tasks of one version of a table, the one that is current at the first question."""

    def __init__(
        self, spark: SparkSession, storage: Storage, catalog: SessionCatalog, branch: str | None = None
    ) -> None:
        """branch: None for main."""
        self._jvm = Jvm.of(spark)
        self._storage = storage
        self._catalog = catalog
        self._branch = branch
        self._opened: SnapshotTasks | None = None

    def open(self) -> SnapshotTasks:
        """The table's current snapshot, to which its reader and its commit keep."""
        if self._opened is None:
            table = self._catalog.load()
            snapshot = table.currentSnapshot() if self._branch is None else table.snapshot(self._branch)
            if snapshot is None:
                raise ConflictError(f'"{self._catalog.table}" has no snapshot any more; call again')
            self._opened = self._read_tasks(table, snapshot)
        return self._opened

    def _read_tasks(self, table: JavaObject, snapshot: JavaObject) -> SnapshotTasks:
        tasks = read_all(self._jvm, table.newScan().useSnapshot(snapshot.snapshotId()).planFiles())
        files, resolver = self._read_files(tasks), PathResolver(self._storage, table.location())
        paths = [resolver.relative(file.location) for file in files]
        return SnapshotTasks(
            table=table,
            snapshot=snapshot,
            tasks={path: tasks.get(i) for i, path in enumerate(paths)},
            files=dict(zip(paths, files, strict=True)),
        )

    def _read_files(self, tasks: JavaObject) -> list[_File]:
        """The files of tasks, and their deletes."""
        facts = read_columns(self._jvm, tasks, *_OF_FILES)
        deletes = read_columns(self._jvm, tasks, *(f"deletes.{getter}" for getter in _OF_DELETES))
        own = [tuple(map(_Delete, *of_task)) for of_task in zip(*deletes, strict=True)]
        return list(map(_File, *facts, own))

    def read_live(self, session: SparkSession, snapshot: Snapshot) -> DataFrame:
        """The rows in a snapshot's files without the deleted ones, with values as the files have them.

        The number of each row's partition comes last, in tables of version 3 after the columns `_row_id` and
        `_last_updated_sequence_number`.
        """
        import pyspark.sql.functions as F

        version = self.open()
        with compat.active_session(session):
            frame = self._read_staged(session, version, snapshot)
            if len(np.unique(snapshot.partition_of)) == 1:
                return frame.withColumn(free_ordinal(frame.columns), F.lit(int(snapshot.partition_of[0])))
            locations = [version.files[path].location for path in snapshot.paths]
            path, ordinal = free_name("__zskip_path", frame.columns), free_ordinal(frame.columns)
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
        version = self.open()
        tasks = {path: self._restore_rows(version, path) for path in snapshot.paths if path in version.tasks}
        # Other files may be read next: files can lack different sketches.
        files = {path: version.files[path]._replace(deletes=()) for path in tasks}
        self._opened = version = replace(version, tasks={**version.tasks, **tasks}, files={**version.files, **files})
        with compat.active_session(session):
            return self._read_staged(session, version, snapshot)

    def _restore_rows(self, version: SnapshotTasks, path: str) -> JavaObject:
        """The task of a file without its deletes."""
        task, jvm = version.tasks[path], self._jvm
        if not version.files[path].deletes:
            return task
        schema = jvm.call(f"{ICEBERG}.SchemaParser", "toJson")(version.table.schema())
        spec = jvm.call(f"{ICEBERG}.PartitionSpecParser", "toJson")(task.spec())
        everything = jvm.call(f"{ICEBERG}.expressions.Expressions", "alwaysTrue")()
        residuals = jvm.call(f"{ICEBERG}.expressions.ResidualEvaluator", "unpartitioned")(everything)
        none = jvm.array(f"{ICEBERG}.DeleteFile", [])
        return jvm.find(f"{ICEBERG}.BaseFileScanTask")(task.file(), none, schema, spec, residuals)

    def _read_staged(self, session: SparkSession, version: SnapshotTasks, snapshot: Snapshot) -> DataFrame:
        import pyspark.sql.functions as F

        columns = json.loads(self._jvm.call(f"{ICEBERG}.SchemaParser", "toJson")(version.table.schema()))["fields"]
        kinds = {column["name"]: column["type"] for column in columns if _UUID in json.dumps(column["type"])}
        settings, set_id = session._jsparkSession.sessionState().conf(), self._stage(version, snapshot)
        frame = (
            session.read.format("iceberg")
            .option("split-size", settings.filesMaxPartitionBytes())
            .option("file-open-cost", settings.filesOpenCostInBytes())
            .option(_READ_ID, set_id)
            .load(set_id)
        )
        return frame.withColumns({name: _as_stored(F.col(f"`{name}`"), kind) for name, kind in kinds.items()})

    def count_live_rows(self, session: SparkSession, snapshot: Snapshot) -> Ints:
        """(files,) the rows in a snapshot's files without the deleted ones, which Iceberg counts where it has to.

        Two position deletes may be of one row; a file has at most one deletion vector, which says how many rows it has.
        """
        import pyspark.sql.functions as F

        version = self.open()
        counts = {path: version.files[path].rows for path in snapshot.paths}
        changed = []
        for path in snapshot.paths:
            deletes = version.files[path].deletes
            if all(delete.is_vector for delete in deletes):
                counts[path] -= sum(delete.rows for delete in deletes)
            else:
                changed.append(path)
        if changed:
            at = {version.files[path].location: path for path in changed}
            only = snapshot.select(np.isin(snapshot.paths, changed))
            with compat.active_session(session):
                frame = self._read_staged(session, version, only)
                rows = frame.groupBy(F.input_file_name().alias("path")).count().collect()
            counts |= dict.fromkeys(changed, 0) | {at[row[0]]: row[1] for row in rows}
        return np.array([counts[path] for path in snapshot.paths], np.int64)

    def count_deleted_rows(self, snapshot: Snapshot) -> Ints:
        """(files,) the rows in deletion vectors, and those of delete files spread over the files that they apply to."""
        of_path = {path: file.deletes for path, file in self.open().files.items()}
        uses = Counter(delete.location for deletes in of_path.values() for delete in deletes if not delete.is_vector)
        counts = [
            sum(delete.rows // (1 if delete.is_vector else uses[delete.location]) for delete in of_path.get(path, ()))
            for path in snapshot.paths
        ]
        return np.array(counts, np.int64)

    def readable_files(self, snapshot: Snapshot, stored: str) -> ReadableFiles | None:
        """How the files are read without Iceberg; None where that is not enough. stored: their columns, as Spark's."""
        ids = snapshot.reading.names.ids
        may_lack = frozenset[str]() if ids is None else names_without_default(stored, ids.filled)
        version = self.open()
        resolver = PathResolver(self._storage, version.table.location())
        deletes: dict[str, list[Deletes]] = {}
        hidden: dict[str, list[HiddenColumn]] = {}
        tracks_rows = int(version.table.operations().current().formatVersion()) >= _TRACKED_SINCE
        for path in snapshot.paths:
            if version.files[path].deletes:
                described = [_describe(delete, resolver) for delete in version.files[path].deletes]
                deletes[path] = [one for one in described if one is not None]
                if len(deletes[path]) < len(described):
                    return None
            if tracks_rows:
                first = version.files[path].first_row_id
                # As in Iceberg's reader, rows without ids have no sequence number either.
                values = (first, None if first is None else version.files[path].sequence_number)
                hidden[path] = [HiddenColumn(*one) for one in zip(HIDDEN_IDS, values, (True, False), strict=True)]
        return ReadableFiles(
            columns=add_numbers(stored, HIDDEN_IDS) if tracks_rows else stored,
            matching=Matching(by_id=True, may_lack=may_lack),
            locations={path: version.files[path].location for path in deletes},
            deletes=deletes,
            hidden=hidden,
        )

    def _stage(self, version: SnapshotTasks, snapshot: Snapshot) -> str:
        """Stage the tasks of a snapshot's files; returns the id by which Spark reads them."""
        if snapshot.paths not in version.set_ids:
            version.set_ids[snapshot.paths] = set_id = str(uuid.uuid4())
            self.singleton("SparkTableCache").add(set_id, version.table)
            missing = [path for path in snapshot.paths if path not in version.tasks]
            if missing:
                raise self.conflict(f'"{missing[0]}" was removed')
            tasks = self._jvm.list_of(*(version.tasks[path] for path in snapshot.paths))
            self.singleton("ScanTaskSetManager").stageTasks(version.table, set_id, tasks)
        return version.set_ids[snapshot.paths]

    def release(self) -> None:
        """Forget the version that was read, and what Iceberg's caches hold of it."""
        version, self._opened = self._opened, None
        if version is not None:
            for set_id in version.set_ids.values():
                self.singleton("ScanTaskSetManager").removeTasks(version.table, set_id)
                self.singleton("SparkTableCache").remove(set_id)

    def conflict(self, what: str) -> ConflictError:
        """The error where another writer changed the table."""
        return ConflictError(
            f'another writer changed "{self._catalog.table}": {what}; nothing was committed, call again'
        )

    def singleton(self, name: str) -> JavaObject:
        """The one instance of a class of Iceberg's; py4j does not find `get()` beside `get(key)`."""
        call = self._jvm.call("org.apache.commons.lang3.reflect.MethodUtils", "invokeStaticMethod")
        return call(self._jvm.class_of(f"{_SPARK}.{name}"), "get", self._jvm.array("java.lang.Object", []))


def _describe(delete: _Delete, resolver: PathResolver) -> Deletes | None:
    """A delete file as `ReadableFiles` has it; None for one that only Iceberg applies."""
    if delete.content != "POSITION_DELETES" or not (delete.is_vector or delete.format == "PARQUET"):
        return None
    try:
        path = resolver.relative(delete.location)
    except UnsupportedError:
        return None
    if delete.offset is None:
        return Deletes(kind=POSITIONS, path=path, size=delete.size)
    return Deletes(kind=VECTOR, path=path, offset=delete.offset, size=delete.size)


def _as_stored(value: Column, kind: Any) -> Column:
    """Values as files have them: Iceberg's reader gives the text of UUIDs; kind: the type, in Iceberg's JSON."""
    import pyspark.sql.functions as F

    if kind == "uuid":
        return F.unhex(F.translate(value, "-", ""))
    if _UUID not in json.dumps(kind):
        return value
    if kind["type"] == "list":
        return F.transform(value, lambda element: _as_stored(element, kind["element"]))
    if kind["type"] == "map":
        keys = F.transform(F.map_keys(value), lambda key: _as_stored(key, kind["key"]))
        return F.map_from_arrays(keys, F.transform(F.map_values(value), lambda item: _as_stored(item, kind["value"])))
    fields = (_as_stored(value.getField(f["name"]), f["type"]).alias(f["name"]) for f in kind["fields"])
    return F.when(value.isNotNull(), F.struct(*fields))
