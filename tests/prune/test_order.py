"""Top-k and LIMIT against oracles that look at every row, or walk the files one at a time."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_files import tables

from zskip.prune.order import Order, enough_files, top_files
from zskip.records import ALL_NULL, ColumnStats
from zskip.types import DataType

NAN = math.nan


def key(value, order):
    """The position of a value in an order, as Spark sorts."""
    if value is None:
        return (0 if order.nulls_first else 2,)
    if value != value:
        return (1, 0 if order.descending else 2)
    return (1, 1, value)


def in_order(values, order):
    """Values sorted, stably."""
    numbers = sorted([v for v in values if v is not None and v == v], reverse=order.descending)
    nans = [v for v in values if v is not None and v != v]
    numbers = nans + numbers if order.descending else numbers + nans
    nulls = [None] * values.count(None)
    return nulls + numbers if order.nulls_first else numbers + nulls


ORDERS = st.builds(
    Order, rows=st.integers(0, 8), descending=st.booleans(), nulls_first=st.booleans(), ties=st.booleans()
)


@given(tables(), ORDERS)
def test_kept_files_hold_the_first_rows(table, order):
    files, stats, rows, kept, full = table
    top = top_files(stats, rows, order, kept=kept, full=full)
    assert not (top & ~kept).any()
    everything = [v for f in files for v, passes in f if passes]
    remaining = [v for f, keep in zip(files, top, strict=True) if keep for v, passes in f if passes]
    first = in_order(everything, order)[: order.rows]
    assert [key(v, order) for v in in_order(remaining, order)[: order.rows]] == [key(v, order) for v in first]
    if first and order.ties:  # Further sort keys choose among all rows equal to the last.
        last = key(first[-1], order)
        assert [key(v, order) for v in remaining].count(last) == [key(v, order) for v in everything].count(last)


@given(tables(), ORDERS)
def test_it_is_what_a_walk_over_the_files_finds(table, order):
    _, stats, rows, kept, full = table
    top = top_files(stats, rows, order, kept=kept, full=full)
    assert top.tolist() == walk(stats, rows.tolist(), order, kept.tolist(), full.tolist())


def walk(stats, rows, order, kept, full):
    """The same with one comparison at a time."""

    sure = []
    for i in range(len(rows)):
        if not (kept[i] and full[i] and rows[i] > 0):
            continue
        lower, upper, nulls = stats.lower[i], stats.upper[i], int(stats.nulls[i])
        value = ("end",)
        if stats.bounded[i]:
            numbers = [lower, upper] if lower <= upper else []
            positions = numbers + [NAN] * bool(stats.may_nan[i])
            value = in_order(positions, order)[-1] if positions else ("start",)
        nulls = min(nulls, rows[i])
        if nulls < 0:
            sure.append((i, value if order.nulls_first else None, rows[i]))
        else:
            sure += [(i, value, rows[i] - nulls), (i, None, nulls)]

    def position(what):
        """Comparable by `<`: a value, the first or last position of values, or null."""
        if what == ("end",):
            return (1, 9)
        if what == ("start",):
            return (1, -9)
        if what is None:
            return (0,) if order.nulls_first else (2,)
        if what != what:
            return (1, -1) if order.descending else (1, 1)
        return (1, 0, Flipped(what) if order.descending else what)

    total, last, used = 0, None, set()
    for i, where, count in sorted(sure, key=lambda entry: (position(entry[1]), -entry[2])):
        total += count
        if count:
            used.add(i)
        if total >= order.rows:
            last = position(where)
            break
    if last is None or order.rows <= 0:
        return kept
    answer = []
    for i in range(len(rows)):
        first = [None] if stats.nulls[i] != 0 else []
        all_null = stats.nulls[i] == ALL_NULL or (rows[i] >= 0 and stats.nulls[i] >= rows[i])
        if not all_null:
            if not stats.bounded[i]:
                first.append(("start",))
            elif stats.lower[i] <= stats.upper[i]:
                first += [stats.lower[i], stats.upper[i]]
            first += [NAN] * bool(stats.may_nan[i])
        best = min(map(position, first), default=(3,))
        chosen = best <= last if order.ties else best < last or i in used
        answer.append(bool(kept[i] and rows[i] != 0 and chosen))
    return answer


class Flipped:
    """A value that is less where it is more."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return other.value < self.value

    def __le__(self, other):
        return other.value <= self.value

    def __eq__(self, other):
        return other.value == self.value


@given(
    st.lists(st.tuples(st.integers(-1, 6), st.booleans(), st.booleans()), min_size=1, max_size=7), st.integers(0, 12)
)
def test_a_limit_keeps_as_few_files_as_surely_hold_it(files, limit):
    rows, kept, full = (np.array(part) for part in zip(*files, strict=True))
    chosen = enough_files(rows, limit, kept=kept, full=full)
    sure = [n for n, keep, whole in files if keep and whole and n > 0]
    fewest = next((k for k in range(1, len(sure) + 1) if any(sum(c) >= limit for c in combinations(sure, k))), None)
    if limit <= 0 or fewest is None:
        assert chosen.tolist() == kept.tolist()
    else:
        assert chosen.sum() == fewest
        assert not (chosen & ~(kept & full)).any()
        assert rows[chosen].sum() >= limit


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("descending", [False, True])
def test_one_file_is_left_of_disjoint_ranges(descending, nulls_first, ties):
    lower = np.arange(0, 640, 10)
    stats = ColumnStats(
        type=DataType("long"),
        lower=lower,
        upper=lower + 9,
        bounded=np.ones(64, np.bool_),
        nulls=np.zeros(64, np.int64),
        may_nan=np.zeros(64, np.bool_),
    )
    every = np.ones(64, np.bool_)
    order = Order(rows=10, descending=descending, nulls_first=nulls_first, ties=ties)
    chosen = top_files(stats, np.full(64, 100), order, kept=every, full=every)
    assert np.flatnonzero(chosen).tolist() == [63 if descending else 0]
