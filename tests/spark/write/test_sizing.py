"""The size of clustered rows is estimated from a few of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from zskip.layout.fit import fit
from zskip.records import Field, Sample
from zskip.spark.write.arrow.access import DiskAccess
from zskip.spark.write.arrow.columns import column_values
from zskip.spark.write.arrow.writing import FileOptions, encoded_bytes
from zskip.spark.write.sizing import estimate_sizes
from zskip.types import DataType

ROWS, FILES, SEEN = 80_000, 8, 24_000
FIELDS = tuple(Field(name=name, type=DataType("long"), nullable=True) for name in "ab")


def make_rows(kind: str) -> pa.Table:
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 20_000, ROWS), rng.integers(0, 1_000, ROWS)
    if kind == "correlated":
        return pa.table({"a": a, "b": b, "t": np.char.add("name of a user ", (a // 7).astype(str)), "c": a * 3})
    if kind == "random":
        return pa.table({"a": rng.integers(0, 2**40, ROWS), "b": rng.integers(0, 2**40, ROWS), "x": rng.random(ROWS)})
    long = np.array([rng.bytes(60).hex() for _ in range(ROWS)])
    return pa.table({"a": a, "b": b, "t": np.where(a < 5_000, long, "short")})


@pytest.mark.parametrize("kind", ["correlated", "random", "skewed"])
@pytest.mark.parametrize("codec", ["snappy", "zstd"])
def test_files_come_out_as_estimated(tmp_path: Path, kind: str, codec: str) -> None:
    table, rng = make_rows(kind), np.random.default_rng(8)
    root = str(tmp_path)
    options = FileOptions(
        reach=lambda: DiskAccess(root),
        directory="out",
        schema=table.schema,
        codec=codec,
        level=None,
        page_rows=20_000,
        row_bytes=10.0,
        metadata={},
    )
    forms = [column_values(table[name].combine_chunks(), DataType("long")) for name in "ab"]
    drawn = rng.choice(ROWS, 20_000, replace=False)
    sample = Sample(
        fields=FIELDS,
        columns=tuple(values[drawn] for values, _ in forms),
        nulls=tuple(nulls[drawn] for _, nulls in forms),
        partition=np.zeros(len(drawn), np.int32),
        weights=np.full(len(drawn), ROWS / len(drawn)),
    )
    step = ROWS // FILES
    before = sum(encoded_bytes(table.slice(start, step), options) for start in range(0, ROWS, step))
    sizes = estimate_sizes(table.slice(0, SEEN), table.schema, options, sample, ROWS, before)
    weighed = Sample(
        fields=FIELDS,
        columns=sample.columns,
        nulls=sample.nulls,
        partition=sample.partition,
        weights=sizes.weights * (ROWS / sizes.weights.sum()),
    )
    layout = fit(weighed, np.array([FILES]), partition_rows=np.array([ROWS]), smallest=0.7)
    values, nulls = zip(*forms, strict=True)
    files, keys = layout.place(values, nulls, 0, np.arange(ROWS).astype(np.uint64))
    rows = [np.flatnonzero(files == file) for file in range(layout.file_count)]
    new_files = [table.take(pa.array(r[np.argsort(keys[r], kind="stable")])) for r in rows]
    actual = np.array([encoded_bytes(file, options) for file in new_files])
    assert 0.75 < sizes.row_bytes * ROWS / actual.sum() < 1.34
    assert (actual < 0.6 * actual.mean()).sum() <= 1
    beginnings = pa.concat_tables([file.slice(0, SEEN // FILES) for file in new_files])
    again = estimate_sizes(beginnings, table.schema, options, sample, ROWS, int(actual.sum()))
    assert 0.7 < again.row_bytes * ROWS / actual.sum() < 1.1
