"""Choices of files by their tickets, and the reports of the latest scans."""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from zskip.records import ScanReport
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.bridge.janino import invoke, is_compiled, singleton
from zskip.spark.scan.listings.choice import Choice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LIMIT = 1000
_numbers = itertools.count(1)
_lock = threading.Lock()
_collecting = threading.RLock()


class Reporter(Protocol):
    """Chooses the files of scans, and reports them."""

    def report(self, choice: Choice, scan: Mapping[str, Any]) -> ScanReport:
        """What a scan of a choice read, as `ScanLog.java` describes it."""

    def tell(self, choice: Choice, report: ScanReport) -> None:
        """Pass a report on to the listeners."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scan:
    time_ms: int
    query: int
    """Number of Spark's execution; -1 for none."""
    report: ScanReport


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ExplainedScan:
    """A scan whose files were listed to explain them; nothing was read."""

    reporter: Reporter
    choice: Choice
    report: ScanReport


_choices: OrderedDict[int, tuple[Reporter, Choice]] = OrderedDict()
_scans: deque[_Scan] = deque(maxlen=_LIMIT)
_explained: OrderedDict[str, list[ExplainedScan]] = OrderedDict()
"""By the name under which they were explained."""


def remember(reporter: Reporter, choice: Choice) -> int:
    """A number by which a choice of files can be looked up, while it is one of the latest."""
    with _lock:
        ticket = next(_numbers)
        _choices[ticket] = reporter, choice
        if len(_choices) > _LIMIT:
            _choices.popitem(last=False)
    return ticket


def look_up(ticket: int | None) -> Choice | None:
    """The choice of a ticket; None where it is forgotten."""
    with _lock:
        known = None if ticket is None else _choices.get(ticket)
    return None if known is None else known[1]


def collect_scans(jvm: Jvm) -> None:
    """Report the scans that Java has logged since the last call."""
    if not is_compiled(jvm):
        return
    with _collecting:
        for scan in json.loads(invoke(jvm, singleton(jvm, "ScanLog"), "get", [])):
            _add(scan)


def _add(scan: Mapping[str, Any]) -> None:
    """Report a scan, as `ScanLog.java` describes it."""
    with _lock:
        known = _choices.get(scan["ticket"])
    if known is None:
        return
    reporter, choice = known
    report = reporter.report(choice, scan)
    if scan["explained"] is not None:
        explained = ExplainedScan(reporter=reporter, choice=choice, report=report)
        with _lock:
            _explained.setdefault(scan["explained"], []).append(explained)
            if len(_explained) > _LIMIT:
                _explained.popitem(last=False)
        return
    if not report.for_keys:
        reporter.tell(choice, report)
    with _lock:
        _scans.append(_Scan(time_ms=scan["time"], query=scan["query"], report=report))


def latest(spark: SparkSession) -> tuple[ScanReport, ...]:
    """The reports of the scans of the query that listed files last, in the order in which they did."""
    collect_scans(Jvm.of(spark))
    with _lock:
        scans = sorted(_scans, key=lambda scan: scan.time_ms)
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
