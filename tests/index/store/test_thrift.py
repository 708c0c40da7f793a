"""Footers cut down to some row groups describe just those."""

from __future__ import annotations

import dataclasses
import io
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zskip.index import Index, refresh
from zskip.index.store.leaves import Column
from zskip.index.store.listing import FILES_SCHEMA
from zskip.index.store.segment import BLOCK_ROWS, ENTRIES_SCHEMA, SegmentReader, new_name, write_segment
from zskip.index.store.thrift import row_group_offsets, select_row_groups

FIELDS = {"a": "long", "t": "string"}


def footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") :]


@pytest.mark.parametrize("count", [1, 2, 14, 15, 16, 130, 200])
@pytest.mark.parametrize("statistics", [True, False])
def test_a_part_of_a_footer_describes_its_row_groups(count, statistics):
    rng = np.random.default_rng(count)
    columns = {
        "n": rng.integers(-(2**62), 2**62, 3 * count),
        "x": rng.random(3 * count) > 0.5,
        "t": [f"{v:x}" * 20 for v in range(3 * count)],
    }
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, row_group_size=3, write_statistics=statistics, compression="zstd")
    footer = footer_of(stream.getvalue())
    whole, places = pq.read_metadata(stream), row_group_offsets(footer)
    assert len(places) == count + 1
    for first, last in {(0, 0), (count - 1, count - 1), (0, count - 1), (count // 3, count // 2)}:
        part = pq.read_metadata(pa.BufferReader(select_row_groups(footer, places, first, last)))
        assert part.schema == whole.schema
        assert part.num_row_groups == last - first + 1
        for i in range(part.num_row_groups):
            assert part.row_group(i).equals(whole.row_group(first + i))


def test_what_is_no_footer_is_refused():
    stream = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2]}), stream)
    footer = footer_of(stream.getvalue())
    for data in (b"", b"\x00", footer[:20], b"\xff" * 40, footer.replace(b"\x19", b"\x1d", 1)):
        with pytest.raises((ValueError, IndexError)):
            row_group_offsets(data)


def test_entries_are_the_same_with_and_without_offsets(storage, snap, tmp_path):
    paths = [f"{i}.parquet" for i in range(3)]
    for i, path in enumerate(paths):
        pq.write_table(pa.table({"a": [i, i + 10], "t": ["x", f"y{i}"]}), tmp_path / path)
    [segment] = refresh(storage, snap(storage, FIELDS)).manifest.segments
    assert len(segment.group_offsets) == len(segment.blocks) + 1
    assert Index.load(storage).manifest.segments == (segment,)
    bare = dataclasses.replace(segment, group_offsets=())
    for column in range(2):
        one, other = (SegmentReader(storage, s).table(column) for s in (segment, bare))
        assert one.equals(other)
        assert one.num_rows == 3


def test_runs_of_rows_over_many_blocks(storage):
    files, columns = 20_000, 22
    listing = pa.table(
        [[f"{i}" for i in range(files)], *([[1] * files] * 4), [0] * files, [1] * files], schema=FILES_SCHEMA
    )
    column_list = [Column((f"c{i}",), "long") for i in range(columns)]

    def entries():
        for number in range(columns):
            values = np.arange(files) * columns + number
            arrays = {"column": np.full(files, number), "file": np.arange(files), "int_min": values, "int_max": values}
            yield pa.table(
                [
                    pa.array(arrays[f.name], f.type) if f.name in arrays else pa.nulls(files, f.type)
                    for f in ENTRIES_SCHEMA
                ],
                schema=ENTRIES_SCHEMA,
            )

    segment = write_segment(storage, new_name(), listing, column_list, [tuple(range(columns))], (), entries())
    assert len(segment.blocks) > 16
    for offsets in (segment.group_offsets, ()):
        reader = SegmentReader(storage, dataclasses.replace(segment, group_offsets=offsets))
        for start, end in itertools.pairwise([0, 1, BLOCK_ROWS, 100_000, 400_000, files * columns]):
            table = reader.rows(start, end, ("file", "int_min"))
            row = np.arange(start, end)
            assert table["int_min"].to_numpy().tolist() == (row % files * columns + row // files).tolist()
