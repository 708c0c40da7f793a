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

from zskip.errors import ConflictError, InputError, StorageError, TableNotFoundError
from zskip.formats.base import APPEND, REPLACE
from zskip.formats.hive import DEFAULT_PARTITION
from zskip.formats.iceberg.catalog import (
    CurrentTable,
    IcebergCatalog,
    TableDefinition,
    call_with_timeout,
    made_meanwhile,
    reread_contents,
    unknown_commit,
)
from zskip.formats.iceberg.commit import NewFile, Rewrite, check_unchanged
from zskip.formats.iceberg.partitions import PartitionTerm, parse_partition_terms, partition_values
from zskip.formats.schema import first_line
from zskip.spark.jvm import compat
from zskip.spark.jvm.compiled.lists import read_columns
from zskip.spark.jvm.failures import root_cause, text_with_causes
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import is_java_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.formats.iceberg.table import Contents

ICEBERG = "org.apache.iceberg"
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
_Partition = tuple[int, Any]
"""The id of a spec, and a partition as `SessionCatalog._describe` takes it."""


class SessionCatalog(IcebergCatalog):
    """A table of one of the session's Iceberg catalogs."""

    in_session = True

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark = spark
        self._jvm = Jvm.of(spark)
        self.table = table

    def above(self) -> SessionCatalog:
        """The table whose name this one's extends by one part."""
        return SessionCatalog(self._spark, self.table.rpartition(".")[0])

    def exists(self) -> bool:
        """Whether the catalog has the table; raises StorageError where the catalog is down."""
        try:
            self.load()
        except TableNotFoundError:
            return False
        return True

    def _locate(self) -> CurrentTable:
        table = self.load()
        with self._translate_errors("read the metadata of"):
            metadata = table.operations().current()
            return CurrentTable(root=table.location(), metadata=metadata.metadataFileLocation())

    def _begin(self, definition: TableDefinition) -> tuple[JavaObject, CurrentTable]:
        with self._translate_errors("create the table in the catalog of"):
            transaction = call_with_timeout(self.table, lambda: self._begin_now(definition), InheritableThread)
            table = transaction.table()
            text = str(self._jvm.call(f"{ICEBERG}.TableMetadataParser", "toJson")(table.operations().current()))
            return transaction, CurrentTable(root=str(table.location()), metadata="", draft=text.encode())

    def _begin_now(self, definition: TableDefinition) -> JavaObject:
        """An `org.apache.iceberg.Transaction` that creates the table."""
        compat.set_active(self._spark)
        jvm = self._jvm
        struct = jvm.call("org.apache.spark.sql.types.DataType", "fromJson")(definition.schema_json)
        schema = jvm.call(f"{ICEBERG}.spark.SparkSchemaUtil", "convert")(struct)
        columns = Schema.model_validate_json(jvm.call(f"{ICEBERG}.SchemaParser", "toJson")(schema))
        terms = parse_partition_terms(
            definition.partition_by, columns, self.table, case_sensitive=definition.case_sensitive
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
        tables, identifier = self._identify()
        builder = tables.buildTable(identifier, schema).withPartitionSpec(built).withProperty("owner", owner)
        return builder.createTransaction()

    def load(self) -> JavaObject:
        """The current `org.apache.iceberg.BaseTable`."""
        with self._translate_errors("reach the catalog of"):
            return call_with_timeout(self.table, self._load_now, InheritableThread)

    def _load_now(self) -> JavaObject:
        # Runs in a thread of its own: Spark looks catalogs up in the settings of the thread's active session.
        compat.set_active(self._spark)
        # Not by Spark's lookup, which takes t.branch_x for a branch of t, and gives the table with its main.
        tables, identifier = self._identify()
        table = tables.loadTable(identifier)
        if is_instance_of(self._spark.sparkContext._gateway, table, _METADATA_TABLE):
            raise InputError(
                f'"{self.table}" is a metadata table of Iceberg\'s, made of the table that its name begins with; read '
                f'it with spark.table("{self.table}"), or name the table itself. Nothing was written'
            )
        table.refresh()
        return table

    def _identify(self) -> tuple[JavaObject, JavaObject]:
        """Iceberg's own catalog, and the table's identifier in it."""
        jvm = self._jvm
        catalog, *namespace, name = self.table.split(".")
        levels = jvm.call(f"{ICEBERG}.catalog.Namespace", "of")(jvm.array("java.lang.String", namespace))
        identifier = jvm.call(f"{ICEBERG}.catalog.TableIdentifier", "of")(levels, name)
        manager = self._spark._jsparkSession.sessionState().catalogManager()
        return manager.catalog(catalog).icebergCatalog(), identifier

    def _commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        """Commit a rewrite by Iceberg's own update, which retries after concurrent commits, except for a batch."""
        for tries_left in reversed(range(1 if rewrite.batch is None else _TRIES)):
            contents = reread_contents(read, self.current())
            check_unchanged(contents, rewrite)
            table = self.load()
            with self._translate_errors("prepare a commit to"):
                update = self.prepare(table, contents, rewrite)
            try:
                self.send(update.commit, lambda: self.is_committed(rewrite, read))
                return
            except ConflictError:
                if not tries_left:
                    raise

    def _create(
        self, transaction: JavaObject, rewrite: Rewrite, contents: Contents, is_committed: Callable[[], bool]
    ) -> None:
        with self._translate_errors("prepare a commit to"):
            update = self.prepare(transaction.table(), contents, rewrite)
        with self._translate_errors("write manifests of"):
            update.commit()
        try:
            self.send(lambda: self.commit_transaction(transaction, is_committed), is_committed)
        except ConflictError as error:
            # The table cannot have changed, since it was not there.
            raise made_meanwhile(self.table) from error

    def commit_transaction(self, transaction: JavaObject, is_committed: Callable[[], bool]) -> None:
        """Make a table; raises ConflictError for a name that is taken, and StorageError without its namespace."""
        try:
            transaction.commitTransaction()
        except Py4JJavaError as error:
            # A request that was sent twice finds its own table.
            if is_java_error(error, _TAKEN) and not is_committed():
                raise made_meanwhile(self.table) from error
            if is_java_error(error, _NO_NAMESPACE):
                raise StorageError(
                    f'the catalog of "{self.table}" has no such namespace ({_message(error)}); make it with CREATE '
                    "NAMESPACE, or check the name. Nothing was committed"
                ) from error
            raise

    def send(self, commit: Callable[[], object], is_committed: Callable[[], bool]) -> None:
        """Call a method of Iceberg's that commits.

        is_committed: asks the table, where the catalog has failed. Raises ConflictError where nothing was committed,
        and UnknownCommitError where that is unknown.
        """
        try:
            commit()
        except (Py4JJavaError, CapturedException) as error:
            if isinstance(error, Py4JJavaError) and is_java_error(error, *_CONFLICTS):
                raise ConflictError(
                    f'another writer changed "{self.table}" in the meantime ({_message(error)}); nothing was '
                    "committed, call again"
                ) from error
            if not is_committed():
                raise unknown_commit(self.table, _message(error)) from error

    def prepare(self, table: JavaObject, contents: Contents, rewrite: Rewrite) -> JavaObject:
        """Iceberg's pending update for a rewrite."""
        update, add, partition_of = (self._replace if rewrite.mode == REPLACE else self._add_rows)(
            table, contents, rewrite
        )
        for key, value in rewrite.summary.items():
            update.set(key, value)
        root = contents.metadata.location.rstrip("/")

        def describe(file: NewFile) -> JavaObject:
            return self._describe(table, f"{root}/{file.target}", file, *partition_of(file.staged.directory))

        # Iceberg opens each file to read its footer.
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            for data_file in pool.map(describe, rewrite.new):
                add(data_file)
        return update

    def _replace(
        self, table: JavaObject, contents: Contents, rewrite: Rewrite
    ) -> tuple[JavaObject, Callable[[JavaObject], object], Callable[[str], _Partition]]:
        """A `RewriteFiles`, validated from the snapshot that was read, its method for files, and their partitions."""
        version, metadata = rewrite.old.version, contents.metadata
        # In version 1 there are no numbers, and nothing is deleted.
        ids = [each.snapshot_id for each in metadata.snapshots if each.sequence_number == version]
        if version and not ids:
            raise ConflictError(
                f'the snapshot of "{self.table}" that was read has expired; nothing was committed, call again'
            )
        snapshot = table.snapshot(ids[0] if version else metadata.current_snapshot_id)
        removed, dangling = self._find_removed(table, snapshot, contents, rewrite)
        update = table.newRewrite().validateFromSnapshot(snapshot.snapshotId())
        if version:
            # Equality deletes that come later apply to the new files, and earlier ones do not.
            update.dataSequenceNumber(version)
        for file in (*dangling, *(removed[path] for path in rewrite.old.paths)):
            update.deleteFile(file)
        old = {rewrite.old.partitions[file.partition].directory: removed[file.path] for file in rewrite.old}
        return update, update.addFile, lambda directory: (old[directory].specId(), old[directory].partition())

    def _add_rows(
        self, table: JavaObject, contents: Contents, rewrite: Rewrite
    ) -> tuple[JavaObject, Callable[[JavaObject], object], Callable[[str], _Partition]]:
        """An `AppendFiles`, or an `OverwriteFiles` of all rows, its method for files, and their partitions.

        A batch is an `OverwriteFiles` without a filter, since that commits only if no rows were added meanwhile.
        """
        everything = self._jvm.call(f"{ICEBERG}.expressions.Expressions", "alwaysTrue")()
        if rewrite.batch is not None:
            update = table.newOverwrite().conflictDetectionFilter(everything).validateNoConflictingData()
            if contents.metadata.current_snapshot_id is not None:
                update.validateFromSnapshot(contents.metadata.current_snapshot_id)
        elif rewrite.mode == APPEND:
            update = table.newAppend()
        else:
            update = table.newOverwrite().overwriteByRowFilter(everything)
        if rewrite.branch is not None:
            update.toBranch(rewrite.branch)
        is_append = rewrite.mode == APPEND and rewrite.batch is None
        add = update.appendFile if is_append else update.addFile
        return (
            update,
            add,
            lambda directory: (rewrite.spec, partition_values(contents.metadata, rewrite.spec, directory)),
        )

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
        for i, location in enumerate(read_columns(self._jvm, tasks, "file.location")[0]):
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
        self, table: JavaObject, uri: str, file: NewFile, spec_id: int, partition: JavaObject | Sequence[str | None]
    ) -> JavaObject:
        """An `org.apache.iceberg.DataFile` with the metrics that Iceberg reads.

        partition: Iceberg's own, or its values in Iceberg's text.
        """
        jvm = self._jvm
        metrics = jvm.call(f"{ICEBERG}.parquet.ParquetUtil", "fileMetrics")(
            table.io().newInputFile(uri), jvm.call(f"{ICEBERG}.MetricsConfig", "forTable")(table)
        )
        builder = jvm.call(f"{ICEBERG}.DataFiles", "builder")(table.specs().get(spec_id))
        builder = builder.withPath(uri).withFormat("PARQUET").withFileSizeInBytes(file.staged.size)
        if not isinstance(partition, list):
            builder = builder.withPartition(partition)
        elif partition:
            texts = [DEFAULT_PARTITION if value is None else value for value in partition]
            builder = builder.withPartitionValues(jvm.list_of(*texts))
        return builder.withMetrics(metrics).build()

    @contextlib.contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        """Raise Java's errors as errors of zskip."""
        try:
            yield
        except (Py4JJavaError, CapturedException, TimeoutError) as error:
            name = f'"{self.table}"'
            missing = isinstance(error, Py4JJavaError) and is_java_error(error, *_MISSING)
            if missing or "NoSuchTable" in repr(error) or "TABLE_OR_VIEW_NOT_FOUND" in str(error):
                raise TableNotFoundError(
                    f"the session's catalog has no table {name} (any more); check the name. Nothing was written"
                ) from error
            raise StorageError(
                f"cannot {action} {name}: {_cause(error)[:300]}; check that the catalog runs and that the session's "
                "spark.sql.catalog properties are correct. Nothing was committed"
            ) from error


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
