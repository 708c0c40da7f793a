"""Which curve serves a workload: candidates are fitted to two thirds of it and held against the rest, three times."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from zskip.advisor.fitting.bit_patterns import PatternSearch
from zskip.advisor.fitting.predicate_boxes import limiting, mixed, ranked
from zskip.advisor.fitting.sample_statistics import Groups, SampledTable, pushed
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.layout.predict import predict_share, predict_shares, sample_ranks
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, Ranks, Workload, synthetic_workload
from zskip.predicate import Predicate
from zskip.records import Floats, Ints, Sample

SYNTHETIC = 0.15
"""Weight of the made-up workload in a fit."""
_SEARCHED = (SYNTHETIC, 0.7, 1.0)
"""The same where orders of bits are searched; those found with more of it are taken where others would harm."""
_HARMLESS, _HARMLESS_OF_COLUMN = 1.15, 1.8
"""Times what made-up queries read under a layout that nothing was fitted to, at most: all of them, and those that name
any one column."""
FITTED = "fitted"
"""A separable curve whose order of bits was found by search."""
_SYNTHETIC_QUERIES, _TRIED_QUERIES = 300, 1_000
"""That are made up to fit to, and to see what a fit does to others."""
_RISK = 1.03
"""A fitted order of bits is chosen where, times this, it still reads less than the others."""
_FOLDS = 3
_QUICK_EVALUATIONS = 60
"""Of patterns, for each weight, where layouts are compared."""
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

    def __len__(self) -> int:
        return len(self.predicates)

    def take(self, places: Ints) -> ParsedWorkload:
        """Some of them, their weights made to sum to 1 again."""
        weights = self.weights[places]
        return ParsedWorkload(
            predicates=[self.predicates[i] for i in places.tolist()], weights=weights / max(weights.sum(), 1e-300)
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


def fitted(
    sample: Sample, target: Target, asked: ParsedWorkload, curve: str, *, build: str = "sample", evaluations: int = 250
) -> Layout:
    """Fit one layout to a workload; an empty one is the made-up alone. curve: `fitted`, too.

    An order of bits under which made-up queries would read noticeably more than under a Z-order that nothing was fitted
    to is not taken, so that a workload which no longer holds does little harm.
    """
    asked = asked.drawn(_MOST_QUERIES, target.seed)
    ranks = sample_ranks(sample)
    made_up = synthetic_workload(ranks, queries=_SYNTHETIC_QUERIES, seed=target.seed)
    boxes = limiting(ranked(asked.predicates, asked.weights, sample))
    plain = "zorder" if curve == FITTED else curve

    def made(workload: Workload, pattern: Sequence[int] | None = None, like: Layout | None = None) -> Layout:
        return fit(
            sample,
            target.files,
            partition_rows=target.partition_rows,
            curve=plain,
            build=build,
            pattern=pattern,
            workload=workload,
            bounds=None if like is None else like.bounds,
            seed=target.seed,
        )

    wanted = mixed(boxes, made_up, SYNTHETIC)
    if curve != FITTED:
        return made(wanted)
    default = made(made_up)
    others = Others(sample, ranks, default, target)
    files = int(max(target.files.sum(), 1))
    boxes = boxes if len(boxes) else made_up
    search = PatternSearch(sample, ranks, default.bounds, files, boxes, made_up, seed=target.seed)
    patterns = {pattern for share in _SEARCHED for pattern in search.best(share, evaluations)}
    best, least = default, np.inf
    for layout in (made(wanted, pattern, default) for pattern in sorted(patterns)):
        share = predict_share(layout, sample, wanted)
        if share < least and others.bear(layout):
            best, least = layout, share
    return best


class Others:
    """Queries that are not in a workload: made-up ones, of which no large part may read much more than it would."""

    def __init__(self, sample: Sample, ranks: Sequence[Ranks], default: Layout, target: Target) -> None:
        """default: the layout that nothing was fitted to."""
        self._sample = sample
        self._workload = synthetic_workload(ranks, queries=_TRIED_QUERIES, seed=target.seed + 1)
        names = (self._workload.lower != ANY_LOWER) | (self._workload.upper != ANY_UPPER)
        self._groups: Floats = np.column_stack([np.ones(len(names)), names])
        self._most = self._reads(default) * np.array([_HARMLESS, *[_HARMLESS_OF_COLUMN] * len(ranks)])

    def bear(self, layout: Layout) -> bool:
        """Whether neither all of them nor those that name one of the columns would read noticeably more."""
        return bool((self._reads(layout) <= self._most).all())

    def _reads(self, layout: Layout) -> Floats:
        """(1 + columns,) share of the rows that all of them read, and those that name a column."""
        shares = predict_shares(layout, self._sample, self._workload)
        return cast(Floats, shares @ self._groups / np.maximum(self._groups.sum(axis=0), 1))


def plain_curve(columns: int) -> str:
    """The curve for some columns of which nothing else is known."""
    return "linear" if columns == 1 else "zorder"


def curves_for(columns: int) -> tuple[str, ...]:
    """The curves that are worth trying."""
    return ("linear",) if columns == 1 else ("zorder", "hilbert", "linear", FITTED)


def safe_curves(sample: Sample, target: Target, asked: ParsedWorkload) -> tuple[str, ...]:
    """The same without those under which other queries would read noticeably more than under a plain Z-order."""
    curves = curves_for(len(sample.fields))
    if len(curves) == 1:
        return curves
    nothing = ParsedWorkload(predicates=(), weights=np.empty(0))
    default = fitted(sample, target, nothing, "zorder")
    others = Others(sample, sample_ranks(sample), default, target)
    return tuple(c for c in curves if c in ("zorder", FITTED) or others.bear(fitted(sample, target, asked, c)))


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
    decoded = np.array([paged.share(pushed(predicate)) for predicate in predicates])
    return Reads(kept=kept, decoded=np.minimum(decoded, kept))


def _row_weights(sample: Sample, target: Target) -> Floats:
    """Rows of the table that each drawn row stands for, made to add up in every partition."""
    sampled = np.bincount(sample.partition, sample.weights, len(target.partition_rows))
    scale = target.partition_rows / np.maximum(sampled, 1e-300)
    return sample.weights * scale[sample.partition]


def chosen_columns(sample: Sample, names: Sequence[str]) -> Sample:
    """Some columns of a sample, in the order of the names."""
    places = [next(i for i, field in enumerate(sample.fields) if field.name == name) for name in names]
    return dataclasses.replace(
        sample,
        fields=tuple(sample.fields[i] for i in places),
        columns=tuple(sample.columns[i] for i in places),
        nulls=tuple(sample.nulls[i] for i in places),
    )


def best_curve(found: Mapping[str, Reads], weights: Floats) -> str:
    """The curve under which queries read least; a fitted one only where it helps enough to depend on a workload."""
    return min(found, key=lambda curve: float(found[curve].kept @ weights) * (_RISK if curve == FITTED else 1.0))


def held_out(
    clustering: Sample, table: SampledTable, target: Target, asked: ParsedWorkload, curves: Sequence[str]
) -> Mapping[str, Reads]:
    """What each query reads under layouts that were fitted without it; of few queries under those fitted to all."""
    folds = np.random.default_rng(target.seed).permutation(len(asked)) % _FOLDS
    found = {}
    for curve in curves:
        kept, decoded = np.zeros(len(asked)), np.zeros(len(asked))
        for fold in range(_FOLDS if len(asked) >= _FOLDS else 1):
            tested = np.flatnonzero(folds == fold) if len(asked) >= _FOLDS else np.arange(len(asked))
            trained = np.flatnonzero(folds != fold) if len(asked) >= _FOLDS else tested
            layout = fitted(clustering, target, asked.take(trained), curve, evaluations=_QUICK_EVALUATIONS)
            found_reads = reads(layout, clustering, table, target, [asked.predicates[i] for i in tested.tolist()])
            kept[tested], decoded[tested] = found_reads.kept, found_reads.decoded
        found[curve] = Reads(kept=kept, decoded=decoded)
    return found
