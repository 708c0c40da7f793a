"""Which tests run: `dev.py test` runs the quick tier, `--rest` the slow one, `--nightly` the nightly one, `--all` all.

A test is left out by the marker `slow`, or by `nightly` where it asks at random, at every step or of one more kind of
table what other tests ask once. A test that tries many random inputs, marked `scaled`, tries few in the quick tier and
all in the night. `--once` runs each test of the quick tier with its first parameters alone: for a Spark that differs
from another in few places. Without `dev.py`, pytest runs everything; `dev.py test-engines` runs what is not nightly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

TIER = os.environ.get("ZSKIP_TIER", "all")
QUICK = TIER in ("quick", "once")
Test = TypeVar("Test", bound=Callable[..., Any])


def first(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """Parameters of a test, tuples where it has several; those after the first few are slow."""
    return [case if i < quick else _marked(case, pytest.mark.slow) for i, case in enumerate(cases)]


def nightly(cases: Iterable[Any], daily: int = 1) -> list[Any]:
    """Parameters of a test; those after the first few are left to the night."""
    return [case if i < daily else _marked(case, pytest.mark.nightly) for i, case in enumerate(cases)]


def seeds(usual: range, daily: int = 1) -> list[Any]:
    """The seeds of a test that draws its inputs: the usual ones, or those of `ZSKIP_SEEDS=201-356`, all by night."""
    first, _, last = os.environ.get("ZSKIP_SEEDS", "").partition("-")
    return nightly(range(int(first), int(last or first) + 1), daily=0) if first else nightly(usual, daily)


def only(cases: Iterable[Any], quick: Iterable[Any]) -> list[Any]:
    """Parameters of a test; those that are not among the quick ones are slow."""
    chosen = list(quick)
    return [case if case in chosen else _marked(case, pytest.mark.slow) for case in cases]


def _marked(case: Any, mark: pytest.MarkDecorator) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)


def count(full: int, quick: int) -> int:
    """How many inputs a test tries that is marked `scaled`."""
    return quick if QUICK else full


def examples(full: int, quick: int) -> Callable[[Test], Test]:
    """How many examples Hypothesis tries."""
    return lambda test: pytest.mark.scaled(settings(max_examples=count(full, quick))(test))


def may_select(source: str) -> bool:
    """Whether there may be tests of this run in a file."""
    return TIER != "rest" or re.search(r"\bslow\b|tiers\.(first|only)\b", source) is not None


def selects(item: pytest.Item) -> bool:
    """Whether a test belongs to the tier of this run."""
    slow, scaled, nightly = (item.get_closest_marker(name) is not None for name in ("slow", "scaled", "nightly"))
    return {
        "quick": not slow and not nightly,
        "once": not slow and not nightly,
        "rest": slow and not nightly,
        "nightly": nightly or (scaled and not slow),
        "daily": not nightly,
    }.get(TIER, True)


def select(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests that belong to this run."""
    selected = [item for item in items if selects(item)]
    if TIER != "once":
        return selected
    return list({item.nodeid.partition("[")[0]: item for item in reversed(selected)}.values())[::-1]
