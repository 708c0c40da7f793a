"""Whether the workload has moved so far from a tree of cuts that fitting a new one is worth it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from zskip.advisor.fitting.cross_validation import Target, cross_validate, fit_layout
from zskip.advisor.fitting.sample_statistics import SampledTable
from zskip.layout.layout import Layout
from zskip.layout.sampling import bernoulli_fraction
from zskip.records import Floats, Ints, Sample
from zskip.table.predicates import name_keys
from zskip.table.rewrite.maintenance_plan import MOST_QUERIES, PlannedTable

_GAIN = 0.8
"""A new tree is worth fitting where it reads less than this part of what is read now."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Refit:
    """A new tree that reads noticeably less than the table as it is."""

    now: float
    """Mean share of the rows (0 to 1) placed by the tree that lie in files which a query of the workload reads."""
    then: float
    """The same under the new tree, for queries that it was not fitted to."""
    layout: Layout
    reads: Floats
    """(files,) share of the workload that reads each file now."""

    def __str__(self) -> str:
        return (
            f"the workload has moved: a query reads files with {100 * self.now:.1f} % of the rows, and would read "
            f"{100 * self.then:.1f} % under a new tree of cuts"
        )

    def choose_files(self, table: PlannedTable, budget: int | None) -> Ints:
        """The places of the files that are read most, as many as the budget allows."""
        order = np.argsort(-self.reads, kind="stable")
        if budget is None:
            return np.sort(order)
        spent = np.cumsum(table.snapshot.sizes[order])
        return np.sort(order[: int(np.searchsorted(spent, budget, side="right"))])


def find_refit(table: PlannedTable, unseen: float) -> Refit | str | None:
    """Compare the table with a tree fitted anew to its workload; None where that would not read 20 % less.

    Only a table whose rows lie by a tree is looked at. Spark draws a sample, one job, which is saved where queries read
    about what the tree was fitted to let them read; without Spark the answer is a sentence. unseen: share of tomorrow's
    queries that the workload does not tell.
    """
    if table.layout is None or not table.layout.curve.needs_workload or table.clustering is None:
        return None
    if not len(table.parsed):
        return None
    handle, parsed = table.version.handle, table.parsed.draw(MOST_QUERIES, 0)
    kept = np.array([table.bound.prune(predicate).kept for predicate in parsed.predicates])
    reads: Floats = parsed.weights @ kept
    # Files that came since are no reason for another tree.
    placed = table.rows * table.clustering.files
    now = float(reads @ placed / max(int(placed.sum()), 1))
    predicted = table.clustering.largest_run.operation.share_after
    if predicted is not None and _GAIN * now <= predicted:
        return None
    if handle.session is None:
        return (
            f"the workload may have moved: a query reads files with {100 * now:.1f} % of the rows; only with Spark is "
            "that compared with a new tree of cuts"
        )
    partitions = len(table.snapshot.partitions)
    sizes = np.bincount(table.snapshot.partition_of, table.snapshot.sizes, partitions)
    partition_rows = np.bincount(table.snapshot.partition_of, table.rows, partitions).astype(np.int64)
    target = Target(
        files=np.maximum(np.rint(sizes / table.target).astype(np.int64), partition_rows > 0),
        partition_rows=partition_rows,
        unseen=unseen,
    )
    sample = _draw(table, int(target.files.sum()))
    named = name_keys(handle, table.snapshot, table.fields, parsed.predicates)
    parsed = dataclasses.replace(parsed, predicates=named)
    sampled = SampledTable(sample, table.snapshot.partition_fields, table.snapshot.partitions)
    reads_then = cross_validate(sample, sampled, target, parsed, (table.curve,))[table.curve]
    then = float(reads_then.kept @ parsed.weights)
    if then >= _GAIN * now:
        return None
    return Refit(now=now, then=then, layout=fit_layout(sample, target, parsed, table.curve), reads=reads)


def _draw(table: PlannedTable, files: int) -> Sample:
    from zskip.spark.jobs import describe_jobs
    from zskip.spark.schema import ordinal_of
    from zskip.spark.write.draw import draw_bernoulli

    spark = table.version.handle.need_session("maintain()")
    reader = table.version.reader.select(table.snapshot)
    fraction = bernoulli_fraction(int(table.rows.sum()), files)
    try:
        with describe_jobs(spark, f"sample {len(table.fields)} columns of {table.snapshot.root}"):
            frame = reader.rows_of_keys(spark, table.fields)
            return draw_bernoulli(frame, table.fields, ordinal_of(frame), fraction, 0)
    finally:
        reader.release()
