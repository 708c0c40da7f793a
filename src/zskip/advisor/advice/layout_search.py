"""The search for a layout: columns greedily, then the curve by cross-validation, then what it is worth."""

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
    curves_for,
    fit_layout,
    in_proportion,
    plain_curve,
    reads,
    take_columns,
)
from zskip.advisor.fitting.sample_statistics import SampledTable
from zskip.errors import InputError
from zskip.predicate import columns_of
from zskip.records import Bools, Floats, Ints, Sample

MOST_COLUMNS = 5
"""That a layout is tried with."""
_TRIED = 10
"""Columns that are looked at, those with the most weight in the workload."""
_QUICK_ROWS, _QUICK_FILES, _QUICK_QUERIES = 20_000, 128, 150
_QUERIES = 400
_DRAWS = 200
_PARTS = 4
_NOTICEABLE = 1.1
"""A query is slower where it reads more than this times what it reads today."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Question:
    """A table's sample, what is asked of it, and what the queries read today."""

    table: SampledTable
    target: Target
    asked: ParsedWorkload
    texts: Sequence[str]
    """SQL of each query."""
    now: Reads
    bytes: int
    """Of the table, all of which a layout writes anew."""
    files: int
    """That a layout is to have."""

    def drawn(self, most: int = _QUERIES) -> Question:
        """The same with at most so many queries."""
        asked, places = self.asked.draw(most, self.target.seed)
        return dataclasses.replace(
            self,
            asked=asked,
            texts=[self.texts[i] for i in places.tolist()],
            now=Reads(kept=self.now.kept[places], decoded=self.now.decoded[places]),
        )


def usable_columns(question_columns: Sequence[str], asked: ParsedWorkload) -> list[str]:
    """The columns that queries speak of, those with the most weight first; of no queries all."""
    weights = dict.fromkeys((name.lower() for name in question_columns), 0.0)
    for predicate, weight in zip(asked.predicates, asked.weights.tolist(), strict=True):
        for column in columns_of(predicate):
            if column.path[0].lower() in weights and len(column.path) == 1:
                weights[column.path[0].lower()] += weight
    named = [name for name in question_columns if weights[name.lower()] > 0] if len(asked) else list(question_columns)
    return sorted(named, key=lambda name: -weights[name.lower()])


def columns_by_number(question: Question, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The best column, the best two, and so on, found by adding the one with which the workload reads least.

    Raises InputError where there is no column.
    """
    if not names:
        raise InputError("no column of an orderable type is left to cluster by; name some with columns=")
    quick = _quick(question)
    chosen: tuple[str, ...] = ()
    found = []
    tried = list(names[:_TRIED])
    while tried and len(chosen) < MOST_COLUMNS:
        costs = {name: _quick_cost(quick, (*chosen, name)) for name in tried}
        best = min(tried, key=lambda name: costs[name])
        chosen = (*chosen, best)
        tried.remove(best)
        found.append(chosen)
    return found


def _quick(question: Question) -> Question:
    """Fewer rows, files and queries, in proportion: good enough to tell columns apart."""
    sample, target = question.table.sample, question.target
    random = np.random.default_rng(target.seed)
    rows = np.sort(random.permutation(len(sample))[:_QUICK_ROWS])
    files = target.files
    if files.sum() > _QUICK_FILES:
        files = in_proportion(files, _QUICK_FILES)
    table = SampledTable(_rows_of(sample, rows), question.table.partition_fields, question.table.partitions)
    smaller = dataclasses.replace(question, table=table, target=dataclasses.replace(target, files=files))
    return smaller.drawn(_QUICK_QUERIES)


def _rows_of(sample: Sample, rows: Ints) -> Sample:
    return dataclasses.replace(
        sample,
        columns=tuple(column[rows] for column in sample.columns),
        nulls=tuple(nulls[rows] for nulls in sample.nulls),
        partition=sample.partition[rows],
        weights=sample.weights[rows],
    )


def _quick_cost(quick: Question, by: tuple[str, ...]) -> float:
    clustering = take_columns(quick.table.sample, by)
    layout = fit_layout(clustering, quick.target, quick.asked, plain_curve(len(by)))
    found = reads(layout, clustering, quick.table, quick.target, quick.asked.predicates)
    return float(found.kept @ quick.asked.weights + 0.1 * (found.decoded @ quick.asked.weights))


def candidates(question: Question, by: tuple[str, ...], curves: Sequence[str] | None = None) -> list[Candidate]:
    """The layouts by some columns, one a curve, each held against queries that it was not fitted to; the best first."""
    question = question.drawn()
    clustering = take_columns(question.table.sample, by)
    tried = curves_for(len(by)) if curves is None else curves
    reads_by_curve = cross_validate(clustering, question.table, question.target, question.asked, tried)
    error = _row_error(question, by)
    best = best_curve(reads_by_curve, question.asked.weights, question.target.unseen)
    layouts = [_candidate(question, by, curve, result, error) for curve, result in reads_by_curve.items()]
    return sorted(layouts, key=lambda layout: (layout.curve != best, layout.kept))


def best_by_number(question: Question, names: Sequence[str]) -> list[Candidate]:
    """The layout by the best column, by the best two, and so on; raises as `columns_by_number`."""
    return [
        candidate
        for by in columns_by_number(question, names)
        for candidate in candidates(question, by, (plain_curve(len(by)),))
    ]


def as_it_is(question: Question, by: tuple[str, ...], files: int) -> Candidate:
    """The table of today, in the same terms."""
    question = question.drawn()
    today = _candidate(question, by, "as it is", question.now, 0.0)
    return dataclasses.replace(today, files=files, sort_within_files=bool(by), bytes_to_write=0)


def _candidate(question: Question, by: tuple[str, ...], curve: str, found: Reads, error: float) -> Candidate:
    kept, decoded = (
        interval(shares, question.asked.weights, error, question.target.seed) for shares in (found.kept, found.decoded)
    )
    return Candidate(
        by=by,
        curve=curve,
        files=question.files,
        sort_within_files=question.target.sort_within_files,
        kept=kept[0],
        kept_low=kept[1],
        kept_high=kept[2],
        decoded=decoded[0],
        decoded_low=decoded[1],
        decoded_high=decoded[2],
        bytes_to_write=question.bytes,
        slower=slower(question, found),
    )


def slower(question: Question, found: Reads) -> tuple[Slower, ...]:
    """The queries that would read noticeably more than today, the worst first."""
    more: Bools = found.kept > _NOTICEABLE * question.now.kept + 1e-6
    made = [
        Slower(where=question.texts[i], before=float(question.now.kept[i]), after=float(found.kept[i]))
        for i in np.flatnonzero(more).tolist()
    ]
    return tuple(sorted(made, key=lambda query: -query.factor))


def interval(shares: Floats, weights: Floats, error: float, seed: int) -> tuple[float, float, float]:
    """The mean share, and a 90 % interval by a bootstrap over the queries; error: relative, of the sample of rows."""
    mean = float(shares @ weights)
    random = np.random.default_rng(seed)
    times = random.multinomial(max(len(shares), 1), weights / weights.sum(), _DRAWS) / max(len(shares), 1)
    draws = (times @ shares) * np.maximum(1 + error * random.standard_normal(_DRAWS), 0)
    low, high = np.quantile(draws, [0.05, 0.95]).tolist()
    return mean, min(low, mean), max(min(high, 1.0), mean)


def _row_error(question: Question, by: tuple[str, ...]) -> float:
    """The relative error that the sample of rows brings: by how far the quarters of a smaller one differ."""
    few = _quick(question)
    shares = []
    for rows in _quarters(len(few.table.sample), few.target.seed):
        part = _rows_of(few.table.sample, rows)
        table = SampledTable(part, few.table.partition_fields, few.table.partitions)
        clustering = take_columns(part, by)
        layout = fit_layout(clustering, few.target, few.asked, plain_curve(len(by)))
        shares.append(
            float(reads(layout, clustering, table, few.target, few.asked.predicates).kept @ few.asked.weights)
        )
    mean = float(np.mean(shares)) if shares else 0.0
    if len(shares) < 2 or not mean:
        return 0.0
    smaller = len(few.table.sample) / len(question.table.sample)
    return float(np.std(shares, ddof=1) / np.sqrt(len(shares)) / mean * np.sqrt(smaller))


def _quarters(rows: int, seed: int) -> Iterator[Ints]:
    if rows < 100 * _PARTS:
        return
    mixed = np.random.default_rng(seed).permutation(rows)
    for part in np.array_split(mixed, _PARTS):
        yield np.sort(part)
