"""Segments hold, column by column in the order of their files, what each footer says."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_leaves import leaves_of

from zskip.index import refresh
from zskip.index.collect import builder
from zskip.index.collect.footers import FooterReader
from zskip.index.store.segment import SegmentReader

TYPES = {"a": pa.int64(), "b": pa.string(), "c": pa.float64(), "d": pa.int32(), "e": pa.list_(pa.int64())}


def write_some(tmp_path, rng: random.Random, files: int) -> None:
    """Files of some of the columns in any order, with nulls, with and without statistics, in one or more row groups."""
    for i in range(files):
        names = rng.sample(sorted(TYPES), rng.randint(1, 5))
        rows = rng.randint(1, 6)
        values = {"a": 5 * i, "b": f"v{i}" * rng.choice([1, 40]), "c": i / 7, "d": i, "e": [i]}
        table = pa.table(
            {n: pa.array([rng.choice([None, values[n]]) for _ in range(rows)], TYPES[n]) for n in names},
        )
        statistics = rng.choice([True, True, False, [rng.choice(names)]])
        pq.write_table(
            table, tmp_path / f"{i:03d}.parquet", write_statistics=statistics, row_group_size=rng.choice([2, 9])
        )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("buffered", [1, 7, 10**6])
def test_entries_are_those_of_the_footers(storage, snap, tmp_path, monkeypatch, seed, buffered):
    monkeypatch.setattr(builder, "_BUFFERED_ENTRIES", buffered)
    write_some(tmp_path, random.Random(seed), 40)
    [segment] = refresh(storage, snap(storage, {"a": "long"})).manifest.segments
    reader = SegmentReader(storage, segment)
    listed = reader.listing().paths.to_pylist()
    expected = []
    for place, name in enumerate(listed):
        content = (tmp_path / name).read_bytes()
        footer = FooterReader().read(pa.BufferReader(content), len(content))
        for leaf in leaves_of(footer):
            expected.append((footer.columns[leaf.column], place, leaf.nulls, leaf.lower, leaf.upper, leaf.nans))
    actual = []
    for number, column in enumerate(segment.columns):
        if segment.starts[number] == segment.starts[number + 1]:
            continue
        entries = reader.entries(number)
        assert (np.diff(entries.files) > 0).all()
        bounds = [
            (low, high) if bounded else (None, None)
            for low, high, bounded in zip(entries.lower, entries.upper, entries.bounded, strict=True)
        ]
        rows = zip(entries.files.tolist(), entries.nulls.tolist(), bounds, entries.nans.tolist(), strict=True)
        actual += [(column, file, nulls, *pair, nans) for file, nulls, pair, nans in rows]
    assert len(expected) > 20
    assert sorted(actual, key=repr) == sorted(expected, key=repr)
