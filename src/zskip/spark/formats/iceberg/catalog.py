"""Iceberg tables of the session's own catalogs: their current metadata, and commits by Iceberg's runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, TruncateTransform
from pyspark import InheritableThread
from pyspark.errors.exceptions.captured import CapturedException

from zskip.errors import ConflictError, InputError, StorageError, TableNotFoundError, ZskipError
from zskip.formats.base import APPEND, REPLACE
from zskip.formats.hive import DEFAULT_PARTITION
from zskip.formats.iceberg.catalog import (
    CurrentTable,
    NewTable,
    TableDefinition,
    UnknownCommitError,
    call_with_timeout,
    made_meanwhile,
    reread_contents,
)
from zskip.formats.iceberg.commit import (
    REWRITE,
    NewFile,
    Rewrite,
    check_unchanged,
    find_committed,
)
from zskip.formats.iceberg.partitions import PartitionTerm, parse_partition_terms, partition_values
from zskip.formats.schema import first_line
from zskip.spark.jvm import compat
from zskip.spark.jvm.failures import root_cause, text_with_causes
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import is_java_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.formats.iceberg.table import Contents

ICEBERG = "org.apache.iceberg"
FILE = f"{ICEBERG}.ContentFile"
LOCATION = ("location", "java.lang.String")
_TRIES = 50
_FOOTERS_AT_ONCE = 8
_CONFLICTS = (
    f"{ICEBERG}.exceptions.ValidationException",
    f"{ICEBERG}.exceptions.CommitFailedException",
)
"""The errors after which certainly nothing was committed."""
_TAKEN = f"{ICEBERG}.exceptions.AlreadyExistsException"
"""The error for a new table whose name was taken."""
_NO_NAMESPACE = f"{ICEBERG}.exceptions.NoSuchNamespaceException"
"""The error of catalogs that look for the namespace of a new table only when it is committed."""
_METADATA_TABLE = f"{ICEBERG}.BaseMetadataTable"
_MISSING = (
    _NO_NAMESPACE,
    f"{ICEBERG}.exceptions.NoSuchTableException",
    "org.apache.spark.sql.catalyst.analysis.NoSuchTableException",
)


class SessionCatalog:
    """A table of one of the session's Iceberg catalogs."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark = spark
        self._jvm = Jvm.of(spark)
        self._table = table

    @property
    def table(self) -> str:
        """The table's name, including its catalog."""
        return self._table

    @property
    def in_session(self) -> bool:
        """True: Spark reads the table by this name."""
        return True

    @property
    def in_one_thread(self) -> bool:
        """False: all threads of a session may use Iceberg's catalogs."""
        return False

    def above(self) -> SessionCatalog:
        """The table whose name this one's extends by one part."""
        return SessionCatalog(self._spark, self._table.rpartition(".")[0])

    def exists(self) -> bool:
        """Whether the catalog has the table; raises StorageError where the catalog is down."""
        try:
            self.load()
        except TableNotFoundError:
            return False
        return True

    def current(self) -> CurrentTable:
        """The current location and metadata of the table."""
        table = self.load()
        with self._translate_errors("read the metadata of"):
            metadata = table.operations().current()
            return CurrentTable(root=table.location(), metadata=metadata.metadataFileLocation())

    def draft(self, definition: TableDefinition) -> NewTable:
        """Begin to make the table where the catalog puts it."""
        with self._translate_errors("create the table in the catalog of"):
            transaction = call_with_timeout(self._table, lambda: self._begin(definition), InheritableThread)
            return NewTable(self, _SessionDraft(self, self._jvm, transaction))

    def _begin(self, definition: TableDefinition) -> JavaObject:
        """An `org.apache.iceberg.Transaction` that creates the table."""
        compat.set_active(self._jvm, self._spark._jsparkSession)
        jvm = self._jvm
        struct = jvm.call("org.apache.spark.sql.types.DataType", "fromJson")(definition.schema_json)
        schema = jvm.call(f"{ICEBERG}.spark.SparkSchemaUtil", "convert")(struct)
        columns = Schema.model_validate_json(jvm.call(f"{ICEBERG}.SchemaParser", "toJson")(schema))
        terms = parse_partition_terms(
            definition.partition_by, columns, self._table, case_sensitive=definition.case_sensitive
        )
        spec = jvm.call(f"{ICEBERG}.PartitionSpec", "builderFor")(schema)
        try:
            for term in terms:
                _add_field(spec, term)
            built = spec.build()
        except (Py4JJavaError, CapturedException) as error:
            raise InputError(
                f"partition_by={list(definition.partition_by)}: Iceberg refuses these partitions "
                f"({root_cause(text_with_causes(error))}). Nothing was written"
            ) from error
        # As Spark's own tables have it.
        owner = jvm.call("org.apache.spark.util.Utils", "getCurrentUserName")()
        tables, identifier = self._locate()
        builder = tables.buildTable(identifier, schema).withPartitionSpec(built).withProperty("owner", owner)
        return builder.createTransaction()

    def load(self) -> JavaObject:
        """The current `org.apache.iceberg.BaseTable`."""
        with self._translate_errors("reach the catalog of"):
            return call_with_timeout(self._table, self._load_now, InheritableThread)

    def _load_now(self) -> JavaObject:
        # Runs in a thread of its own: Spark looks catalogs up in the settings of the thread's active session.
        compat.set_active(self._jvm, self._spark._jsparkSession)
        # Not by Spark's lookup, which takes t.branch_x for a branch of t, and gives the table with its main.
        tables, identifier = self._locate()
        table = tables.loadTable(identifier)
        if is_instance_of(self._spark.sparkContext._gateway, table, _METADATA_TABLE):
            raise InputError(
                f'"{self._table}" is a metadata table of Iceberg\'s, made of the table that its name begins with; read '
                f'it with spark.table("{self._table}"), or name the table itself. Nothing was written'
            )
        table.refresh()
        return table

    def _locate(self) -> tuple[JavaObject, JavaObject]:
        """Iceberg's own catalog, and the table's identifier in it."""
        jvm = self._jvm
        catalog, *namespace, name = self._table.split(".")
        levels = jvm.call(f"{ICEBERG}.catalog.Namespace", "of")(jvm.array("java.lang.String", namespace))
        identifier = jvm.call(f"{ICEBERG}.catalog.TableIdentifier", "of")(levels, name)
        manager = self._spark._jsparkSession.sessionState().catalogManager()
        return manager.catalog(catalog).icebergCatalog(), identifier

    def commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        """Commit a rewrite with Iceberg's own `RewriteFiles`, which retries after concurrent commits."""
        for tries_left in reversed(range(1 if rewrite.batch is None else _TRIES)):
            try:
                self._commit_once(rewrite, read)
                return
            except ConflictError:
                if not tries_left:
                    raise

    def _commit_once(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        contents = reread_contents(read, self.current())
        check_unchanged(contents, rewrite)
        table = self.load()
        operation = self.prepare(table, contents, rewrite)
        self.commit_operation(operation, lambda: self._is_committed(rewrite, read))

    def prepare(self, table: JavaObject, contents: Contents, rewrite: Rewrite) -> JavaObject:
        """The pending update of a rewrite."""
        with self._translate_errors("prepare a commit to"):
            return self._prepare(table, contents, rewrite)

    def commit_operation(self, operation: JavaObject, is_committed: Callable[[], bool]) -> None:
        """Commit one of Iceberg's pending updates.

        is_committed: asks the table, where the catalog has failed. Raises ConflictError where nothing was committed,
        and UnknownCommitError where that is unknown.
        """
        self.send(operation.commit, is_committed)

    def send(self, commit: Callable[[], object], is_committed: Callable[[], bool]) -> None:
        """Call a method of Iceberg's that commits; raises as `commit_operation` does."""
        try:
            commit()
        except (Py4JJavaError, CapturedException) as error:
            if isinstance(error, Py4JJavaError) and is_java_error(error, *_CONFLICTS):
                raise ConflictError(
                    f'another writer changed "{self._table}" in the meantime ({_message(error)}); nothing was '
                    "committed, call again"
                ) from error
            if not is_committed():
                raise UnknownCommitError(
                    f'the catalog of "{self._table}" failed in the middle of a commit ({_message(error)}); check '
                    "whether its current snapshot is zskip's before you call again. No row is lost either way"
                ) from error

    def add_to_transaction(self, operation: JavaObject) -> None:
        """Apply one of Iceberg's pending updates to its transaction; raises StorageError, and nothing is committed."""
        with self._translate_errors("write manifests of"):
            operation.commit()

    def find_committed(self, name: str) -> JavaObject | None:
        """Iceberg's snapshot that a rewrite of this name has committed, if the table still has it."""
        with self._translate_errors("read the metadata of"):
            snapshots = self.load().snapshots().iterator()
            while snapshots.hasNext():
                snapshot = snapshots.next()
                if snapshot.summary().get(REWRITE) == name:
                    return snapshot
        return None

    def _is_committed(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> bool:
        try:
            return find_committed(read(self.current()).metadata, rewrite.name) is not None
        except ZskipError:
            return False

    def _prepare(self, table: JavaObject, contents: Contents, rewrite: Rewrite) -> JavaObject:
        """The `RewriteFiles` of a rewrite, validated from the snapshot that was read, or what adds new rows."""
        if rewrite.mode != REPLACE:
            return self._prepare_new_rows(table, contents, rewrite)
        snapshot = self._find_read(table, contents, rewrite)
        removed, dangling = self._find_removed(table, snapshot, contents, rewrite)
        operation = table.newRewrite().validateFromSnapshot(snapshot.snapshotId())
        if snapshot.sequenceNumber():
            # Equality deletes that come later apply to the new files, and earlier ones do not.
            operation.dataSequenceNumber(snapshot.sequenceNumber())
        for key, value in rewrite.summary.items():
            operation.set(key, value)
        for delete in dangling:
            operation.deleteFile(delete)
        file_in_partition: dict[str, JavaObject] = {}
        for i, path in enumerate(rewrite.old.paths):
            operation.deleteFile(removed[path])
            directory = rewrite.old.partitions[rewrite.old.partition_of[i]].directory
            file_in_partition[directory] = removed[path]
        root = contents.metadata.location.rstrip("/")

        def describe(file: NewFile) -> JavaObject:
            return self._describe(table, f"{root}/{file.target}", file, file_in_partition[file.staged.directory])

        for data_file in _at_once(describe, rewrite.new):
            operation.addFile(data_file)
        return operation

    def _prepare_new_rows(self, table: JavaObject, contents: Contents, rewrite: Rewrite) -> JavaObject:
        """An `AppendFiles`, or an `OverwriteFiles` of all rows.

        A batch is an `OverwriteFiles` without a filter, since that commits only if no rows were added meanwhile.
        """
        everything = self._jvm.call(f"{ICEBERG}.expressions.Expressions", "alwaysTrue")()
        if rewrite.batch is not None:
            operation = table.newOverwrite().conflictDetectionFilter(everything).validateNoConflictingData()
            if contents.metadata.current_snapshot_id is not None:
                operation.validateFromSnapshot(contents.metadata.current_snapshot_id)
            add = operation.addFile
        elif rewrite.mode == APPEND:
            operation = table.newAppend()
            add = operation.appendFile
        else:
            operation = table.newOverwrite().overwriteByRowFilter(everything)
            add = operation.addFile
        for key, value in rewrite.summary.items():
            operation.set(key, value)
        if rewrite.branch is not None:
            operation.toBranch(rewrite.branch)
        root = contents.metadata.location.rstrip("/")

        def describe(file: NewFile) -> JavaObject:
            values = partition_values(contents.metadata, rewrite.spec, file.staged.directory)
            return self._describe(table, f"{root}/{file.target}", file, None, rewrite.spec, values)

        for data_file in _at_once(describe, rewrite.new):
            add(data_file)
        return operation

    def _find_read(self, table: JavaObject, contents: Contents, rewrite: Rewrite) -> JavaObject:
        """Iceberg's snapshot that the rewrite has read; in version 1, where nothing is deleted, the current one."""
        current = table.snapshot(contents.metadata.current_snapshot_id)
        snapshots = table.snapshots().iterator()
        while rewrite.old.version and current.sequenceNumber() != rewrite.old.version and snapshots.hasNext():
            current = snapshots.next()
        if rewrite.old.version and current.sequenceNumber() != rewrite.old.version:
            raise ConflictError(
                f'the snapshot of "{self._table}" that was read has expired; nothing was committed, call again'
            )
        return current

    def _find_removed(
        self, table: JavaObject, snapshot: JavaObject, contents: Contents, rewrite: Rewrite
    ) -> tuple[dict[str, JavaObject], Sequence[JavaObject]]:
        """Iceberg's own `DataFile`s of the files to remove, by path relative to the table.

        And the delete files and deletion vectors of the snapshot that apply to no other file.
        """
        paths = {live.data.file_path: live.path for live in contents.files}
        old_paths, data_files = set(rewrite.old.paths), {}
        dangling = self._read_delete_files(table, snapshot)
        has_deletes = not dangling.isEmpty()
        tasks = read_all(self._jvm, table.newScan().useSnapshot(snapshot.snapshotId()).planFiles())
        for i, location in enumerate(read_file_facts(self._jvm, tasks, [LOCATION])[0]):
            path = paths.get(location)
            if path in old_paths:
                data_files[path] = tasks.get(i).file().copy()
            elif has_deletes:
                dangling.removeAll(tasks.get(i).deletes())
        return data_files, items_of(dangling)

    def _read_delete_files(self, table: JavaObject, snapshot: JavaObject) -> JavaObject:
        """All live delete files and deletion vectors of a snapshot."""
        files = self._jvm.call(f"{ICEBERG}.util.DeleteFileSet", "create")()
        read = self._jvm.call(f"{ICEBERG}.ManifestFiles", "readDeleteManifest")
        for manifest in items_of(snapshot.deleteManifests(table.io())):
            files.addAll(read_all(self._jvm, read(manifest, table.io(), table.specs())))
        return files

    def _describe(
        self,
        table: JavaObject,
        uri: str,
        file: NewFile,
        sibling: JavaObject | None,
        spec_id: int = 0,
        values: Sequence[str | None] = (),
    ) -> JavaObject:
        """An `org.apache.iceberg.DataFile` with the metrics that Iceberg reads, in the partition of a sibling.

        sibling: None for new rows, whose partition has some values, in Iceberg's text, under a spec.
        """
        jvm = self._jvm
        metrics = jvm.call(f"{ICEBERG}.parquet.ParquetUtil", "fileMetrics")(
            table.io().newInputFile(uri), jvm.call(f"{ICEBERG}.MetricsConfig", "forTable")(table)
        )
        spec = table.specs().get(spec_id if sibling is None else sibling.specId())
        builder = jvm.call(f"{ICEBERG}.DataFiles", "builder")(spec)
        builder = builder.withPath(uri).withFormat("PARQUET").withFileSizeInBytes(file.staged.size)
        if sibling is not None:
            builder = builder.withPartition(sibling.partition())
        elif values:
            texts = [DEFAULT_PARTITION if value is None else value for value in values]
            builder = builder.withPartitionValues(jvm.list_of(*texts))
        return builder.withMetrics(metrics).build()

    @contextlib.contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        """Raise Java's errors as errors of zskip."""
        try:
            yield
        except (Py4JJavaError, CapturedException, TimeoutError) as error:
            name = f'"{self._table}"'
            missing = isinstance(error, Py4JJavaError) and is_java_error(error, *_MISSING)
            if missing or "NoSuchTable" in repr(error) or "TABLE_OR_VIEW_NOT_FOUND" in str(error):
                raise TableNotFoundError(
                    f"the session's catalog has no table {name} (any more); check the name. Nothing was written"
                ) from error
            raise StorageError(
                f"cannot {action} {name}: {_cause(error)[:300]}; check that the catalog runs and that the session's "
                "spark.sql.catalog properties are correct. Nothing was committed"
            ) from error


def _at_once(describe: Callable[[NewFile], JavaObject], files: Sequence[NewFile]) -> list[JavaObject]:
    """Describe files, some at a time: Iceberg opens each to read its footer."""
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return list(pool.map(describe, files))


def items_of(items: JavaObject) -> list[JavaObject]:
    """The items of a Java collection."""
    iterator, result = items.iterator(), []
    while iterator.hasNext():
        result.append(iterator.next())
    return result


def read_all(jvm: Jvm, items: JavaObject) -> JavaObject:
    """A `java.util.List` from one of Iceberg's `CloseableIterable`s."""
    try:
        return jvm.call(f"{ICEBERG}.relocated.com.google.common.collect.Lists", "newArrayList")(items.iterator())
    finally:
        items.close()


def read_file_facts(jvm: Jvm, tasks: JavaObject, getters: Sequence[tuple[str, str]]) -> list[list[Any]]:
    """What getters tell of the files of `FileScanTask`s, in one message.

    getters: names of methods of `ContentFile`, each with the class of its result.
    """
    handles = jvm.handles
    to_file = handles.virtual(f"{ICEBERG}.ContentScanTask", "file", FILE)
    columns = [
        jvm.map(tasks, handles.function(handles.chain(to_file, handles.virtual(FILE, method, result))))
        for method, result in getters
    ]
    values: list[list[Any]] = jvm.read(jvm.list_of(*columns))
    return values


class _SessionDraft:
    """A table that a catalog of the session gets with its first rows."""

    def __init__(self, catalog: SessionCatalog, jvm: Jvm, transaction: JavaObject) -> None:
        """transaction: an `org.apache.iceberg.Transaction`."""
        self._catalog = catalog
        self._transaction = transaction
        table = transaction.table()
        text = str(jvm.call(f"{ICEBERG}.TableMetadataParser", "toJson")(table.operations().current()))
        self.current = CurrentTable(root=str(table.location()), metadata="", draft=text.encode())

    def commit(self, contents: Contents, rewrite: Rewrite) -> None:
        """Make the table, if nobody was faster."""
        catalog = self._catalog
        catalog.add_to_transaction(catalog.prepare(self._transaction.table(), contents, rewrite))
        try:
            catalog.send(lambda: self._commit(rewrite), lambda: self._is_committed(rewrite))
        except ConflictError as error:
            # The table cannot have changed, since it was not there.
            raise made_meanwhile(catalog.table) from error

    def _commit(self, rewrite: Rewrite) -> None:
        try:
            self._transaction.commitTransaction()
        except Py4JJavaError as error:
            name = self._catalog.table
            # A request that was sent twice finds its own table.
            if is_java_error(error, _TAKEN) and not self._is_committed(rewrite):
                raise made_meanwhile(name) from error
            if is_java_error(error, _NO_NAMESPACE):
                raise StorageError(
                    f'the catalog of "{name}" has no such namespace ({_message(error)}); make it with CREATE '
                    "NAMESPACE, or check the name. Nothing was committed"
                ) from error
            raise

    def _is_committed(self, rewrite: Rewrite) -> bool:
        try:
            return self._catalog.find_committed(rewrite.name) is not None
        except ZskipError:
            return False


def _add_field(spec: JavaObject, term: PartitionTerm) -> None:
    """Add a field to Iceberg's builder of a spec, named as Spark names it."""
    kind, column = term.transform, term.column
    if isinstance(kind, BucketTransform):
        spec.bucket(column, kind.num_buckets)
    elif isinstance(kind, TruncateTransform):
        spec.truncate(column, kind.width)
    else:
        # identity, year, month, day, hour
        getattr(spec, str(kind))(column)


def _message(error: Py4JJavaError | CapturedException) -> str:
    return str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else first_line(error)


def _cause(error: Py4JJavaError | CapturedException | TimeoutError) -> str:
    """The root cause, on one line."""
    return first_line(error) if isinstance(error, TimeoutError) else root_cause(text_with_causes(error))
