"""Choices of files by their tickets, and the reports of the latest scans."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from zskip.predicate import Predicate
from zskip.records import ScanReport
from zskip.spark.jvm.compiled.janino import invoke, is_compiled, singleton
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.bridge.filters import Filters
from zskip.spark.scan.joins.keys import why_not
from zskip.spark.scan.listings.choice import Choice, texts_size
from zskip.units import show_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnScan = Callable[[ScanReport], None]
OnFilters = Callable[[Sequence[Filters], Sequence[Predicate], ScanReport], None]
"""Takes a scan together with its filters, and some keys of its joins."""

_log = logging.getLogger("zskip.scan")
_CHOICE_BYTES = 64 << 20
_SCAN_BYTES = 8 << 20
_MOST_EXPLAINED = 16
"""Each is taken at once, unless the query that is explained fails."""
_numbers = itertools.count(1)
_lock = threading.Lock()
_collecting = threading.RLock()
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reporter:
    """Makes reports of the scans of a table, and passes them on; the table's index does not live on in it."""

    table: str
    on_scan: OnScan | None = None
    on_filters: OnFilters | None = None

    def report(self, choice: Choice, scan: Mapping[str, Any]) -> ScanReport:
        """What a scan of a choice read, as `ScanLog.java` describes it."""
        return ScanReport(
            table=self.table,
            files=scan["files"],
            files_total=scan["total"],
            bytes=scan["bytes"],
            bytes_total=scan["total_bytes"],
            rows=scan.get("rows"),
            rows_total=scan.get("total_rows"),
            seconds=choice.seconds + scan.get("nanos", 0) / 1e9,
            leaves=(*choice.leaves, *why_not(scan.get("joins", ()))),
            for_keys=scan.get("for_keys", False),
        )

    def tell(self, choice: Choice, report: ScanReport, *, is_query: bool) -> None:
        """Log a scan, and pass its report on to the listeners; is_query: whether it belongs to the workload."""
        _log.info(
            "%s: kept %d of %d files, %s of %s, in %.1f ms",
            report.table,
            report.files,
            report.files_total,
            show_size(report.bytes),
            show_size(report.bytes_total),
            1000 * report.seconds,
        )
        try:
            if self.on_scan is not None:
                self.on_scan(report)
            if self.on_filters is not None and is_query:
                filters = (choice.partition_filters, choice.data_filters)
                self.on_filters([part for part in filters if part], choice.keys, report)
        except Exception:
            _log.exception("the callback for scan reports failed")


class Chooser(Protocol):
    """Chooses the files of scans."""

    reporter: Reporter


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scan:
    time_ms: int
    query: int
    """Number of Spark's execution; -1 for none."""
    report: ScanReport


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ExplainedScan:
    """A scan whose files were listed to explain them; nothing was read."""

    chooser: Chooser
    choice: Choice
    report: ScanReport


class _Latest(Generic[T]):
    """The latest things by their numbers, up to a number of bytes; the last one stays whatever its size."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._things: OrderedDict[int, tuple[T, int]] = OrderedDict()
        self._bytes = 0

    def add(self, number: int, thing: T, size: int) -> None:
        self._things[number] = thing, size
        self._bytes += size
        while self._bytes > self.limit and len(self._things) > 1:
            self._bytes -= self._things.popitem(last=False)[1][1]

    def get(self, number: int | None) -> T | None:
        thing = None if number is None else self._things.get(number)
        return None if thing is None else thing[0]

    def stale(self) -> int:
        """Things with lower numbers are dropped soon; 0 while there is room."""
        return 0 if 2 * self._bytes < self.limit else (next(iter(self._things)) + next(reversed(self._things))) // 2

    def all(self) -> list[T]:
        return [thing for thing, _ in self._things.values()]


_choices: _Latest[tuple[Reporter, weakref.ref[Chooser], Choice]] = _Latest(_CHOICE_BYTES)
_scans: _Latest[_Scan] = _Latest(_SCAN_BYTES)
_explained: OrderedDict[str, list[ExplainedScan]] = OrderedDict()
"""By the name under which they were explained."""


def remember(chooser: Chooser, choice: Choice) -> dict[str, int]:
    """Number a choice of files by which it can be looked up, while it is one of the latest.

    Returns its ticket, and the one below which choices are forgotten soon.
    """
    with _lock:
        ticket = next(_numbers)
        _choices.add(ticket, (chooser.reporter, weakref.ref(chooser), choice), choice.nbytes)
        return {"ticket": ticket, "stale": _choices.stale()}


def look_up(ticket: int | None) -> Choice | None:
    """The choice of a ticket; None where it is forgotten."""
    with _lock:
        known = _choices.get(ticket)
    return None if known is None else known[2]


def collect_scans(jvm: Jvm) -> None:
    """Report the scans that Java has logged since the last call."""
    if not is_compiled(jvm):
        return
    with _collecting:
        for scan in json.loads(invoke(jvm, singleton(jvm, "ScanLog"), "get")):
            _add(scan)


def _add(scan: Mapping[str, Any]) -> None:
    """Report a scan, as `ScanLog.java` describes it."""
    with _lock:
        known = _choices.get(scan["ticket"])
    if known is None:
        return
    reporter, reference, choice = known
    report = reporter.report(choice, scan)
    if scan["explained"] is not None:
        chooser = reference()
        assert chooser is not None, "the explained query is there"
        explained = ExplainedScan(chooser=chooser, choice=choice, report=report)
        with _lock:
            _explained.setdefault(scan["explained"], []).append(explained)
            if len(_explained) > _MOST_EXPLAINED:
                _explained.popitem(last=False)
        return
    if not report.for_keys:
        reporter.tell(choice, report, is_query=not scan["copies"])
    with _lock:
        noted = _Scan(time_ms=scan["time"], query=scan["query"], report=report)
        _scans.add(next(_numbers), noted, texts_size(report.leaves))


def latest(spark: SparkSession) -> tuple[ScanReport, ...]:
    """The reports of the scans of the query that listed files last, in the order in which they did."""
    collect_scans(Jvm.of(spark))
    with _lock:
        scans = sorted(_scans.all(), key=lambda scan: scan.time_ms)
    if not scans:
        return ()
    query = scans[-1].query
    if query < 0:
        scans = list(itertools.takewhile(lambda scan: scan.query < 0, reversed(scans)))[::-1]
    return tuple(scan.report for scan in scans if scan.query == query)


def take_explained(jvm: Jvm, name: str) -> list[ExplainedScan]:
    """The scans that were listed under a name, in their order."""
    collect_scans(jvm)
    with _lock:
        return _explained.pop(name, [])
