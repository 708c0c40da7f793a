"""A first part of the fuzz, and that it would notice."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import fuzz
import pytest
import random_tables

from zskip.predicate import Predicate
from zskip.prune import Outcomes, outcomes


def test_twenty_thousand_pairs_lose_nothing() -> None:
    total = sum((fuzz.run(seed) for seed in range(2_000)), Counter())
    assert total["pairs"] == 20_000
    assert total["skipped"] > 0.2 * total["files"], "hardly any file was skipped: the test says nothing"


def test_a_file_too_many_is_noticed() -> None:
    def too_few(predicate: Predicate, table: random_tables.Table) -> Outcomes:
        found = outcomes(predicate, table)
        keep = found.may_true.copy()
        keep[:1] = False
        return Outcomes(keep, found.may_false, found.may_null)

    with mock.patch.object(fuzz, "outcomes", too_few), pytest.raises(AssertionError, match=r"seed \d+"):
        sum(map(fuzz.run, range(20)), Counter())
