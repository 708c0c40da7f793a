"""Search for a layout: add columns greedily, choose the curve by cross-validation, and estimate the savings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from zskip.advisor.advice.advice import Candidate, Slower
from zskip.advisor.fitting.cross_validation import (
    ParsedWorkload,
    Reads,
    Target,
    best_curve,
    cross_validate,
    fit_layout,
    predict_reads,
    scale_down,
    take_columns,
)
from zskip.advisor.fitting.sample_statistics import SampledTable
from zskip.errors import InputError
from zskip.layout.curves import curves_for, default_curve
from zskip.layout.curves.fitted import Fitted
from zskip.predicate import columns_of
from zskip.records import Bools, Field, Floats, Ints, Sample

MOST_COLUMNS = 5
"""The most columns of a layout."""
_TRIED = 10
"""Columns to try, those with the most weight in the workload."""
_QUICK_ROWS, _QUICK_FILES, _QUICK_QUERIES = 20_000, 128, 150
_QUERIES = 400
_DRAWS = 200
_PARTS = 4
_WORTH_A_KEY = 0.97
"""A condition that leaves more of the reads than this is not worth computing for every row."""
_NOTICEABLE = 1.1
"""A query is slower if it reads more than this many times what it reads today."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Question:
    """A table's sample, its workload, and what the queries read today."""

    table: SampledTable
    target: Target
    workload: ParsedWorkload
    texts: Sequence[str]
    """SQL of each query."""
    today: Reads
    bytes: int
    """The size of the table, all of which a new layout rewrites."""
    files: int
    """The number of files of a layout."""

    def draw_queries(self, most: int = _QUERIES) -> Question:
        """Limit the question to at most this many queries, drawn by weight."""
        workload, numbers = self.workload.draw_numbered(most, self.target.seed)
        return dataclasses.replace(
            self,
            workload=workload,
            texts=[self.texts[i] for i in numbers.tolist()],
            today=Reads(kept=self.today.kept[numbers], decoded=self.today.decoded[numbers]),
        )


def find_queried_columns(fields: Sequence[Field], workload: ParsedWorkload) -> list[Field]:
    """Find the columns and fields of structs that queries mention, those with the most weight first.

    Without queries, all columns.
    """
    if not len(workload):
        return [field for field in fields if not field.nested]
    weights = dict.fromkeys((field.path for field in fields), 0.0)
    for predicate, weight in zip(workload.predicates, workload.weights.tolist(), strict=True):
        for column in columns_of(predicate):
            if column.path in weights:
                weights[column.path] += weight
    queried = [field for field in fields if weights[field.path] > 0]
    return sorted(queried, key=lambda field: -weights[field.path])


def choose_columns_greedily(question: Question, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Choose the best column, the best two, and so on, each time adding the column with the fewest reads.

    Raises InputError if there is no column.
    """
    if not names:
        raise InputError("no column of an orderable type is left to cluster by; name some with columns=")
    quick = _shrink(question)
    chosen: tuple[str, ...] = ()
    choices = []
    untried = list(names[:_TRIED])
    while untried and len(chosen) < MOST_COLUMNS:
        costs = {name: _estimate_cost(quick, (*chosen, name)) for name in untried}
        best = min(untried, key=lambda name: costs[name])
        chosen = (*chosen, best)
        untried.remove(best)
        choices.append(chosen)
    return choices


def _shrink(question: Question) -> Question:
    """Take fewer rows, files and queries, in proportion: enough to tell columns apart."""
    sample, target = question.table.sample, question.target
    random = np.random.default_rng(target.seed)
    rows = np.sort(random.permutation(len(sample))[:_QUICK_ROWS])
    files = target.files
    if files.sum() > _QUICK_FILES:
        files = scale_down(files, _QUICK_FILES)
    table = SampledTable(_take_rows(sample, rows), question.table.partition_fields, question.table.partitions)
    smaller = dataclasses.replace(question, table=table, target=dataclasses.replace(target, files=files))
    return smaller.draw_queries(_QUICK_QUERIES)


def _take_rows(sample: Sample, rows: Ints) -> Sample:
    return dataclasses.replace(
        sample,
        columns=tuple(column[rows] for column in sample.columns),
        nulls=tuple(nulls[rows] for nulls in sample.nulls),
        partition=sample.partition[rows],
        weights=sample.weights[rows],
    )


def predict_fit(question: Question, by: tuple[str, ...], curve: str) -> Reads:
    """Predict what the queries read under a layout fitted to all of them."""
    clustering = take_columns(question.table.sample, by)
    layout = fit_layout(clustering, question.target, question.workload, curve)
    return predict_reads(layout, clustering, question.table, question.target, question.workload.predicates)


def _estimate_cost(quick: Question, by: tuple[str, ...]) -> float:
    reads = predict_fit(quick, by, default_curve(len(by)))
    return float((reads.kept + 0.1 * reads.decoded) @ quick.workload.weights)


def compare_curves(question: Question, by: tuple[str, ...], curves: Sequence[str] | None = None) -> list[Candidate]:
    """Compare curves over the same columns on queries that they were not fitted to; the best layout first."""
    question = question.draw_queries()
    clustering = take_columns(question.table.sample, by)
    tried = curves_for(len(by)) if curves is None else curves
    reads_by_curve = cross_validate(clustering, question.table, question.target, question.workload, tried)
    error = _estimate_row_error(question, by)
    best = best_curve(reads_by_curve, question.workload.weights, question.target.unseen)
    layouts = [_evaluate(question, by, curve, reads, error) for curve, reads in reads_by_curve.items()]
    return sorted(layouts, key=lambda layout: (layout.curve != best, layout.kept))


def compare_column_counts(question: Question, names: Sequence[str]) -> list[Candidate]:
    """Evaluate the layout by the best column, by the best two, and so on; raises as `choose_columns_greedily`."""
    return [
        candidate
        for by in choose_columns_greedily(question, names)
        for candidate in compare_curves(question, by, (default_curve(len(by)),))
    ]


def add_conditions(question: Question, by: tuple[str, ...], conditions: Sequence[str]) -> tuple[str, ...]:
    """Add those conditions to the columns of a tree by which queries read less."""
    quick = _shrink(question)
    least = _estimate_tree_cost(quick, by)
    for condition in conditions:
        cost = _estimate_tree_cost(quick, (*by, condition))
        if cost < _WORTH_A_KEY * least:
            by, least = (*by, condition), cost
    return by


def _estimate_tree_cost(question: Question, by: tuple[str, ...]) -> float:
    # By all queries, since a condition repeats as a whole: without its query a tree has no cut by it.
    clustering, curve = take_columns(question.table.sample, by), Fitted.name
    reads = cross_validate(clustering, question.table, question.target, question.workload, (curve,), folds=1)[curve]
    return reads.cost(question.workload.weights, question.target.unseen)


def evaluate_current(question: Question, by: tuple[str, ...], files: int) -> Candidate:
    """Evaluate the table as it is today."""
    question = question.draw_queries()
    current = _evaluate(question, by, "as it is", question.today, 0.0)
    return dataclasses.replace(current, files=files, bytes_to_write=0)


def _evaluate(question: Question, by: tuple[str, ...], curve: str, reads: Reads, error: float) -> Candidate:
    kept, decoded = (
        bootstrap_interval(shares, question.workload.weights, error, question.target.seed)
        for shares in (reads.kept, reads.decoded)
    )
    return Candidate(
        by=by,
        curve=curve,
        files=question.files,
        kept=kept[0],
        kept_low=kept[1],
        kept_high=kept[2],
        decoded=decoded[0],
        decoded_low=decoded[1],
        decoded_high=decoded[2],
        bytes_to_write=question.bytes,
        slower=find_slower_queries(question, reads),
    )


def find_slower_queries(question: Question, reads: Reads) -> tuple[Slower, ...]:
    """Find the queries that would read noticeably more than today, the worst first."""
    is_slower: Bools = reads.kept > _NOTICEABLE * question.today.kept + 1e-6
    queries = [
        Slower(where=question.texts[i], before=float(question.today.kept[i]), after=float(reads.kept[i]))
        for i in np.flatnonzero(is_slower).tolist()
    ]
    return tuple(sorted(queries, key=lambda query: -query.factor))


def bootstrap_interval(shares: Floats, weights: Floats, error: float, seed: int) -> tuple[float, float, float]:
    """Compute the mean share and its 90 % interval by a bootstrap over queries; error: relative, of the row sample."""
    mean = float(shares @ weights)
    random = np.random.default_rng(seed)
    times = random.multinomial(max(len(shares), 1), weights / weights.sum(), _DRAWS) / max(len(shares), 1)
    draws = (times @ shares) * np.maximum(1 + error * random.standard_normal(_DRAWS), 0)
    low, high = np.quantile(draws, [0.05, 0.95]).tolist()
    return mean, min(low, mean), max(min(high, 1.0), mean)


def _estimate_row_error(question: Question, by: tuple[str, ...]) -> float:
    """Estimate the relative error of the row sample from the spread between quarters of a smaller one."""
    quick = _shrink(question)
    shares = []
    for rows in _split_rows(len(quick.table.sample), quick.target.seed):
        part = _take_rows(quick.table.sample, rows)
        table = SampledTable(part, quick.table.partition_fields, quick.table.partitions)
        reads = predict_fit(dataclasses.replace(quick, table=table), by, default_curve(len(by)))
        shares.append(float(reads.kept @ quick.workload.weights))
    mean = float(np.mean(shares)) if shares else 0.0
    if len(shares) < 2 or not mean:
        return 0.0
    smaller = len(quick.table.sample) / len(question.table.sample)
    return float(np.std(shares, ddof=1) / np.sqrt(len(shares)) / mean * np.sqrt(smaller))


def _split_rows(rows: int, seed: int) -> Iterator[Ints]:
    if rows < 100 * _PARTS:
        return
    mixed = np.random.default_rng(seed).permutation(rows)
    for part in np.array_split(mixed, _PARTS):
        yield np.sort(part)
