"""Measure what the queries of a workload read of a table, from its metadata alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zskip.advisor.workload.workload import Query, shape
from zskip.errors import ZskipError
from zskip.index import BoundIndex, KeptRowGroups, prune_row_groups
from zskip.predicate import Predicate, columns_of, conjunction, conjuncts
from zskip.prune import prune
from zskip.records import Bools, LeafReport, Snapshot
from zskip.report import Queries, QueryReads
from zskip.table.advice.advise import describe_workload, read_predicates
from zskip.table.handle import Handle
from zskip.table.optimize_request import Given
from zskip.table.predicates import is_only_about

_MOST_QUERIES = 1_000
_MOST_FILES_READ = 200_000_000
"""Queries times files; a very large table gets fewer queries."""
_FEWEST_QUERIES = 50


def measure_queries(
    handle: Handle, snapshot: Snapshot, bound: BoundIndex, queries: Given, notes: list[str]
) -> Queries | None:
    """Measure what each query of a workload reads, by default of the recorded one; None where there is none.

    Raises InputError where none of the given queries is usable.
    """
    most = max(_FEWEST_QUERIES, min(_MOST_QUERIES, _MOST_FILES_READ // max(len(snapshot), 1)))
    try:
        workload, predicates = read_predicates(handle, snapshot, queries, most=most)
    except ZskipError as error:
        if queries is not None:
            raise
        notes.append(f"The recorded workload is not shown: {error}")
        return None
    if not predicates:
        return None
    costs: list[QueryReads] = []
    reads = np.zeros(len(snapshot))
    for query, predicate in zip(workload.queries, predicates, strict=True):
        cost, kept = _measure_query(bound, predicate, query)
        costs.append(cost)
        reads[kept] += query.weight
    return Queries(
        source=describe_workload(workload),
        entries=tuple(costs),
        problems=tuple(str(problem) for problem in workload.problems),
        reads=reads / workload.weight,
    )


def _measure_query(bound: BoundIndex, predicate: Predicate, query: Query) -> tuple[QueryReads, Bools]:
    snapshot = bound.snapshot
    result = bound.prune(predicate)
    kept = result.kept
    names: set[tuple[str, ...]] = {(name,) for name in snapshot.partition_names}
    partition_parts = [part for part in conjuncts(predicate) if is_only_about(part, names)]
    by_partitions = prune(conjunction(tuple(partition_parts)), bound).kept if partition_parts else np.ones_like(kept)
    by_bounds = by_partitions & (kept if bound.sketches is None else prune(predicate, bound).kept | kept)
    row_groups = prune_row_groups(bound, predicate, kept)
    share, idle = None, None
    if row_groups is not None and row_groups.total:
        share = sum(map(len, row_groups.by_file.values())) / row_groups.total
        idle = _idle(snapshot, row_groups)
    columns = {".".join(column.path) for column in columns_of(predicate)}
    cost = QueryReads(
        where=query.where,
        shape=shape(query.where),
        weight=query.weight,
        columns=tuple(sorted(columns)),
        files=int(kept.sum()),
        bytes=int(snapshot.sizes[kept].sum()),
        by_partitions=int((~by_partitions).sum()),
        by_bounds=int((by_partitions & ~by_bounds).sum()),
        by_sketches=int((by_bounds & ~kept).sum()),
        row_groups=share,
        reason=_reason(result.leaves, int(kept.sum()), len(snapshot)),
        idle_files=None if idle is None else idle[0],
        idle_bytes=None if idle is None else idle[1],
    )
    return cost, kept


def _idle(snapshot: Snapshot, row_groups: KeptRowGroups) -> tuple[int, int]:
    """Count kept files without a matching row group, and the bytes in all row groups without a match."""
    files = np.array(list(row_groups.by_file), np.int64)
    needed = np.array([len(numbers) for numbers in row_groups.by_file.values()], np.int64)
    idle = 1 - needed / np.maximum(row_groups.counts[files], 1)
    return int((needed == 0).sum()), int((snapshot.sizes[files] * idle).sum())


def _reason(leaves: Sequence[LeafReport], files: int, total: int) -> str:
    """Explain why a query does not read less."""
    reasons = [f"{leaf.sql}: {leaf.reason}" for leaf in leaves if leaf.reason]
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    if not leaves:
        return "it has no condition"
    return f"{files:,} of {total:,} files have matching values within their bounds" if files else ""
