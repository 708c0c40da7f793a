"""Maintain a lake: the best batches of all tables first, each one commit, until the budget is used or nothing pays.

    examine all tables without Spark -> index those of which nothing is known
    -> a heap of their rewrites by bytes saved for each byte written
    take the best -> take a turn at its table -> plan that table anew with Spark -> the best again -> commit it

The first look ranks the tables, and only those that come to the top are planned by the session.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zskip.errors import ConflictError, InputError, UnsupportedError, ZskipError
from zskip.lake.examine import Examined, describe_failure, examine
from zskip.lake.find import FoundTable
from zskip.lake.ranking import Rewrite
from zskip.lake.replan import Plan, commit_rewrite, plan_again, plan_of
from zskip.lake.request import LakeRequest
from zskip.lake.results import INDEX, LakeMaintenance, TableUpkeep, show_days
from zskip.lake.survey import examine_all
from zskip.lake.turns import Turns, holding_turns
from zskip.table.refresh_index import refresh_index
from zskip.table.rewrite.maintain import MaintenanceProgress
from zskip.terminal import Bar, bar
from zskip.units import show_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.table.handle import Handle

_MOST_CONFLICTS = 5
"""Rewrites in a row that other writers may spoil before a table's turn ends."""
_WAIT_SECONDS = 0.2
_MEGA = 1_000_000
_log = logging.getLogger("zskip.lake")


@dataclass(kw_only=True, slots=True, eq=False)
class _Table:
    """A table in a call."""

    found: FoundTable
    plan: Plan
    is_certain: bool = False
    """Whether the session has planned it, with `planned_for` bytes left."""
    planned_for: float = float("inf")
    is_running: bool = False
    reserved: int = 0
    """Bytes of the batch that is planned or written: what is worse must not take them meanwhile."""
    has_turn: bool = False
    ended: str = ""
    """Why its turn is over: an error, `busy`, or empty."""
    conflicts: int = 0
    progress: MaintenanceProgress = field(default_factory=MaintenanceProgress)
    saved: float = 0.0
    decisions: list[str] = field(default_factory=list)


def maintain(spark: SparkSession | None, found: Sequence[FoundTable], request: LakeRequest) -> LakeMaintenance:
    """Maintain tables; see `Lake.maintain`."""
    started = time.monotonic()
    if spark is None and not request.dry_run:
        raise InputError("maintain() needs Spark: open the lake with zskip.lake(spark, ...), or ask for a dry_run")
    examined = examine_all(found, request.terms(request.budget))
    with bar("maintain the lake", "MB", ends=False) as progress, holding_turns() as turns:
        call = _Call(request, found, examined, started, turns, progress)
        if spark is None or request.dry_run or request.jobs == 1:
            call.work()
        else:
            from zskip.spark.jobs import run_concurrently

            run_concurrently(spark, [call.work] * request.jobs, request.jobs)
    return call.result()


class _Call:
    """The tables of a call, their rewrites by gain, and what is left of the budget."""

    def __init__(
        self,
        request: LakeRequest,
        found: Sequence[FoundTable],
        examined: Sequence[Examined],
        started: float,
        turns: Turns,
        progress: Bar,
    ) -> None:
        self._request, self._started, self._turns, self._bar = request, started, turns, progress
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, _Table, Rewrite]] = []
        self._unindexed: list[_Table] = []
        self._numbers = itertools.count()
        self._written = 0
        self._too_large: list[tuple[int, str]] = []
        self._stopped = ""
        self._failed = {
            table.name: one.health.error
            for table, one in zip(found, examined, strict=True)
            if one.health.error and not table.is_foreign
        }
        self._tables: list[_Table] = []
        for table, one in zip(found, examined, strict=True):
            if one.health.error:
                _log.info("leave %s: %s", table.name, one.health.error)
                continue
            state = _Table(found=table, plan=plan_of(one, request.cluster))
            self._tables.append(state)
            self._push(state)
            if one.health.action == INDEX:
                self._unindexed.append(state)
            elif not state.plan.rewrites:
                _log.info("leave %s: %s", table.name, one.health.reason)

    def _push(self, table: _Table) -> None:
        for rewrite in table.plan.rewrites:
            heapq.heappush(self._heap, (-rewrite.gain, next(self._numbers), table, rewrite))

    def _replace(self, table: _Table, plan: Plan) -> None:
        """Rank a table's rewrites by a new plan."""
        self._heap = [entry for entry in self._heap if entry[2] is not table]
        heapq.heapify(self._heap)
        table.plan = plan
        self._push(table)

    def _left(self) -> float:
        budget = self._request.budget
        return float("inf") if budget is None else budget - self._written

    def work(self) -> None:
        """Take the best rewrite and do it, until there is none."""
        while (taken := self._take()) is not None:
            table, rewrite = taken
            try:
                if rewrite is None:
                    self._index(table)
                elif self._request.dry_run:
                    self._predict(table, rewrite)
                elif table.is_certain:
                    self._commit(table, rewrite)
                else:
                    self._plan(table)
            except Exception as error:
                self._fail(table, error)
            finally:
                self._settle(table)

    def _take(self) -> tuple[_Table, Rewrite | None] | None:
        """Take a table without an index, then the best rewrite of a table that nobody works on.

        Waits while those of others may be the last.
        """
        with self._changed:
            while not self._stopped:
                taken = self._pop()
                if taken is not None:
                    table, rewrite = taken
                    table.is_running = True
                    table.reserved = 0 if rewrite is None else rewrite.bytes
                    return taken
                if not any(table.is_running for table in self._tables):
                    break
                self._changed.wait(_WAIT_SECONDS)
            return None

    def _pop(self) -> tuple[_Table, Rewrite | None] | None:
        aside, taken = [], None
        reserved = sum(table.reserved for table in self._tables)
        seconds = self._request.seconds
        if seconds is not None and time.monotonic() - self._started >= seconds:
            self._stopped = "seconds"
            return None
        if self._unindexed:
            return self._unindexed.pop(), None
        while self._heap and taken is None:
            entry = heapq.heappop(self._heap)
            table, rewrite = entry[2:]
            if table.ended:
                continue
            if table.is_running or (rewrite.fits(self._left()) and not rewrite.fits(self._left() - reserved)):
                aside.append(entry)  # what runs may need less than is reserved for it
            elif rewrite.fits(self._left()) or self._can_be_smaller(table):
                taken = table, rewrite
            else:
                self._too_large.append((rewrite.bytes, table.found.name))
        for entry in aside:
            heapq.heappush(self._heap, entry)
        return taken

    def _can_be_smaller(self, table: _Table) -> bool:
        """Whether a plan for what is left of the budget may have smaller batches; the table is then planned again."""
        left = self._left()
        if self._request.dry_run or left <= 0 or left >= table.planned_for:
            return False
        table.is_certain = False
        return True

    def _plan(self, table: _Table) -> None:
        """Let the session plan a table, and rank its rewrites anew."""
        handle = table.found.handle
        assert handle is not None
        if not self._take_turn(table, handle):
            return
        budget = self._request.budget
        left = None if budget is None else max(int(budget - self._written), 1)
        plan = plan_again(handle, table.plan, self._request, left, table.progress)
        with self._changed:
            self._replace(table, plan)
            table.is_certain = True
            table.planned_for = float("inf") if left is None else left

    def _index(self, table: _Table) -> None:
        """Read the footers of a table of which nothing is known, and rank its rewrites by them."""
        handle = table.found.handle
        assert handle is not None
        if self._request.dry_run:
            table.decisions.append("index its files")
            return
        if not self._take_turn(table, handle):
            return
        try:
            index = refresh_index(handle, "footers").bind().info()
        except UnsupportedError as error:
            _log.info("leave %s: %s", table.found.name, error)
            return
        table.decisions.append(f"index {index.files:,} files")
        _log.info("%s: %s", table.found.name, table.decisions[-1])
        examined = examine(table.found.name, handle, self._request.terms(self._request.budget))
        if examined.health.error:
            raise ZskipError(examined.health.error)
        with self._changed:
            self._replace(table, plan_of(examined, self._request.cluster))

    def _take_turn(self, table: _Table, handle: Handle) -> bool:
        """Take a turn at a table; False where another call has it."""
        if not table.has_turn and not self._turns.take(handle.home):
            table.ended = "busy"
            _log.info("leave %s: another call maintains it", table.found.name)
            return False
        table.has_turn = True
        return True

    def _commit(self, table: _Table, rewrite: Rewrite) -> None:
        handle, before = table.found.handle, table.progress.written
        assert handle is not None
        batches = table.progress.batches
        decision = _describe(table.plan, rewrite)
        _log.info("%s: %s", table.found.name, decision)
        commit_rewrite(handle, table.plan, rewrite, self._request, table.progress)
        with self._changed:
            table.conflicts = 0
            if table.progress.batches > batches:
                self._written += table.progress.written - before
                table.saved += rewrite.saved
                table.decisions.append(decision)
                self._show()

    def _predict(self, table: _Table, rewrite: Rewrite) -> None:
        progress = table.progress
        progress.batches += 1
        progress.removed += rewrite.files
        progress.added += rewrite.new_files
        progress.written += rewrite.bytes
        self._written += rewrite.bytes
        table.saved += rewrite.saved
        table.decisions.append(_describe(table.plan, rewrite))
        _log.info("%s: would %s", table.found.name, table.decisions[-1])

    def _fail(self, table: _Table, error: Exception) -> None:
        """End a table's turn, unless others were only faster: then it is planned again."""
        if isinstance(error, ConflictError):
            table.conflicts += 1
            if table.conflicts < _MOST_CONFLICTS:
                _log.info("%s: %s; planning again", table.found.name, error)
                with self._changed:
                    table.is_certain = False
                    if not any(entry[2] is table for entry in self._heap):
                        self._push(table)
                return
        table.ended = describe_failure(table.found.name, error)
        with self._changed:
            self._failed[table.found.name] = table.ended
        _log.warning("%s failed, the other tables go on: %s", table.found.name, table.ended)

    def _settle(self, table: _Table) -> None:
        with self._changed:
            table.reserved = 0
            table.is_running = False
            is_done = bool(table.ended) or not any(entry[2] is table for entry in self._heap)
            self._changed.notify_all()
        if is_done and table.has_turn and table.found.handle is not None:
            table.has_turn = False
            self._turns.give_back(table.found.handle.home)

    def _show(self) -> None:
        waiting = sum(entry[3].bytes for entry in self._heap)
        total = self._written + int(min(waiting, max(self._left(), 0)))
        tables = sum(table.progress.batches > 0 for table in self._tables)
        text = f"maintain the lake: {tables:,} of {len(self._tables):,} tables"
        self._bar.update(self._written // _MEGA, total // _MEGA, text)

    def result(self) -> LakeMaintenance:
        """What the call did; raises InputError where nothing fits the budget."""
        batches = sum(table.progress.batches for table in self._tables)
        if self._too_large and not batches and not self._failed:
            size, name = min(self._too_large)
            raise InputError(
                f"budget={self._request.budget} fits no batch; the smallest that pays has {size} bytes "
                f"({show_size(size)}, of {name})"
            )
        stopped = self._stopped or ("budget" if self._too_large or self._left() <= 0 else "")
        return LakeMaintenance(
            tables=tuple(_upkeep(table) for table in self._tables if table.decisions),
            batches=batches,
            bytes_written=sum(table.progress.written for table in self._tables),
            failed=self._failed,
            busy=tuple(table.found.name for table in self._tables if table.ended == "busy"),
            seconds=round(time.monotonic() - self._started, 3),
            stopped=stopped or "nothing left that is worth its bytes",
            dry_run=self._request.dry_run,
        )


def _upkeep(table: _Table) -> TableUpkeep:
    progress = table.progress
    return TableUpkeep(
        table=table.found.name,
        batches=progress.batches,
        bytes_written=progress.written,
        files_removed=progress.removed,
        files_added=progress.added,
        saved_bytes_a_day=table.saved,
        decisions=tuple(table.decisions),
    )


def _describe(plan: Plan, rewrite: Rewrite) -> str:
    by = "" if plan.planned is None else f" by {', '.join(plan.planned.by)}"
    verb = "merge" if rewrite.merges else f"cluster{by}"
    return (
        f"{verb} {rewrite.files:,} files into {rewrite.new_files:,}, {show_size(rewrite.bytes)}; saves "
        f"{show_size(rewrite.saved)} a day, pays after {show_days(rewrite.bytes / max(rewrite.saved, 1e-9))}"
    )
