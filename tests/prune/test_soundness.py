"""Random tables, statistics and predicates against an oracle that looks at every row."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import tiers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import truth

from zskip.predicate import (
    And,
    Column,
    Columns,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNull,
    Like,
    Not,
    Or,
    StartsWith,
    Unknown,
    parse,
    to_sql,
)
from zskip.predicate.patterns import next_prefix
from zskip.prune import outcomes, prune
from zskip.records import ALL_NULL, ColumnStats, Field
from zskip.types import DataType, Form, encode_decimal

NAN = math.nan
DECIMALS = {f"decimal({p},{s})": (p, s) for p, s in ((9, 2), (18, 0), (20, 5), (38, 10))}


def whole(bits):
    return st.integers(-4, 4) | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.just(-(2 ** (bits - 1)))


def decimals(name):
    most = 10 ** DECIMALS[name][0] - 1
    numbers = st.integers(-4, 4) | st.integers(-most, most) | st.sampled_from([-most, most])
    return numbers.map(lambda n: encode_decimal(n, DataType(name)))


TEXTS = st.text(alphabet="ab\x00'\\é€😀\U0010ffff", max_size=4) | st.sampled_from(["", "a", "ab", "aba", "b"])
VALUES = {
    "byte": whole(8),
    "short": whole(16),
    "integer": whole(32),
    "long": whole(64),
    "boolean": st.integers(0, 1),
    "float": st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, NAN]) | st.floats(width=32),
    "double": st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, NAN]) | st.floats(),
    "string": TEXTS.map(lambda text: text.encode()),
    "binary": st.sampled_from([b"", b"a", b"ab", b"\xff", b"\xff\xff"]) | st.binary(max_size=3),
    "date": st.integers(-3, 3) | st.integers(-300_000, 2_000_000),
    "timestamp": st.integers(-3, 3) | st.integers(-(10**16), 10**17),
    "timestamp_ntz": st.integers(-3, 3) | st.integers(-(10**16), 10**17),
    **{name: decimals(name) for name in DECIMALS},
}
COLUMNS = {name: Column((f"c {name}",), DataType(name)) for name in VALUES}
OTHERS = {name: Column((f"d {name}",), DataType(name)) for name in VALUES}
KNOWN = Columns([Field(name=c.path[0], type=c.type) for c in (*COLUMNS.values(), *OTHERS.values())])


PARTS = {"starts": StartsWith, "ends": EndsWith, "contains": Contains}
PATTERNS = ["a%", "%a", "a_", "_%b", "%a%b%", "\\%", "a\\_%", "\\\\%"]


@st.composite
def predicates(draw, names, depth=3, unknown=True):
    kinds = ["leaf"] * 4 + (["and", "or", "not"] * 2 if depth else []) + ["constant"] + ["unknown"] * unknown
    kind = draw(st.sampled_from(kinds))
    if kind in ("and", "or"):
        children = draw(st.lists(predicates(names, depth - 1, unknown), min_size=1 + (not unknown), max_size=3))
        return (And if kind == "and" else Or)(tuple(children))
    if kind == "not":
        return Not(draw(predicates(names, depth - 1, unknown)))
    if kind == "constant":
        return Constant(draw(st.sampled_from([True, False, None])))
    if kind == "unknown":
        return Unknown("f(x)")
    name = draw(st.sampled_from(names))
    column, values = COLUMNS[name], VALUES[name]
    if draw(st.integers(0, 3)) == 0:
        column = OTHERS[name]
    texts = ["starts", "ends", "contains", "like"] * 2 * (name == "string")
    kind = draw(st.sampled_from(["compare"] * 4 + ["in", "in", "null", "terms"] + texts))
    if kind == "compare":
        return Compare(draw(st.sampled_from(["=", "<", "<=", ">", ">="])), column, draw(values))
    if kind == "null":
        return IsNull(column)
    if kind == "terms":
        other = draw(st.sampled_from([COLUMNS[name], OTHERS[name]]))
        return CompareTerms(draw(st.sampled_from(["=", "<", "<=", ">", ">="])), column, other)
    if kind in PARTS:
        return PARTS[kind](column, draw(values))
    if kind == "like":
        return Like(column, draw(st.text(alphabet="ab%_é'", max_size=4) | st.sampled_from(PATTERNS)))
    listed = {v for v in draw(st.lists(values, max_size=4)) if v == v}
    return In(column, tuple(sorted(listed)))


@dataclass
class Table:
    """Files of rows, and what is known of them."""

    names: list
    files: list
    rows: np.ndarray
    stats: dict

    def column(self, path):
        return self.stats.get(path)


@st.composite
def tables(draw, names=None, exact=False, values=VALUES):
    names = names or draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2, unique=True))
    files = []
    for _ in range(draw(st.integers(1, 4))):
        pools = {}
        for name in names:
            pool = draw(st.lists(values[name], min_size=1, max_size=3))
            for column in (COLUMNS[name], OTHERS[name]):
                pools[column.path] = st.sampled_from(draw(st.sampled_from([pool, [*pool, None], [None]])))
        files.append(draw(st.lists(st.fixed_dictionaries(pools), max_size=5)))
    known = [exact or draw(st.booleans()) for _ in files]
    rows = np.array([len(f) if k else -1 for f, k in zip(files, known, strict=True)], np.int64)
    paths = [(name, columns[name].path) for name in names for columns in (COLUMNS, OTHERS)]
    stats = {path: draw(statistics(n, [[row[path] for row in f] for f in files], exact)) for n, path in paths}
    if not exact and draw(st.integers(0, 9)) == 0:
        stats.popitem()
    return Table(names, files, rows, stats)


@st.composite
def statistics(draw, name, files, exact):
    data_type = DataType(name)
    blank = {Form.INT: 0, Form.FLOAT: 0.0, Form.BYTES: b""}[data_type.form]
    dtype = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: object}[data_type.form]
    lower, upper, bounded, nulls, may_nan = [], [], [], [], []
    for values in files:
        present = [v for v in values if v is not None and v == v]
        has_nan = any(v is not None and v != v for v in values)
        bounded.append(bool(present) and (exact or draw(st.integers(0, 4)) > 0))
        low, high = (min(present), max(present)) if bounded[-1] else (blank, blank)
        if bounded[-1] and not exact:
            low = draw(st.just(low) | VALUES[name].filter(lambda v, low=low: v == v and v <= low))
            longer = next_prefix(high[:1]) if isinstance(high, bytes) and name == "binary" else None
            high = draw(st.just(high) | st.just(high if longer is None else longer))
            if isinstance(low, bytes) and name in ("string", "binary"):
                low = draw(st.just(low) | st.just(low[: len(low) // 2]))
            if isinstance(low, float):
                high = draw(st.sampled_from([high, math.inf]))
        lower.append(low)
        upper.append(high)
        count = sum(v is None for v in values)
        options = [count] if exact else [count, -1] + [ALL_NULL] * (count == len(values))
        nulls.append(draw(st.sampled_from(options)))
        may_nan.append(has_nan or (data_type.form is Form.FLOAT and not exact and draw(st.booleans())))
    return ColumnStats(
        type=data_type,
        lower=array(lower, dtype),
        upper=array(upper, dtype),
        bounded=np.array(bounded, np.bool_),
        nulls=np.array(nulls, np.int64),
        may_nan=np.array(may_nan, np.bool_),
    )


def array(values, dtype):
    objects = np.empty(len(values), dtype)
    objects[:] = values
    return objects


def has_unknown(predicate):
    if isinstance(predicate, And | Or):
        return any(map(has_unknown, predicate.children))
    return has_unknown(predicate.child) if isinstance(predicate, Not) else isinstance(predicate, Unknown)


def resolve_unknowns(predicate, draw):
    """The predicate with some truth value for each unknown part."""
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(resolve_unknowns(child, draw) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(resolve_unknowns(predicate.child, draw))
    return Constant(draw(st.sampled_from([True, False, None]))) if isinstance(predicate, Unknown) else predicate


QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=tiers.count(150, quick=50))


@pytest.mark.scaled
@QUICK
@given(st.data(), tables())
def test_no_file_with_a_match_is_skipped(data, table):
    predicate = data.draw(predicates(table.names))
    truths, result = outcomes(predicate, table), prune(predicate, table)
    assert result.kept.tolist() == truths.may_true.tolist()
    for i, file in enumerate(table.files):
        for row in file:
            value = truth(resolve_unknowns(predicate, data.draw), row)
            mask = {True: truths.may_true, False: truths.may_false, None: truths.may_null}[value]
            assert mask[i], (predicate, row, value)
            assert value is True or not result.full[i]
        assert table.rows[i] != 0 or not result.kept[i]


@pytest.mark.scaled
@QUICK
@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_leaves_are_exact_where_a_file_holds_one_value(data, name):
    value = data.draw(VALUES[name])
    table = data.draw(tables([name], exact=True, values={name: st.just(value)}))
    leaf = data.draw(predicates([name], depth=0, unknown=False))
    truths = outcomes(leaf, table)
    for i, file in enumerate(table.files):
        values = {truth(leaf, row) for row in file}
        masks = (truths.may_true[i], truths.may_false[i], truths.may_null[i])
        if value == value and not any(None in row.values() for row in file):
            assert masks == (True in values, False in values, None in values), (leaf, file)
            assert bool(prune(leaf, table).kept[i]) == (True in values)


@pytest.mark.scaled
@QUICK
@given(st.data(), tables())
def test_text_says_the_same(data, table):
    predicate = data.draw(predicates(table.names, unknown=False))
    again = parse(to_sql(predicate), KNOWN)
    assert not has_unknown(again), to_sql(predicate)
    for file in table.files:
        for row in file:
            assert truth(again, row) is truth(predicate, row), to_sql(predicate)
    before, after = outcomes(predicate, table), outcomes(again, table)
    # More may be known of what is read: LIKE '%' is read as a prefix.
    assert (after.may_true <= before.may_true).all()
    assert (after.full >= before.full).all()


def test_no_files():
    empty = np.array([], np.int64)
    source = SimpleNamespace(rows=empty, column=lambda path: None)
    assert prune(Not(Compare("=", COLUMNS["long"], 1)), source).files == 0


def test_reports_name_what_kept_the_files():
    source = SimpleNamespace(rows=np.array([1, 1]), column=lambda path: None)
    result = prune(And((Compare("=", COLUMNS["long"], 1), Unknown("f(x)", "a function"))), source)
    assert [(leaf.sql, leaf.skipped, leaf.reason) for leaf in result.leaves] == [
        ("`c long` = 1L", 0, "no statistics of c long"),
        ("f(x)", 0, "a function"),
    ]


def test_bytes_keep_their_trailing_zeros():
    """NumPy compares an array of objects with a bare `bytes` as if the value ended before its zeros."""
    for name, value in (("decimal(20,5)", encode_decimal(0, DataType("decimal(20,5)"))), ("binary", b"a\x00")):
        ends = array([value], object)
        no = np.array([False])
        stats = ColumnStats(type=DataType(name), lower=ends, upper=ends, bounded=~no, nulls=np.array([0]), may_nan=no)
        source = SimpleNamespace(rows=np.array([3]), column=lambda path, stats=stats: stats)
        for op in ("=", "<=", ">="):
            result = prune(Compare(op, COLUMNS[name], value), source)
            assert result.kept.all()
            assert result.full.all()
        assert not prune(Compare(">", COLUMNS[name], value), source).kept.any()
        assert not prune(Compare("<", COLUMNS[name], value), source).kept.any()
