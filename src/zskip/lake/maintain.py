"""Maintain a lake: rank the rewrites of all tables, take the best within the budget, and let each table do its part.

examine all tables without Spark -> index those of which nothing is known -> sort rewrites by bytes saved for each
byte written -> take what fits the budget -> for each table, `maintain` with its share, or merges of small files
"""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from zskip.errors import InputError, UnsupportedError, ZskipError
from zskip.lake.examine import Examined, describe_failure, examine, examine_all
from zskip.lake.find import FoundTable
from zskip.lake.ranking import Rewrite
from zskip.lake.results import INDEX, LakeMaintenance, TableUpkeep, show_days
from zskip.records import identify_files
from zskip.table.advice.choose_sketches import choose_now
from zskip.table.catalog_updates import notifying_catalog
from zskip.table.optimize_request import one_of, read_count, read_flag
from zskip.table.refresh_index import refresh_index
from zskip.table.rewrite.compact import compact_files
from zskip.table.rewrite.maintain import maintain as maintain_table
from zskip.table.rewrite.maintenance_request import MaintenanceRequest, read_seconds
from zskip.table.version import open_version
from zskip.table.workload.recording import read_workload
from zskip.terminal import Bar, bar
from zskip.units import read_size, show_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.table.handle import Handle

_MEGA = 1_000_000
_log = logging.getLogger("zskip.lake")


def _read_gain(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{name}={value!r} is not a ratio of bytes; give a number of at least 0, such as 1.0")
    return float(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeRequest:
    """The arguments of `Lake.maintain`, each checked by itself."""

    budget: int | None = field(default=None, metadata={"check": read_size})
    """Bytes."""
    seconds: float | None = field(default=None, metadata={"check": read_seconds})
    jobs: int = field(default=1, metadata={"check": read_count})
    dry_run: bool = field(default=False, metadata={"check": read_flag})
    min_gain: float = field(default=1.0, metadata={"check": _read_gain})
    sketches: str | None = field(default=None, metadata={"check": one_of("auto")})


@dataclass(kw_only=True, slots=True, eq=False)
class _Share:
    """What a call does to one table."""

    table: FoundTable
    examined: Examined
    rewrites: list[Rewrite] = field(default_factory=list)
    """Those within the budget, the best first."""
    upkeep: TableUpkeep
    """What has been done, or would be."""

    @property
    def handle(self) -> Handle:
        """How the table is reached."""
        assert self.table.handle is not None, "a table without one is a line with its error"
        return self.table.handle

    @property
    def bytes(self) -> int:
        """Of the files to replace."""
        return sum(rewrite.bytes for rewrite in self.rewrites)

    def count(self, **figures: int) -> None:
        """Add figures of commits."""
        sums = {name: getattr(self.upkeep, name) + figure for name, figure in figures.items()}
        self.upkeep = dataclasses.replace(self.upkeep, **sums)

    def decide(self, text: str, saved: float = 0.0) -> None:
        """Note and log a decision; saved: bytes a day."""
        _log.info("%s: %s", self.table.name, text)
        decisions, total = (*self.upkeep.decisions, text), self.upkeep.saved_bytes_a_day + saved
        self.upkeep = dataclasses.replace(self.upkeep, decisions=decisions, saved_bytes_a_day=total)


def maintain(spark: SparkSession | None, tables: Sequence[FoundTable], request: LakeRequest) -> LakeMaintenance:
    """Maintain tables; see `Lake.maintain`."""
    if spark is None and not request.dry_run:
        raise InputError("maintain() needs Spark: open the lake with zskip.lake(spark, ...), or ask for a dry_run")
    call = _Call(request)
    shares = call.examine(tables)
    for share in shares:
        if share.examined.health.action == INDEX:
            call.guard(share, call.index)
    smallest = _choose(shares, request.budget)
    chosen = sorted((share for share in shares if share.rewrites), key=lambda share: -share.rewrites[0].gain)
    if smallest is not None and not chosen and not call.failed:
        size, name = smallest
        raise InputError(
            f"budget={request.budget} fits no batch; the smallest that pays has {size} bytes ({show_size(size)}, of "
            f"{name})"
        )
    with bar("maintain the lake", "MB", ends=False) as progress:
        call.show = partial(_show, progress, shares, sum(share.bytes for share in chosen))
        jobs = [partial(call.guard, share, call.predict if request.dry_run else call.rewrite) for share in chosen]
        if spark is None or request.dry_run or request.jobs == 1:
            for job in jobs:
                job()
        else:
            from zskip.spark.jobs import run_concurrently

            run_concurrently(spark, jobs, request.jobs)
    for share in shares if request.sketches is not None and spark is not None else ():
        call.guard(share, call.choose_sketches)
    return call.result(shares, "budget" if smallest else "nothing left that is worth its bytes")


def _choose(shares: Sequence[_Share], budget: int | None) -> tuple[int, str] | None:
    """Give each table its rewrites among the best of all that fit; returns the smallest that does not, and its table.

    budget: bytes.
    """
    left = math.inf if budget is None else budget
    smallest: tuple[int, str] | None = None
    ranked = [(rewrite, share) for share in shares for rewrite in share.examined.rewrites]
    for rewrite, share in sorted(ranked, key=lambda pair: -pair[0].gain):
        if rewrite.fits(left):
            share.rewrites.append(rewrite)
            left -= rewrite.bytes
        else:
            smallest = min(smallest or (rewrite.bytes, share.table.name), (rewrite.bytes, share.table.name))
    return smallest


def _show(progress: Bar, shares: Sequence[_Share], total: int) -> None:
    written = sum(share.upkeep.bytes_written for share in shares)
    progress.update(written // _MEGA, max(total, written) // _MEGA)


class _Call:
    """One call: its limits, and what failed."""

    def __init__(self, request: LakeRequest) -> None:
        self._request, self._started = request, time.monotonic()
        self._lock = threading.Lock()
        self._is_late = False
        self.failed: dict[str, str] = {}
        self.show: Callable[[], None] = lambda: None

    def examine(self, tables: Sequence[FoundTable]) -> list[_Share]:
        """Examine tables; what cannot be read has failed, unless it belongs to another engine."""
        shares = []
        request = self._request
        results = examine_all(tables, request.min_gain, request.budget)
        for table, examined in zip(tables, results, strict=True):
            if examined.health.error:
                _log.info("leave %s: %s", table.name, examined.health.error)
                if not table.is_foreign:
                    self.failed[table.name] = examined.health.error
                continue
            if not examined.rewrites and examined.health.action != INDEX:
                _log.info("leave %s: %s", table.name, examined.health.reason)
            shares.append(_Share(table=table, examined=examined, upkeep=TableUpkeep(table=table.name)))
        return shares

    def guard(self, share: _Share, work: Callable[[_Share], None]) -> None:
        """Do one table's work, unless the time is over; a failure is that table's alone."""
        if self._seconds_left() == 0:
            self._is_late = True
            return
        try:
            work(share)
        except Exception as error:
            text = describe_failure(share.table.name, error)
            _log.warning("%s failed, the other tables go on: %s", share.table.name, text)
            with self._lock:
                self.failed[share.table.name] = text

    def _seconds_left(self) -> float | None:
        if self._request.seconds is None:
            return None
        return max(self._request.seconds - (time.monotonic() - self._started), 0.0)

    def index(self, share: _Share) -> None:
        """Read the footers of a table of which nothing is known, and examine it again."""
        if self._request.dry_run:
            share.decide("index its files")
            return
        try:
            index = refresh_index(open_version(share.handle), "footers").bind().info()
        except UnsupportedError as error:
            _log.info("leave %s: %s", share.table.name, error)
            return
        share.decide(f"index {index.files:,} files")
        request = self._request
        share.examined = examine(share.table.name, share.handle, request.min_gain, request.budget)
        if share.examined.health.error:
            raise ZskipError(share.examined.health.error)

    def predict(self, share: _Share) -> None:
        """Count what would be rewritten."""
        for rewrite in share.rewrites:
            share.decide(_describe(share, rewrite), rewrite.saved)
            share.count(
                batches=1, bytes_written=rewrite.bytes, files_removed=rewrite.files, files_added=rewrite.new_files
            )

    def rewrite(self, share: _Share) -> None:
        """Do a table's rewrites: those of a clustered table by its own `maintain`, else merges."""
        with notifying_catalog(share.handle) as handle:
            if share.examined.plan is None:
                for rewrite in share.rewrites:
                    self._merge(handle, share, rewrite)
                return
            limits = MaintenanceRequest(budget=share.bytes, any_budget=True, seconds=self._seconds_left())
            done = maintain_table(handle, limits)
            self._is_late |= done.stopped == "seconds"
            for rewrite in share.rewrites if done.batches else ():
                share.decide(_describe(share, rewrite), rewrite.saved)
            share.count(
                batches=done.batches,
                bytes_written=done.bytes_written,
                files_removed=done.files_removed,
                files_added=done.files_added,
            )
            self.show()

    def choose_sketches(self, share: _Share) -> None:
        """Let a table's recorded workload choose the sketches of its index."""
        if read_workload(share.handle).queries:
            for choice in choose_now(share.handle, None, dry_run=self._request.dry_run):
                share.decide(f"{choice.action} {choice.spec}, {show_size(choice.bytes)}")

    def _merge(self, handle: Handle, share: _Share, rewrite: Rewrite) -> None:
        snapshot = share.examined.snapshot
        assert snapshot is not None, "a table that could be examined has files"
        if self._seconds_left() == 0:
            self._is_late = True
            return
        bins = [identify_files(snapshot, batch.positions) for batch in rewrite.batches]
        merged = compact_files(handle, bins, "maintain")
        if merged is not None:
            share.decide(_describe(share, rewrite), rewrite.saved)
            share.count(
                batches=1,
                bytes_written=merged.added.bytes,
                files_removed=merged.removed.files,
                files_added=merged.added.files,
            )
            self.show()

    def result(self, shares: Sequence[_Share], stopped: str) -> LakeMaintenance:
        """What the call did."""
        tables = tuple(share.upkeep for share in shares if share.upkeep.decisions)
        return LakeMaintenance(
            tables=tables,
            batches=sum(table.batches for table in tables),
            bytes_written=sum(table.bytes_written for table in tables),
            failed=self.failed,
            seconds=round(time.monotonic() - self._started, 3),
            stopped="seconds" if self._is_late else stopped,
            dry_run=self._request.dry_run,
        )


def _describe(share: _Share, rewrite: Rewrite) -> str:
    by = "" if share.examined.plan is None else f" by {', '.join(share.examined.plan.by)}"
    verb = "merge" if rewrite.merges else f"cluster{by}"
    return (
        f"{verb} {rewrite.files:,} files into {rewrite.new_files:,}, {show_size(rewrite.bytes)}; saves "
        f"{show_size(rewrite.saved)} a day, pays after {show_days(rewrite.bytes / max(rewrite.saved, 1e-9))}"
    )
