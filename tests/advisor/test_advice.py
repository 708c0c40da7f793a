"""What advice says in sentences."""

from __future__ import annotations

import pytest

from zskip.advisor.advice.advice import Advice, Candidate


def candidate(by: tuple[str, ...], kept: float) -> Candidate:
    return Candidate(
        by=by, curve="zorder", files=8, kept=kept, kept_low=kept, kept_high=kept, decoded=kept,
        decoded_low=kept, decoded_high=kept, bytes_to_write=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [
        ((0.5, 0.4, 0.3), "Each column more has helped so far."),
        ((0.5, 0.4, 0.6), "More columns than 2 read more."),
        ((1.0, 1.0, 1.0), "More columns than 1 change nothing."),
    ],
)
def test_whether_more_columns_are_better(kept: tuple[float, ...], sentence: str) -> None:
    found = tuple(candidate(("a", "b", "c")[: i + 1], share) for i, share in enumerate(kept))
    advice = Advice(path="t", workload="w", current=found[0], candidates=found, by_number_of_columns=found)
    assert str(advice).endswith(sentence)
