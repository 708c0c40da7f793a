"""A tree of cuts in words."""

from __future__ import annotations

import numpy as np

from zskip.layout.fit import fit
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, Workload
from zskip.records import Field, Sample
from zskip.table.read.info import describe_tree
from zskip.types import DataType


def test_a_tree_says_where_it_cuts_and_for_which_queries() -> None:
    rows = 4_000
    random = np.random.default_rng(0)
    sample = Sample(
        fields=(Field(name="day", type=DataType("date")), Field(name="s", type=DataType("string"))),
        columns=(random.integers(0, 100, rows), np.array([b"%03d" % i for i in random.integers(0, 900, rows)], object)),
        nulls=(np.zeros(rows, bool),) * 2,
        partition=np.zeros(rows, np.int32),
        weights=np.ones(rows),
    )
    lower = np.full((10, 2), ANY_LOWER, np.int32)
    upper = np.full((10, 2), ANY_UPPER, np.int32)
    lower[:, 0], upper[:, 0] = np.arange(10) * 10, np.arange(10) * 10 + 9
    workload = Workload(lower=lower, upper=upper, weights=np.full(10, 0.1), texts=("day BETWEEN ? AND ?",) * 10)
    layout = fit(sample, np.array([16]), partition_rows=np.array([rows]), curve="fitted", workload=workload)
    tree = describe_tree(layout)
    assert tree is not None
    day, s = tree.columns
    assert (day.column, day.lowest, day.highest) == ("day", "DATE '1970-01-11'", "DATE '1970-04-01'")
    assert day.cuts >= 9
    assert [cut.way for cut in tree.first[:3]] == ["", "L", "LL"]
    assert tree.first[0].left.startswith("day < DATE '1970-0")
    assert tree.first[0].reason == "day BETWEEN ? AND ?"
    assert f"day {day.cuts} times" in str(tree)
    assert (s.cuts > 0) == (s.lowest != "")
    assert describe_tree(fit(sample, np.array([4]), partition_rows=np.array([rows]))) is None
