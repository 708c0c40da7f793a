"""EXPLAIN SKIPPING: what a query would read of each of its tables, step by step; the query does not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zskip.errors import PredicateError
from zskip.predicate import Constant, Predicate, conjuncts, to_sql
from zskip.records import Bools, LeafReport, PruneResult
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge import file_index
from zskip.spark.scan.catalyst import Filters, read_filters
from zskip.spark.scan.file_index import PrunedFileIndex, Pruning
from zskip.spark.scan.logical import analyzed, is_command, list_scans
from zskip.sql.queries.visible import Source, predicate_of, visible
from zskip.sql.results import Step
from zskip.table.query import known_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Scan:
    """One choice of files: by which filters, and which they are."""

    source: Source
    partition: Predicate
    data: Predicate
    of_partitions: Bools
    kept: Bools


def explain_query(spark: SparkSession, query: str) -> list[Step]:
    """The steps of each scan of a query; raises PredicateError for a command, and what Spark raises for the query."""
    if is_command(Jvm.of(spark), analyzed(spark, query)):
        raise PredicateError(f'"{query.strip()}" is a command; EXPLAIN SKIPPING tells of queries: SELECT ...')
    scans: list[_Scan] = []

    def make(spark: SparkSession, source: Source, pruning: Pruning) -> JavaObject:
        return file_index(Jvm.of(spark), _Watched(spark, source, pruning, scans))

    seen = visible(spark, spark.sql(query), make_index=make, own=True)
    list_scans(spark, seen.frame)
    steps = list(dict.fromkeys(tuple(step for step in _steps(scan)) for scan in scans))
    left: list[Step] = [(name, "table", None, None, None, 0, f"read in full: {why}") for name, why in seen.left]
    return [step for scan in steps for step in scan] + left


class _Watched(PrunedFileIndex):
    """An index that writes down by which filters it was asked."""

    def __init__(self, spark: SparkSession, source: Source, pruning: Pruning, scans: list[_Scan]) -> None:
        super().__init__(spark, source.schema, pruning)
        self._source = source
        self._scans = scans
        self._latest: tuple[Predicate, Bools] = (Constant(True), np.ones(0, np.bool_))

    @property
    def name(self) -> str:
        """Unlike that of any other index, since Spark's transformations drop what equals what was there."""
        return f"{super().name} watched"

    def _kept_by_partition(self, filters: JavaObject) -> tuple[Bools, tuple[LeafReport, ...]]:
        kept, leaves = super()._kept_by_partition(filters)
        self._latest = (self._read(filters), kept.copy())
        return kept, leaves

    def _kept_by_data(self, filters: JavaObject) -> PruneResult:
        result = super()._kept_by_data(filters)
        partition, of_partitions = self._latest
        self._scans.append(
            _Scan(
                source=self._source,
                partition=partition,
                data=self._read(filters),
                of_partitions=of_partitions,
                kept=result.kept & of_partitions,
            )
        )
        return result

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
    yield step("read", scan.kept, np.ones(len(sizes), np.bool_))
