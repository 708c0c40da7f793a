"""What the planner of maintenance promises, on files made up as boxes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zskip.advisor.maintenance.planner import Batch, Bounds, MaintenancePlan, Ranges, plan_maintenance
from zskip.advisor.maintenance.row_scale import scale_of
from zskip.records import Partition, Snapshot

WIDE = (0, 1000, 0, 1000)
Box = tuple[int, int, int, int]


def tiles(side: int, most: int = 1000) -> list[Box]:
    """A square cut into equal tiles, as a perfect layout has them."""
    step = most // side
    return [(x, x + step - 1, y, y + step - 1) for x in range(0, most, step) for y in range(0, most, step)]


def plan(
    boxes: list[Box],
    sizes: list[int] | None = None,
    partition: list[int] | None = None,
    budget: int | None = None,
    settled: list[int] | None = None,
    target: int = 100,
    asked: list[tuple[Ranges, float]] | None = None,
) -> tuple[MaintenancePlan, Snapshot]:
    """Plan for files of so many bytes and as many rows, two columns each."""
    box = np.array(boxes, np.int64).reshape(-1, 4)
    bytes_ = np.array(sizes or [target] * len(boxes), np.int64)
    snapshot = Snapshot(
        root="/t",
        version=0,
        fields=(),
        partition_fields=(),
        partitions=tuple(Partition(directory=f"p={i}") for i in range(max(partition or [0]) + 1)),
        paths=tuple(f"{i:06d}" for i in range(len(boxes))),
        sizes=bytes_,
        mtimes_ms=np.arange(len(boxes), dtype=np.int64),
        partition_of=np.array(partition or [0] * len(boxes), np.int32),
    )
    known = np.ones(len(boxes), np.bool_)
    columns = [Bounds(lower=box[:, i], upper=box[:, i + 1], bounded=known) for i in (0, 2)]
    mask = np.isin(np.arange(len(boxes)), settled or [])
    found = plan_maintenance(snapshot, bytes_, columns, target=target, budget=budget, settled=mask, asked=asked or [])
    return found, snapshot


def test_what_queries_ask_for_decides_what_is_worth_it() -> None:
    boxes = [*tiles(20), (0, 499, 0, 1000), (500, 999, 0, 1000)]
    for file, start in ((400, 0), (401, 500)):
        asked: list[tuple[Ranges, float]] = [({0: (start + x, start + x + 4)}, 1.0) for x in range(0, 490, 7)]
        found, _ = plan(boxes, sizes=[100] * 400 + [400] * 2, asked=asked, budget=400)
        assert [batch.places.tolist() for batch in found.batches] == [[file]]
    plain, unlimited = plan(boxes)[0], plan(boxes, asked=[({}, 1.0)])[0]
    assert plain.kept == unlimited.kept
    assert [b.places.tolist() for b in plain.batches] == [b.places.tolist() for b in unlimited.batches]


def test_a_table_in_order_is_left_alone() -> None:
    found, _ = plan(tiles(10))
    assert found.batches == ()
    assert found.kept == found.kept_after
    assert found.stopped.startswith("nothing left")


def test_what_came_since_is_brought_into_order_by_itself() -> None:
    found, _ = plan([*tiles(20), WIDE], sizes=[100] * 400 + [400])
    (batch,) = found.batches
    assert 400 in batch.places
    assert (len(batch.places) < 4, batch.files >= 4, batch.merges) == (True, True, False)
    assert found.kept_after < found.kept


def test_pieces_that_pile_up_are_brought_together() -> None:
    found, _ = plan([*tiles(20), *tiles(2), *tiles(2), *tiles(2), *tiles(2), WIDE])
    (batch,) = found.batches
    assert set(range(400, 417)) <= set(batch.places.tolist())
    assert len(batch.places) < 200


def test_everything_is_rewritten_where_nothing_is_in_order() -> None:
    found, _ = plan([WIDE] * 64)
    (batch,) = found.batches
    assert (len(batch.places), batch.files) == (64, 64)
    assert found.kept == pytest.approx(1.0)
    assert found.kept_after < 0.4


def test_files_without_bounds_are_read_by_all_and_rewritten_first() -> None:
    boxes = tiles(10)
    lower, upper = np.array(boxes)[:, 0], np.array(boxes)[:, 1]
    bounded = np.ones(100, np.bool_)
    bounded[[3, 77]] = False
    snapshot = plan(boxes)[1]
    columns = [Bounds(lower=lower, upper=upper, bounded=bounded)]
    found = plan_maintenance(snapshot, np.full(100, 100), columns, target=50, linear=True)
    assert {3, 77} <= set(found.batches[0].places.tolist())


def test_a_budget_is_exceeded_by_one_file_at_most() -> None:
    boxes = [*tiles(10), *[WIDE] * 10]
    for budget in (100, 350, 500):
        found, _ = plan(boxes, budget=budget, sizes=[100] * 100 + [95] * 10, target=30)
        assert budget <= sum(batch.bytes for batch in found.batches) < budget + 95
        assert found.stopped == "budget"
        assert found.kept_after < found.kept


def test_what_was_clustered_together_is_not_clustered_again_alone() -> None:
    """Whatever their bounds say: rows that no layout can tell apart would be rewritten over and over."""
    found, snapshot = plan([WIDE] * 8)
    assert found.batches
    columns = [Bounds(lower=np.zeros(8, np.int64), upper=np.full(8, 9), bounded=np.ones(8, np.bool_))] * 2
    arguments = {"target": 100, "runs": np.full(8, 3)}
    assert plan_maintenance(snapshot, np.full(8, 100), columns, **arguments).batches == ()
    arguments["runs"][5] = -1
    assert plan_maintenance(snapshot, np.full(8, 100), columns, **arguments).batches


def test_settled_files_stay() -> None:
    found, _ = plan([WIDE] * 8, settled=list(range(8)))
    assert found.batches == ()


BOXES = st.tuples(*[st.integers(0, 1000)] * 4).map(lambda b: (min(b[:2]), max(b[:2]), min(b[2:]), max(b[2:])))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(BOXES, st.integers(0, 300), st.integers(0, 2)), min_size=1, max_size=40),
    st.none() | st.integers(100, 3000),
)
def test_laws_of_a_plan(files: list[tuple[Box, int, int]], budget: int | None) -> None:
    boxes, sizes, partitions = zip(*files, strict=True)
    found, snapshot = plan(list(boxes), list(sizes), list(partitions), budget=budget)
    placed = [int(place) for batch in found.batches for place in batch.places]
    assert len(placed) == len(set(placed))
    assert 0 <= found.kept_after <= found.kept <= 1
    for batch in found.batches:
        assert len(set(snapshot.partition_of[batch.places].tolist())) == 1
        assert batch.bytes == snapshot.sizes[batch.places].sum()
        assert batch.files >= 1
        assert len(batch.places) > 1 or batch.files > 1
    if budget is not None:
        assert sum(_bytes_but_one(batch, snapshot) for batch in found.batches) <= budget


def _bytes_but_one(batch: Batch, snapshot: Snapshot) -> int:
    return batch.bytes - int(snapshot.sizes[batch.places].max())


def test_rows_are_spread_evenly_over_what_files_cover() -> None:
    """Against the sum over files, a point at a time."""
    random = np.random.default_rng(5)
    lower = random.integers(0, 500, 30)
    upper = lower + random.integers(0, 400, 30)
    rows = random.integers(1, 50, 30)
    scale = scale_of(lower, upper, np.ones(30, np.bool_), rows)
    expected = np.zeros(len(scale.points))
    for low, high, count in zip(lower, upper, rows, strict=True):
        covered = (scale.points >= low) & (scale.points <= high)
        expected += covered * count / covered.sum()
    assert np.allclose(scale.below, np.concatenate([[0], np.cumsum(expected)]) / rows.sum())


@pytest.mark.parametrize("form", ["int", "float", "bytes"])
def test_every_form_has_a_scale(form: str) -> None:
    numbers = np.arange(20_000)
    values: npt.NDArray[np.generic] = numbers.astype(np.float64 if form == "float" else np.int64)
    if form == "bytes":
        values = np.empty(len(numbers), object)
        values[:] = [b"%06d\x00" % i for i in numbers]
    bounded = np.ones(len(values), np.bool_)
    bounded[7] = False
    splits = values[100:20_000:100]
    scale = scale_of(values, values, bounded, np.ones(len(values), np.int64), splits)  # type: ignore[arg-type]
    assert scale.points.dtype == values.dtype
    assert (scale.points[0], scale.points[-1]) == (values[0], values[-1])
    first, last = scale.ranks(values, values, bounded)  # type: ignore[arg-type]
    assert (scale.points[first] <= values)[bounded].all()
    assert (scale.points[last] >= values)[bounded].all()
    assert (first[7], last[7]) == (0, len(scale.points) - 1)
    start, end = scale.spans(values, values, bounded)  # type: ignore[arg-type]
    assert np.median(end[bounded] - start[bounded]) < 0.02
    assert abs(start[10_000] - 0.5) < 0.02


def test_nothing_known_is_no_end_of_it() -> None:
    none = np.zeros(3, np.int64)
    scale = scale_of(none, none, none != 0, np.ones(3, np.int64))
    start, end = scale.spans(none, none, none != 0)
    assert (start.tolist(), end.tolist()) == ([0] * 3, [1] * 3)
    assert plan([])[0].batches == ()
