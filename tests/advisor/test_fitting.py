"""Fitting: what is predicted from a sample is what whole tables read, and a fit harms no other workload much."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from zskip.advisor.advice import suggestions
from zskip.advisor.advice.advice import Advice, Candidate
from zskip.advisor.advice.layout_search import (
    Question,
    bootstrap_interval,
    choose_columns_greedily,
    compare_curves,
    evaluate_current,
    find_queried_columns,
    predict_fit,
)
from zskip.advisor.advice.suggestions import suggest
from zskip.advisor.fitting.cross_validation import (
    ParsedWorkload,
    Reads,
    Target,
    best_curve,
    cross_validate,
    fit_layout,
    predict_reads,
    scale_down,
)
from zskip.advisor.fitting.predicate_boxes import boxes_of, rank_boxes
from zskip.advisor.fitting.random_workload import make_up_queries
from zskip.advisor.fitting.sample_statistics import Groups, SampledTable, keep_pushed_down
from zskip.errors import InputError
from zskip.layout.fit import fit
from zskip.layout.predict import predict_share, sample_ranks
from zskip.layout.workload import ANY_LOWER, ANY_UPPER
from zskip.predicate import And, Columns, Predicate, Unknown, nodes, parse
from zskip.prune import prune
from zskip.records import Bools, Field, Ints, Partition, Sample, Values
from zskip.types import DataType

ROWS, FILES = 40_000, 32
FIELDS = tuple(
    Field(name=n, type=DataType(t)) for n, t in [("a", "long"), ("b", "double"), ("c", "long"), ("s", "string")]
)
COLUMNS = Columns(FIELDS)


def whole(rows: int = ROWS, seed: int = 1) -> Sample:
    rng = np.random.default_rng(seed)
    text = np.array([b"%05d" % x for x in rng.integers(0, 90_000, rows)], object)
    b = np.where(rng.random(rows) < 0.01, np.nan, rng.random(rows))
    columns: tuple[Values, ...] = (rng.integers(0, 5_000, rows), b, rng.integers(0, 30, rows), text)
    nulls: tuple[Bools, ...] = tuple(rng.random(rows) < 0.02 for _ in columns)
    return Sample(
        fields=FIELDS, columns=columns, nulls=nulls, partition=np.zeros(rows, np.int32), weights=np.ones(rows)
    )


def some(data: Sample, rows: int, seed: int = 2) -> Sample:
    at = np.random.default_rng(seed).permutation(len(data))[:rows]
    return Sample(
        fields=data.fields,
        columns=tuple(c[at] for c in data.columns),
        nulls=tuple(n[at] for n in data.nulls),
        partition=data.partition[at],
        weights=np.full(rows, len(data) / rows),
    )


def workload(count: int, seed: int) -> ParsedWorkload:
    rng = np.random.default_rng(seed)
    texts = []
    for i in range(count):
        a, b = int(rng.integers(0, 5_000)), float(rng.random() * 0.9)
        texts.append(
            [
                f"a BETWEEN {a} AND {a + 50}",
                f"a IN ({a}, {a + 7}) OR b BETWEEN {b} AND {b + 0.01}",
                f"b >= {b} AND b < {b + 0.05} AND c = {a % 30}",
                f"s LIKE '{a % 90:02d}%' AND NOT c = 3",
            ][i % 4]
        )
    return ParsedWorkload(predicates=[parse(t, COLUMNS) for t in texts], weights=np.full(count, 1 / count))


def target(files: int = FILES, rows: int = ROWS) -> Target:
    return Target(files=np.array([files]), partition_rows=np.array([rows]), page_rows=500)


def only(data: Sample, *names: str) -> Sample:
    at = [i for i, f in enumerate(data.fields) if f.name in names]
    return Sample(
        fields=tuple(data.fields[i] for i in at),
        columns=tuple(data.columns[i] for i in at),
        nulls=tuple(data.nulls[i] for i in at),
        partition=data.partition,
        weights=data.weights,
    )


def truth(predicates: list[Predicate], ids: Ints, data: Sample) -> float:
    """Share of rows in files that the exact bounds keep, by plain loops."""
    table = SampledTable(data, (), [Partition(directory="")])
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(ids))).astype(float)
    groups = Groups(table, order, starts, sizes)
    return float(np.mean([groups.share(p) for p in predicates]))


def test_bounds_of_groups_are_those_of_their_rows() -> None:
    data = whole(500)
    ids = np.random.default_rng(3).integers(0, 7, 500)
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    groups = Groups(
        SampledTable(data, (), [Partition(directory="")]), order, starts, np.bincount(ids, minlength=7).astype(float)
    )
    for field, values, nulls in zip(data.fields, data.columns, data.nulls, strict=True):
        found = groups.column((field.name,))
        assert found is not None
        for group in range(7):
            mine = [
                v for v, n, i in zip(values.tolist(), nulls.tolist(), ids.tolist(), strict=True) if i == group and not n
            ]
            numbers = [v for v in mine if v == v]
            assert (found.lower[group], found.upper[group]) == (min(numbers), max(numbers))
            assert bool(found.may_nan[group]) == (len(numbers) < len(mine))
            assert found.nulls[group] == sum(n and i == group for n, i in zip(nulls, ids, strict=True))
    assert groups.column(("gone",)) is None


def test_a_group_holds_every_row_that_matches() -> None:
    data = whole(3_000)
    ids = np.random.default_rng(4).integers(0, 40, 3_000)
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    sizes = np.bincount(ids, minlength=40).astype(float)
    groups = Groups(SampledTable(data, (), [Partition(directory="")]), order, starts, sizes)
    for value, null, group in list(zip(data.columns[0].tolist(), data.nulls[0].tolist(), ids.tolist(), strict=True))[
        :200
    ]:
        where = "a IS NULL" if null else f"a = {value}"
        assert prune(parse(where, COLUMNS), groups).kept[group]


def test_partition_columns_have_one_value_a_group() -> None:
    data = whole(400)
    partition = np.random.default_rng(5).integers(0, 3, 400).astype(np.int32)
    data = Sample(fields=data.fields, columns=data.columns, nulls=data.nulls, partition=partition, weights=data.weights)
    day = Field(name="day", type=DataType("integer"))
    places = [Partition(directory=str(i), values=(v,)) for i, v in enumerate([4, None, 6])]
    order = np.argsort(partition, kind="stable")
    starts = np.flatnonzero(np.diff(partition[order], prepend=-1))
    groups = Groups(SampledTable(data, (day,), places), order, starts, np.bincount(partition).astype(float))
    columns = Columns((*FIELDS, day))
    assert prune(parse("day = 6", columns), groups).kept.tolist() == [False, False, True]
    assert prune(parse("day IS NULL", columns), groups).kept.tolist() == [False, True, False]


@pytest.mark.parametrize("curve", ["zorder", "hilbert", "linear", "fitted"])
def test_what_is_predicted_is_what_is_read(curve: str) -> None:
    data = whole()
    sample = some(data, 12_000)
    queries, tested = workload(40, 6), workload(60, 7).predicates
    clustering = only(sample, "a", "b")
    layout = fit_layout(clustering, target(), queries, curve)
    table = SampledTable(sample, (), [Partition(directory="")])
    predicted = predict_reads(layout, clustering, table, target(), tested)
    assert (predicted.decoded <= predicted.kept + 1e-12).all()
    rows = only(data, "a", "b")
    tie = np.random.default_rng(0).integers(0, 2**63, ROWS, dtype=np.uint64)
    ids = layout.place(rows.columns, rows.nulls, rows.partition, tie)[0].astype(np.int64)
    measured = truth(list(tested), ids, data)
    assert float(predicted.kept.mean()) == pytest.approx(measured, rel=0.1)


def test_a_fit_helps_its_workload_and_harms_no_other_much() -> None:
    data = whole()
    sample = only(some(data, 12_000), "a", "b")
    table = SampledTable(sample, (), [Partition(directory="")])
    texts = [f"a BETWEEN {i * 49} AND {i * 49 + 20}" for i in range(80)]
    texts += [f"b BETWEEN {i / 50} AND {i / 50 + 0.01}" for i in range(20)]
    hot = ParsedWorkload(predicates=[parse(text, COLUMNS) for text in texts], weights=np.full(100, 0.01))
    default = fit(sample, np.array([FILES]), partition_rows=np.array([ROWS]))
    layout = fit_layout(sample, target(), hot, "fitted")
    others = make_up_queries(sample, 9).predicates

    def kept(which: object, predicates: object) -> float:
        return float(predict_reads(which, sample, table, target(), predicates).kept.mean())  # type: ignore[arg-type]

    assert kept(layout, hot.predicates) < 0.95 * kept(default, hot.predicates)
    assert kept(layout, others) < 1.4 * kept(default, others)
    shares = [
        kept(fit_layout(sample, dataclasses.replace(target(), unseen=unseen), hot, "fitted"), others)
        for unseen in (0.0, 0.2, 0.5, 1.0)
    ]
    assert shares[0] > shares[2] > 0.95 * shares[3]
    found = cross_validate(sample, table, target(), hot, ("zorder", "linear", "fitted"))
    assert best_curve(found, hot.weights, 0.2) == "fitted"
    assert best_curve(found, hot.weights, 1.0) == "zorder"


def test_a_query_of_several_ranges_reads_a_file_if_any_does() -> None:
    sample = only(some(whole(), 3_000), "a", "b")
    layout = fit(sample, np.array([FILES]), partition_rows=np.array([ROWS]))
    predicate = parse("a IN (7, 900, 4000) OR b > 0.9", COLUMNS)
    tie = np.random.default_rng(0).integers(0, 2**63, len(sample), dtype=np.uint64)
    files, _ = layout.place(sample.columns, sample.nulls, sample.partition, tie)
    expected = truth([predicate], files.astype(np.int64), sample)
    boxes = rank_boxes([predicate], np.ones(1), sample)
    assert len(boxes) == 4
    assert predict_share(layout, sample, boxes) == pytest.approx(expected, abs=0.05)


def test_many_files_are_predicted_by_cutting_fewer_along_their_order() -> None:
    sample = only(some(whole(), 12_000), "a", "b")
    table = SampledTable(sample, (), [Partition(directory="")])
    queries = workload(40, 6)
    exact = cross_validate(sample, table, target(64), queries, ("zorder",))["zorder"].kept.mean()
    fewer = dataclasses.replace(target(16), file_rows=ROWS / 64)
    assert float(cross_validate(sample, table, fewer, queries, ("zorder",))["zorder"].kept.mean()) == pytest.approx(
        float(exact), rel=0.25
    )
    assert float(cross_validate(sample, table, target(16), queries, ("zorder",))["zorder"].kept.mean()) > 1.25 * exact
    assert scale_down(np.array([900, 2, 0]), 90).tolist() == [89, 1, 0]


def test_without_a_workload_a_fit_is_to_made_up_queries() -> None:
    sample = only(some(whole(), 12_000), "a", "b")
    nothing = ParsedWorkload(predicates=[], weights=np.empty(0))
    default = fit(sample, np.array([FILES]), partition_rows=np.array([ROWS]))
    same = fit_layout(sample, target(), nothing, "zorder")
    assert (same.pattern, len(same.cut_keys)) == (default.pattern, len(default.cut_keys))
    assert predict_share(fit_layout(sample, target(), nothing, "fitted"), sample) < 1.05 * predict_share(
        default, sample
    )


def test_folds_are_held_against_what_they_have_not_seen() -> None:
    sample = only(some(whole(), 6_000), "a", "b")
    table = SampledTable(sample, (), [Partition(directory="")])
    for count in (1, 2, 9):
        found = cross_validate(sample, table, target(8), workload(count, 3), ("zorder",))
        assert len(found["zorder"].kept) == count
        assert (found["zorder"].kept > 0).all()


def test_boxes_hold_all_matching_rows() -> None:
    data = whole(2_000)
    for predicate in workload(40, 8).predicates:
        boxes = boxes_of(predicate)
        assert boxes
        for box in boxes:
            assert all(low is None or high is None or low <= high for low, high in box.values())
    assert boxes_of(parse("a > 5 AND a < 3", COLUMNS)) == []
    assert boxes_of(parse("year(DATE '2024-01-01') = a", COLUMNS, lenient=True)) == [{}]
    many = " AND ".join(f"(a = {i} OR a = {i + 1} OR b = {i})" for i in range(6))
    assert len(boxes_of(parse(many, COLUMNS))) <= 16
    found = rank_boxes(workload(8, 1).predicates, np.full(8, 0.125), only(data, "a", "b"))
    assert found.weights.sum() == pytest.approx(1)


def test_only_what_parquet_filters_by_skips_pages() -> None:
    found = keep_pushed_down(parse("a = 1 AND s LIKE '%x' AND NOT b > 0.5 AND (c = 1 OR lower(s) = 'q')", COLUMNS))
    assert isinstance(found, And)
    assert sum(isinstance(node, Unknown) for node in nodes(found)) == 2


def question(queries: ParsedWorkload, rows: int = 8_000) -> Question:
    sample = some(whole(), rows)
    table = SampledTable(sample, (), [Partition(directory="")])
    everything = np.ones(len(queries))
    texts = [f"query {i}" for i in range(len(queries))]
    today = Reads(kept=everything, decoded=everything)
    return Question(
        table=table, target=target(16), workload=queries, texts=texts, today=today, bytes=1_000_000, files=16
    )


def test_columns_are_added_while_they_help() -> None:
    queries = ParsedWorkload(predicates=workload(24, 3).predicates[::2], weights=np.full(12, 1 / 12))
    names = [field.name for field in find_queried_columns(question(queries).table.sample.fields, queries)]
    assert set(names) == {"a", "b", "c"}
    found = choose_columns_greedily(question(queries), names)
    assert [len(by) for by in found] == [1, 2, 3]
    assert found[1][:1] == found[0]
    with pytest.raises(InputError, match="no column"):
        choose_columns_greedily(question(queries), [])


def test_candidates_say_what_gets_slower() -> None:
    queries = workload(20, 3)
    asked_question = question(queries)
    found = compare_curves(asked_question, ("a", "b"), ("zorder",))[0]
    assert found.kept_low <= found.kept <= found.kept_high <= 1
    assert found.slower == ()
    nothing = Reads(kept=np.zeros(20), decoded=np.zeros(20))
    worse = compare_curves(
        Question(**{n: getattr(asked_question, n) for n in asked_question.__slots__} | {"today": nothing}),
        ("a", "b"),
        ("zorder",),
    )
    assert len(worse[0].slower) == 20
    assert worse[0].slower[0].factor >= worse[0].slower[-1].factor


def test_intervals_hold_the_mean() -> None:
    shares = np.random.default_rng(1).random(50)
    mean, low, high = bootstrap_interval(shares, np.full(50, 0.02), 0.0, 1)
    assert low < mean < high
    assert bootstrap_interval(np.array([0.3]), np.array([1.0]), 0.0, 1) == pytest.approx((0.3, 0.3, 0.3))


def test_queries_that_no_layout_serves_are_counted() -> None:
    texts = [*[f"s = '{i:05d}'" for i in range(15)], "hash(a) % 7 = 3"]
    queries = ParsedWorkload(
        predicates=[parse(t, COLUMNS, lenient="hash" in t) for t in texts], weights=np.full(16, 1 / 16)
    )
    sentences = suggest(question(queries), ("a", "b"), "zorder")
    assert any("6 % of the queries read all files under any layout" in text for text in sentences)


@pytest.mark.parametrize(
    ("curve", "predicted"), [("hilbert", "hilbert"), ("linear", "linear"), ("fitted", "zorder"), ("zorder", "zorder")]
)
def test_file_sizes_are_predicted_for_the_curve_of_the_advice(
    monkeypatch: pytest.MonkeyPatch, curve: str, predicted: str
) -> None:
    curves = []

    def record(question: Question, by: tuple[str, ...], curve: str) -> Reads:
        curves.append(curve)
        return predict_fit(question, by, curve)

    monkeypatch.setattr(suggestions, "predict_fit", record)
    suggest(question(workload(20, 3)), ("a", "b"), curve)
    assert set(curves) == {predicted}


def test_advice_is_plain_sentences() -> None:
    asked_question = question(workload(20, 3))
    found = compare_curves(asked_question, ("a", "b"), ("zorder", "hilbert"))
    advice = Advice(
        path="/t",
        workload="20 given predicates",
        current=evaluate_current(asked_question, (), 16),
        candidates=tuple(found),
    )
    assert advice.best is found[0]
    assert "Cluster by a, b" in str(advice)
    same = Advice(path="/t", workload="w", current=found[0], candidates=(found[0],))
    assert same.best is None
    assert "Leave it as it is" in str(same)
    assert isinstance(found[0], Candidate)


CONDITIONS = [
    "a IS NULL", "a IS NOT NULL AND a < 3", "a IN (1, 2, 900) OR c IS NULL", "a < 100 AND a >= 20", "a > 4990",
    "cast(a AS double) < 17.5", "floor(b * 1.0) = 0", "cast(b AS int) = 0", "abs(a) < 12", "-a < -4000", "a + 5 = 12",
    "NOT a >= 70", "s LIKE '12%'", "b < 0.25", "b > 0.75 OR a = 7", "a BETWEEN 3 AND 9 AND b <= 0.5", "a <=> NULL",
]  # fmt: skip


@pytest.mark.parametrize("text", CONDITIONS)
def test_boxes_hold_what_prune_keeps_row_by_row(text: str) -> None:
    data = whole(3_000)
    predicate = parse(text, COLUMNS, lenient=True)
    table = SampledTable(data, (), [Partition(directory="")])
    rows = np.arange(len(data))
    kept = prune(predicate, Groups(table, rows, rows, np.ones(len(data)))).kept
    boxes = rank_boxes([predicate], np.ones(1), data)
    ranks = np.column_stack(sample_ranks(data))
    inside = np.zeros(len(data), bool)
    assert boxes.nulls is not None
    for lower, upper, nulls in zip(boxes.lower, boxes.upper, boxes.nulls, strict=True):
        free = (lower == ANY_LOWER) & (upper == ANY_UPPER)
        of_box = np.where(nulls, ranks < 0, free | ((ranks >= lower) & (ranks <= upper)))
        inside |= of_box.all(axis=1)
    # Of a file that holds nothing but NaN, no bounds are known.
    assert not (kept & ~inside & ~np.isnan(data.columns[1])).any()
    assert inside.sum() <= kept.sum() + 2


def test_functions_end_where_their_values_change() -> None:
    fields = [Field(name="t", type=DataType("timestamp_ntz")), Field(name="d", type=DataType("date"))]
    columns = Columns(tuple(fields))
    day = 86_400_000_000
    assert boxes_of(parse("cast(t AS date) = DATE '1970-01-11'", columns)) == [{("t",): (10 * day, 11 * day - 1)}]
    assert boxes_of(parse("year(d) IN (1970, 1972)", columns)) == [{("d",): (0, 364)}, {("d",): (730, 1095)}]
    assert boxes_of(parse("month(d) = 3", columns)) == [{}] or len(boxes_of(parse("month(d) = 3", columns))) == 1
