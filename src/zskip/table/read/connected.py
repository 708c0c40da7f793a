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
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from zskip.errors import IndexFormatError, StorageError, ZskipError, ZskipWarning
from zskip.formats import HOME
from zskip.index import BoundIndex, Index
from zskip.predicate import Constant, Predicate, columns_of
from zskip.records import Field, ScanReport, Snapshot
from zskip.spark.connect.interceptor import find_interceptor, interceptor_of
from zskip.spark.connect.relations import Opened, Plan
from zskip.spark.connect.replacements import FRAME, give_condition, give_files, paths_of, source_of
from zskip.spark.connect.settings import BY_ID, SETTING, WAP, ZONE, Settings
from zskip.spark.connect.views import Source, Views
from zskip.table.handle import Handle, storage_at
from zskip.table.index_binding import load_index
from zskip.table.read.induced import induced_predicate
from zskip.table.read.query import note_scan, plan_bound
from zskip.table.session import is_replaced, session_time_zone, session_versions
from zskip.table.version import read_snapshot
from zskip.types import read_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from zskip.spark.scan.rule.reports import OnScan

_log = logging.getLogger("zskip.scan")
_SECONDS = 10.0
"""How long a table in a store counts as one without an index."""
_MOST_FRAMES = 256
_FIELD_ID = "parquet.field.id"
Message = Any


@dataclass(frozen=True, kw_only=True, eq=False)
class PinnedTable:
    """A table whose files are known."""

    handle: Handle
    bound: BoundIndex
    fields: tuple[Field, ...]
    schema: str = ""
    """Of plain Parquet, as the session infers it: all columns in their order, in Spark's JSON."""
    on_scan: OnScan | None = None

    @classmethod
    def of(
        cls, handle: Handle, bound: BoundIndex, schema: StructType | None, on_scan: OnScan | None = None
    ) -> PinnedTable:
        """The table of an index's snapshot; schema: of plain Parquet, as the session infers it."""
        fields = (*bound.snapshot.fields, *bound.snapshot.partition_fields)
        if schema is None:
            return cls(handle=handle, bound=bound, fields=fields, on_scan=on_scan)
        own = {field.name: field for field in fields}
        in_order = tuple(own[field.name] for field in schema if field.name in own)
        return cls(handle=handle, bound=bound, fields=in_order, schema=schema.json(), on_scan=on_scan)

    def opened(self) -> Opened:
        """It under a read."""
        in_order = bool(self.schema) or not self.bound.snapshot.partition_fields
        return Opened(table=self, fields=self.fields, in_order=in_order)

    def narrow(self, relation: Message, predicate: Predicate) -> ScanReport | None:
        """Let a read of it need fewer files, and report what it needs; None where its reader is left to choose."""
        snapshot, plan = self.bound.snapshot, plan_bound(self.handle, self.bound, predicate)
        report = replace(plan.report, table=self.handle.storage.root)
        if len(plan.kept) == len(snapshot):
            return report
        if self.handle.format.is_plain:
            kept = plan.kept if len(plan.kept) else [int(snapshot.sizes.argmin())]
            files = [snapshot.paths[i] for i in kept]
            return report if give_files(relation.read, self.handle.address, files, self.schema) else None
        mask = np.isin(np.arange(len(snapshot)), plan.kept)
        boxes = induced_predicate(self.bound, mask, [column.path[0] for column in columns_of(predicate)])
        if not snapshot.reading.version_as_of or boxes is None:
            return None
        give_condition(relation, snapshot.reading.version_as_of, boxes)
        return report


class ConnectedTable:
    """A table that queries of a session read by its path, as it was at the latest of them."""

    def __init__(self, spark: SparkSession, format_name: str, root: str) -> None:
        self.root = root.rstrip("/")
        storage = storage_at(root, None)
        self.handle = Handle(storage, None, None, format_name, connected=spark, own_address=self.root)
        self._spark = spark
        self._lock = threading.Lock()
        self._pinned: PinnedTable | None = None
        self._state: tuple[object, ...] = ()
        self._is_shared = False
        self._no_index_until = 0.0

    def pinned(self, settings: Settings) -> PinnedTable | None:
        """The table as it is now; None where nothing can be skipped."""
        with self._lock:
            if time.monotonic() < self._no_index_until:
                return None
            index = load_index(self.handle)
            if index is None:
                self._no_index_until = 0 if self.handle.storage.kind == "disk" else time.monotonic() + _SECONDS
                return None
            directory, before = self.handle.format.log_directory, self._pinned
            log = None if directory is None else sorted(map(repr, self.handle.storage.list_dir(directory)))
            state = (index.manifest, settings.epoch, log)
            if log is not None and state == self._state:
                return before
            snapshot = read_snapshot(self.handle)
            if before is None or state != self._state or not _is_same(snapshot, before.bound.snapshot):
                self._pinned, self._state = self._pin(index, snapshot, settings), state
            return self._pinned

    def _pin(self, index: Index, snapshot: Snapshot, settings: Settings) -> PinnedTable | None:
        if any(path.startswith(f"{HOME}/") for path in snapshot.paths) or snapshot.reading.opaque:
            return None
        self._is_shared = self._is_shared or _is_shared(self._spark, self.handle, self.root, snapshot)
        if not self._is_shared:
            return None
        schema, columns = None, len(snapshot.fields) + len(snapshot.partition_fields)
        if self.handle.format.is_plain:
            schema = self._spark.read.parquet(self.root).schema
            is_by_id = settings.is_on(BY_ID) and _FIELD_ID in schema.json()  # Spark matches columns by their ids.
            if differs(snapshot, schema.jsonValue()["fields"]) or len(schema) != columns or is_by_id:
                return None
        versions = session_versions(self.handle)
        bound = index.bind(snapshot, case_sensitive=settings.case_sensitive, versions=versions)
        return PinnedTable.of(self.handle, bound, schema)


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
    ends = {snapshot.paths[0], snapshot.paths[-1]}
    own = {(file.size, file.mtime_ms) for path in ends if (file := handle.storage.stat(path)) is not None}
    files = spark.read.format("binaryFile").load([f"{root}/{path}" for path in ends])
    return {tuple(row) for row in files.selectExpr("length", "unix_millis(modificationTime)").collect()} == own


def differs(snapshot: Snapshot, fields: list[dict[str, object]]) -> bool:
    """Whether the session gives a column another type, for example since it infers no types from directory names."""
    session_types = {str(f["name"]): read_type(f["type"], f.get("metadata")) for f in fields}  # type: ignore[arg-type]
    own_types = {field.name: field.type for field in (*snapshot.fields, *snapshot.partition_fields)}
    return any(session_types.get(name) != data_type for name, data_type in own_types.items())


Pinned = Callable[[Source], PinnedTable | None]


def _snapshot(pinned: Pinned, source: Source) -> Snapshot | None:
    table = pinned(source)
    return None if table is None else table.bound.snapshot


class Pruner:
    """Changes the plans of one session."""

    def __init__(self, spark: SparkSession) -> None:
        session_time_zone(spark)  # From now on zones of places are compared.
        self.spark = spark
        self.settings = Settings(spark, partial(is_replaced, spark))
        self.latest: tuple[ScanReport, ...] = ()
        self._tables: dict[tuple[str, str], ConnectedTable] = {}
        self._frames: OrderedDict[str, PinnedTable] = OrderedDict()
        """The latest ones of `Table.df()`, by the names that their reads have as an option."""
        self._texts: OrderedDict[str, None] = OrderedDict()
        """The latest ones of `zskip.sql`, whose tables skip files also where the session's other queries do not."""
        self._views = Views(self._state, _is_same)
        self._warned: set[tuple[str, str]] = set()
        """The tables of which a warning has said why they are read in full."""
        self._persisted: set[tuple[str, ...]] = set()
        """The paths of reads whose rows the session keeps: a plan with fewer files would read them again."""

    def remember(self, table: PinnedTable) -> str:
        """Give a name to the read of a DataFrame, whose queries skip files from now on."""
        name = uuid.uuid4().hex
        self._frames[name] = table
        while len(self._frames) > _MOST_FRAMES:
            self._frames.popitem(last=False)
        return name

    def remember_text(self, text: str) -> None:
        """Let the queries of a text skip files."""
        self._texts[text] = None
        while len(self._texts) > _MOST_FRAMES:
            self._texts.popitem(last=False)

    def change(self, method: str, request: Message) -> Message:
        """The request to send in place of one; the same where nothing is to change."""
        self.settings.notice(method, request)
        self._views.notice(method, request, self.settings.epoch)
        is_run = method == "ExecutePlan"
        if method == "AnalyzePlan" and request.HasField("persist"):
            self._persisted.update(paths_of(request.persist.relation))
        elif method == "AnalyzePlan" and request.HasField("unpersist"):
            self._persisted.difference_update(paths_of(request.unpersist.relation))
        if not is_run and not (method == "AnalyzePlan" and request.HasField("explain")):
            return request
        sent = request.plan if is_run else request.explain.plan
        # A command may set a setting, so none is asked for before it.
        if not sent.HasField("root"):
            return request
        is_on = self.settings.is_on(SETTING) or any(paths[0] in self._texts for paths in paths_of(sent.root) if paths)
        if not (self._frames or is_on):
            return request
        changed = type(request)()
        changed.CopyFrom(request)
        plan = changed.plan if is_run else changed.explain.plan
        reports = self._prune(plan.root, is_run, is_on)
        if reports and is_run:
            self.latest = reports
        return changed if reports else request

    def _prune(self, root: Message, is_run: bool, is_on: bool) -> tuple[ScanReport, ...]:
        settings, reports, is_case_sensitive = self.settings, [], self.settings.case_sensitive
        pinned = cache(partial(self._pinned, is_on=is_on))  # A table stands in a query once, and for its views.
        plan = Plan(
            root,
            partial(self._open, pinned),
            settings.dialect(),
            case_sensitive=is_case_sensitive,
            find_view=partial(
                self._views.find,
                epoch=settings.epoch,
                state_of=partial(_snapshot, pinned),
                case_sensitive=is_case_sensitive,
            ),
            persisted=self._persisted,
        )
        for number, read in enumerate(plan.reads):
            table: PinnedTable = read.table
            predicate = read.predicate(number, settings[ZONE])
            report = None if predicate == Constant(True) else table.narrow(read.relation, predicate)
            if report is not None and is_run:
                note_scan(table.handle, predicate, report)
                if table.on_scan is not None:
                    table.on_scan(report)
            reports.append(report)
        plan.finish()
        return tuple(report for report in reports if report is not None)

    def awaits(self, operation: str) -> bool:
        """Whether `finished` is to be called."""
        return self._views.awaits(operation)

    def finished(self, request: Message) -> None:
        """See that the server has made a view."""
        self._views.finished(request)

    def _state(self, source: Source) -> Snapshot | None:
        """The files of a table when a view of it is made."""
        return _snapshot(partial(self._pinned, is_on=self.settings.is_on(SETTING)), source)

    def _open(self, pinned: Pinned, read: Message) -> Opened | None:
        source = source_of(read)
        table = None if source is None else pinned(source)
        return None if table is None else table.opened()

    def _pinned(self, source: Source, *, is_on: bool) -> PinnedTable | None:
        """The table that a query reads; None where it is read as it is, such as by its path unless zskip is on."""
        if source[0] == FRAME:
            return self._frames.get(source[1])
        if not is_on:
            return None
        try:
            if source not in self._tables:
                self._tables[source] = ConnectedTable(self.spark, *source)
            known = self._tables[source]
            is_on_branch = self.settings[WAP] and not known.handle.format.is_plain
            return None if is_on_branch else known.pinned(self.settings)
        except (ZskipError, OSError) as error:
            _log.debug("%s is read as it is", source[1], exc_info=True)
            if isinstance(error, IndexFormatError | StorageError) and source not in self._warned:
                self._warned.add(source)
                warnings.warn(f"{source[1]} is read in full: {error}", ZskipWarning, stacklevel=2)
            return None


def pruner_of(spark: SparkSession) -> Pruner:
    """What changes the plans of a session, put there at the first call."""
    return cast(Pruner, interceptor_of(spark, lambda: Pruner(spark)).queries)


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
