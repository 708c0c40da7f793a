"""Vectors from the test suites of Delta, Hudi and Iceberg; docs/curves.md says where we differ and why."""

import json
from pathlib import Path

import numpy as np
import pytest
from interleaved import interleave

from zskip.layout.builds import direct_words
from zskip.layout.curves.hilbert import hilbert_bytes, hilbert_keys
from zskip.layout.patterns import interleave_bytes, zorder_pattern
from zskip.layout.ranks import determine_bounds
from zskip.types import DataType

DATA = Path(__file__).parents[1] / "data" / "conformance"
DELTA = json.loads((DATA / "delta_curves.json").read_text())
PEERS = json.loads((DATA / "hudi_iceberg_curves.json").read_text())
SPARK_NAMES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}


def as_bytes(text):
    return np.frombuffer(bytes.fromhex(text), np.uint8)[None, :]


def one(value):
    return np.array([value], np.int64)


def words(values, type_name, null=False):
    data_type = DataType(SPARK_NAMES.get(type_name, type_name))
    if type_name in ("string", "binary"):
        column = np.empty(len(values), object)
        column[:] = [v.encode() if isinstance(v, str) else v for v in values]
    else:
        column = np.array(values, np.float64 if type_name in ("float", "double") else np.int64)
    return direct_words(column, np.full(len(values), null), data_type).tolist()


@pytest.mark.parametrize("case", DELTA["interleave_bits"]["cases"], ids=lambda c: c["name"])
def test_interleave_bits_of_delta(case):
    columns = [as_bytes(text or "00000000") for text in case["inputsHex"]]
    keys = interleave_bytes(columns)
    assert keys.tobytes().hex() == case["expectedHex"]


@pytest.mark.parametrize("case", PEERS["iceberg_interleave"] + PEERS["zorder_random"])
def test_interleave_bits_of_iceberg(case):
    columns = [as_bytes(text) for text in case["columns_hex"]]
    size = case.get("output_size", sum(c.shape[1] for c in columns))
    assert interleave_bytes(columns, size).tobytes().hex() == case["expected_hex"]


def test_zorder_grid():
    grid = np.array(PEERS["zorder_8x8_grid_rows_y_cols_x_(x lowest bit)"])
    y, x = (a.ravel() for a in np.indices((8, 8)))
    assert interleave([y, x], zorder_pattern([3, 3])).tolist() == grid.ravel().tolist()


def hilbert(point, bits):
    return int(hilbert_keys([one(x) for x in point], bits)[0])


@pytest.mark.parametrize("case", PEERS["hilbert_named"])
def test_hilbert_of_hudi_by_name(case):
    assert hilbert(case["point"], case["bits"]) == case["index"]


@pytest.mark.parametrize("case", [c for c in PEERS["hilbert_random"] if c["bits"] * c["dims"] <= 63])
def test_hilbert_of_hudi(case):
    assert hilbert(case["point"], case["bits"]) == int(case["index"])


@pytest.mark.parametrize("case", [c for c in PEERS["hilbert_random"] if c["bits"] * c["dims"] > 63])
def test_long_hilbert_of_hudi(case):
    """Keys of more than 63 bits are made of whole 64-bit words: the bits go first, the last are spare."""
    spare = 64 - case["bits"]
    key = bytes(hilbert_bytes([np.array([x << spare], np.uint64) for x in case["point"]])[0])
    number = int.from_bytes(key.ljust(8 * case["dims"], b"\0"), "big")
    assert number >> spare * case["dims"] == int(case["index"])


@pytest.mark.parametrize("bits", [int(b) for b in PEERS["hilbert_2d_grids"]])
def test_hilbert_grid_of_davidmoten(bits):
    grid = np.array(PEERS["hilbert_2d_grids"][str(bits)])
    x, y = (a.ravel() for a in np.indices(grid.shape))
    assert hilbert_keys([x, y], bits).tolist() == grid.ravel().tolist()


@pytest.mark.parametrize("case", DELTA["hilbert_index"]["vectorsFromComments"])
def test_hilbert_of_delta_by_name(case):
    assert hilbert(case["point"], case["numBits"]) == case["expected"]


@pytest.mark.parametrize("case", DELTA["hilbert_index"]["curveTables"])
def test_hilbert_tables_of_delta(case):
    """In two dimensions, or one level, Delta's curve is ours; elsewhere it is another of the Hilbert curves."""
    positions = [hilbert(point, case["numBits"]) for point in case["pointsInCurveOrder"]]
    if case["dims"] == 2 or case["numBits"] == 1:
        assert positions == list(range(len(positions)))
    else:
        assert sorted(positions) == list(range(len(positions)))


@pytest.mark.parametrize("case", [c for c in DELTA["hilbert_index"]["randomVectors"] if c["dims"] == 2])
def test_hilbert_of_delta(case):
    assert hilbert(case["point"], case["numBits"]) == case["expectedLong"]


@pytest.mark.parametrize("nk", DELTA["hilbert_index"]["properties"][2]["nk"])
def test_hilbert_long_and_bytes_agree(nk):
    dims, bits = nk
    if dims * bits > 63:
        bits = 63 // dims
    points = np.random.default_rng(dims).integers(0, 1 << bits, (dims, 1000))
    keys = hilbert_keys(list(points), bits)
    shifted = hilbert_bytes([p.astype(np.uint64) << np.uint64(64 - bits) for p in points])
    assert np.argsort(keys, kind="stable").tolist() == np.argsort(shifted, kind="stable").tolist()


def range_ids(values, parts):
    """Delta's `range_partition_id`: a value equal to a bound belongs below it, null counts as 0."""
    ids = np.zeros(len(values), np.int64)
    known = np.array([v is not None for v in values], bool)
    distinct = sorted({v if not isinstance(v, list) else tuple(v) for v in values if v is not None})
    if distinct:
        ordinals = np.array(
            [distinct.index(v if not isinstance(v, list) else tuple(v)) for v in values if v is not None]
        )
        bounds = determine_bounds(ordinals, np.ones(len(ordinals)), parts)
        ids[known] = np.searchsorted(bounds, ordinals, side="left")
    return ids


@pytest.mark.parametrize("case", DELTA["range_partition_id"]["cases"], ids=lambda c: c["name"])
def test_range_partition_id_of_delta(case):
    assert range_ids(case["values"], case["numPartitions"]).tolist() == case["expected"]


def test_interleaved_range_ids_of_delta():
    combined = DELTA["range_partition_id"]["combined"][1]
    ids = [range_ids(list(column), combined["numPartitions"]) for column in zip(*combined["rows"], strict=True)]
    keys = interleave_bytes([i.astype(">i4").view(np.uint8).reshape(-1, 4) for i in ids])
    assert [k.tobytes().hex() for k in keys] == combined["expectedHex"]
    tens = range_ids(list(range(100)), 10)
    assert tens.tolist() == [i // 10 for i in range(100)]


@pytest.mark.parametrize(
    "case", [c for c in DELTA["cluster_placement"]["cases"] if "expectedOrder" in c], ids=lambda c: c["name"]
)
def test_order_within_files_of_delta(case):
    rows = DELTA["cluster_placement"]["inputRows"]
    ids = [range_ids(list(column), case["numRanges"]) for column in zip(*rows, strict=True)]
    keys = interleave(ids, zorder_pattern([10, 10])) if case["curve"] == "zorder" else hilbert_keys(ids, 10)
    assert [rows[i] for i in np.argsort(keys, kind="stable")] == case["expectedOrder"]


@pytest.mark.parametrize(
    "case", [c for c in DELTA["cluster_placement"]["cases"] if "expectedPartitions" in c], ids=lambda c: c["name"]
)
def test_rows_close_together_in_delta_are_close_here(case):
    """Delta cuts by range partitioning; the rows of one of its partitions are a run of our order, too."""
    rows = DELTA["cluster_placement"]["inputRows"]
    ids = [range_ids(list(column), case["numRanges"]) for column in zip(*rows, strict=True)]
    keys = interleave(ids, zorder_pattern([3, 3])) if case["curve"] == "zorder" else hilbert_keys(ids, 3)
    order = [rows[i] for i in np.argsort(keys, kind="stable")]
    start = 0
    for part in case["expectedPartitions"]:
        assert sorted(map(tuple, order[start : start + len(part)])) == sorted(map(tuple, part))
        start += len(part)


def test_optimize_zorder_of_delta():
    case = DELTA["optimize_zorder"]["cases"][0]
    i = np.arange(100)
    columns = [i, 99 - i, (i + 50) % 100]
    keys = interleave([range_ids(c.tolist(), 1000) for c in columns], zorder_pattern([10] * 3))
    files = np.argsort(keys, kind="stable").reshape(4, 25)
    found = [[[int(c[rows].min()) for c in columns], [int(c[rows].max()) for c in columns]] for rows in files]
    assert sorted(found) == sorted([stats["min"], stats["max"]] for stats in case["statsAfter2"])


@pytest.mark.parametrize("case", [c for c in PEERS["encodings"] if c["impl"] == "iceberg"])
def test_encodings_of_iceberg(case):
    value = bytes.fromhex(case["value_hex"]) if case.get("value_hex") is not None else case.get("value")
    numeric = case["type"] not in ("string", "binary")
    if value is None:
        expected = 2**64 - 1 if numeric else 0  # nulls last among numbers, as in Hudi; first in Iceberg
        assert words([b"" if not numeric else 0], case["type"], null=True) == [expected]
        return
    expected = int(case["bytes_hex"], 16)
    if case["type"] == "boolean":
        expected = int(value) << 63  # Iceberg's true is 0x81
    elif value == 0 and case["type"] == "double":
        expected = 1 << 63  # Iceberg's -0.0 is below 0.0
    elif value in ("aaaaaaaé", "日本語"):  # Iceberg never cuts a character in two
        expected = int.from_bytes(value.encode()[:8], "big")
    if value in ("nan", "inf", "-inf") and numeric:
        value = float(value)
    assert words([value], case["type"]) == [expected]


@pytest.mark.parametrize("case", [c for c in PEERS["encodings"] if c["impl"] == "hudi-direct-zorder"])
def test_encodings_of_hudi(case):
    """The same bytes where Hudi has no defect; integers narrower than 64 bits are as wide as the others here."""
    found = words([case["value"]], case["type"])[0]
    theirs = int(case["bytes_hex"], 16)
    if case["type"] == "int":
        assert found == theirs - 2**31 + 2**63
    elif case["type"] in ("double", "string") and not case["bug"] and "value" in case:
        assert found == theirs


@pytest.mark.parametrize("case", PEERS["ordering"])
def test_orderings_of_peers(case):
    for values in [case.get("values"), case.get("ascending"), *case.get("pairs", [])]:
        if values:
            order = np.argsort(np.array(words(values, case["type"]), np.uint64), kind="stable")
            assert [values[i] for i in order] == sorted(values)


def test_bytes_to_long_of_hudi():
    for case in PEERS["bytes_to_long"]:
        raw = bytes.fromhex(case["bytes_hex"])
        if len(raw) == 8:
            assert words([raw], "binary")[0] == case["long"] % 2**64


def test_null_ranks_last_as_in_hudi():
    assert PEERS["null_mapping"]["hudi-sample"] == "rank = number of bounds + 1 (last)"
    for name in ("bigint", "int", "double", "float", "date", "timestamp", "tinyint", "smallint", "boolean"):
        assert words([0], name, null=True) == [2**64 - 1]
    assert words([b"x"], "string", null=True) == words([b""], "string")
