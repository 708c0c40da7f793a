"""EXPLAIN SKIPPING: what a query would read of each of its tables, step by step; the query does not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import PredicateError
from zskip.predicate import Constant, Predicate, conjuncts, to_sql
from zskip.records import Bools, LeafReport
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.filters.catalyst import Filters, Handed, read_filters
from zskip.spark.scan.listings.choice import Choice
from zskip.spark.scan.logical import analyzed, is_command, list_scans
from zskip.spark.scan.rule.file_index import PrunedFileIndex, Pruning
from zskip.spark.scan.rule.notes import Refine
from zskip.spark.scan.rule.plans import planned_index
from zskip.sql.queries.visible import Source, predicate_of, visible
from zskip.sql.results import Step
from zskip.table.read.query import known_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Scan:
    """One choice of files: by which filters, by what else, and which they are."""

    source: Source
    partition: Predicate
    data: Predicate
    of_partitions: Bools
    noted: tuple[tuple[tuple[LeafReport, ...], Bools], ...]
    """What top-k, limits, counts and joins did, and the files that are left after each."""
    kept: Bools


def explain_query(spark: SparkSession, query: str) -> list[Step]:
    """The steps of each scan of a query; raises PredicateError for a command, and what Spark raises for the query."""
    if is_command(Jvm.of(spark), analyzed(spark, query)):
        raise PredicateError(f'"{query.strip()}" is a command; EXPLAIN SKIPPING tells of queries: SELECT ...')
    scans: list[_Scan] = []

    def make(spark: SparkSession, source: Source, pruning: Pruning) -> JavaObject:
        return planned_index(spark, _Watched(spark, source, pruning, scans))

    seen = visible(spark, spark.sql(query), make_index=make, own=True)
    list_scans(spark, seen.frame)
    steps = list(dict.fromkeys(tuple(step for step in _steps(scan)) for scan in scans))
    left: list[Step] = [(name, "table", None, None, None, 0, f"read in full: {why}") for name, why in seen.left]
    return [step for scan in steps for step in scan] + left


class _Watched(PrunedFileIndex):
    """An index that writes down by what its files were chosen; nothing is read, so it reports no scan."""

    def __init__(self, spark: SparkSession, source: Source, pruning: Pruning, scans: list[_Scan]) -> None:
        super().__init__(spark, source.schema, pruning)
        self._source = source
        self._scans = scans
        self._handed: tuple[JavaObject, JavaObject] = (None, None)
        self._noted: list[tuple[tuple[LeafReport, ...], Bools]] = []

    @property
    def name(self) -> str:
        """Unlike that of any other index, since Spark's transformations drop what equals what was there."""
        return f"{super().name} watched"

    def list_files(self, partition_filters: JavaObject, data_filters: JavaObject) -> JavaObject:
        """The files of a scan, where no rule could look into the query."""
        self._handed, self._noted = (partition_filters, data_filters), []
        return super().list_files(partition_filters, data_filters)

    def list_planned(
        self, ticket: int | None, partition_filters: Handed, data_filters: Handed, *arguments: Any
    ) -> JavaObject:
        """The files of a scan."""
        self._handed, self._noted = (partition_filters, data_filters), []
        return super().list_planned(ticket, partition_filters, data_filters, *arguments)

    def _by_note(self, refine: Refine, choice: Choice, note: JavaObject) -> Choice:
        found = super()._by_note(refine, choice, note)
        self._noted.append((found.leaves[len(choice.leaves) :], found.kept))
        return found

    def _listed(self, choice: Choice, query: int | None = None, *, for_keys: bool = False) -> JavaObject:
        of_partitions, of_data = self._handed
        self._scans.append(
            _Scan(
                source=self._source,
                partition=self._read(of_partitions),
                data=self._read(of_data),
                of_partitions=self._kept_by_partition(of_partitions)[0],
                noted=tuple(self._noted),
                kept=choice.kept,
            )
        )
        return self._statuses.directories(choice.kept)

    def _read(self, filters: JavaObject) -> Predicate:
        if filters.isEmpty():
            return Constant(True)
        read: Filters = read_filters(self.jvm, filters)
        return predicate_of(self._source, read)


def _steps(scan: _Scan) -> Iterator[Step]:
    """The table, its partitions, then each conjunct, and what is read in the end."""
    stats, label = scan.source.stats, scan.source.label
    sizes = stats.snapshot.sizes

    def step(name: str, kept: Bools, before: Bools, reason: str = "") -> Step:
        lost = int(before.sum()) - int(kept.sum())
        return (label, name, int(kept.sum()), int(sizes[kept].sum()), known_rows(stats, kept), lost, reason)

    kept: Bools = np.ones(len(sizes), np.bool_)
    yield step("table", kept, kept)
    if scan.partition != Constant(True):
        yield step(f"partitions: {to_sql(scan.partition, shorten=True)}", scan.of_partitions, kept)
        kept = scan.of_partitions
    for part in conjuncts(scan.data):
        result = stats.prune(part)
        left = kept & result.kept
        reasons = dict.fromkeys(leaf.reason for leaf in result.leaves if leaf.reason)
        nothing = "; ".join(reasons) if result.kept.all() else "the steps above skip the same files"
        yield step(to_sql(part, shorten=True), left, kept, "" if left.sum() < kept.sum() else nothing)
        kept = left
    for leaves, left in scan.noted:
        for place, leaf in enumerate(leaves, 1):
            now = left if place == len(leaves) else kept
            name = f"counted by the index: {leaf.sql}" if leaf.kind == "count" else leaf.sql
            yield step(name, kept & now, kept, leaf.reason)
            kept = kept & now
    yield step("read", scan.kept, np.ones(len(sizes), np.bool_))
