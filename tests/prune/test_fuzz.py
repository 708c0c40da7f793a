"""A short run of the fuzz, and proof that it notices faults."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import fuzz
import numpy as np
import pyarrow as pa
import pytest
import random_tables
import tiers
from states_of_sketches import build_state

from zskip.predicate import Columns, Predicate, parse
from zskip.prune import Outcomes, outcomes, prune
from zskip.records import Field
from zskip.sketch import Answer, FileSketches, parse_sketch_on, read_states
from zskip.types import DataType


@pytest.mark.scaled
def test_random_pairs_lose_nothing() -> None:
    tables = tiers.count(2_000, quick=200)
    total = sum(map(fuzz.run, range(tables)), Counter())
    assert total["pairs"] == 10 * tables
    assert total["skipped"] > 0.2 * total["files"], "hardly any file was skipped: the test says nothing"


def test_a_file_too_many_is_noticed() -> None:
    def too_few(predicate: Predicate, table: random_tables.Table, sketches: FileSketches | None) -> Outcomes:
        truth = outcomes(predicate, table, sketches)
        keep = truth.may_true.copy()
        keep[:1] = False
        return Outcomes(keep, truth.may_false, truth.may_null)

    with mock.patch.object(fuzz, "outcomes", too_few), pytest.raises(AssertionError, match=r"seed \d+"):
        sum(map(fuzz.run, range(20)), Counter())


def test_a_sketch_that_hides_a_file_is_noticed() -> None:
    answers = FileSketches.answers

    def too_few(self: FileSketches, part: Predicate) -> list[Answer]:
        wrong = answers(self, part)
        for answer in wrong:
            answer.may_match[:1] = False
        return wrong

    with mock.patch.object(FileSketches, "answers", too_few), pytest.raises(AssertionError, match=r"seed \d+"):
        sum(map(fuzz.run, range(60)), Counter())


def test_sketches_skip_more_and_say_why() -> None:
    columns = Columns(
        [Field(name=name, type=DataType(type_name)) for name, type_name in (("s", "string"), ("a", "long"))]
    )
    files = [["Ab", "x"], ["cd"], ["AB", None]]
    on = parse_sketch_on("values(9):lower(s)", columns)
    lowered = [[text and text.lower() for text in file] for file in files]
    states = read_states(on.sketch, [build_state(on.sketch, [pa.array(file)], on.type).data for file in lowered])
    stats = random_tables.Table([], [], np.array([2, 1, 2]), {}, {}, "UTC")
    expected = {
        "lower(s) = 'ab'": ([True, False, True], 1),
        "lower(s) = 'ab' AND a = 1": ([True, False, True], 1),
        "lower(s) = 'ab' OR a = 1": ([True, True, True], 1),
        "lower(s) != 'ab'": ([True, True, False], 1),
        "NOT (lower(s) = 'ab' AND a = 1)": ([True, True, True], 1),
        "lower(s) IN ('ab', 'cd')": ([True, True, True], 0),
        "lower(s) > 'a' AND lower(s) < 'b'": ([True, False, True], 0),
        "s = 'ab'": ([True, True, True], 0),
    }
    for where, (kept, skipped) in expected.items():
        result = prune(parse(where, columns), stats, FileSketches(3, ((on, states),)))
        assert result.kept.tolist() == kept, where
        assert result.leaves[0].skipped == skipped, where
        assert result.leaves[0].reason == "" or skipped == 0
        assert not result.full.any()
    result = prune(parse("lower(s) IN ('ab', 'cd')", columns), stats, FileSketches(3, ((on, states),)))
    assert result.leaves[0].reason == "values(9): 3 of 3 files may hold a match"
    alone = prune(parse("lower(s) = 'ab'", columns), stats)
    assert alone.kept.all()
    assert alone.leaves[0].reason == "no sketch of lower(s)"
