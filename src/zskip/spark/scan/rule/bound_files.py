"""Which files a scan reads: decided here, in Python; everything else is Spark's own.

    the rule plans a query, or Spark lists a scan's files -> `ZskipFiles.java` hands over the listing and the filters
                       -> filters as text -> predicate -> prune -> notes of the query -> the kept files, as bits
                       -> Spark reads what is listed without the files that are ruled out

An error while pruning never reaches the query: all files stay, with one warning.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ZskipWarning
from zskip.index import BoundIndex, has_plain_days
from zskip.predicate import Predicate
from zskip.prune.keys import point_share
from zskip.prune.prune import match_conditions
from zskip.records import Field, LeafReport, PruneResult, ScanReport
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.callbacks import java_callback
from zskip.spark.scan.bridge.expressions import find_stats
from zskip.spark.scan.bridge.filters import Filters
from zskip.spark.scan.counts.counts import count
from zskip.spark.scan.listings.choice import Choice
from zskip.spark.scan.listings.listing import Listing
from zskip.spark.scan.listings.masks import pack_mask, unpack_mask
from zskip.spark.scan.rule.learned import Facts
from zskip.spark.scan.rule.notes import NEEDED, REFINE, Refine
from zskip.spark.scan.rule.reports import OnFilters, OnScan, Reporter, collect_scans, look_up, remember
from zskip.types import NESTED
from zskip.units import show_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip.scan")


class BoundFiles:
    """An index bound to the files that it describes, whichever of them a relation lists.

    Several threads may use it.
    """

    def __init__(
        self,
        spark: SparkSession,
        index: BoundIndex,
        *,
        case_sensitive: bool,
        partition_fields: Sequence[Field] = (),
        on_scan: OnScan | None = None,
        on_filters: OnFilters | None = None,
        is_recorded: Callable[[], bool] = lambda: False,
        facts: Facts | None = None,
    ) -> None:
        """partition_fields: columns that the relation takes from directories; is_recorded: whether its workload is.

        facts: what queries have shown; None where none is to be kept.
        """
        self.index = index
        self.reporter = Reporter(table=index.snapshot.root, on_scan=on_scan, on_filters=on_filters)
        self._jvm = Jvm.of(spark)
        self._case_sensitive = case_sensitive
        self._partition_fields = tuple(partition_fields)
        self._name = uuid.uuid4().hex
        self._is_recorded = is_recorded
        self._facts = facts

    def to_java(self) -> JavaObject:
        """What `BoundIndex.java` knows of the files, and how it asks about them."""
        jvm, snapshot = self._jvm, self.index.snapshot
        identities = np.zeros(len(snapshot), np.int64) if snapshot.identities is None else snapshot.identities
        arrays = map(jvm.longs, (snapshot.sizes, snapshot.mtimes_ms, self.index.rows, identities))
        return jvm.list_of(java_callback(jvm, self.answer), jvm.strings(snapshot.paths), *arrays)

    def answer(self, question: str, listing: str | None, *arguments: Any) -> JavaObject:
        """Answer a question of `ZskipFiles.java`; None where the answer is not known.

        listing: as `Listing.java` describes it; None where nothing is listed yet.
        """
        answers: dict[str, Callable[..., JavaObject]] = {
            "prepare": self.prepare,
            "list": self.list_files,
            "count": self.count,
            "share": self.share,
            "recorded": lambda _: self._is_recorded(),
            "scanned": self.scanned,
            "learned": self.learned,
        }
        return answers[question](Listing.read(listing, len(self.index.snapshot)), *arguments)

    def share(self, _: Listing, column: str) -> float | None:
        """The share of the bytes that one value of a column or an expression leaves on average; None if not known."""
        stats = find_stats(self.index, column)
        return None if stats is None else point_share(stats, self.index.rows, self.index.snapshot.sizes)

    def prepare(self, listing: Listing, partition_filters: Filters, data_filters: Filters, notes: str) -> str | None:
        """What a query would read, for its plan, as JSON; None where that is not known.

        A ticket for `list_files`, the files that the filters leave, the share of the bytes that is left by the notes
        too, and a text. notes: those that take no time, as JSON.
        """
        try:
            choice = self.choose(listing, partition_filters, data_filters)
            refined = self._refine(choice, json.loads(notes))
            report, choice = self.report(refined), replace(choice, is_repeatable=refined.is_repeatable)
            text = (
                f"kept {report.files} of {report.files_total} files, "
                f"{show_size(report.bytes)} of {show_size(report.bytes_total)}"
            )
            # Files that are not there now may be listed later.
            kept = pack_mask(choice.kept | ~listing.present)
            share = report.bytes / max(1, report.bytes_total)
            return self._describe(choice, kept, share=share, text=text)
        except Exception:
            _log.debug("a plan will not say what is kept", exc_info=True)
            return None

    def list_files(
        self, listing: Listing, ticket: int | None, partition_filters: Filters, data_filters: Filters, notes: str
    ) -> str:
        """The files that the filters and the notes of a query leave, as JSON.

        ticket: None where the filters are not those of the plan.
        """
        planned = look_up(ticket)
        if planned is not None and np.array_equal(planned.listing.present, listing.present):
            choice = replace(planned, listing=listing, pin=self._pin(listing), full=planned.full & listing.whole)
        else:
            choice = self.choose(listing, partition_filters, data_filters)
        if ticket is None:  # The notes are of other filters, by which no file is known to be full.
            choice = replace(choice, full=np.zeros_like(choice.full))
        choice = self._refine(choice, json.loads(notes))
        return self._describe(choice, pack_mask(choice.kept))

    def _describe(self, choice: Choice, kept: str, **more: str | float) -> str:
        """A choice for `Choices.java`, as JSON."""
        return json.dumps({**remember(self, choice), "kept": kept, "is_repeatable": choice.is_repeatable, **more})

    def count(self, listing: Listing, partition_filters: Filters, data_filters: Filters, *question: Any) -> str | None:
        """Count files by the index, so that they are not read; None if there are none."""
        try:
            return count(self.index, self.choose(listing, partition_filters, data_filters), *question)
        except Exception as error:
            _warn(f"zskip could not count by its index and reads every file ({error}); please report it")
            return None

    def scanned(self, _: Listing) -> None:
        """Report the latest scans, of any table."""
        collect_scans(self._jvm)

    def learned(self, _: Listing, ticket: int | None, files: str) -> None:
        """Take what a query has shown: no row of some files makes its filters true; files: as bits."""
        choice = look_up(ticket)
        if self._facts is not None and choice is not None:
            without = unpack_mask(files, len(self.index.snapshot)) & choice.listing.whole
            fields = [field for field in self._fields if field.name in choice.data_filters.columns.values()]
            # Sessions differ in whether they pad CHAR, which may be inside others, and in how they read ancient days.
            if not any(field.type.is_char or field.type.name == NESTED.name for field in fields):
                without &= has_plain_days(self.index, fields)
                predicate = choice.data_filters.predicate(self._fields, case_sensitive=self._case_sensitive)
                self._facts.add(predicate, self.index.snapshot, np.flatnonzero(without))

    def choose(self, listing: Listing, partition_filters: Filters, data_filters: Filters) -> Choice:
        """The files that filters leave; Spark has applied the partition filters to what it lists."""
        started = time.perf_counter()
        result, is_repeatable = self._prune(data_filters)
        leaves = () if not partition_filters else _partition_leaves(listing, partition_filters)
        return Choice(
            listing=listing,
            pin=self._pin(listing),
            kept=result.kept & listing.present,
            full=result.full & listing.whole,
            partition_filters=partition_filters,
            data_filters=data_filters,
            filter_leaves=(*leaves, *result.leaves),
            seconds=time.perf_counter() - started,
            is_repeatable=is_repeatable,
        )

    def _pin(self, listing: Listing) -> str | None:
        return self._name if listing.is_known and not listing.twice else None

    def _prune(self, filters: Filters) -> tuple[PruneResult, bool]:
        """The files that filters leave, and whether they always do: nothing failed."""
        everything = np.ones(len(self.index.snapshot), np.bool_)
        if not filters:
            return PruneResult(kept=everything, full=everything), True
        try:
            predicate = filters.predicate(self._fields, case_sensitive=self._case_sensitive)
            facts = None if self._facts is None else self._facts.for_predicate(predicate, self.index.snapshot)
            return match_conditions(self.index.prune(predicate), predicate, facts, self.index), True
        except Exception as error:
            _warn(f"zskip could not prune this scan and reads every file ({error}); please report it")
            return PruneResult(kept=everything, full=~everything), False

    @property
    def _fields(self) -> tuple[Field, ...]:
        return (*self.index.snapshot.fields, *self.index.snapshot.partition_fields)

    def _refine(self, choice: Choice, notes: Mapping[str, Any]) -> Choice:
        for kind in NEEDED.keys() & notes.keys():
            choice = _timed(NEEDED[kind], self.index, choice, notes[kind])
        for kind, refine in REFINE.items():
            if kind in notes:
                try:
                    choice = _timed(refine, self.index, choice, notes[kind])
                except Exception as error:
                    _warn(f"zskip could not prune this scan by its {kind} ({error}); please report it")
                    choice = replace(choice, is_repeatable=False)
        return choice

    def predicate(self, filters: Filters) -> Predicate:
        """Filters of a scan as a predicate over the columns of the relation."""
        fields = (*self.index.snapshot.fields, *self._partition_fields)
        return filters.predicate(fields, case_sensitive=self._case_sensitive)

    def report(self, choice: Choice) -> ScanReport:
        """What a scan of a choice would read."""
        listing, sizes = choice.listing, self.index.snapshot.sizes
        total, total_bytes = listing.total, listing.total_bytes
        if total is None or total_bytes is None:
            total = int(listing.present.sum()) + listing.others
            total_bytes = int(sizes[listing.present].sum()) + listing.other_bytes
        files = int(choice.kept.sum()) + listing.others
        size = int(sizes[choice.kept].sum()) + listing.other_bytes
        scan = {"files": files, "bytes": size, "total": total, "total_bytes": total_bytes}
        return self.reporter.report(choice, scan)


def _partition_leaves(listing: Listing, filters: Filters) -> tuple[LeafReport, ...]:
    if listing.total is None:
        return ()
    skipped = listing.total - int(listing.present.sum()) - listing.others
    reason = "" if skipped else "every partition matches, or Spark chose the partitions before"
    return (LeafReport(sql=" AND ".join(filters.sql), skipped=skipped, kind="partition", reason=reason),)


def _timed(refine: Refine, index: BoundIndex, choice: Choice, note: Any) -> Choice:
    started = time.perf_counter()
    refined = refine(index, choice, note)
    return replace(refined, seconds=choice.seconds + time.perf_counter() - started)


def _warn(text: str) -> None:
    """Warn about the exception that is being handled, and log its traceback."""
    _log.warning("pruning failed\n%s", traceback.format_exc())
    warnings.warn(text, ZskipWarning, stacklevel=2)
