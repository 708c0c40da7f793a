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


def test_parameters_beyond_the_first_are_left_out() -> None:
    quick, slow = tiers.first(["a", "b"])
    assert (quick, slow.values, [mark.name for mark in slow.marks]) == ("a", ("b",), ["slow"])
    daily, later = tiers.nightly(["a", "b"])
    assert (daily, later.values, [mark.name for mark in later.marks]) == ("a", ("b",), ["nightly"])
    several, last = tiers.only([(1, 2), (3, 4)], [(3, 4)])
    assert (several.values, last) == ((1, 2), (3, 4))
