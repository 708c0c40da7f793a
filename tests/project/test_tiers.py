"""The runs of the tests have every test between them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tiers


def item(*markers: str) -> Any:
    """A test with some markers."""
    return SimpleNamespace(get_closest_marker=lambda name: name if name in markers else None)


@pytest.mark.parametrize(
    "markers", [(), ("slow",), ("scaled",), ("slow", "scaled"), ("spark",), ("nightly",), ("slow", "nightly")]
)
def test_each_test_is_in_one_run_or_scaled(markers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {}
    for tier in ("quick", "rest", "nightly", "daily", "all"):
        monkeypatch.setattr(tiers, "TIER", tier)
        chosen[tier] = tiers.selects(item(*markers))
    assert chosen["all"]
    assert chosen["daily"] != ("nightly" in markers)
    runs = chosen["quick"] + chosen["rest"] + chosen["nightly"]
    assert runs == 1 + ("scaled" in markers and "slow" not in markers)


def test_once_takes_the_first_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [item() for _ in range(4)]
    for test, name in zip(items, ("a.py::one[x]", "a.py::one[y]", "a.py::two", "b.py::one[y]"), strict=True):
        test.nodeid = name
    monkeypatch.setattr(tiers, "TIER", "once")
    assert tiers.select([*items, item("slow")]) == [items[0], *items[2:]]
    monkeypatch.setattr(tiers, "TIER", "quick")
    assert tiers.select([*items, item("nightly")]) == items


def test_files_without_a_slow_test_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = ["@pytest.mark.slow", 'pytest.param("b", marks=pytest.mark.slow)', "tiers.first(NAMES)", "tiers.only(A, B)"]
    texts = [*slow, "def test_a() -> None:", "tiers.nightly([1])"]
    for tier, expected in (("rest", slow), ("quick", texts)):
        monkeypatch.setattr(tiers, "TIER", tier)
        assert [text for text in texts if tiers.may_select(text)] == expected


def test_parameters_beyond_the_first_are_left_out() -> None:
    quick, slow = tiers.first(["a", "b"])
    assert (quick, slow.values, [mark.name for mark in slow.marks]) == ("a", ("b",), ["slow"])
    daily, later = tiers.nightly(["a", "b"])
    assert (daily, later.values, [mark.name for mark in later.marks]) == ("a", ("b",), ["nightly"])
    several, last = tiers.only([(1, 2), (3, 4)], [(3, 4)])
    assert (several.values, last) == ((1, 2), (3, 4))


@pytest.mark.parametrize(("named", "expected"), [("", [1, 2]), ("7", [7]), ("201-203", [201, 202, 203])])
def test_seeds_are_the_usual_ones_or_those_that_are_named(
    named: str, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZSKIP_SEEDS", named)
    daily = 0 if named else 1
    seeds = tiers.seeds(range(1, 3))
    assert seeds[:daily] + [seed.values[0] for seed in seeds[daily:]] == expected
