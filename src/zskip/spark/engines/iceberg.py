"""Iceberg tables of the session's own catalogs: their current metadata, and commits by Iceberg's runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyspark import InheritableThread
from pyspark.errors.exceptions.captured import CapturedException

from zskip.errors import ConflictError, StorageError, TableNotFoundError, ZskipError
from zskip.formats.iceberg.catalog import CurrentTable, UnknownCommitError, call_with_timeout, reread_contents
from zskip.formats.iceberg.commit import NewFile, Rewrite, check_unchanged, find_committed
from zskip.formats.schema import first_line
from zskip.spark.jvm import compat
from zskip.spark.jvm.failures import root_cause, text_with_causes
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import is_java_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.formats.iceberg.table import Contents

_ICEBERG = "org.apache.iceberg"
_MAPPING = "schema.name-mapping.default"
_CONFLICTS = (
    f"{_ICEBERG}.exceptions.ValidationException",
    f"{_ICEBERG}.exceptions.CommitFailedException",
)
"""Which say for sure that nothing was committed."""
_GONE = (f"{_ICEBERG}.exceptions.NoSuchTableException", "org.apache.spark.sql.catalyst.analysis.NoSuchTableException")


class SessionCatalog:
    """A table of one of the session's Iceberg catalogs."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark = spark
        self._jvm = Jvm.of(spark)
        self._table = table

    @property
    def table(self) -> str:
        """Its name, with that of the catalog."""
        return self._table

    @property
    def in_session(self) -> bool:
        """True: Spark reads the table by this name."""
        return True

    @property
    def in_one_thread(self) -> bool:
        """False: Iceberg's catalogs are asked by all threads of a session."""
        return False

    def exists(self) -> bool:
        """Whether the catalog has such a table; raises StorageError where it is down."""
        try:
            self._load()
        except TableNotFoundError:
            return False
        return True

    def current(self) -> CurrentTable:
        """Where the table is now."""
        table = self._load()
        with self._explained("read the metadata of"):
            found = table.operations().current()
            return CurrentTable(root=table.location(), metadata=found.metadataFileLocation())

    def _load(self) -> JavaObject:
        """An `org.apache.iceberg.BaseTable` as it is now."""
        with self._explained("reach the catalog of"):
            return call_with_timeout(self._table, self._load_now, InheritableThread)

    def _load_now(self) -> JavaObject:
        # In a thread of its own: Spark looks catalogs up in the settings of the session that is active in it.
        compat.set_active(self._spark)
        # Iceberg takes a catalog that does not start for none, and looks for the whole name in the default one.
        self._spark._jsparkSession.sessionState().catalogManager().catalog(self._table.partition(".")[0])
        load = self._jvm.call(f"{_ICEBERG}.spark.Spark3Util", "loadIcebergTable")
        table = load(self._spark._jsparkSession, ".".join(f"`{part}`" for part in self._table.split(".")))
        table.refresh()
        return table

    def commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        """Commit a rewrite with Iceberg's own `RewriteFiles`, which minds what others commit meanwhile, and retries."""
        contents = reread_contents(read, self.current())
        check_unchanged(contents, rewrite)
        table = self._load()
        with self._explained("prepare a commit to"):
            if rewrite.by_name and contents.metadata.name_mapping() is None:
                mapping = create_mapping_from_schema(contents.metadata.schema()).model_dump_json()
                table.updateProperties().set(_MAPPING, mapping).commit()
            operation = self._prepared(table, contents, rewrite)
        try:
            operation.commit()
        except (Py4JJavaError, CapturedException) as error:
            if isinstance(error, Py4JJavaError) and is_java_error(error, *_CONFLICTS):
                raise ConflictError(
                    f'another writer changed "{self._table}" meanwhile ({_message(error)}); nothing was committed, '
                    "call again"
                ) from error
            if not self._landed(rewrite, read):
                raise UnknownCommitError(
                    f'the catalog of "{self._table}" failed in the middle of a commit ({_message(error)}); see '
                    "whether its current snapshot is zskip's before you call again. No row is lost either way"
                ) from error

    def _landed(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> bool:
        try:
            return find_committed(read(self.current()).metadata, rewrite.name) is not None
        except ZskipError:
            return False

    def _prepared(self, table: JavaObject, contents: Contents, rewrite: Rewrite) -> JavaObject:
        """The `RewriteFiles` of a rewrite, upon the snapshot that was looked at."""
        start = contents.metadata.current_snapshot_id
        removed = self._removed(table, start, contents, rewrite)
        operation = table.newRewrite().validateFromSnapshot(start)
        for key, value in rewrite.summary.items():
            operation.set(key, value)
        like: dict[str, JavaObject] = {}
        for i, path in enumerate(rewrite.old.paths):
            operation.deleteFile(removed[path])
            like[rewrite.old.partitions[rewrite.old.partition_of[i]].directory] = removed[path]
        root = contents.metadata.location.rstrip("/")
        for file in rewrite.new:
            operation.addFile(self._described(table, f"{root}/{file.target}", file, like[file.staged.directory]))
        return operation

    def _removed(
        self, table: JavaObject, snapshot: int | None, contents: Contents, rewrite: Rewrite
    ) -> dict[str, JavaObject]:
        """Iceberg's own descriptions of the files to remove, by their places below the table."""
        places = {live.data.file_path: live.path for live in contents.files}
        wanted, found = set(rewrite.old.paths), {}
        tasks = table.newScan().useSnapshot(snapshot).planFiles()
        try:
            iterator = tasks.iterator()
            while iterator.hasNext():
                file = iterator.next().file()
                path = places.get(file.location())
                if path in wanted:
                    found[path] = file.copy()
        finally:
            tasks.close()
        return found

    def _described(self, table: JavaObject, uri: str, file: NewFile, like: JavaObject) -> JavaObject:
        """An `org.apache.iceberg.DataFile` in the partition of another one, with the metrics that Iceberg reads."""
        jvm = self._jvm
        mapping = table.properties().get(_MAPPING)
        parsed = None if mapping is None else jvm.call(f"{_ICEBERG}.mapping.NameMappingParser", "fromJson")(mapping)
        metrics = jvm.call(f"{_ICEBERG}.parquet.ParquetUtil", "fileMetrics")(
            table.io().newInputFile(uri), jvm.call(f"{_ICEBERG}.MetricsConfig", "forTable")(table), parsed
        )
        builder = jvm.call(f"{_ICEBERG}.DataFiles", "builder")(table.specs().get(like.specId()))
        return (
            builder.withPath(uri)
            .withFormat("PARQUET")
            .withFileSizeInBytes(file.staged.size)
            .withPartition(like.partition())
            .withMetrics(metrics)
            .build()
        )

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Raise what Java raises as an error of ours."""
        try:
            yield
        except (Py4JJavaError, CapturedException, TimeoutError) as error:
            name = f'"{self._table}"'
            gone = isinstance(error, Py4JJavaError) and is_java_error(error, *_GONE)
            if gone or "NoSuchTable" in repr(error) or "TABLE_OR_VIEW_NOT_FOUND" in str(error):
                raise TableNotFoundError(
                    f"the session's catalog has no table {name} (any more); check the name. Nothing was written"
                ) from error
            raise StorageError(
                f"cannot {what} {name}: {_cause(error)[:300]}; see that the catalog runs and that the session's "
                "spark.sql.catalog properties are right. Nothing was committed"
            ) from error


def _message(error: Py4JJavaError | CapturedException) -> str:
    return str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else first_line(error)


def _cause(error: Py4JJavaError | CapturedException | TimeoutError) -> str:
    """What went wrong at the bottom of it."""
    return first_line(error) if isinstance(error, TimeoutError) else root_cause(text_with_causes(error))
