"""Delta's own log of a table, in the session's Delta Lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats.delta.values import relative_path
from zskip.records import Snapshot
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "org.apache.spark.sql.delta"
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_DATA_CHANGE, _DELETION_VECTOR = 5, 8
"""Positions of `dataChange` and `deletionVector` among the arguments of `AddFile.copy`, counted from 1."""


def is_loaded(spark: SparkSession) -> bool:
    """Whether the session has Delta Lake as an extension and as its catalog."""
    extensions = str(spark.conf.get("spark.sql.extensions", "")).split(",")
    catalog = str(spark.conf.get("spark.sql.catalog.spark_catalog", ""))
    return _EXTENSION in {name.strip() for name in extensions} and catalog == _CATALOG


def uri_of(root: str) -> str:
    """A table's root as Delta names it."""
    return f"file://{root}" if root.startswith("/") else root


def open_version(spark: SparkSession, snapshot: Snapshot) -> tuple[JavaObject, JavaObject]:
    """Delta's log of a table, and the version of a snapshot."""
    jvm = Jvm.of(spark)
    path = jvm.find("org.apache.hadoop.fs.Path")(uri_of(snapshot.root))
    log = jvm.call(f"{DELTA}.DeltaLog", "forTable")(spark._jsparkSession, path)
    log.update(False, jvm.none, jvm.none)
    return log, log.getSnapshotAt(snapshot.version, jvm.none, jvm.none, False)


def read_files(spark: SparkSession, version: JavaObject, snapshot: Snapshot) -> list[JavaObject]:
    """The `AddFile`s of a snapshot's files; raises ConflictError where the log lacks one."""
    jvm, snapshot_paths = Jvm.of(spark), set(snapshot.paths)
    listed = version.allFiles().collectAsList()
    path = jvm.handles.function(jvm.handles.virtual(f"{DELTA}.actions.AddFile", "path", "java.lang.String"))
    paths = [relative_path(text, snapshot.root) for text in jvm.read(jvm.map(listed, path))]
    files = [listed.get(i) for i, name in enumerate(paths) if name in snapshot_paths]
    if len(files) != len(snapshot_paths):
        raise ConflictError(f'the version {snapshot.version} of "{snapshot.root}" has other files now; call again')
    return files


def clear_data_change(file: JavaObject) -> JavaObject:
    """The same file, marked as one without new rows."""
    return _copy(file, _DATA_CHANGE, False)


def restore_rows(file: JavaObject) -> JavaObject:
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
