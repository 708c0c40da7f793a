"""Delta's own log of a table, in the session's Delta Lake."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats.delta.values import relative_path
from zskip.records import Snapshot
from zskip.spark.jvm.compiled.lists import read_columns
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.statuses import qualify_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "org.apache.spark.sql.delta"
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_DELETION_VECTOR = 8
"""Position of `deletionVector` among the arguments of `AddFile.copy`, counted from 1."""


def is_loaded(spark: SparkSession) -> bool:
    """Whether the session has Delta Lake as an extension and as its catalog."""
    extensions = str(spark.conf.get("spark.sql.extensions", "")).split(",")
    catalog = str(spark.conf.get("spark.sql.catalog.spark_catalog", ""))
    return _EXTENSION in {name.strip() for name in extensions} and catalog == _CATALOG


def open_version(spark: SparkSession, snapshot: Snapshot) -> tuple[JavaObject, JavaObject]:
    """Delta's log of a table, and the version of a snapshot."""
    jvm = Jvm.of(spark)
    path = jvm.find("org.apache.hadoop.fs.Path")(qualify_root(snapshot.root))
    log = jvm.call(f"{DELTA}.DeltaLog", "forTable")(spark._jsparkSession, path)
    log.update(False, jvm.none, jvm.none)
    return log, log.getSnapshotAt(snapshot.version, jvm.none, jvm.none, False)


class LoggedFiles:
    """The `AddFile`s of a version, which Delta collects in a job."""

    def __init__(self, spark: SparkSession, version: JavaObject, root: str) -> None:
        self._jvm = Jvm.of(spark)
        self._listed = version.allFiles().collectAsList()
        self._numbers = {relative_path(text, root): i for i, text in enumerate(self._read("path"))}

    def of(self, snapshot: Snapshot) -> list[JavaObject]:
        """Those of a snapshot of the version; raises ConflictError where the log lacks one."""
        return [self._listed.get(number) for number in self._find(snapshot)]

    def entries(self, snapshot: Snapshot) -> dict[str, dict[str, Any]]:
        """What the log says of a snapshot's files, by their paths; raises as `of`."""
        entries = [json.loads(self._texts[number])["add"] for number in self._find(snapshot)]
        return dict(zip(snapshot.paths, entries, strict=True))

    def _find(self, snapshot: Snapshot) -> list[int]:
        try:
            return [self._numbers[path] for path in snapshot.paths]
        except KeyError as error:
            raise ConflictError(
                f'the version {snapshot.version} of "{snapshot.root}" has other files now; call again'
            ) from error

    @cached_property
    def _texts(self) -> list[str]:
        return self._read("json")

    def _read(self, getter: str) -> list[str]:
        return read_columns(self._jvm, self._listed, getter)[0]


def restore_rows(file: JavaObject) -> JavaObject:
    """The same file without a deletion vector."""
    if file.deletionVector() is None:
        return file
    count = sum(str(method.getName()).startswith("copy$default$") for method in file.getClass().getMethods())
    arguments = [getattr(file, f"copy$default${i}")() for i in range(1, count + 1)]
    arguments[_DELETION_VECTOR - 1] = None
    restored = file.copy(*arguments)
    if restored.deletionVector() is not None:
        raise UnsupportedError("this version of Delta Lake is not supported, load delta-spark 4.4")
    return restored
