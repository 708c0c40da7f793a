"""Which tests run: `dev.py test` runs the quick tier, `--all` everything, `--rest` what the quick tier leaves out.

A test is left out by the marker `slow`. A test that tries many random inputs, marked `scaled`, tries few in the quick
tier and all in the others. Without `dev.py`, pytest runs everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

TIER = os.environ.get("ZSKIP_TIER", "all")
QUICK = TIER == "quick"
Test = TypeVar("Test", bound=Callable[..., Any])


def first(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """Parameters of a test, tuples where it has several; those after the first few are slow."""
    return [case if i < quick else _slow(case) for i, case in enumerate(cases)]


def only(cases: Iterable[Any], quick: Iterable[Any]) -> list[Any]:
    """Parameters of a test; those that are not among the quick ones are slow."""
    chosen = list(quick)
    return [case if case in chosen else _slow(case) for case in cases]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)


def count(full: int, quick: int) -> int:
    """How many inputs a test tries that is marked `scaled`."""
    return quick if QUICK else full


def examples(full: int, quick: int) -> Callable[[Test], Test]:
    """How many examples Hypothesis tries."""
    return lambda test: pytest.mark.scaled(settings(max_examples=count(full, quick))(test))


def selects(item: pytest.Item) -> bool:
    """Whether a test belongs to the tier of this run."""
    slow, scaled = (item.get_closest_marker(name) is not None for name in ("slow", "scaled"))
    return {"quick": not slow, "rest": slow or scaled}.get(TIER, True)
