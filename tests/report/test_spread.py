"""Files along a column: what is summed up against values counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

from zskip.records import ColumnStats
from zskip.report.spread import Spread, spread_of
from zskip.types import DataType, Form, encode_decimal


def stats_of(kind: str, lower: list, upper: list, nulls: list[int] | None = None) -> ColumnStats:
    data_type = DataType(kind)
    known = np.array([value is not None for value in lower], np.bool_)
    zero, dtype = {Form.INT: (0, np.int64), Form.FLOAT: (0.0, np.float64), Form.BYTES: (b"", np.object_)}[
        data_type.form  # type: ignore[index]
    ]
    sides = []
    for side in (lower, upper):
        array = np.empty(len(side), dtype)
        array[:] = [zero if value is None else value for value in side]
        sides.append(array)
    return ColumnStats(
        type=data_type,
        lower=sides[0],
        upper=sides[1],
        bounded=known,
        nulls=np.array(nulls if nulls is not None else [0] * len(lower), np.int64),
        may_nan=np.zeros(len(lower), np.bool_),
    )


@pytest.mark.parametrize("seed", range(8))
def test_whole_numbers_are_as_if_counted_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    files = int(rng.integers(1, 30))
    lower = rng.integers(-50, 50, files)
    upper = lower + rng.integers(0, 40, files) * rng.integers(0, 2, files)
    rows, sizes = rng.integers(1, 100, files), rng.integers(1, 1000, files)
    found = spread_of("a", stats_of("long", lower.tolist(), upper.tolist()), rows, sizes)
    values = np.arange(-60, 100)
    holds = (lower[:, None] <= values) & (values <= upper[:, None])
    share = (holds * (rows / (upper - lower + 1))[:, None]).sum(0) / rows.sum()
    below = np.concatenate([[0.0], np.cumsum(share)])
    np.testing.assert_allclose(found.first, below[lower + 60], atol=1e-9)
    np.testing.assert_allclose(found.last, below[upper + 61], atol=1e-9)
    np.testing.assert_allclose(found.share, (share * (holds * sizes[:, None]).sum(0)).sum() / sizes.sum())
    assert found.depth.max() == holds.sum(0).max()
    depths = holds.sum(0)
    steps = len(found.depth)
    for value in np.flatnonzero(share > 0).tolist():
        middle = (below[value] + below[value + 1]) / 2
        assert found.depth[min(int(middle * steps), steps - 1)] >= depths[value]


def test_one_date_in_the_year_9999_squeezes_no_other() -> None:
    days = list(range(19_000, 19_100))
    found = spread_of("d", stats_of("date", days, [*days[:-1], 2_932_896]), np.full(100, 1000), np.full(100, 1_000_000))
    assert found.last[49] == pytest.approx(0.5)
    assert [text for _, text in found.ticks][-1] == "9999-12-31"
    assert found.share == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("kind", "lower", "upper"),
    [
        ("double", [-np.inf, 0.0, 1.0], [np.inf, 0.0, 2.0]),
        ("double", [np.inf, -1e308], [np.inf, 1e308]),
        ("double", [5e-324], [5e-324]),
        ("double", [np.inf], [-np.inf]),  # NaN alone
        ("long", [-(2**63), 7], [2**63 - 1, 7]),
        ("string", [b"", b"same-prefix-a"], [b"\xf4\x8f\xbf\xbf" * 30, b"same-prefix-b"]),
        ("binary", [b"\x00"], [b"\x00"]),
        ("decimal(38,10)", [encode_decimal(-(10**37), DataType("decimal(38,10)"))],
         [encode_decimal(10**37, DataType("decimal(38,10)"))]),
        ("date", [-719_162, 2_932_896], [-719_162, 2_932_896]),
        ("timestamp", [-62_135_596_800_000_000], [253_402_300_799_999_999]),
        ("boolean", [0, 1], [1, 1]),
        ("long", [None, None], [None, None]),
        ("long", [], []),
    ],
)  # fmt: skip
def test_any_bounds_have_a_place(kind: str, lower: list, upper: list) -> None:
    count = len(lower)
    found = spread_of("a", stats_of(kind, lower, upper), np.full(count, 10), np.full(count, 100))
    assert sound(found)


def sound(found: Spread) -> bool:
    assert np.isfinite(found.first).all()
    assert np.isfinite(found.last).all()
    assert (found.first <= found.last).all()
    assert ((found.first >= 0) & (found.last <= 1 + 1e-9)).all()
    assert 0 <= found.share <= 1
    assert all(0 <= at <= 1 for at, _ in found.ticks)
    assert all(found.range_of(i) for i in range(len(found.first)))
    return True


def test_files_of_nulls_are_empty_and_files_without_bounds_unknown() -> None:
    found = spread_of(
        "a",
        stats_of("long", [1, None, None], [3, None, None], nulls=[0, 10, -1]),
        np.array([10, 10, -1]),
        np.full(3, 9),
    )
    assert [found.range_of(i) for i in range(3)] == ["1 to 3", "nulls alone", "unknown"]
    assert found.unknown == 1
    assert found.share == pytest.approx(2 / 3)
    assert (found.first[2], found.last[2]) == (0, 1)


def test_sums_of_very_unequal_densities_lose_no_scale() -> None:
    """A million rows in one day each, and one file over ten thousand years: rounding must not give it more."""
    days = np.arange(1000) * 86_400_000_000
    upper = days.copy()
    upper[0] = 253_402_300_799_999_999
    found = spread_of(
        "t", stats_of("timestamp", days.tolist(), upper.tolist()), np.full(1000, 1_000_000), np.ones(1000)
    )
    assert found.first[999] == pytest.approx(0.999, abs=2e-3)
