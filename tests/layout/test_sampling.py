import numpy as np
import pytest

from zskip.layout.sampling import ReservoirPlan, bernoulli_fraction


@pytest.mark.parametrize(
    ("rows", "files", "expected"),
    [(0, 1, 0), (100, 1, 100), (10**6, 1, 50_000), (10**9, 1000, 200_000), (10**9, 10**5, 10**6)],
)
def test_rows_drawn_where_their_number_is_known(rows, files, expected):
    assert rows * bernoulli_fraction(rows, files) == pytest.approx(expected)
    assert 0 < bernoulli_fraction(rows, files) <= 1


def test_reservoirs_as_in_range_partitioner():
    plan = ReservoirPlan.of(10, bounds=10)
    assert (plan.sample_size, plan.rows_per_partition) == (200, 60)
    assert ReservoirPlan.of(1, bounds=10**6).sample_size == 10**6
    counts = np.array([0, 50, 1000, 100_000])
    assert plan.fraction(counts) == pytest.approx(200 / 101_050)
    assert plan.imbalanced(counts).tolist() == [False, False, False, True]
    weights = plan.weights(counts)
    assert weights[1:3].tolist() == [1.0, 1000 / 60]
    assert weights[3] == pytest.approx(101_050 / 200)


def test_weights_add_up_to_the_rows():
    plan = ReservoirPlan.of(4, bounds=50)
    counts = np.array([10, 4000, 800, 100])
    drawn = np.minimum(counts, plan.rows_per_partition)
    again = plan.imbalanced(counts)
    expected = np.where(again, plan.fraction(counts) * counts, drawn)
    assert (expected * plan.weights(counts)).tolist() == pytest.approx(counts.tolist())


def test_nothing_to_draw_from():
    plan = ReservoirPlan.of(0)
    assert plan.fraction(np.zeros(3, np.int64)) == 1.0
    assert plan.weights(np.zeros(3, np.int64)).tolist() == [0.0] * 3
