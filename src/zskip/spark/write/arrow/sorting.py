"""Rows of one file in the order of their keys, which travel in a last column of batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zskip.layout.cells import Keys
from zskip.records import Ints
from zskip.spark.write.arrow.access import scratch_file
from zskip.spark.write.arrow.columns import join, plain

Sort = Callable[[Keys], Ints]
"""Sorts keys; returns positions."""
KEY = "__zskip_key"
"""The name of the column of keys."""
_PIECE_BYTES = 32 << 20
"""Bytes of rows to merge at once."""


def key_array(keys: Keys) -> pa.Array:
    """Make the column of some keys."""
    if keys.dtype == np.int64:
        return pa.array(keys)
    width = keys.dtype.itemsize
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(keys), [None, pa.py_buffer(keys.tobytes())])


def _keys(column: pa.Array) -> Keys:
    if pa.types.is_int64(column.type):
        return cast(Keys, column.to_numpy())
    width = column.type.byte_width
    return np.frombuffer(column.buffers()[1], f"S{width}", len(column), column.offset * width)


def join_sorted(batches: list[pa.RecordBatch], schema: pa.Schema, sort: Sort) -> pa.Table:
    """Join the batches of one file, with their rows sorted if they have keys; empties `batches`."""
    files = np.zeros(sum(batch.num_rows for batch in batches), np.int64)
    return pa.Table.from_batches([join_by_file(batches, files, 1, schema, sort)])


def join_by_file(
    batches: list[pa.RecordBatch], files: Ints, count: int, schema: pa.Schema, sort: Sort | None
) -> pa.RecordBatch:
    """Join batches to one whose rows lie by file; empties `batches`.

    files: of each row of the batches, below `count`; sort: sorts the rows of each file by their keys, if they have any,
    which are left out then; None keeps keys and order.
    """
    arrays = [batch.columns for batch in batches]
    batches.clear()
    order = order_by_file(files, count)
    has_keys, is_sorted = len(arrays[0]) > len(schema), count == 1
    if has_keys and sort is not None:
        keys = np.concatenate([_keys(columns.pop()) for columns in arrays])[order]
        ends = np.cumsum(np.bincount(files, minlength=count))[:-1]
        pairs = zip(np.split(order, ends), np.split(keys, ends), strict=True)
        order = np.concatenate([rows[sort(keys)] for rows, keys in pairs if len(rows)])
        has_keys = is_sorted = False
    names, rows = [*schema.names, KEY] if has_keys else schema.names, None if is_sorted else pa.array(order)
    joined = []
    for _ in names:
        column = join([columns.pop(0) for columns in arrays])
        joined.append(column if rows is None else column.take(rows))
    return pa.RecordBatch.from_arrays(joined, names)


def order_by_file(files: npt.NDArray[np.integer[Any]], count: int) -> Ints:
    """Sort rows by their files, which are below `count`; NumPy sorts short integers by radix. Returns positions."""
    return np.argsort(files.astype(np.uint16) if count <= 1 << 16 else files, kind="stable")


def stable_order(keys: Keys) -> Ints:
    """Sort keys; equal ones keep their order. Returns positions.

    >>> stable_order(np.array([7, 5, 7, 5])).tolist()
    [1, 3, 0, 2]
    """
    bits = len(keys).bit_length()
    if keys.dtype == np.int64 and len(keys) and (int(keys.max()) - int(keys.min())).bit_length() + bits < 64:
        # Numbers sort much faster than positions.
        packed = (keys - keys.min()) << bits | np.arange(len(keys))
        packed.sort()
        return cast(Ints, packed & ((1 << bits) - 1))
    return np.argsort(keys, kind="stable")


def decode(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace dictionaries by their values, so that all batches of a file have the same types."""
    return pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], batch.schema.names)


def sorted_pieces(batches: Sequence[pa.RecordBatch], schema: pa.Schema, sort: Sort) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of their keys, some bytes at a time; without keys they stay as they are."""
    if len(batches[0].schema) == len(schema):
        yield from batches
        return
    order = sort(np.concatenate([_keys(batch.column(len(schema))) for batch in batches]))
    batches = [batch.select(list(range(len(schema)))) for batch in batches]
    ends = np.cumsum([batch.num_rows for batch in batches])
    step = max(1, int(_PIECE_BYTES / max(sum(batch.nbytes for batch in batches) / len(order), 1.0)))
    for start in range(0, len(order), step):
        yield _piece(batches, ends, order[start : start + step])


def _piece(batches: Sequence[pa.RecordBatch], ends: Ints, rows: Ints) -> pa.RecordBatch:
    """Take some rows of all batches, in their order.

    ends: of the batches, counted in rows; rows: positions in all batches.
    """
    ascending = np.argsort(rows)
    positions = rows[ascending]
    edges = np.searchsorted(positions, ends).tolist()
    parts = [
        batch.take(pa.array(positions[low:high] - (end - batch.num_rows)))
        for batch, end, low, high in zip(batches, ends.tolist(), [0, *edges[:-1]], edges, strict=True)
    ]
    places = np.empty(len(rows), np.int64)
    places[ascending] = np.arange(len(rows))
    return pa.concat_batches(parts).take(pa.array(places))


class Spilled:
    """Batches in an Arrow file, which the system may cache in memory."""

    def __init__(self) -> None:
        self._path = scratch_file(".arrow")
        self._sink = pa.OSFile(self._path, "wb")
        self._stream: pa.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch of the same columns as all others."""
        if self._stream is None:
            self._stream = pa.ipc.new_stream(self._sink, batch.schema)
        self._stream.write_batch(batch)

    def table(self) -> pa.Table:
        """Map all batches into memory."""
        if self._stream is not None:
            self._stream.close()
        self._sink.close()
        table = pa.ipc.open_stream(pa.memory_map(self._path)).read_all()
        # The map keeps the content, and a task that is killed leaves nothing.
        os.remove(self._path)
        return table

    def __enter__(self) -> Spilled:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.remove(self._path)
