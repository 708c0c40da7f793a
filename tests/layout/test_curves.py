import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interleaved import interleave

from zskip.layout.builds import direct_words
from zskip.layout.curves.hilbert import hilbert_bytes, hilbert_keys
from zskip.layout.patterns import (
    interleave_bytes,
    interleave_words,
    linear_pattern,
    pattern_widths,
    spread,
    zorder_pattern,
)
from zskip.types import DataType, encode

PATTERNS = st.lists(st.integers(0, 4), min_size=1, max_size=63)


def key_of_strings(codes, pattern):
    """Take the columns' bits from strings of 0 and 1, front to back."""
    widths = [pattern.count(c) for c in range(len(codes))]
    bits = [iter(format(code, f"0{width}b") if width else "") for code, width in zip(codes, widths, strict=True)]
    return int("".join(next(bits[column]) for column in pattern), 2)


@given(PATTERNS, st.randoms(use_true_random=False))
def test_interleave_is_strings_of_bits(pattern, random):
    widths = pattern_widths(pattern, 5)
    rows = [[random.getrandbits(width) if width else 0 for width in widths] for _ in range(5)]
    keys = interleave([np.array(c, np.int64) for c in zip(*rows, strict=True)], pattern)
    assert keys.tolist() == [key_of_strings(row, pattern) for row in rows]


@given(st.lists(st.binary(min_size=8, max_size=8), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_interleaved_words_are_strings_of_bits(row, random):
    pattern = [c for c in range(len(row)) for _ in range(64)]
    random.shuffle(pattern)
    words = [np.array([int.from_bytes(v, "big")], np.uint64) for v in row]
    key = bytes(interleave_words(words, pattern)[0]).ljust(8 * len(row), b"\0")
    assert int.from_bytes(key, "big") == key_of_strings([int(w[0]) for w in words], pattern)


def test_patterns():
    assert zorder_pattern([3, 1, 2]) == (0, 1, 2, 0, 2, 0)
    assert linear_pattern([1, 2]) == (0, 1, 1)
    assert len(zorder_pattern([12] * 32)) == 63
    assert zorder_pattern([]) == zorder_pattern([0, 0]) == ()


def test_long_keys_are_chunked_alike():
    random = np.random.default_rng(0)
    column = random.integers(0, 256, (30_000, 200), dtype=np.uint8)
    keys = interleave_bytes([column, column[:, ::-1]])
    assert (keys[29_990:] == interleave_bytes([column[29_990:], column[29_990:, ::-1]])).all()
    assert keys.shape == (30_000, 400)
    assert interleave_bytes([np.zeros((2, 800), np.uint8)] * 2).shape == (2, 1024)


def hilbert_by_recursion(point, bits):
    """Hamilton's definition: at each level the sub-cube by Gray code, then the entry point and direction inside it."""
    dims = len(point)
    mask = (1 << dims) - 1

    def rotate_right(x, by):
        by %= dims
        return ((x >> by) | (x << (dims - by))) & mask

    def rotate_left(x, by):
        return rotate_right(x, dims - by % dims)

    key = entry = direction = 0
    for level in range(bits - 1, -1, -1):
        label = sum(((x >> level) & 1) << d for d, x in enumerate(point))
        turned = rotate_right(label ^ entry, direction + 1)
        step, shift = turned, 1
        while shift < dims:
            step ^= step >> shift
            shift <<= 1
        key = key << dims | step
        before = 2 * ((step - 1) // 2)
        inner_entry = before ^ before >> 1 if step else 0
        ones = (step - 1 if step % 2 == 0 else step) if step else 0
        inner_direction = (~ones & ones + 1).bit_length() - 1 if step else 0
        entry ^= rotate_left(inner_entry, direction + 1)
        direction = (direction + inner_direction % dims + 1) % dims
    return key


def all_points(widths):
    return [np.array(c) for c in zip(*itertools.product(*(range(1 << w) for w in widths)), strict=True)]


@pytest.mark.parametrize(("dims", "bits"), [(1, 5), (2, 5), (3, 3), (4, 2), (5, 2), (6, 1), (7, 1)])
def test_hilbert_is_a_continuous_bijection(dims, bits):
    points = all_points([bits] * dims)
    keys = hilbert_keys(points, bits)
    assert sorted(keys.tolist()) == list(range(1 << dims * bits))
    walk = np.stack(points)[:, np.argsort(keys)]
    assert walk[:, 0].tolist() == [0] * dims
    assert (np.abs(np.diff(walk, axis=1)).sum(axis=0) == 1).all()


@pytest.mark.parametrize(("dims", "bits"), [(2, 1), (2, 4), (3, 1), (4, 1)])
def test_hilbert_is_the_recursive_curve(dims, bits):
    """The recursion names the axes differently; in one of their orders it is the same curve, at every point."""
    points = np.stack(all_points([bits] * dims)).T
    keys = hilbert_keys(list(points.T), bits).tolist()
    orders = itertools.permutations(range(dims))
    assert any([hilbert_by_recursion(p[list(o)].tolist(), bits) for p in points] == keys for o in orders)


def test_hilbert_fills_each_subcube_before_the_next():
    """Self-similar: the points that share their upper bits are one run of the curve, at every level."""
    points = all_points([3, 3, 3])
    order = np.argsort(hilbert_keys(points, 3))
    for level in (1, 2):
        cubes = np.stack(points)[:, order] >> level
        changes = (np.diff(cubes, axis=1) != 0).any(axis=0).sum()
        assert changes + 1 == 1 << 3 * (3 - level)


def skilling(point, bits):
    """AxestoTranspose as published, on one point of Python integers."""
    x, dims = list(point), len(point)
    q = 1 << (bits - 1)
    while q > 1:
        for i in range(dims):
            if x[i] & q:
                x[0] ^= q - 1
            else:
                t = (x[0] ^ x[i]) & (q - 1)
                x[0] ^= t
                x[i] ^= t
        q >>= 1
    for i in range(1, dims):
        x[i] ^= x[i - 1]
    t, q = 0, 1 << (bits - 1)
    while q > 1:
        t ^= q - 1 if x[-1] & q else 0
        q >>= 1
    return int("".join(str((v ^ t) >> bit & 1) for bit in range(bits - 1, -1, -1) for v in x), 2)


@pytest.mark.parametrize(("dims", "bits"), [(5, 12), (2, 31), (1, 63), (31, 2), (9, 7)])
def test_wide_hilbert_keys_are_the_published_ones(dims, bits):
    random = np.random.default_rng(3)
    points = [random.integers(0, 1 << bits, 300, dtype=np.int64) for _ in range(dims)]
    assert hilbert_keys(points, bits).tolist() == [skilling(p, bits) for p in np.stack(points).T.tolist()]


def test_hilbert_refuses_keys_that_do_not_fit():
    with pytest.raises(ValueError, match="64 bits does not fit into 63"):
        hilbert_keys([np.zeros(1, np.int64)] * 2, 32)


def words(values, name, nulls=None):
    data_type = DataType(name)
    form = {"int": np.int64, "float": np.float64, "bytes": object}[data_type.form.value]
    column = np.empty(len(values), form)
    column[:] = [encode(v, data_type) for v in values]
    return direct_words(column, np.zeros(len(values), bool) if nulls is None else nulls, data_type)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("byte", st.integers(-128, 127)),
        ("short", st.integers(-(2**15), 2**15 - 1)),
        ("integer", st.integers(-(2**31), 2**31 - 1)),
        ("long", st.integers(-(2**63), 2**63 - 1)),
        ("boolean", st.booleans()),
        ("float", st.floats(width=32, allow_nan=False)),
        ("double", st.floats(allow_nan=False)),
        ("decimal(12,2)", st.decimals(min_value=-(10**9), max_value=10**9, places=2)),
        ("date", st.dates()),
        ("timestamp", st.datetimes()),
        ("timestamp_ntz", st.datetimes()),
        ("string", st.text(max_size=12)),
        ("binary", st.binary(max_size=12)),
    ],
)
def test_direct_words_sort_as_the_values(name, values):
    @given(st.lists(values, min_size=2, max_size=20))
    @settings(max_examples=50, deadline=None)
    def check(drawn):
        key = {"string": lambda v: v.encode()[:8].ljust(8, b"\0"), "binary": lambda v: v[:8].ljust(8, b"\0")}.get(name)
        drawn = sorted(drawn, key=key)
        encoded = words(drawn, name).tolist()
        assert encoded == sorted(encoded)
        comparable = [key(v) if key else v for v in drawn]
        for a, b, x, y in zip(comparable, comparable[1:], encoded, encoded[1:], strict=False):
            assert (a == b) == (x == y)

    check()


def test_direct_words_of_nan_and_nulls():
    encoded = words([-0.0, 0.0, float("inf"), float("nan"), -float("nan")], "double").tolist()
    assert encoded[0] == encoded[1] < encoded[2] < encoded[3] == encoded[4] < 2**64 - 1
    assert words([3.0, 0.0], "double", np.array([True, False])).tolist() == [2**64 - 1, 2**63]


@pytest.mark.parametrize("make", [interleave_words, hilbert_bytes])
def test_byte_keys_compare_as_unsigned_bytes(make):
    random = np.random.default_rng(5)
    columns = [
        random.integers(0, 2**64, 200, dtype=np.uint64, endpoint=False) & np.uint64(0xFF000000000000FF) for _ in "ab"
    ]
    keys = make(columns)
    padded = [bytes(k).ljust(16, b"\0") for k in keys]
    assert np.argsort(keys, kind="stable").tolist() == sorted(range(200), key=lambda i: (padded[i], i))


def test_spread_tables_or_to_the_key():
    codes = [np.arange(8), np.arange(8)]
    pattern = (1, 0, 0, 1, 1, 0)
    assert ((spread(codes[0], pattern, 0) | spread(codes[1], pattern, 1)) == interleave(codes, pattern)).all()
