"""The promises of the planner of maintenance, on synthetic boxes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zskip.advisor.maintenance.planner import Batch, MaintenancePlan, Ranges, plan_maintenance
from zskip.advisor.maintenance.row_scale import Bounds, scale_of
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
    queries: list[tuple[Ranges, float]] | None = None,
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
    result = plan_maintenance(
        snapshot, bytes_, columns, target=target, budget=budget, settled=mask, queries=queries or []
    )
    return result, snapshot


def test_queries_decide_which_batch_pays() -> None:
    boxes = [*tiles(20), (0, 499, 0, 1000), (500, 999, 0, 1000)]
    for file, start in ((400, 0), (401, 500)):
        queries: list[tuple[Ranges, float]] = [({0: (start + x, start + x + 4)}, 1.0) for x in range(0, 490, 7)]
        result, _ = plan(boxes, sizes=[100] * 400 + [400] * 2, queries=queries, budget=400)
        assert [batch.positions.tolist() for batch in result.batches] == [[file]]
    plain, unlimited = plan(boxes)[0], plan(boxes, queries=[({}, 1.0)])[0]
    assert plain.kept == unlimited.kept
    assert [b.positions.tolist() for b in plain.batches] == [b.positions.tolist() for b in unlimited.batches]


def test_a_table_in_order_is_left_alone() -> None:
    result, _ = plan(tiles(10))
    assert result.batches == ()
    assert result.kept == result.kept_after
    assert result.stopped.startswith("nothing left")


def test_a_new_file_is_rewritten_alone() -> None:
    result, _ = plan([*tiles(20), WIDE], sizes=[100] * 400 + [400])
    (batch,) = result.batches
    assert 400 in batch.positions
    assert (len(batch.positions) < 4, batch.files >= 4, batch.merges) == (True, True, False)
    assert result.kept_after < result.kept


def test_pieces_that_pile_up_are_brought_together() -> None:
    result, _ = plan([*tiles(20), *tiles(2), *tiles(2), *tiles(2), *tiles(2), WIDE])
    (batch,) = result.batches
    assert set(range(400, 417)) <= set(batch.positions.tolist())
    assert len(batch.positions) < 200


def test_an_unordered_table_is_rewritten_whole() -> None:
    result, _ = plan([WIDE] * 64)
    (batch,) = result.batches
    assert (len(batch.positions), batch.files) == (64, 64)
    assert result.kept == pytest.approx(1.0)
    assert result.kept_after < 0.4


def test_files_without_bounds_are_read_by_all_and_rewritten_first() -> None:
    boxes = tiles(10)
    lower, upper = np.array(boxes)[:, 0], np.array(boxes)[:, 1]
    bounded = np.ones(100, np.bool_)
    bounded[[3, 77]] = False
    snapshot = plan(boxes)[1]
    columns = [Bounds(lower=lower, upper=upper, bounded=bounded)]
    result = plan_maintenance(snapshot, np.full(100, 100), columns, target=50, linear=True)
    assert {3, 77} <= set(result.batches[0].positions.tolist())


def test_a_budget_is_exceeded_by_one_file_at_most() -> None:
    boxes = [*tiles(10), *[WIDE] * 10]
    for budget in (100, 350, 500):
        result, _ = plan(boxes, budget=budget, sizes=[100] * 100 + [95] * 10, target=30)
        assert budget <= sum(batch.bytes for batch in result.batches) < budget + 95
        assert result.stopped == "budget"
        assert result.kept_after < result.kept


def test_files_clustered_together_are_not_clustered_again_alone() -> None:
    """Whatever their bounds say: rows that no layout can tell apart would be rewritten over and over."""
    result, snapshot = plan([WIDE] * 8)
    assert result.batches
    columns = [Bounds(lower=np.zeros(8, np.int64), upper=np.full(8, 9), bounded=np.ones(8, np.bool_))] * 2
    arguments = {"target": 100, "runs": np.full(8, 3)}
    assert plan_maintenance(snapshot, np.full(8, 100), columns, **arguments).batches == ()
    arguments["runs"][5] = -1
    assert plan_maintenance(snapshot, np.full(8, 100), columns, **arguments).batches


def test_a_file_that_is_mostly_deleted_is_rewritten() -> None:
    boxes, snapshot = tiles(10), plan(tiles(10))[1]
    columns = [
        Bounds(lower=np.array(boxes)[:, i], upper=np.array(boxes)[:, i + 1], bounded=np.ones(100, bool)) for i in (0, 2)
    ]
    deleted = np.zeros(100, np.int64)
    deleted[[7, 50]] = 40, 20
    result = plan_maintenance(snapshot, np.full(100, 100), columns, target=100, deleted=deleted)
    (batch,) = result.batches
    assert (batch.positions.tolist(), batch.files, batch.bytes, batch.deleted, batch.merges) == ([7], 1, 60, 40, True)
    assert result.kept_after < result.kept
    assert plan_maintenance(snapshot, np.full(100, 100), columns, target=100, deleted=deleted, budget=59).batches == ()
    # Files that have become small are merged, also where all their rows are gone.
    deleted[[7, 8, 9]] = 80, 80, 100
    (batch,) = plan_maintenance(snapshot, np.full(100, 100), columns, target=100, deleted=deleted).batches
    assert (batch.positions.tolist(), batch.files, batch.bytes, batch.deleted) == ([7, 8, 9], 1, 41, 260)


def test_deleted_rows_do_not_count_as_rows_to_write() -> None:
    snapshot = plan([WIDE] * 8)[1]
    columns = [Bounds(lower=np.zeros(8, np.int64), upper=np.full(8, 999), bounded=np.ones(8, np.bool_))] * 2
    (batch,) = plan_maintenance(snapshot, np.full(8, 100), columns, target=100, deleted=np.full(8, 50)).batches
    assert (batch.files, batch.bytes, batch.deleted) == (4, 400, 400)


def test_settled_files_stay() -> None:
    result, _ = plan([WIDE] * 8, settled=list(range(8)))
    assert result.batches == ()


BOXES = st.tuples(*[st.integers(0, 1000)] * 4).map(lambda b: (min(b[:2]), max(b[:2]), min(b[2:]), max(b[2:])))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(BOXES, st.integers(0, 300), st.integers(0, 2)), min_size=1, max_size=40),
    st.none() | st.integers(100, 3000),
)
def test_laws_of_a_plan(files: list[tuple[Box, int, int]], budget: int | None) -> None:
    boxes, sizes, partitions = zip(*files, strict=True)
    result, snapshot = plan(list(boxes), list(sizes), list(partitions), budget=budget)
    rewritten = [int(position) for batch in result.batches for position in batch.positions]
    assert len(rewritten) == len(set(rewritten))
    assert 0 <= result.kept_after <= result.kept <= 1
    for batch in result.batches:
        assert len(set(snapshot.partition_of[batch.positions].tolist())) == 1
        assert batch.bytes == snapshot.sizes[batch.positions].sum()
        assert batch.files >= 1
        assert len(batch.positions) > 1 or batch.files > 1
    if budget is not None:
        assert sum(_bytes_but_one(batch, snapshot) for batch in result.batches) <= budget


def _bytes_but_one(batch: Batch, snapshot: Snapshot) -> int:
    return batch.bytes - int(snapshot.sizes[batch.positions].max())


def test_rows_are_spread_evenly_over_what_files_cover() -> None:
    """Against the sum over files, a point at a time."""
    random = np.random.default_rng(5)
    lower = random.integers(0, 500, 30)
    upper = lower + random.integers(0, 400, 30)
    rows = random.integers(1, 50, 30)
    scale = scale_of(Bounds(lower=lower, upper=upper, bounded=np.ones(30, np.bool_)), rows)
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
    column = Bounds(lower=values, upper=values, bounded=bounded, splits=splits)  # type: ignore[arg-type]
    scale = scale_of(column, np.ones(len(values), np.int64))
    assert scale.points.dtype == values.dtype
    assert (scale.points[0], scale.points[-1]) == (values[0], values[-1])
    first, last = scale.ranks(column)
    assert (scale.points[first] <= values)[bounded].all()
    assert (scale.points[last] >= values)[bounded].all()
    assert (first[7], last[7]) == (0, len(scale.points) - 1)
    start, end = scale.spans(column)
    assert np.median(end[bounded] - start[bounded]) < 0.02
    assert abs(start[10_000] - 0.5) < 0.02


def test_unknown_bounds_span_everything() -> None:
    none = np.zeros(3, np.int64)
    column = Bounds(lower=none, upper=none, bounded=none != 0)
    start, end = scale_of(column, np.ones(3, np.int64)).spans(column)
    assert (start.tolist(), end.tolist()) == ([0] * 3, [1] * 3)
    assert plan([])[0].batches == ()
