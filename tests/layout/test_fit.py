import json
import pickle

import numpy as np
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st

from zskip.errors import ColumnError, InputError
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.layout.predict import predict_share, sample_ranks, share_of_boxes
from zskip.layout.workload import synthetic_workload
from zskip.records import Field, Sample
from zskip.types import DataType

FORMS = {"long": np.int64, "double": np.float64, "string": object}


def column(values, name):
    array = np.empty(len(values), FORMS[name])
    array[:] = [({"string": None}.get(name, 5)) if v is None else v for v in values]
    return array, np.array([v is None for v in values], bool)


def sample_of(columns, names, partition=None, weights=None):
    parts = [column(values, name) for values, name in zip(columns, names, strict=True)]
    rows = len(columns[0])
    return Sample(
        fields=tuple(Field(name=f"c{i}", type=DataType(name)) for i, name in enumerate(names)),
        columns=tuple(values for values, _ in parts),
        nulls=tuple(nulls for _, nulls in parts),
        partition=np.zeros(rows, np.int32) if partition is None else np.asarray(partition, np.int32),
        weights=np.ones(rows) if weights is None else np.asarray(weights, np.float64),
    )


def fitted(sample, files, **options):
    files = np.atleast_1d(files)
    rows = np.bincount(sample.partition, minlength=len(files))
    return fit(sample, files, partition_rows=rows, **options)


def ids_of(layout, sample, tie=None):
    tie = np.random.default_rng(1).integers(0, 2**63, len(sample), dtype=np.uint64) if tie is None else tie
    return layout.place(sample.columns, sample.nulls, sample.partition, tie)[0]


def uniform(rows=20_000, columns=3, seed=0, **options):
    random = np.random.default_rng(seed)
    return sample_of([random.integers(0, 10**9, rows).tolist() for _ in range(columns)], ["long"] * columns, **options)


NO_COLUMNS = Sample(fields=(), columns=(), nulls=(), partition=np.zeros(0, np.int32), weights=np.zeros(0))
ALL = [("zorder", "sample"), ("hilbert", "sample"), ("linear", "sample"), ("zorder", "direct"), ("hilbert", "direct"),
       ("linear", "direct")]  # fmt: skip


@pytest.mark.parametrize(("curve", "build"), ALL)
def test_every_file_gets_about_its_share(curve, build):
    sample = uniform()
    layout = fitted(sample, 32, curve=curve, build=build)
    assert 30 <= layout.file_count <= 32
    rows = np.bincount(ids_of(layout, sample), minlength=layout.file_count) * 32 / len(sample)
    assert rows.min() >= 0.49
    assert rows.max() <= 1.51


def test_what_a_query_reads_by_curve():
    sample = uniform(50_000)
    shares = {
        curve: predict_share(fitted(sample, 64, curve=curve), sample) for curve in ("zorder", "hilbert", "linear")
    }
    assert shares["zorder"] < 0.19
    assert shares["hilbert"] < 0.19
    assert shares["linear"] > 2 * shares["zorder"]


def test_cuts_beat_equal_parts():
    """Files of the same curve, but cut at equal numbers of rows, cost more."""
    sample = uniform(50_000, seed=3)
    layout = fitted(sample, 50)
    keys = layout.keys(sample.columns, sample.nulls)
    order = np.sort(keys)
    equal = Layout(**{**vars_of(layout), "cut_keys": order[np.arange(1, 50) * 1000], "cut_starts": np.array([0, 49]),
                      "spread": np.ones(50, np.int32)})  # fmt: skip
    assert predict_share(layout, sample) < 0.92 * predict_share(equal, sample)


def vars_of(layout):
    return {name: getattr(layout, name) for name, field in Layout.__dataclass_fields__.items() if field.init}


@given(st.integers(0, 10**6))
@tiers.examples(15, quick=6)
def test_a_key_order_is_a_file_order(seed):
    random = np.random.default_rng(seed)
    curve, build = ALL[seed % len(ALL)]
    partition = random.integers(0, 4, 3000)
    sample = uniform(3000, 2, seed, partition=partition)
    layout = fitted(sample, random.integers(1, 9, 4), curve=curve, build=build)
    keys = layout.keys(sample.columns, sample.nulls)
    files = ids_of(layout, sample)
    assert (layout.partition_of_file[files] == partition).all()
    for p in range(4):
        rows = np.flatnonzero(partition == p)
        assert (np.diff(files[rows][np.argsort(keys[rows], kind="stable")]) >= 0).all()
        columns, nulls = [c[rows] for c in sample.columns], [n[rows] for n in sample.nulls]
        alone, of_alone = layout.place(columns, nulls, p, np.zeros(len(rows), np.uint64))
        assert (alone == files[rows]).all()
        assert (of_alone == keys[rows]).all()
        expected = [sum(1 for cut in layout.cuts[p] if cut <= key) for key in keys[rows]]
        assert layout.segment(keys[rows], p).tolist() == expected
        assert layout.segment(keys[rows], partition[rows]).tolist() == expected


def test_spread_tables_give_the_key():
    sample = uniform(2000)
    layout = fitted(sample, 8)
    assert layout.is_separable
    key = np.zeros(len(sample), np.int64)
    for values, bounds, table in zip(sample.columns, layout.bounds, layout.spread_tables(), strict=True):
        assert len(table) == len(bounds) + 2
        key |= table[np.searchsorted(bounds, values, side="right")]
    assert (key == layout.keys(sample.columns, sample.nulls)).all()
    with pytest.raises(ValueError, match="not an OR"):
        fitted(sample, 8, curve="hilbert").spread_tables()


VALUES = {
    "long": st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1])),
    "double": st.one_of(
        st.none(), st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 0.1, 5e-324])
    ),
    "string": st.one_of(st.none(), st.binary(max_size=3), st.just("é".encode())),
}


@st.composite
def samples(draw):
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=2, max_size=4))
    rows = draw(st.integers(0, 30))
    columns = [draw(st.lists(VALUES[n], min_size=rows, max_size=rows)) for n in names]
    partitions = draw(st.integers(1, 3))
    partition = draw(st.lists(st.integers(0, partitions - 1), min_size=rows, max_size=rows))
    files = draw(st.lists(st.integers(0, 40), min_size=partitions, max_size=partitions))
    return sample_of(columns, names, partition), np.array(files)


@given(samples(), st.sampled_from(ALL))
@tiers.examples(150, quick=30)
def test_anything_can_be_fitted_and_read_back(drawn, how):
    sample, files = drawn
    layout = fitted(sample, files, curve=how[0], build=how[1])
    text = layout.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    again = Layout.from_json(text)
    assert again == layout
    assert hash(again) == hash(layout)
    actual = ids_of(layout, sample)
    assert (ids_of(again, sample) == actual).all()
    assert (ids_of(pickle.loads(pickle.dumps(layout)), sample) == actual).all()
    assert set(actual.tolist()) <= set(range(layout.file_count))
    assert (layout.partition_of_file[actual] == sample.partition).all()
    per_partition = np.bincount(layout.partition_of_file, minlength=len(files))
    assert (per_partition >= 1).all()
    assert (per_partition <= np.maximum(files, 1) * 2).all()
    assert 0.0 <= predict_share(layout, sample) <= 1.0
    assert fitted(sample, files, curve=how[0], build=how[1]).to_json() == text


@pytest.mark.parametrize(("curve", "build"), ALL)
def test_one_key_too_long_for_a_file_is_spread(curve, build):
    sample = sample_of([[7] * 1000, [None] * 1000], ["long", "long"])
    layout = fitted(sample, 4, curve=curve, build=build)
    assert layout.file_count == 3  # of 1.33 times the rows of a file: 1.5 at most, so never 4
    assert np.bincount(ids_of(layout, sample)).min() > 250


def test_a_heavy_key_among_others():
    random = np.random.default_rng(0)
    values = np.where(random.random(40_000) < 0.3, 500, random.integers(0, 1000, 40_000))
    sample = sample_of([values.tolist(), values.tolist()], ["long", "long"])
    layout = fitted(sample, 20)
    assert sorted(layout.spread.tolist())[-2:] == [1, 4]  # 6 files' worth, 1.5 in each
    rows = np.bincount(ids_of(layout, sample), minlength=layout.file_count)
    assert rows.max() <= 1.55 * 2000
    assert layout.file_count <= 20
    only = layout.first_file[np.argmax(layout.spread)] + np.arange(4)
    assert (values[np.isin(ids_of(layout, sample), only)] == 500).all()


def test_partitions_without_sample_rows_get_one_file():
    sample = uniform(1000, 2, partition=[1] * 1000)
    layout = fit(sample, np.array([5, 4, 0]), partition_rows=np.array([50, 1000, 0]))
    assert layout.partition_of_file.tolist() == [0, 1, 1, 1, 1, 2]


def test_no_more_files_than_rows():
    sample = uniform(3, 2)
    assert fit(sample, np.array([64]), partition_rows=np.array([3])).file_count <= 3


@pytest.mark.parametrize(("curve", "build"), ALL)
def test_one_row_for_several_files(curve, build):
    """As of a table whose other rows are deleted, while its footers count them."""
    layout = fit(
        sample_of([[7], ["a"]], ["long", "string"]),
        np.array([3]),
        curve=curve,
        build=build,
        partition_rows=np.array([3]),
    )
    assert layout.file_count <= 3


def test_weights_make_the_files():
    """Half of the sample stands for nine tenths of the rows, and so for nine tenths of the files."""
    values = np.arange(10_000)
    weights = np.where(values < 5000, 9.0, 1.0)
    sample = sample_of([values.tolist()] * 2, ["long"] * 2, weights=weights)
    layout = fit(sample, np.array([20]), partition_rows=np.array([50_000]))
    files = ids_of(layout, sample)
    rows = np.bincount(files, weights)
    assert rows.min() >= 0.45 * 2500
    assert rows.max() <= 1.55 * 2500


@pytest.mark.parametrize("curve", ["zorder", "hilbert", "linear"])
def test_thirty_two_columns(curve):
    sample = uniform(2000, 32)
    layout = fitted(sample, 8, curve=curve)
    assert len(layout.pattern) <= 63
    assert 7 <= layout.file_count <= 8
    assert ids_of(layout, sample).max() < 8


def test_one_column_in_order():
    sample = uniform(20_000, 1)
    layout = fitted(sample, 100, curve="linear")
    files = ids_of(layout, sample)[np.argsort(sample.columns[0])]
    assert (np.diff(files) >= 0).all()
    assert 99 <= layout.file_count <= 100


def test_a_part_of_a_table_is_not_cut_where_it_is_narrow():
    whole = uniform(20_000, 2)
    rows = whole.columns[0] < np.quantile(whole.columns[0], 0.1)
    part = Sample(
        fields=whole.fields,
        columns=tuple(values[rows] for values in whole.columns),
        nulls=tuple(nulls[rows] for nulls in whole.nulls),
        partition=whole.partition[rows],
        weights=whole.weights[rows],
    )
    others = [(values[~rows], np.ones(int((~rows).sum()))) for values in whole.columns]
    extent = np.ptp(part.columns[0])
    for beside, share in (((), 0.7), (others, 1.01)):
        layout = fit(part, np.array([4]), partition_rows=np.array([len(part)]), beside=beside)
        files, _ = layout.place(part.columns, part.nulls, 0, np.zeros(len(part), np.uint64))
        widths = [np.ptp(part.columns[0][files == file]) / extent for file in np.unique(files)]
        assert share - 0.35 < np.mean(widths) < share


def test_nulls_do_not_widen_a_box():
    """One column is null in half of the rows; queries on it read none of the files that hold only nulls."""
    random = np.random.default_rng(0)
    values = [None if i % 2 else int(v) for i, v in enumerate(random.integers(0, 10**6, 10_000))]
    sample = sample_of([values, random.integers(0, 10**6, 10_000).tolist()], ["long", "long"])
    layout = fitted(sample, 16, curve="linear")
    ranks = sample_ranks(sample)
    workload = synthetic_workload(ranks, queries=200)
    of_first = workload.lower[:, 0] >= 0
    only = type(workload)(
        lower=workload.lower[of_first],
        upper=workload.upper[of_first],
        weights=np.full(of_first.sum(), 1 / of_first.sum()),
    )
    assert predict_share(layout, sample, only) < 0.2


def naive_share(sample, files, workload):
    ranks = sample_ranks(sample)
    total = 0.0
    for lower, upper, weight in zip(workload.lower, workload.upper, workload.weights, strict=True):
        for file in set(files.tolist()):
            rows = np.flatnonzero(files == file)
            met = True
            for r, lo, hi in zip(ranks, lower.tolist(), upper.tolist(), strict=True):
                known = r[rows][r[rows] >= 0]
                if lo != -1 and (not len(known) or known.max() < lo or known.min() > hi):
                    met = False
            total += weight * sample.weights[rows].sum() * met
    return total / sample.weights.sum()


@given(samples())
@tiers.examples(25, quick=10)
def test_prediction_is_file_by_file(drawn):
    sample, files = drawn
    if not len(sample):
        return
    layout = fitted(sample, files)
    workload = synthetic_workload(sample_ranks(sample), queries=20, seed=1)
    tie = np.random.default_rng(0).integers(0, 2**63, len(sample), dtype=np.uint64)
    expected = naive_share(sample, ids_of(layout, sample, tie), workload)
    assert predict_share(layout, sample, workload) == pytest.approx(expected)


@pytest.mark.parametrize("names", [("long", "long"), ("string", "double")])
def test_share_of_existing_files_is_file_by_file(names):
    values = [[b"%02d" % i if names[0] == "string" else i for i in range(100)], [i * 7 % 100 for i in range(100)]]
    sample = sample_of([[None, *v] for v in values], names)
    files = np.array([0, *(i // 25 for i in range(100))])
    workload = synthetic_workload(sample_ranks(sample), queries=300)
    groups = [np.flatnonzero(files == f) for f in range(4)]
    groups[0] = groups[0][1:]  # bounds leave nulls out
    ends = [[np.array([end(column[g].tolist()) for g in groups], column.dtype) for column in sample.columns]
            for end in (min, max)]  # fmt: skip
    known = np.ones(4, bool)
    rows = np.bincount(files)
    actual = share_of_boxes(sample, *ends, [known] * 2, rows, workload)
    assert actual == pytest.approx(naive_share(sample, files, workload))
    unknown = share_of_boxes(sample, *ends, [~known] * 2, rows, workload)
    assert unknown == pytest.approx(1.0)
    assert actual < share_of_boxes(sample, *ends, [known, ~known], rows, workload) < 1.0


def test_prediction_matches_what_other_rows_measure():
    """The same distribution drawn twice: the sample's prediction is near the share on rows never seen."""
    sample, fresh = uniform(13_000, seed=1), uniform(200_000, seed=2)
    layout = fitted(sample, 64)
    assert predict_share(layout, sample) == pytest.approx(predict_share(layout, fresh), rel=0.06)


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        (
            1,
            {},
            InputError,
            'curve="zorder" needs at least 2 columns, got only "c0"; for one column use curve="linear"',
        ),
        (1, {"curve": "hilbert"}, InputError, 'use curve="linear"'),
        (33, {}, InputError, "33 columns to cluster by; at most 32"),
        (0, {}, InputError, "no column to cluster by"),
        (2, {"curve": "peano"}, InputError, 'unknown curve "peano"; choose one of "zorder", "hilbert", "linear"'),
        (2, {"build": "guess"}, InputError, 'unknown build "guess"; choose one of "sample", "direct"'),
    ],
)
def test_bad_arguments_are_named(columns, options, error, message):
    sample = uniform(10, columns) if columns else NO_COLUMNS
    with pytest.raises(error, match=message):
        fitted(sample, 2, **options)


def test_a_column_named_twice():
    sample = uniform(10, 2)
    twice = Sample(fields=sample.fields[:1] * 2, columns=sample.columns, nulls=sample.nulls, partition=sample.partition,
                   weights=sample.weights)  # fmt: skip
    with pytest.raises(ColumnError, match='"c0" is named twice'):
        fitted(twice, 2)


def test_a_layout_cannot_be_changed():
    layout = fitted(uniform(500), 4)
    with pytest.raises(AttributeError):
        layout.curve = "linear"
    for array in (*layout.bounds, layout.cut_keys, layout.first_file, layout.spread, *layout.spread_tables()):
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 0


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"zskip_layout":1}', '{"zskip_layout":9}'])
def test_other_json_is_no_layout(text):
    with pytest.raises(InputError, match="layout"):
        Layout.from_json(text)


@pytest.mark.parametrize(("curve", "build"), ALL)
def test_new_rows_lie_between_the_cuts_of_an_old_layout(curve, build):
    old = fitted(uniform(), 64, curve=curve, build=build)
    new = uniform(5_000, seed=7)
    layout = fitted(new, 8, curve=curve, build=build, like=old)
    assert 6 <= layout.file_count <= 8
    assert set(layout.cut_keys.tolist()) <= set(old.cut_keys.tolist())
    assert (layout.pattern, [b.tolist() for b in layout.bounds]) == (old.pattern, [b.tolist() for b in old.bounds])
    # Rows of one segment of the old layout lie in one file.
    ids, segments = ids_of(layout, new), old.segment(old.keys(new.columns, new.nulls), 0)
    for segment in np.unique(segments):
        assert len(np.unique(ids[segments == segment])) == 1


def test_a_segment_with_too_many_new_rows_is_cut():
    old = fitted(uniform(columns=2), 16)
    random = np.random.default_rng(3)
    late = sample_of([random.integers(10**9, 2 * 10**9, 4_000), random.integers(0, 10**9, 4_000)], ["long"] * 2)
    layout = fitted(late, 8, like=old)
    assert 6 <= layout.file_count <= 8
    assert np.bincount(ids_of(layout, late)).max() <= 1.5 * 500


def test_nulls_that_an_old_layout_has_no_rank_for():
    old = fitted(uniform(columns=2), 16)
    values = [None if i % 3 else i for i in range(2_000)]
    new = sample_of([values, list(range(2_000))], ["long"] * 2)
    layout = fitted(new, 4, like=old)
    assert layout.null_ranks == (True, False)
    assert [b.tolist() for b in layout.bounds] == [b.tolist() for b in old.bounds]
    assert np.bincount(ids_of(layout, new), minlength=4).sum() == 2_000
