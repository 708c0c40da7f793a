"""Which files a scan reads: decided here, in Python; everything else is Spark's own.

    Spark plans a scan -> listFiles(partition filters, data filters) -> filters as text -> predicate -> prune
                       -> partition filters by Spark's own code -> the kept files as FileStatus objects

An error while pruning by data filters never reaches the query: all files stay, with one warning.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ZskipWarning
from zskip.index import BoundIndex
from zskip.prune.keys import point_share
from zskip.records import Bools, Ints, LeafReport, PruneResult, ScanReport
from zskip.spark.jvm.compat import set_active
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.statuses import FileStatuses, qualify_root
from zskip.spark.scan.counts.counts import count
from zskip.spark.scan.filters.catalyst import Filters, Handed, in_java, read_filters
from zskip.spark.scan.filters.constants import ask_spark
from zskip.spark.scan.filters.exact import PartitionFilter
from zskip.spark.scan.joins.keys import why_not
from zskip.spark.scan.listings.choice import Choice
from zskip.spark.scan.rule.notes import NEEDED, PLANNED, REFINE, Refine
from zskip.spark.scan.rule.reports import chosen, record, ticket_for
from zskip.spark.schema import TableSchema
from zskip.units import show_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip.scan")

OnFilters = Callable[[Sequence[Filters], ScanReport], None]
"""Told of a scan together with its filters."""
Prune = Callable[[Filters], PruneResult]
"""Which files might hold rows for which all of these filters are true."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pruning:
    """How a scan chooses its files, and whom it tells."""

    prune: Prune | None = None
    """None reads every file of the kept partitions."""
    stats: BoundIndex | None = None
    """What the index knows of the files, for what `prune` cannot say."""
    rows: Ints | None = None
    """(files,) rows of each file for the report, -1 where unknown."""
    on_scan: Callable[[ScanReport], None] | None = None
    on_filters: OnFilters | None = None


class PrunedFileIndex:
    """The files of one snapshot, pruned anew for each scan.

    It may be asked from several threads.
    """

    def __init__(self, spark: SparkSession, schema: TableSchema, pruning: Pruning) -> None:
        self.spark = spark
        self.jvm = Jvm.of(spark)
        self.snapshot = schema.snapshot
        self.pruning = pruning
        self._partition_filter = PartitionFilter(spark, schema)
        self._statuses = FileStatuses(self.jvm, schema.snapshot, schema.rows)
        self.partition_schema = schema.partition
        root = self.jvm.find("org.apache.hadoop.fs.Path")(qualify_root(schema.snapshot.root))
        self.root_paths = self.jvm.seq_of(root)
        self.size = schema.snapshot.bytes
        """Bytes of all files, for Spark's choice of joins."""
        self._asked = threading.local()
        self.identity = _digest(schema)
        """Equal for indexes that give the same rows, so that Spark may share exchanges and cached data."""

    @property
    def pin(self) -> str | None:
        """Names what is known of the files; None where it is not known that each of them is read once."""
        return self.identity.hex()

    @property
    def present(self) -> Bools:
        """(files,) mask of those that are there."""
        return np.ones(len(self.snapshot), np.bool_)

    @property
    def name(self) -> str:
        """How plans and logs name it; equal names mean equal rows."""
        return f"zskip[{self.snapshot.root}, {len(self.snapshot)} files, {self.identity.hex()}]"

    @property
    def hash_code(self) -> int:
        """Java's hash code: equal for equal identities."""
        return int.from_bytes(self.identity[:4], "big") & 0x7FFFFFFF

    def input_files(self) -> JavaObject:
        """All files of the snapshot, as `DataFrame.inputFiles` shows them."""
        return self._statuses.uris()

    def list_files(self, partition_filters: JavaObject, data_filters: JavaObject) -> JavaObject:
        """The files a query has to read, in one PartitionDirectory for each Hive partition.

        Spark does not look at the partition filters again, so they are decided exactly; data filters may keep too
        much.
        """
        set_active(self.spark)
        return self._listed(self.choose(partition_filters, data_filters))

    def answer(self, question: str, listing: str | None, *arguments: Any) -> JavaObject:
        """Answer a question of `zskip.java`; None where the answer is not known.

        listing: of the relation's own files, where those are not ours.
        """
        answers: dict[str, Callable[..., JavaObject]] = {
            "prepare": self.prepare,
            "list": self.list_planned,
            "count": self.count,
            "share": self.share,
        }
        return answers[question](*arguments)

    def share(self, column: str) -> float | None:
        """The share of the bytes that one value of a column leaves on average; None where that is not known."""
        stats = self.pruning.stats
        found = None if stats is None else stats.column((column,))
        return None if stats is None or found is None else point_share(found, stats.rows, self.snapshot.sizes)

    def prepare(self, partition_filters: Handed, data_filters: Handed, notes: JavaObject) -> str | None:
        """What a query would read, for its plan, as JSON; None where that is not known.

        A ticket for `list_planned`, the share of the bytes that is left, and a text. notes: `java.util.Map` from the
        kind of a note, of which those count that take no time.
        """
        try:
            set_active(self.spark)
            choice = self.choose(partition_filters, data_filters)
            planned = choice if notes.isEmpty() else self._refined(choice, notes, PLANNED)
            return json.dumps(self._reply(choice, planned))
        except Exception:
            _log.debug("a plan will not say what is kept", exc_info=True)
            return None

    def _remembered(self, ticket: int | None) -> Choice | None:
        """What was chosen for a plan."""
        return chosen(ticket)

    def _reply(self, choice: Choice, planned: Choice) -> dict[str, Any]:
        report = self._reported(planned)
        text = (
            f"kept {report.files} of {report.files_total} files, "
            f"{show_size(report.bytes)} of {show_size(report.bytes_total)}"
        )
        share = report.bytes / max(1, report.bytes_total)
        return {"ticket": ticket_for(self, choice), "share": share, "text": text}

    def list_planned(
        self,
        ticket: int | None,
        partition_filters: Handed,
        data_filters: Handed,
        notes: JavaObject,
        query: int | None,
        for_keys: bool | None,
    ) -> JavaObject:
        """The files that were chosen for a plan, further chosen by what the rule noted of the query.

        ticket: None where the filters are not those of the plan; notes: `java.util.Map` from the kind of a note; query:
        number of Spark's execution; for_keys: whether that is a key query.
        """
        set_active(self.spark)
        choice = self._remembered(ticket)
        if choice is None:
            choice = self.choose(partition_filters, data_filters)
        if ticket is None:  # What was noted was noted under other filters, by which no file is known to be full.
            choice = replace(choice, full=np.zeros_like(choice.full))
        if not notes.isEmpty():
            choice = self._refined(choice, notes)
        return self._listed(choice, query, for_keys=bool(for_keys))

    def count(self, *arguments: Any) -> str | None:
        """What the index tells of files without a look at them; None where that is nothing."""
        try:
            set_active(self.spark)
            return count(self, *arguments)
        except Exception as error:
            _warn_of(f"zskip could not count by its index and reads every file ({error}); please report it")
            return None

    def _refined(self, choice: Choice, notes: JavaObject, kinds: Collection[str] = frozenset(REFINE)) -> Choice:
        for kind, refine in NEEDED.items():
            note = notes.get(kind)
            if note is not None:
                choice = self._by_note(refine, choice, note)
        for kind, refine in REFINE.items():
            note = notes.get(kind) if kind in kinds else None
            if note is not None:
                try:
                    choice = self._by_note(refine, choice, note)
                except Exception as error:
                    _warn_of(f"zskip could not prune this scan by its {kind} ({error}); please report it")
        return choice

    def _by_note(self, refine: Refine, choice: Choice, note: JavaObject) -> Choice:
        return refine(self, choice, note)

    def choose(self, partition_filters: JavaObject, data_filters: JavaObject) -> Choice:
        """The files that filters leave: partition filters decided exactly, by others maybe too many."""
        started = time.perf_counter()
        self._asked.filters = ()
        of_partitions, leaves = self._kept_by_partition(partition_filters)
        result = self._kept_by_data(data_filters)
        return Choice(
            kept=result.kept & of_partitions,
            full=result.full & of_partitions,
            leaves=(*leaves, *result.leaves),
            seconds=time.perf_counter() - started,
            filters=self._asked.filters,
        )

    def _listed(self, choice: Choice, query: int | None = None, *, for_keys: bool = False) -> JavaObject:
        self._report(choice, replace(self._reported(choice), for_keys=for_keys), -1 if query is None else query)
        return self._statuses.directories(choice.kept)

    def _kept_by_partition(self, filters: JavaObject) -> tuple[Bools, tuple[LeafReport, ...]]:
        everything = np.ones(len(self.snapshot), np.bool_)
        if filters.isEmpty():
            return everything, ()
        kept: Bools = self._partition_filter.matching(filters)[self.snapshot.partition_of]
        try:
            sql = " AND ".join(self._filters(filters).sql)
        except Exception:
            sql = "the partition filters"
        skipped = int((~kept).sum())
        why = "" if skipped else "every partition matches"
        return kept, (LeafReport(sql=sql, skipped=skipped, kind="partition", reason=why),)

    def _kept_by_data(self, filters: JavaObject) -> PruneResult:
        everything = np.ones(len(self.snapshot), np.bool_)
        if filters.isEmpty():
            return PruneResult(kept=everything, full=everything)
        if self.pruning.prune is not None:
            try:
                read = self._filters(filters)
                return self.pruning.prune(dataclasses.replace(read, ask=ask_spark(self.jvm, lambda: in_java(filters))))
            except Exception as error:
                _warn_of(f"zskip could not prune this scan and reads every file ({error}); please report it")
        return PruneResult(kept=everything, full=~everything)

    def _filters(self, filters: JavaObject) -> Filters:
        """The text of filters, kept for the choice that this thread is making."""
        found = read_filters(self.jvm, filters)
        self._asked.filters = (*getattr(self._asked, "filters", ()), found)
        return found

    def _report(self, choice: Choice, report: ScanReport, query: int) -> None:
        record(query, report)
        _log.info(
            "%s: kept %d of %d files, %s of %s, in %.1f ms",
            self.snapshot.root,
            report.files,
            report.files_total,
            show_size(report.bytes),
            show_size(report.bytes_total),
            1000 * report.seconds,
        )
        if report.for_keys:
            return
        try:
            if self.pruning.on_scan is not None:
                self.pruning.on_scan(report)
            if self.pruning.on_filters is not None:
                self.pruning.on_filters(choice.filters, report)
        except Exception:
            _log.exception("the callback for scan reports failed")

    def _reported(self, choice: Choice) -> ScanReport:
        kept, rows = choice.kept, self.pruning.rows
        return ScanReport(
            table=self.snapshot.root,
            files=int(kept.sum()),
            files_total=len(kept),
            bytes=int(self.snapshot.sizes[kept].sum()),
            bytes_total=self.snapshot.bytes,
            rows=None if rows is None else _total(rows[kept]),
            rows_total=None if rows is None else _total(rows),
            seconds=choice.seconds,
            leaves=choice.leaves,
        )

    def report_of(self, choice: Choice, said: Mapping[str, Any]) -> ScanReport:
        """What a scan of a choice read.

        said: as `Scans.java` says it.
        """
        return ScanReport(
            table=self.snapshot.root,
            files=said["files"],
            files_total=said["total"],
            bytes=said["bytes"],
            bytes_total=said["total_bytes"],
            rows=said.get("rows"),
            rows_total=said.get("total_rows"),
            seconds=choice.seconds + said["nanos"] / 1e9,
            leaves=(*choice.leaves, *why_not(said.get("joins", ()))),
            for_keys=said.get("for_keys", False),
        )


def _warn_of(text: str) -> None:
    """Tell of an exception that is being handled: the log has all of it."""
    _log.warning("pruning failed\n%s", traceback.format_exc())
    warnings.warn(text, ZskipWarning, stacklevel=2)


def _digest(schema: TableSchema) -> bytes:
    """A digest of root, files and partition values."""
    snapshot, digest = schema.snapshot, hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([snapshot.root, schema.partition_json, snapshot.paths]).encode())
    digest.update(repr([p.values for p in snapshot.partitions]).encode())
    for array in (snapshot.sizes, snapshot.mtimes_ms, snapshot.partition_of):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def _total(rows: Ints) -> int | None:
    return None if (rows < 0).any() else int(rows.sum())
