"""Choose the curve for a workload by threefold cross-validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zskip.advisor.fitting.predicate_boxes import drop_unlimited, mix_workloads, rank_boxes
from zskip.advisor.fitting.sample_statistics import Groups, SampledTable, keep_pushed_down
from zskip.layout.curves import curve_traits
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.layout.predict import predict_share, sample_ranks
from zskip.layout.program import SMALLEST
from zskip.layout.workload import UNSEEN, synthetic_workload
from zskip.predicate import Predicate
from zskip.records import Floats, Ints, Sample, Values

_MADE_UP_QUERIES, _TRIED_QUERIES = 400, 300
"""Made-up queries to fit to, and others to test the fit."""
_FOLDS = 3
_LEAST_OF_FILE, _LEAST_OF_PAGE = 50, 20
"""The fewest sampled rows in a predicted file and page; large tables get larger ones."""
_MOST_QUERIES = 300
"""The most queries of a fit; of more, some are drawn by weight."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Target:
    """The shape of a layout: how many files, and of how many rows."""

    files: Ints
    """(partitions,); fewer than the layout gets if prediction cuts each into several along its order."""
    partition_rows: Ints
    """(partitions,)."""
    file_rows: float | None = None
    """Rows of a file if `files` are fewer than the layout gets."""
    page_rows: int = 20_000
    unseen: float = UNSEEN
    """Share (0 to 1) of tomorrow's queries that are not in the workload."""
    seed: int = 0
    smallest: float = SMALLEST
    """As `fit` takes it."""


def scale_down(files: Ints, most: int) -> Ints:
    """Scale the files of the partitions down to about `most`; no partition with files loses all of them."""
    return np.maximum(files * most // max(int(files.sum()), 1), (files > 0).astype(np.int64))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ParsedWorkload:
    """The parsed queries of a workload."""

    predicates: Sequence[Predicate]
    weights: Floats
    """(queries,), their sum is 1."""
    texts: Sequence[str] = ()
    """The kind of each query, in words."""

    def __len__(self) -> int:
        return len(self.predicates)

    def take(self, numbers: Ints) -> ParsedWorkload:
        """Take some queries and normalize their weights."""
        weights = self.weights[numbers]
        return ParsedWorkload(
            predicates=[self.predicates[i] for i in numbers.tolist()],
            weights=weights / max(weights.sum(), 1e-300),
            texts=[self.texts[i] for i in numbers.tolist()] if self.texts else (),
        )

    def draw(self, most: int, seed: int) -> ParsedWorkload:
        """Draw at most this many queries by weight; each draw weighs the same."""
        return self.draw_numbered(most, seed)[0]

    def draw_numbered(self, most: int, seed: int) -> tuple[ParsedWorkload, Ints]:
        """Draw as `draw` does; also return the numbers of the drawn queries."""
        if len(self) <= most:
            return self, np.arange(len(self))
        draws = np.random.default_rng(seed).choice(len(self), most, p=self.weights)
        numbers, times = np.unique(draws, return_counts=True)
        return dataclasses.replace(self.take(numbers), weights=times / most), numbers


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reads:
    """The share (0 to 1) of a table's rows that each query of a workload reads under a layout."""

    kept: Floats
    """(queries,) in files that the index keeps."""
    decoded: Floats
    """(queries,) in pages that Spark decodes."""
    unseen: float = 0.0
    """The mean share of the rows in files that random queries read."""

    def cost(self, weights: Floats, unseen: float) -> float:
        """The share that tomorrow's queries read; unseen: the share of them that are random."""
        return (1 - unseen) * float(self.kept @ weights) + unseen * self.unseen


def fit_layout(
    sample: Sample,
    target: Target,
    workload: ParsedWorkload,
    curve: str,
    *,
    build: str = "sample",
    beside: Sequence[tuple[Values, Floats]] = (),
    guide: Layout | None = None,
) -> Layout:
    """Fit one layout to a workload and to random queries of weight `target.unseen`; to these alone if it is empty.

    beside: as `fit` takes it; guide: a layout of the same columns, whose cuts are reused as far as the sample has rows
    for them, if the curve is one that needs a workload.
    """
    workload = workload.draw(_MOST_QUERIES, target.seed)
    made_up = synthetic_workload(sample_ranks(sample), queries=_MADE_UP_QUERIES, seed=target.seed)
    boxes = drop_unlimited(rank_boxes(workload.predicates, workload.weights, sample, workload.texts))
    mixed = mix_workloads(boxes, made_up, target.unseen)
    return fit(
        sample,
        target.files,
        partition_rows=target.partition_rows,
        curve=curve,
        build=build,
        workload=mixed,
        beside=beside,
        like=guide if curve_traits(curve).needs_workload else None,
        smallest=target.smallest,
    )


def predict_reads(
    layout: Layout, clustering: Sample, table: SampledTable, target: Target, predicates: Sequence[Predicate]
) -> Reads:
    """Predict what queries would read under a layout.

    clustering: the table's sample with the layout's columns only.
    """
    tie = np.random.default_rng(0).integers(0, 2**63, len(clustering), dtype=np.uint64)
    files, keys = layout.place(clustering.columns, clustering.nulls, clustering.partition, tie)
    by_key = np.argsort(keys, kind="stable")
    order = by_key[np.argsort(files[by_key], kind="stable")]
    if (pages := layout.page_order) is not None and len(order):
        weights = _row_weights(table.sample, target)[order]
        least_rows = _LEAST_OF_PAGE * float(weights.mean())
        starts = np.flatnonzero(np.diff(files[order], prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            rows = order[start:end]
            page_rows = max(target.page_rows, least_rows) / float(weights[start:end].mean())
            order[start:end] = rows[pages.sort(keys[rows], max(round(page_rows), 1))]
    return measure_reads(table, files[order].astype(np.int64), order, target, predicates)


def measure_reads(
    table: SampledTable, files: Ints, order: Ints, target: Target, predicates: Sequence[Predicate]
) -> Reads:
    """Measure what queries read of files with the rows of a sample in this order; files: (rows,) in that order."""
    weights = _row_weights(table.sample, target)[order]
    total = float(weights.sum()) / max(len(order), 1)

    def cut(rows: float, least: int) -> Groups:
        """Cut each file into pieces of about `rows` rows and at least `least` sampled ones."""
        starts = np.flatnonzero(np.diff(files, prepend=-1))
        passed = np.cumsum(weights) - weights
        inside = passed - np.repeat(passed[starts], np.diff(np.append(starts, len(files))))
        pieces = np.floor(inside / max(rows, least * total)).astype(np.int64)
        first = np.flatnonzero((np.diff(files, prepend=-1) != 0) | (np.diff(pieces, prepend=-1) != 0))
        return Groups(table, order, first, np.add.reduceat(weights, first))

    whole = cut(np.inf if target.file_rows is None else target.file_rows, _LEAST_OF_FILE)
    paged = cut(target.page_rows, _LEAST_OF_PAGE)
    kept = np.array([whole.share(predicate) for predicate in predicates])
    expressions = {field.path for field in table.sample.fields if field.computed}
    decoded = np.array([paged.share(keep_pushed_down(predicate, expressions)) for predicate in predicates])
    return Reads(kept=kept, decoded=np.minimum(decoded, kept))


def _row_weights(sample: Sample, target: Target) -> Floats:
    """Weight the sampled rows so that they add up to the rows of each partition."""
    sampled = np.bincount(sample.partition, sample.weights, len(target.partition_rows))
    scale = target.partition_rows / np.maximum(sampled, 1e-300)
    return sample.weights * scale[sample.partition]


def take_columns(sample: Sample, names: Sequence[str]) -> Sample:
    """Take some columns of a sample, in the order of the names."""
    positions = [next(i for i, field in enumerate(sample.fields) if field.name == name) for name in names]
    return dataclasses.replace(
        sample,
        fields=tuple(sample.fields[i] for i in positions),
        columns=tuple(sample.columns[i] for i in positions),
        nulls=tuple(sample.nulls[i] for i in positions),
    )


def best_curve(reads_by_curve: Mapping[str, Reads], weights: Floats, unseen: float) -> str:
    """Choose the curve with the fewest reads; one that depends on a workload only if it gains enough by that."""

    def cost(curve: str) -> float:
        return reads_by_curve[curve].cost(weights, unseen) / curve_traits(curve).margin

    return min(reads_by_curve, key=cost)


def cross_validate(
    clustering: Sample,
    table: SampledTable,
    target: Target,
    workload: ParsedWorkload,
    curves: Sequence[str],
    folds: int = _FOLDS,
) -> Mapping[str, Reads]:
    """Predict what each query reads under layouts fitted without it; with few queries, under layouts fitted to all."""
    count = folds if len(workload) >= folds else 1
    fold_of = np.random.default_rng(target.seed).permutation(len(workload)) % count
    others = synthetic_workload(sample_ranks(clustering), queries=_TRIED_QUERIES, seed=target.seed + 1)
    reads_by_curve = {}
    for curve in curves:
        kept, decoded, unseen = np.zeros(len(workload)), np.zeros(len(workload)), []
        for fold in range(count):
            tested = np.flatnonzero(fold_of == fold)
            trained = np.flatnonzero(fold_of != fold) if count > 1 else tested
            layout = fit_layout(clustering, target, workload.take(trained), curve)
            predicted = predict_reads(layout, clustering, table, target, workload.take(tested).predicates)
            kept[tested], decoded[tested] = predicted.kept, predicted.decoded
            unseen.append(predict_share(layout, clustering, others))
        reads_by_curve[curve] = Reads(kept=kept, decoded=decoded, unseen=float(np.mean(unseen)))
    return reads_by_curve
