"""What scans chose and read: choices by their tickets, and the reports of the latest query."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zskip.records import ScanReport
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.listings.choice import Choice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.scan.rule.file_index import PrunedFileIndex

_HELD = 1000
_numbers = itertools.count(1)
_lock = threading.Lock()
_choices: OrderedDict[int, tuple[PrunedFileIndex, Choice]] = OrderedDict()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scan:
    time_ms: int
    query: int
    """Number of Spark's execution; -1 for none."""
    report: ScanReport


_scans: deque[_Scan] = deque(maxlen=_HELD)


def ticket_for(index: PrunedFileIndex, choice: Choice) -> int:
    """A number by which a choice of files is found again, while it is one of the latest."""
    with _lock:
        ticket = next(_numbers)
        _choices[ticket] = index, choice
        if len(_choices) > _HELD:
            _choices.popitem(last=False)
    return ticket


def chosen(ticket: int | None) -> Choice | None:
    """The choice of a ticket; None where it is forgotten."""
    with _lock:
        found = None if ticket is None else _choices.get(ticket)
    return None if found is None else found[1]


def record(query: int, report: ScanReport) -> None:
    """Remember what a scan read."""
    with _lock:
        _scans.append(_Scan(time_ms=int(1000 * time.time()), query=query, report=report))


def latest(spark: SparkSession) -> tuple[ScanReport, ...]:
    """The reports of the scans of the query that listed files last, in the order in which they did."""
    bring(Jvm.of(spark))
    with _lock:
        scans = sorted(_scans, key=lambda scan: scan.time_ms)
    if not scans:
        return ()
    query = scans[-1].query
    if query < 0:
        scans = list(itertools.takewhile(lambda scan: scan.query < 0, reversed(scans)))[::-1]
    return tuple(scan.report for scan in scans if scan.query == query)


def bring(jvm: Jvm) -> None:
    """Bring over what Java wrote down of scans of which it did not ask Python."""
    from zskip.spark.scan.rule.plans import rule_of

    rule = rule_of(jvm)
    if rule is None:
        return
    for scan in json.loads(rule.scans()):
        with _lock:
            found = _choices.get(scan["ticket"])
        if found is not None:
            index, choice = found
            report = index.report_of(choice, scan)
            if index.pruning.on_filters is not None and not report.for_keys:
                index.pruning.on_filters(choice.filters, report)
            with _lock:
                _scans.append(_Scan(time_ms=scan["time"], query=scan["query"], report=report))
