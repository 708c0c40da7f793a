"""The queries of a Spark Connect session, each of which reads fewer files: `zskip.enable` and `Table.df()` there.

    a request of the client -> the reads of its plan, and the conditions above each (`spark/connect/`)
                            -> (for each read of an indexed table) predicate -> prune
                            -> the read of fewer files, or of a version under the predicate of its files -> the server

A read is left as it is where anything is not certain.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ZskipError
from zskip.formats import HOME
from zskip.index import BoundIndex, Index
from zskip.predicate import Constant, columns_of
from zskip.records import Field, ScanReport, Snapshot
from zskip.spark.connect.interceptor import find_interceptor, interceptor_of
from zskip.spark.connect.relations import Opened, Plan, Read
from zskip.spark.connect.replacements import give_condition, give_files, source_of
from zskip.spark.connect.settings import BY_ID, SETTING, WAP, ZONE, Settings
from zskip.table.handle import Handle, storage_at
from zskip.table.index_binding import load_index
from zskip.table.read.induced import induced_predicate
from zskip.table.read.query import note_scan, plan_bound
from zskip.table.read.spark_connect import differs
from zskip.table.session import is_replaced, session_time_zone, session_versions
from zskip.table.version import read_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip.scan")
_SECONDS = 10.0
"""How long a table in a store counts as one without an index."""
_FIELD_ID = "parquet.field.id"
Message = Any


class ConnectedTable:
    """A table that queries of a session read, as it was at the latest of them."""

    def __init__(self, spark: SparkSession, format_name: str, root: str) -> None:
        self.root = root.rstrip("/")
        self.handle = Handle(storage_at(root, None), None, None, format_name)
        self._spark = spark
        self.lock = threading.Lock()
        self.snapshot: Snapshot | None = None
        self.bound: BoundIndex | None = None
        self.schema = ""
        """Of plain Parquet, as the session infers it."""
        self.fields: tuple[Field, ...] = ()
        self._state: tuple[object, ...] = ()
        self._is_shared = False
        self._no_index_until = 0.0

    def opened(self, settings: Settings) -> Opened | None:
        """Its columns now; None where nothing can be skipped."""
        with self.lock:
            if time.monotonic() < self._no_index_until:
                return None
            index = load_index(self.handle)
            if index is None:
                self._no_index_until = 0 if self.handle.storage.kind == "disk" else time.monotonic() + _SECONDS
                return None
            self._refresh(index, settings)
            if self.snapshot is None:
                return None
            in_order = bool(self.schema) or not self.snapshot.partition_fields
            return Opened(table=self, fields=self.fields, in_order=in_order)

    def _refresh(self, index: Index, settings: Settings) -> None:
        """Look at the files that are live now."""
        snapshot, before = read_snapshot(self.handle), self.snapshot
        state = (index.manifest, settings.epoch)
        if before is not None and state == self._state and _is_same(snapshot, before):
            return
        self.snapshot = None
        if any(path.startswith(f"{HOME}/") for path in snapshot.paths) or snapshot.reading.opaque:
            return
        self._is_shared = self._is_shared or _is_shared(self._spark, self.handle, self.root, snapshot)
        if not self._is_shared:
            return
        self.fields = (*snapshot.fields, *snapshot.partition_fields)
        if self.handle.format.is_plain:
            schema = self._spark.read.parquet(self.root).schema
            described = schema.jsonValue()["fields"]
            by_name = {field.name: field for field in self.fields}
            if differs(snapshot, described) or len(described) != len(by_name):
                return
            self.schema = schema.json()
            if settings.is_on(BY_ID) and _FIELD_ID in self.schema:
                return  # Spark matches columns by their ids.
            self.fields = tuple(by_name[field["name"]] for field in described)
        self.bound = index.bind(
            snapshot, case_sensitive=settings.case_sensitive, versions=session_versions(self.handle.attach(self._spark))
        )
        self.snapshot, self._state = snapshot, state


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots have the same files."""
    texts = [(s.version, s.reading.version_as_of, s.paths) for s in (one, other)]
    arrays = ("sizes", "mtimes_ms", "identities")
    return texts[0] == texts[1] and all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays)


def _is_shared(spark: SparkSession, handle: Handle, root: str, snapshot: Snapshot) -> bool:
    """Whether the server sees the files that this process sees: of a local path, each machine may have another one."""
    if handle.storage.kind != "disk":
        return True
    if not len(snapshot):
        return False
    places = [0, len(snapshot) - 1]
    paths = [f"{root}/{snapshot.paths[i]}" for i in dict.fromkeys(places)]
    rows = spark.read.format("binaryFile").load(paths).selectExpr("length", "unix_millis(modificationTime)").collect()
    files = {(int(snapshot.sizes[i]), int(snapshot.mtimes_ms[i])) for i in places}
    return {tuple(row) for row in rows} == files


class Pruner:
    """Changes the plans of one session."""

    def __init__(self, spark: SparkSession) -> None:
        session_time_zone(spark)  # From now on zones of places are compared.
        self.spark = spark
        self.settings = Settings(spark, partial(is_replaced, spark))
        self.latest: tuple[ScanReport, ...] = ()
        self._tables: dict[tuple[str, str], ConnectedTable] = {}

    def change(self, method: str, request: Message) -> Message:
        """The request to send in place of one; the same where nothing is to change."""
        self.settings.notice(method, request)
        is_run = method == "ExecutePlan"
        if not is_run and not (method == "AnalyzePlan" and request.HasField("explain")):
            return request
        plan = request.plan if is_run else request.explain.plan
        if not plan.HasField("root") or not self.settings.is_on(SETTING):
            return request
        changed = type(request)()
        changed.CopyFrom(request)
        reports = self._prune((changed.plan if is_run else changed.explain.plan).root, is_run)
        if reports and is_run:
            self.latest = reports
        return changed if reports else request

    def _prune(self, root: Message, is_run: bool) -> tuple[ScanReport, ...]:
        settings = self.settings
        plan = Plan(root, self._open, settings.dialect(), case_sensitive=settings.case_sensitive)
        reports = [self._narrow(number, read, is_run) for number, read in enumerate(plan.reads) if read.conditions]
        return tuple(report for report in reports if report is not None)

    def _open(self, read: Message) -> Opened | None:
        source = source_of(read)
        if source is None:
            return None
        table = self._tables.get(source)
        try:
            if table is None:
                table = self._tables[source] = ConnectedTable(self.spark, *source)
            if self.settings[WAP] and not table.handle.format.is_plain:
                return None
            return table.opened(self.settings)
        except (ZskipError, OSError):
            _log.debug("%s is read as it is", source[1], exc_info=True)
            return None

    def _narrow(self, number: int, read: Read, is_run: bool) -> ScanReport | None:
        """Let a read need fewer files, and report what it needs; None where its conditions say nothing."""
        table: ConnectedTable = read.table
        bound, handle = table.bound, table.handle
        predicate = read.predicate(number, self.settings[ZONE])
        if bound is None or predicate == Constant(True):
            return None
        plan = plan_bound(handle, bound, predicate)
        report = replace(plan.report, table=handle.storage.root)
        if is_run:
            note_scan(handle, predicate, report)
        snapshot = bound.snapshot
        if len(plan.kept) == len(snapshot):
            return report
        if handle.format.is_plain:
            kept = plan.kept if len(plan.kept) else [int(snapshot.sizes.argmin())]
            give_files(read.relation.read, table.root, [snapshot.paths[i] for i in kept], table.schema)
        elif version := snapshot.reading.version_as_of:
            mask = np.isin(np.arange(len(snapshot)), plan.kept)
            names = [column.path[0] for column in columns_of(predicate)]
            boxes = induced_predicate(bound, mask, names)
            if boxes is not None:
                give_condition(read.relation, version, boxes)
        return report


def pruner_of(spark: SparkSession) -> Pruner:
    """What changes the plans of a session, put there at the first call."""
    interceptor = interceptor_of(spark, lambda: Pruner(spark).change)
    return interceptor.change.__self__  # type: ignore[attr-defined,no-any-return]


def switch_on(spark: SparkSession, beside: object = None) -> None:
    """Let the queries of a session read fewer files from now on; they are recorded without more."""
    pruner_of(spark)
    spark.conf.set(SETTING, "true")


def switch_off(spark: SparkSession) -> None:
    """Let a session send its queries as they are; `Table.df()` still skips files."""
    spark.conf.set(SETTING, "false")


@contextmanager
def switched_on(spark: SparkSession, beside: object = None) -> Iterator[SparkSession]:
    """Switch a session on for a while; what the setting was comes back."""
    before = spark.conf.get(SETTING, "false")
    switch_on(spark)
    try:
        yield spark
    finally:
        spark.conf.set(SETTING, before or "false")


def latest(spark: SparkSession) -> tuple[ScanReport, ...]:
    """The reports of the scans of the latest query."""
    return () if find_interceptor(spark) is None else pruner_of(spark).latest
