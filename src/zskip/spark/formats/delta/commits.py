"""Commits to Delta tables by the session's Delta Lake, where only it commits what a table has.

A rewrite is one of Delta's own transactions on the version that was read, as in its OPTIMIZE, so Delta detects
concurrent commits.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from zskip.errors import ConflictError, StorageError, UnsupportedError
from zskip.formats.base import OVERWRITE, REPLACE, BatchId
from zskip.formats.delta.commit import MARK, NewFile, add_actions
from zskip.records import Snapshot
from zskip.spark.formats.delta.log import DELTA, LoggedFiles, open_version
from zskip.spark.jvm.compat import active_session, private_session
from zskip.spark.jvm.failures import root_cause, text_with_causes, translated
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import storage_for
from zskip.spark.jvm.statuses import qualify_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.storage import Storage

_CONFLICT = re.compile(
    r"\b(Concurrent\w+|MetadataChanged|ProtocolChanged)Exception\b|\bDELTA_(CONCURRENT|METADATA|PROTOCOL)_\w+"
)
_METHODS = {
    "DeltaLog.update": {3},
    "DeltaLog.getSnapshotAt": {4},
    "DeltaLog.createDataFrame": {4},
    "DeltaLog.startTransaction": {2},
    "DeltaLog.protocolWrite": {1},
    "RowTracking.preserveRowTrackingColumns": {2},
    "actions.AddFile.removeWithTimestamp": {2},
    "DeltaOperations$Optimize.copy": {5},
}
"""The methods of Delta that commits and rewrites call, and their numbers of arguments."""
_AUTO_COMPACT = "spark.databricks.delta.autoCompact.enabled"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class DeltaEngine:
    """Commits to a Delta table by the session's Delta Lake."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root

    def check(self) -> None:
        """Raise UnsupportedError where zskip does not support this version of Delta Lake, or that not the table."""
        jvm = Jvm.of(self._spark)
        try:
            missing = [name for name, counts in _METHODS.items() if not counts & _argument_counts(jvm, name)]
        except Exception as error:
            missing = [str(error).splitlines()[0]]
        if missing:
            raise UnsupportedError(
                f'the session\'s Delta Lake, which has to commit to "{self._root}", is not supported '
                f"({missing[0]}); load delta-spark 4.4. Nothing was written"
            )
        path = jvm.find("org.apache.hadoop.fs.Path")(qualify_root(self._root))
        with active_session(self._spark):
            try:
                log = jvm.call(f"{DELTA}.DeltaLog", "forTable")(self._spark._jsparkSession, path)
                log.protocolWrite(log.update(False, jvm.none, jvm.none).protocol())
            except (Py4JJavaError, CapturedException) as error:
                raise UnsupportedError(
                    f'the session\'s Delta Lake does not write the table "{self._root}" '
                    f"({root_cause(text_with_causes(error))}); load a version that knows what it uses, or drop the "
                    "feature. Nothing was written"
                ) from error

    def commit(
        self,
        base: Snapshot,
        new: Sequence[NewFile],
        rewrite: str,
        info: Mapping[str, Any],
        *,
        mode: str,
        batch: BatchId | None,
    ) -> int | None:
        """Commit files in a transaction on the version of `base`; see `SessionLog`."""
        jvm, now_ms, changes = Jvm.of(self._spark), int(time.time() * 1000), mode != REPLACE
        actions = add_actions(self._storage, new, changes=changes)
        with self._session(rewrite, info) as session:
            log, version = open_version(session, base)
            transaction = log.startTransaction(jvm.none, jvm.some(version))
            if batch is not None:
                # Another commit of this application is a conflict from here on.
                if int(transaction.txnVersion(batch.application)) >= batch.version:
                    return None
                number = {"appId": batch.application, "version": batch.version, "lastUpdated": now_ms}
                actions.append({"txn": number})
            old: Sequence[JavaObject] = ()
            if mode == REPLACE:
                old = LoggedFiles(session, version, self._root).of(base)
                transaction.trackFilesRead(jvm.seq_of(*old))
                operation = _optimize_operation(jvm, info.get("by", ()))
            else:
                old = jvm.to_list(transaction.filterFiles()) if mode == OVERWRITE else ()
                operation = _write_operation(jvm, mode, [field.name for field in base.partition_fields])
            removed = [file.removeWithTimestamp(now_ms, changes) for file in old]
            parse = jvm.module(f"{DELTA}.actions.Action").fromJson
            added = [parse(json.dumps(action)) for action in actions]
            return int(transaction.commit(jvm.seq_of(*removed, *added), operation))

    def write_manifests(self) -> None:
        """Write the manifests of live files for other engines, as Delta does after its own commits."""
        jvm = Jvm.of(self._spark)
        with translated(f'write the manifests of "{self._root}"'), active_session(self._spark):
            table = jvm.call("io.delta.tables.DeltaTable", "forPath")(
                self._spark._jsparkSession, qualify_root(self._root)
            )
            table.generate("symlink_format_manifest")

    @property
    def _storage(self) -> Storage:
        return storage_for(self._spark, self._root)

    @contextmanager
    def _session(self, rewrite: str, info: Mapping[str, Any]) -> Iterator[SparkSession]:
        """An active session whose commits tell of a rewrite; raises Delta's errors as errors of zskip."""
        user_metadata = json.dumps({MARK: {"rewrite": rewrite, **info}})
        session = private_session(self._spark, {_AUTO_COMPACT: "false", _USER_METADATA: user_metadata})
        try:
            with active_session(session):
                yield session
        except Py4JJavaError as error:
            text = text_with_causes(error)
            conflict = _CONFLICT.search(text)
            if conflict is not None:
                raise ConflictError(
                    f'another writer changed "{self._root}" in the meantime; nothing was committed, call again '
                    f"({conflict[0]})"
                ) from error
            raise StorageError(f'Delta Lake cannot commit to "{self._root}": {root_cause(text)}') from error


def _argument_counts(jvm: Jvm, name: str) -> set[int]:
    """The numbers of arguments of the methods with a name, in a class of Delta."""
    owner, _, method = name.rpartition(".")
    owner_class = jvm.class_of(f"{DELTA}.{owner}")
    signatures = jvm.once(f"methods of {owner}", lambda: [str(item.toString()) for item in owner_class.getMethods()])
    matches = [re.search(rf"[.]{re.escape(method)}\((.*?)\)", signature) for signature in signatures]
    return {len(match[1].split(",")) for match in matches if match is not None}


def _write_operation(jvm: Jvm, mode: str, partition_by: Sequence[str]) -> JavaObject:
    """The operation of new rows that Delta's history records."""
    write = jvm.module(f"{DELTA}.DeltaOperations$Write")
    save_mode = jvm.find("org.apache.spark.sql.SaveMode").valueOf(mode.capitalize())
    count = len([m for m in write.getClass().getMethods() if str(m.getName()).startswith("apply$default$")])
    defaults = [getattr(write, f"apply$default${i}")() for i in range(3, count + 2)]
    return write.apply(save_mode, jvm.some(jvm.seq_of(*partition_by)), *defaults)


def _optimize_operation(jvm: Jvm, by: Sequence[str]) -> JavaObject:
    """The operation that Delta's history records."""
    make = jvm.find(f"{DELTA}.DeltaOperations$Optimize")
    return make(jvm.seq_of(), jvm.seq_of(*by), False, jvm.none, False)
