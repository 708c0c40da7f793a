"""Segments that lie side by side become files: none is divided, none too small, and as narrow as those of a new fit."""

from __future__ import annotations

import numpy as np
import pytest

from zskip.layout.joining import join_segments, side_by_side
from zskip.layout.predict import share_of_boxes
from zskip.records import Ints, Sample

from .test_fit import ALL, fitted, ids_of, uniform
from .test_fit_tree import tree_of


def kept(sample: Sample, files: Ints) -> float:
    """The share of the rows in the files that a made-up query reads."""
    groups = [files == file for file in np.unique(files)]
    lower = [np.array([column[group].min() for group in groups]) for column in sample.columns]
    upper = [np.array([column[group].max() for group in groups]) for column in sample.columns]
    rows = np.array([group.sum() for group in groups])
    return share_of_boxes(sample, lower, upper, [np.ones(len(rows), np.bool_)] * len(lower), rows)


@pytest.mark.parametrize(("curve", "build"), [*ALL, ("fitted", "sample")])
def test_files_are_runs_of_segments_and_as_narrow_as_those_of_a_fit(curve: str, build: str) -> None:
    old, new = uniform(seed=1), uniform(5_000, seed=2)
    if curve == "fitted":
        layout = tree_of(old, 64)
        again = tree_of(new, 8, like=layout)
    else:
        layout = fitted(old, 64, curve=curve, build=build)
        again = fitted(new, 8, curve=curve, build=build, like=layout)
    joined, levels = side_by_side(layout)
    assert len(levels) == len(layout.spread) - 1
    segments = ids_of(joined, new)
    pairs = np.unique(np.column_stack([segments, ids_of(layout, new)]), axis=0)
    assert all(len(np.unique(column)) == len(pairs) for column in pairs.T)
    counts = np.bincount(segments, minlength=len(layout.spread))
    starts = join_segments(counts / (5_000 / 8), levels)
    files = np.searchsorted(starts, segments, side="right")
    sizes = np.bincount(files)[1:] / (5_000 / 8)
    assert 6 <= len(starts) <= 11
    assert 0.5 <= sizes.min() <= sizes.max() <= 1.6
    assert kept(new, files) <= 1.15 * kept(new, ids_of(again, new))
