"""Fit a layout to a sample: bounds, a curve, and cuts that few queries cross."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zskip.errors import ColumnError, InputError
from zskip.layout.builds import BUILDS, Build
from zskip.layout.cells import Keys, common_prefix, microcells, shortest_between, thin
from zskip.layout.curves import CURVES, default_curve
from zskip.layout.curves.base import Curve
from zskip.layout.layout import Layout
from zskip.layout.predict import boxes, sample_ranks
from zskip.layout.program import LARGEST, SMALLEST, Cells, cut_cells, own_files
from zskip.layout.ranks import BOUNDS, bounds_of
from zskip.layout.tree.tree import Int32s
from zskip.layout.workload import Ranks, Touch, Workload, column_weights, synthetic_workload
from zskip.records import Floats, Ints, Sample, Values

MOST_COLUMNS = 32
CELLS_PER_FILE = 12
"""A microcell holds at most this part of a file's rows."""
_LINEAR_BOUNDS_PER_FILE = 8
_MOST_BOUNDS = 1 << 16


def fit(
    sample: Sample,
    files: npt.NDArray[np.integer[Any]],
    *,
    partition_rows: npt.NDArray[np.integer[Any]],
    curve: str = "zorder",
    build: str = "sample",
    workload: Workload | None = None,
    beside: Sequence[tuple[Values, Floats]] = (),
    like: Layout | None = None,
    seed: int = 0,
    smallest: float = SMALLEST,
) -> Layout:
    """Fit bounds and cuts to a sample.

    files: (partitions,) number of files for each Hive partition, at least 1; partition_rows: (partitions,) rows of the
    table; workload: over the dense ranks of the sample, synthetic by default; beside: for each column values from the
    rest of the table and how many rows each stands for, so that the bounds fit the whole table; like: a layout by the
    same columns, curve and build, whose bounds are kept, and whose cuts are kept, too, except inside segments that hold
    too many rows for one file (in an unpartitioned table); seed: of the synthetic workload; smallest: the least weight
    of a file where cuts are free, as a multiple of the desired one. Raises InputError and ColumnError if the columns or
    options do not go together.
    """
    check_curve([field.name for field in sample.fields], curve, build)
    kind, coder = CURVES[curve], BUILDS[build]
    file_counts = np.maximum(np.asarray(files, np.int64), 1)
    if workload is None and kind.needs_workload:
        workload = synthetic_workload(sample_ranks(sample), seed=seed)
    guide = None if like is None else (like.curve, like.bounds)
    if kind.needs_workload:
        like = None
    null_ranks = tuple(bool(nulls.any()) for nulls in sample.nulls)
    if like is not None:
        bounds = like.bounds
    else:
        bounds = _column_bounds(sample, kind, coder, int(file_counts.max(initial=1)), beside)
    file_counts = np.minimum(file_counts, np.maximum(np.asarray(partition_rows, np.float64), 1)).astype(np.int64)
    placing, bounds, spread = kind.grow(sample, file_counts, workload, bounds, guide)
    old_cuts = None
    if like is not None and all(old or not new for old, new in zip(like.null_ranks, null_ranks, strict=True)):
        # With the same ranks, keys are the same.
        null_ranks, pattern = like.null_ranks, like.pattern
        old_cuts = like.cut_keys if like.partitions == len(file_counts) == 1 else None
    else:
        widths = [coder.width(len(b), null) for b, null in zip(bounds, null_ranks, strict=True)]
        pattern = kind.pattern(widths, coder.key_bits)
    shape = Layout(
        fields=sample.fields,
        curve=placing,
        build=coder,
        bounds=bounds,
        null_ranks=null_ranks,
        pattern=pattern,
        cut_keys=np.empty(0, np.int64),
        cut_starts=np.zeros(2, np.int64),
        spread=np.ones(1, np.int32),
        column_weights=() if workload is None else column_weights(workload, sample_ranks(sample)),
    )
    if spread is not None:
        return _add_segments(shape, shape.cut_keys, spread)
    return _fit_cuts(shape, sample, file_counts, workload, seed, old_cuts, smallest)


def check_curve(columns: Sequence[str], curve: str, build: str) -> None:
    """Check that columns, curve and build go together.

    Raises InputError for an unknown curve or build and for too few or too many columns, ColumnError for a column named
    twice.

    >>> check_curve(["ts"], "zorder", "sample")
    Traceback (most recent call last):
    ...
    zskip.errors.InputError: curve="zorder" needs at least 2 columns, got only "ts"; for one column use curve="linear"
    """
    for option, value, known in (("curve", curve, CURVES), ("build", build, BUILDS)):
        if value not in known:
            raise InputError(f'unknown {option} "{value}"; choose one of {_quote(known)}')
    if not columns:
        raise InputError("no column to cluster by; name at least one")
    for i, column in enumerate(columns):
        if column in columns[:i]:
            raise ColumnError(f'column "{column}" is named twice in {_quote(columns)}; name it once')
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"{len(columns)} columns to cluster by; at most {MOST_COLUMNS} are possible, name fewer")
    if len(columns) < CURVES[curve].least_columns:
        raise InputError(
            f'curve="{curve}" needs at least {CURVES[curve].least_columns} columns, got only {_quote(columns)}; for '
            f'one column use curve="{default_curve(1)}"'
        )
    if CURVES[curve].needs_workload and not BUILDS[build].has_bounds:
        raise InputError(f'curve="{curve}" works only with build="sample"; leave build out, or name a curve')


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _column_bounds(
    sample: Sample, curve: type[Curve], build: Build, files: int, beside: Sequence[tuple[Values, Floats]]
) -> tuple[Values, ...]:
    """Compute the split values of each column; beside: as `fit` takes it."""
    columns = list(zip(sample.columns, sample.nulls, strict=True))
    if not build.has_bounds:
        return tuple(values[:0] for values, _ in columns)
    limits = [BOUNDS] * len(columns)
    if curve.is_lexicographic:
        limits[0] = min(max(BOUNDS, _LINEAR_BOUNDS_PER_FILE * files), _MOST_BOUNDS)
    others = beside or [(values[:0], sample.weights[:0]) for values, _ in columns]
    return tuple(
        bounds_of(
            np.concatenate([values, other]),
            np.concatenate([nulls, np.zeros(len(other), np.bool_)]),
            np.concatenate([sample.weights, rows]),
            limit,
        )
        for (values, nulls), (other, rows), limit in zip(columns, others, limits, strict=True)
    )


def _fit_cuts(
    shape: Layout,
    sample: Sample,
    file_counts: Ints,
    workload: Workload | None,
    seed: int,
    old_cuts: Keys | None,
    smallest: float,
) -> Layout:
    """Add the cuts to a layout without any, and the files to each long run of one key.

    old_cuts: cuts of the only partition that are kept where there are rows for them.
    """
    sampled = np.bincount(sample.partition, sample.weights, len(file_counts))
    cut = np.flatnonzero((file_counts > 1) & (sampled > 0))
    rows = np.flatnonzero(np.isin(sample.partition, cut))
    keys = shape.keys([c[rows] for c in sample.columns], [n[rows] for n in sample.nulls])
    order = np.argsort(keys, kind="stable")
    order = order[np.argsort(sample.partition[rows[order]], kind="stable")]
    keys, rows = keys[order], rows[order]
    sizes = sample.weights[rows] * (file_counts / np.maximum(sampled, 1e-300))[sample.partition[rows]]
    cut_keys = [keys[:0]] * len(file_counts)
    spread = [np.ones(1, np.int32)] * len(file_counts)
    if len(rows):
        ranks = sample_ranks(sample)
        workload = synthetic_workload(ranks, seed=seed) if workload is None else workload
        ordinal = np.searchsorted(cut, sample.partition[rows])
        edges = _find_edges(keys, sizes, ordinal)
        if old_cuts is not None:
            edges = _keep_edges(edges, np.searchsorted(keys, old_cuts), sizes)
        cells = _build_cells(ranks, rows, edges, sizes, ordinal, file_counts[cut], touch := Touch(workload))
        cells = replace(cells, smallest=smallest)
        first_cell = np.searchsorted(cells.partition, np.arange(len(cut)))
        for partition, start, cuts in zip(cut.tolist(), first_cell.tolist(), cut_cells(cells, touch), strict=True):
            offsets = edges[cuts]
            cut_keys[partition] = shortest_between(keys[offsets - 1], keys[offsets])
            if old_cuts is not None:
                offsets_of_cuts = np.searchsorted(keys, old_cuts)
                is_old = np.isin(offsets, offsets_of_cuts)
                cut_keys[partition][is_old] = old_cuts[np.searchsorted(offsets_of_cuts, offsets[is_old])]
            spread[partition] = _count_files(cells.size, np.concatenate([[start], cuts]))
    return _add_segments(shape, cast(Keys, np.concatenate(cut_keys)) if cut_keys else keys[:0], spread)


def _add_segments(shape: Layout, cut_keys: Keys, spread: Sequence[Int32s]) -> Layout:
    """Add the segments of all partitions to a layout without any; spread: of each the files of its segments."""
    return replace(
        shape,
        cut_keys=cut_keys,
        cut_starts=np.concatenate([[0], np.cumsum([len(files) - 1 for files in spread])]).astype(np.int64),
        spread=np.concatenate(spread) if spread else np.ones(0, np.int32),
    )


def _find_edges(keys: Keys, sizes: Floats, ordinal: Ints) -> Ints:
    breaks = np.append(np.flatnonzero(np.diff(ordinal, prepend=-1)), len(keys))
    prefix = common_prefix(keys)
    edges = microcells(prefix, sizes, breaks, 1 / CELLS_PER_FILE)
    heavy = np.add.reduceat(sizes, edges[:-1]) > 1 / CELLS_PER_FILE
    keep = np.append(heavy, True) | np.append(True, heavy) | np.isin(edges, breaks)
    return thin(edges, prefix, sizes, 1 / (4 * CELLS_PER_FILE), keep)


def _keep_edges(edges: Ints, offsets: Ints, sizes: Floats) -> Ints:
    """The edges at old cuts, and those inside segments that hold more rows than a file.

    offsets: of the first row after each old cut.
    """
    old = np.unique(np.concatenate([[0], offsets, [len(sizes)]]))
    is_large = np.add.reduceat(sizes, old[:-1]) > LARGEST
    segment = np.searchsorted(old, edges[:-1], side="right") - 1
    return np.union1d(old, edges[:-1][is_large[segment]])


def _build_cells(
    ranks: Sequence[Ranks], rows: Ints, edges: Ints, sizes: Floats, ordinal: Ints, file_counts: Ints, touch: Touch
) -> Cells:
    starts = edges[:-1]
    low, high = touch.classes(*boxes(ranks, rows, starts))
    return Cells(size=np.add.reduceat(sizes, starts), partition=ordinal[starts], files=file_counts, low=low, high=high)


def _count_files(sizes: Floats, starts: Ints) -> npt.NDArray[np.int32]:
    """Count the files of each segment: one, unless its first cell, a run of one key, is too large for one."""
    return own_files(sizes[starts]).astype(np.int32)
