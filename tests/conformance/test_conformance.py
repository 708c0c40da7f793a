"""The data-skipping cases of Delta, Hudi and Iceberg: nothing lost, and skipping not worse than theirs.

`differences.py` is the list of the few cases in which zskip skips less, with the reasons.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import score
import vectors_delta
from differences import DIFFERENCES
from oracle import truth

from zskip.index.collect import footers
from zskip.predicate import Column, Compare, Unknown, columns_of, nodes
from zskip.prune.evaluate import evaluate, presence
from zskip.records import ColumnStats
from zskip.types import DataType

LISTED = [name for names in DIFFERENCES.values() for name in names]
STRING = DataType("string")
_ONE_ROW = np.ones(1, np.int64)


def test_every_vector_is_asked() -> None:
    questions = score.questions()
    cases = Counter(question.name.split(":")[0].split(" ")[0].split("-")[0] for question in questions)
    assert dict(cases) == {"skip": 529, "gen": 166, "hudi": 40, "adv": 7, "ice": 391}
    assert len({question.name for question in questions}) == len(questions)


def test_no_row_is_lost() -> None:
    assert [(q, q.result().leaves) for q, a in zip(score.questions(), score.answers(), strict=True) if a.lost] == []


def test_skips_as_much_as_the_peers_but_for_the_listed_differences() -> None:
    """A question in which zskip is as good as the peer must be taken off the list."""
    behind = [q.name for q, answer in zip(score.questions(), score.answers(), strict=True) if answer.behind]
    assert sorted(behind) == sorted(LISTED)


def test_the_oracle_counts_as_spark_did() -> None:
    """The vectors of Delta tell how many rows Spark found: the reader of SQL and the oracle must agree."""
    counted = 0
    for question in score.questions():
        predicate = question.predicate
        whole = question.matching is not None and all(file.content is not None for file in question.files)
        if whole and not any(isinstance(node, Unknown) for node in nodes(predicate)):
            paths = [column.path for column in columns_of(predicate)]
            rows = [{path: row.get(path) for path in paths} for file in question.files for row in file.content or ()]
            assert sum(truth(predicate, row) is True for row in rows) == question.matching, question
            counted += 1
    assert counted == 292


def bounds_of(lower: bytes, upper: bytes) -> ColumnStats:
    ends = np.empty((2, 1), object)
    ends[:, 0] = [lower, upper]
    one = np.ones(1, np.bool_)
    return ColumnStats(
        type=STRING, lower=ends[0], upper=ends[1], bounded=one, nulls=np.zeros(1, np.int64), may_nan=~one
    )


@pytest.mark.parametrize(("end", "text", "length", "expected"), list(vectors_delta.truncations()))
def test_bounds_of_long_strings(
    end: str, text: str, length: int, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours hold the string as Delta's do, are as tight in as many bytes, and never stand for the value itself."""
    value, kept = text.encode(), len((text[:length] if expected is None else expected).encode())
    monkeypatch.setattr(footers, "MAX_BOUND_BYTES", kept)
    if end == "min":
        ours = value[:kept]
        assert ours <= value
        assert expected is None or ours >= expected.encode()
        stats = bounds_of(ours, value)
        found = evaluate(Compare("=", Column(("s",), STRING), value), stats, presence(stats, _ONE_ROW))
    else:
        ours = footers.shorten_upper(value)
        if ours is None:
            assert expected is None
            return
        assert ours >= value
        assert expected is None or ours <= expected.encode()
        stats = bounds_of(value[:kept], ours)
        found = evaluate(Compare("=", Column(("s",), STRING), value), stats, presence(stats, _ONE_ROW))
        if expected is not None:
            assert expected.encode() >= value
    assert found.may_true.all()
    assert ours == value or found.may_false.all()


def test_the_page_is_true() -> None:
    assert score.PAGE.read_text(encoding="utf-8") == score.page(), (
        "run `python tests/conformance/score.py --write`, and look at what changed"
    )
