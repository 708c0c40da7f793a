"""EXPLAIN SKIPPING: what a query would read of each of its tables, step by step; the query does not run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from zskip.errors import PredicateError
from zskip.predicate import conjuncts, to_sql
from zskip.records import Bools
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.jvm.hadoop import storage_for
from zskip.spark.scan.logical import analyzed, is_command, list_scans
from zskip.spark.scan.rule.bound_files import BoundFiles
from zskip.spark.scan.rule.reports import ExplainedScan, take_explained
from zskip.sql.queries.pruned_query import QueryTable, prune_query
from zskip.sql.results import Step
from zskip.table.index_binding import known_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LEFT = "its reader chose otherwise when the query was planned, or nothing of it is read"


def explain_query(spark: SparkSession, query: str) -> list[Step]:
    """The steps of each scan of a query; raises PredicateError for a command, and what Spark raises for the query."""
    jvm = Jvm.of(spark)
    if is_command(jvm, analyzed(spark, query)):
        raise PredicateError(f'"{query.strip()}" is a command; EXPLAIN SKIPPING tells of queries: SELECT ...')
    pruned = prune_query(spark, spark.sql(query), explain=True)
    name = uuid.uuid4().hex
    list_scans(spark, pruned.frame, name)
    tables = {storage_for(spark, table.root).root: table for table in pruned.tables if table.root}
    scans = take_explained(jvm, name)
    steps = dict.fromkeys(tuple(_steps(scan, tables.get(scan.report.table))) for scan in scans)
    reasons = [(t.label, t.reason or _LEFT) for t in pruned.tables if t.reason or not _is_scanned(t, tables, scans)]
    unread: list[Step] = [(label, "table", None, None, None, 0, f"read in full: {why}") for label, why in reasons]
    return [step for scan in steps for step in scan] + unread


def _is_scanned(table: QueryTable, tables: Mapping[str, QueryTable], scans: Sequence[ExplainedScan]) -> bool:
    return any(tables.get(scan.report.table) is table for scan in scans)


def _steps(scan: ExplainedScan, table: QueryTable | None) -> Iterator[Step]:
    """The table, its partitions, then each conjunct and each note of the query, and what is read in the end."""
    bound, choice, report = scan.chooser, scan.choice, scan.report
    assert isinstance(bound, BoundFiles)
    index, listing = bound.index, choice.listing
    label = report.table if table is None else table.label
    total = report.files_total if table is None or table.files is None else table.files
    size = report.bytes_total if table is None or table.bytes is None else table.bytes
    rows = report.rows_total if table is None else table.rows

    def step(name: str, kept: Bools, skipped: int, reason: str = "") -> Step:
        files = int(kept.sum()) + listing.others
        size = int(index.snapshot.sizes[kept].sum()) + listing.other_bytes
        return (label, name, files, size, None if listing.others else known_rows(index, kept), skipped, reason)

    def narrow(name: str, left: Bools, reason: str) -> Step:
        return step(name, left, int(kept.sum()) - int(left.sum()), reason)

    yield (label, "table", total, size, rows, 0, "")
    kept = listing.present
    if choice.partition_filters.sql:
        filters = to_sql(bound.predicate(choice.partition_filters), shorten=True)
        yield step(f"partitions: {filters}", kept, total - int(kept.sum()) - listing.others)
    for part in conjuncts(bound.predicate(choice.data_filters)) if choice.data_filters.sql else ():
        result = index.prune(part)
        left = kept & result.kept
        reasons = dict.fromkeys(leaf.reason for leaf in result.leaves if leaf.reason)
        nothing = "; ".join(reasons) if result.kept.all() else "the steps above skip the same files"
        yield narrow(to_sql(part, shorten=True), left, "" if left.sum() < kept.sum() else nothing)
        kept = left
    for leaf, left in choice.steps:
        name = f"counted by the index: {leaf.sql}" if leaf.kind == "count" else leaf.sql
        yield narrow(name, kept & left, leaf.reason)
        kept = kept & left
    for leaf in report.leaves[len(choice.leaves) :]:
        yield narrow(leaf.sql, kept, leaf.reason)
    yield (label, "read", report.files, report.bytes, report.rows, total - report.files, "")
