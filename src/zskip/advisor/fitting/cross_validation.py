"""Which curve serves a workload: candidates are fitted to two thirds of it and held against the rest, three times."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zskip.advisor.fitting.predicate_boxes import drop_unlimited, mix_workloads, rank_boxes
from zskip.advisor.fitting.sample_statistics import Groups, SampledTable, keep_pushed_down
from zskip.layout.fit import fit
from zskip.layout.fit_tree import fit_tree
from zskip.layout.layout import FITTED, Layout
from zskip.layout.predict import predict_share, sample_ranks
from zskip.layout.workload import UNSEEN, synthetic_workload
from zskip.predicate import Predicate
from zskip.records import Floats, Ints, Sample, Values

_MADE_UP_QUERIES, _TRIED_QUERIES = 400, 300
"""That are made up to fit to, and to see what a fit does to others."""
_GAIN = 0.95
"""A tree is chosen where it reads less than this part of what the best curve reads."""
_FOLDS = 3
_LEAST_OF_FILE, _LEAST_OF_PAGE = 50, 20
"""Rows of a sample that speak for a file, or for a page; of larger tables prediction takes larger ones."""
_MOST_QUERIES = 300
"""That a fit looks at; of more, some are drawn by weight."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Target:
    """What a layout is to be: how many files, and of how many rows."""

    files: Ints
    """(partitions,) wanted, or fewer, where prediction cuts each into several along its order."""
    partition_rows: Ints
    """(partitions,)."""
    file_rows: float | None = None
    """Rows of a file where `files` are fewer than wanted."""
    sort_within_files: bool = True
    page_rows: int = 20_000
    unseen: float = UNSEEN
    """Share (0 to 1) of tomorrow's queries that the workload does not tell."""
    seed: int = 0


def in_proportion(files: Ints, most: int) -> Ints:
    """Fewer files for each partition, but one at least where there are some."""
    return np.maximum(files * most // max(int(files.sum()), 1), (files > 0).astype(np.int64))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ParsedWorkload:
    """The queries of a workload, understood."""

    predicates: Sequence[Predicate]
    weights: Floats
    """(queries,), their sum is 1."""
    texts: Sequence[str] = ()
    """What kind of query each is, in words."""

    def __len__(self) -> int:
        return len(self.predicates)

    def take(self, places: Ints) -> ParsedWorkload:
        """Some of them, their weights made to sum to 1 again."""
        weights = self.weights[places]
        return ParsedWorkload(
            predicates=[self.predicates[i] for i in places.tolist()],
            weights=weights / max(weights.sum(), 1e-300),
            texts=[self.texts[i] for i in places.tolist()] if self.texts else (),
        )

    def drawn(self, most: int, seed: int) -> ParsedWorkload:
        """At most so many: all of few, else draws by weight, each draw weighing the same."""
        return self.draw(most, seed)[0]

    def draw(self, most: int, seed: int) -> tuple[ParsedWorkload, Ints]:
        """The same, and the places of those that were drawn."""
        if len(self) <= most:
            return self, np.arange(len(self))
        drawn = np.random.default_rng(seed).choice(len(self), most, p=self.weights)
        places, times = np.unique(drawn, return_counts=True)
        return dataclasses.replace(self.take(places), weights=times / most), places


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reads:
    """What each query of a workload reads under a layout: shares (0 to 1) of the table's rows."""

    kept: Floats
    """(queries,) in files that the index keeps."""
    decoded: Floats
    """(queries,) in pages that Spark decodes."""
    unseen: float = 0.0
    """In files that made-up queries read, mean."""


def fit_layout(
    sample: Sample,
    target: Target,
    asked: ParsedWorkload,
    curve: str,
    *,
    build: str = "sample",
    beside: Sequence[tuple[Values, Floats]] = (),
    guide: Layout | None = None,
) -> Layout:
    """Fit one layout to a workload and to made-up queries, of weight `target.unseen`; without one to these alone.

    curve: `fitted` for a tree of cuts, too; beside, guide: as `fit_tree` takes them.
    """
    asked = asked.drawn(_MOST_QUERIES, target.seed)
    made_up = synthetic_workload(sample_ranks(sample), queries=_MADE_UP_QUERIES, seed=target.seed)
    boxes = drop_unlimited(rank_boxes(asked.predicates, asked.weights, sample, asked.texts))
    workload = mix_workloads(boxes, made_up, target.unseen)
    rows = target.partition_rows
    if curve == FITTED:
        return fit_tree(sample, target.files, partition_rows=rows, workload=workload, beside=beside, guide=guide)
    return fit(sample, target.files, partition_rows=rows, curve=curve, build=build, workload=workload, beside=beside)


def plain_curve(columns: int) -> str:
    """The curve for some columns of which nothing else is known."""
    return "linear" if columns == 1 else "zorder"


def curves_for(columns: int) -> tuple[str, ...]:
    """The curves that are worth trying."""
    return ("linear",) if columns == 1 else ("zorder", "hilbert", "linear", FITTED)


def reads(
    layout: Layout, clustering: Sample, table: SampledTable, target: Target, predicates: Sequence[Predicate]
) -> Reads:
    """What queries would read of the files that a layout makes.

    clustering: the layout's columns of the rows of the table's sample.
    """
    tie = np.random.default_rng(0).integers(0, 2**63, len(clustering), dtype=np.uint64)
    files, keys = layout.place(clustering.columns, clustering.nulls, clustering.partition, tie)
    if target.sort_within_files:
        by_key = np.argsort(keys, kind="stable")
        order = by_key[np.argsort(files[by_key], kind="stable")]
    else:
        order = np.argsort(files, kind="stable")
    return read_shares(table, files[order].astype(np.int64), order, target, predicates)


def read_shares(
    table: SampledTable, files: Ints, order: Ints, target: Target, predicates: Sequence[Predicate]
) -> Reads:
    """What queries read of files that hold the rows of a sample in this order; files: (rows,) in that order."""
    weights = _row_weights(table.sample, target)[order]
    total = float(weights.sum()) / max(len(order), 1)

    def cut(rows: float, least: int) -> Groups:
        """Each file in pieces of so many rows, of which at least so many were drawn."""
        starts = np.flatnonzero(np.diff(files, prepend=-1))
        passed = np.cumsum(weights) - weights
        inside = passed - np.repeat(passed[starts], np.diff(np.append(starts, len(files))))
        pieces = np.floor(inside / max(rows, least * total)).astype(np.int64)
        first = np.flatnonzero((np.diff(files, prepend=-1) != 0) | (np.diff(pieces, prepend=-1) != 0))
        return Groups(table, order, first, np.add.reduceat(weights, first))

    whole = cut(np.inf if target.file_rows is None else target.file_rows, _LEAST_OF_FILE)
    paged = cut(target.page_rows, _LEAST_OF_PAGE)
    kept = np.array([whole.share(predicate) for predicate in predicates])
    decoded = np.array([paged.share(keep_pushed_down(predicate)) for predicate in predicates])
    return Reads(kept=kept, decoded=np.minimum(decoded, kept))


def _row_weights(sample: Sample, target: Target) -> Floats:
    """Rows of the table that each drawn row stands for, made to add up in every partition."""
    sampled = np.bincount(sample.partition, sample.weights, len(target.partition_rows))
    scale = target.partition_rows / np.maximum(sampled, 1e-300)
    return sample.weights * scale[sample.partition]


def take_columns(sample: Sample, names: Sequence[str]) -> Sample:
    """Some columns of a sample, in the order of the names."""
    places = [next(i for i, field in enumerate(sample.fields) if field.name == name) for name in names]
    return dataclasses.replace(
        sample,
        fields=tuple(sample.fields[i] for i in places),
        columns=tuple(sample.columns[i] for i in places),
        nulls=tuple(sample.nulls[i] for i in places),
    )


def best_curve(reads_by_curve: Mapping[str, Reads], weights: Floats, unseen: float) -> str:
    """The curve under which queries read least; a tree only where it gains enough to depend on a workload."""

    def cost(curve: str) -> float:
        share = (1 - unseen) * float(reads_by_curve[curve].kept @ weights) + unseen * reads_by_curve[curve].unseen
        return share / (_GAIN if curve == FITTED else 1.0)

    return min(reads_by_curve, key=cost)


def cross_validate(
    clustering: Sample,
    table: SampledTable,
    target: Target,
    asked: ParsedWorkload,
    curves: Sequence[str],
) -> Mapping[str, Reads]:
    """What each query reads under layouts that were fitted without it; of few queries under those fitted to all."""
    folds = np.random.default_rng(target.seed).permutation(len(asked)) % _FOLDS
    others = synthetic_workload(sample_ranks(clustering), queries=_TRIED_QUERIES, seed=target.seed + 1)
    reads_by_curve = {}
    for curve in curves:
        kept, decoded, shares = np.zeros(len(asked)), np.zeros(len(asked)), []
        for fold in range(_FOLDS if len(asked) >= _FOLDS else 1):
            tested = np.flatnonzero(folds == fold) if len(asked) >= _FOLDS else np.arange(len(asked))
            trained = np.flatnonzero(folds != fold) if len(asked) >= _FOLDS else tested
            layout = fit_layout(clustering, target, asked.take(trained), curve)
            predicted = reads(layout, clustering, table, target, [asked.predicates[i] for i in tested.tolist()])
            kept[tested], decoded[tested] = predicted.kept, predicted.decoded
            shares.append(predict_share(layout, clustering, others))
        reads_by_curve[curve] = Reads(kept=kept, decoded=decoded, unseen=float(np.mean(shares)))
    return reads_by_curve
