"""A curve that zskip does not have: one class, one name in `CURVES`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from zskip.advisor.fitting.cross_validation import ParsedWorkload, Target, fit_layout
from zskip.layout.curves import CURVES, curves_for, default_curve
from zskip.layout.curves.base import Curve
from zskip.layout.fit import check_curve, fit
from zskip.layout.layout import Layout
from zskip.layout.patterns import gather, interleave_words, zorder_pattern
from zskip.layout.predict import predict_share
from zskip.records import Ints, Sample
from zskip.table.optimize_request import check_request

from .test_fit import ids_of, uniform


class Gray(Curve):
    """Cells in the order of Gray codes (Faloutsos 1988): the bits in turn are a Gray code of the place on the curve."""

    name = "gray"
    is_separable = False
    has_boxes = False
    pattern = staticmethod(zorder_pattern)

    def keys(self, parts: Iterable[Ints], pattern: Sequence[int]) -> Ints:
        keys = super().keys(parts, pattern)
        for shift in (1, 2, 4, 8, 16, 32):
            keys = keys ^ (keys >> shift)
        return keys

    def byte_keys(self, words: Sequence[Any], pattern: Sequence[int]) -> Any:
        keys = interleave_words(words, pattern)
        bits = np.unpackbits(keys.view(np.uint8).reshape(len(keys), -1), axis=1)
        return np.packbits(np.bitwise_xor.accumulate(bits, axis=1), axis=1).view(keys.dtype).reshape(-1)


@pytest.fixture(autouse=True)
def gray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CURVES, "gray", Gray)


def slow_key(codes: Sequence[int], widths: Sequence[int]) -> int:
    """The place of a cell on the curve, bit by bit."""
    bits = [
        code >> (width - 1 - turn) & 1
        for turn in range(max(widths))
        for code, width in zip(codes, widths, strict=True)
        if turn < width
    ]
    key = last = 0
    for bit in bits:
        last ^= bit
        key = 2 * key + last
    return key


@pytest.mark.parametrize("build", ["sample", "direct"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_it_lays_out_a_table_and_is_read_back(build: str, partitions: int) -> None:
    partition = np.arange(20_000) % partitions
    sample = uniform(20_000, 2, partition=partition)
    rows = np.bincount(partition)
    layout = fit(sample, np.full(partitions, 16), partition_rows=rows, curve="gray", build=build)
    assert (layout.curve.name, layout.is_separable, layout.page_order) == ("gray", False, None)
    files = ids_of(layout, sample)
    assert (layout.partition_of_file[files] == partition).all()
    assert np.bincount(files).max() < 3 * 20_000 / (16 * partitions)
    assert predict_share(layout, sample) < 0.4
    text = layout.to_json()
    again = Layout.from_json(text)
    assert again == layout
    assert isinstance(again.curve, Gray)
    assert (ids_of(again, sample) == files).all()
    later = uniform(3_000, 2, seed=7, partition=np.arange(3_000) % partitions)
    more = fit(later, np.full(partitions, 16), partition_rows=rows, curve="gray", build=build, like=again)
    assert more.curve.name == "gray"
    assert all((a == b).all() for a, b in zip(more.bounds, layout.bounds, strict=True))


def test_its_keys_are_those_of_the_slow_way() -> None:
    sample = uniform(2_000, 3)
    layout = fit(sample, np.array([8]), partition_rows=np.array([2_000]), curve="gray")
    zorder = fit(sample, np.array([8]), partition_rows=np.array([2_000]))
    codes = [gather(zorder.keys(sample.columns, sample.nulls), zorder.pattern, column) for column in range(3)]
    widths = [zorder.pattern.count(column) for column in range(3)]
    keys = layout.keys(sample.columns, sample.nulls)
    assert keys.tolist() == [slow_key(row, widths) for row in zip(*(c.tolist() for c in codes), strict=True)]


def test_users_name_it_like_any_other() -> None:
    assert "gray" in curves_for(2)
    assert default_curve(2) == "zorder"
    check_curve(("a", "b"), "gray", "direct")
    assert not check_request(by=["a", "b"], curve="gray").needs_workload
    sample: Sample = uniform(5_000, 2)
    target = Target(files=np.array([4]), partition_rows=np.array([5_000]))
    nothing = ParsedWorkload(predicates=[], weights=np.empty(0))
    assert fit_layout(sample, target, nothing, "gray").curve.name == "gray"
