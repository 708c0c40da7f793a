"""The near side of the shuffle: read files, place their rows by a layout, and yield one batch for each new file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zskip.layout.cells import Keys
from zskip.layout.layout import Layout
from zskip.records import Ints
from zskip.spark.write.arrow.access import Reach
from zskip.spark.write.arrow.forms import column_values, has_nan
from zskip.spark.write.arrow.reading import Reader, Source
from zskip.spark.write.arrow.schema import leaves_of

SHIPPED = "file int, origin bigint, bytes bigint, nans binary, batch binary"
"""The rows of the shuffle: the new file of a batch, its origin, its bytes in memory, its columns with NaN, and the
compressed batch. `origin` orders the batches of a file."""
_KEY = "__zskip_key"
_PENDING_BYTES = 96 << 20
"""Bytes of rows to place at once."""
_SHIPPED_BYTES = 16 << 20
"""Bytes of the rows of one batch in the shuffle."""
_GROUP_BYTES = 1 << 20
"""Bytes to send to Spark at once."""
_SHIPPED = pa.schema(
    [("file", pa.int32()), ("origin", pa.int64()), ("bytes", pa.int64()), ("nans", pa.binary()), ("batch", pa.binary())]
)
_Shipped = tuple[int, int, int, bytes, bytes]


class Placement:
    """The input of a task that places rows."""

    def __init__(
        self,
        *,
        reach: Reach,
        schema: pa.Schema,
        layout: Layout,
        tasks: Sequence[Sequence[Source]],
        sort: bool,
        corrected: bool,
    ) -> None:
        """tasks: the sources of each; sort: whether the rows of a file are to be sorted by their keys."""
        self.reach = reach
        self.schema = schema
        # As text: the pickling of Spark 3.5 loses the content of dataclasses with slots.
        self.layout = layout.to_json()
        self.tasks = [list(sources) for sources in tasks]
        self.sort = sort
        self.corrected = corrected


def placer(placement: Placement) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from numbers of tasks to batches of rows."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from _group_rows(_Placer(placement, task).run())

    return place


def _group_rows(shipped: Iterable[_Shipped]) -> Iterator[pa.RecordBatch]:
    """Group small batches for Spark."""
    rows: list[_Shipped] = []
    size = 0
    for row in shipped:
        rows.append(row)
        size += len(row[-1])
        if size >= _GROUP_BYTES:
            yield _as_batch(rows)
            rows, size = [], 0
    if rows:
        yield _as_batch(rows)


def _as_batch(rows: Sequence[_Shipped]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _SHIPPED, strict=True)], schema=_SHIPPED
    )


class _Placer:
    """One task."""

    def __init__(self, placement: Placement, task: int) -> None:
        self._placement = placement
        self._layout = Layout.from_json(placement.layout)
        self._origin = task << 32
        self._sources = placement.tasks[task]
        self._floats = [
            i
            for i, field in enumerate(placement.schema)
            if any(pa.types.is_floating(leaf) for _, leaf in leaves_of(field.type))
        ]
        self._spreads = int(self._layout.spread.max(initial=1)) > 1

    def run(self) -> Iterator[_Shipped]:
        """Read all sources of the task, and yield their rows some bytes at a time."""
        placement = self._placement
        reader = Reader(placement.reach(), placement.schema, corrected=placement.corrected)
        batches: list[pa.RecordBatch] = []
        partitions: list[int] = []
        ties: list[npt.NDArray[np.uint64]] = []
        pending_bytes = 0
        for number, source in enumerate(self._sources):
            row = 0
            for batch in reader.batches(source):
                batches.append(batch)
                partitions.append(source.partition)
                if self._spreads:
                    ties.append(_hashes(self._origin + number, row, batch.num_rows))
                row += batch.num_rows
                pending_bytes += batch.nbytes
                if pending_bytes >= _PENDING_BYTES:
                    yield from self._divide(batches, partitions, ties)
                    batches, partitions, ties, pending_bytes = [], [], [], 0
        if batches:
            yield from self._divide(batches, partitions, ties)

    def _divide(
        self, batches: list[pa.RecordBatch], partitions: Sequence[int], ties: Sequence[npt.NDArray[np.uint64]]
    ) -> Iterator[_Shipped]:
        """Divide some rows by their files; empties `batches`."""
        rows = [batch.num_rows for batch in batches]
        partition = np.repeat(np.array(partitions, np.int32), rows)
        tie = np.concatenate(ties) if ties else np.zeros(len(partition), np.uint64)
        batch = pa.concat_batches(batches)
        batches.clear()
        files, keys = self._place(batch, partition, tie)
        order = _order(files, keys if self._placement.sort else None)
        floats = _columns_with_nan(batch, self._floats)
        if self._placement.sort:
            batch = batch.append_column(_KEY, _key_array(keys))
        files = files[order]
        starts = np.flatnonzero(np.diff(files, prepend=-1))
        most = max(1, int(_SHIPPED_BYTES / max(batch.nbytes / batch.num_rows, 1.0)))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(files)], strict=True):
            for first in range(start, end, most):
                part = batch.take(pa.array(order[first : min(first + most, end)]))
                nans = np.array(_columns_with_nan(part, floats), np.int32).tobytes()
                yield int(files[start]), self._origin, part.nbytes, nans, _compressed(part)
                self._origin += 1

    def _place(
        self, batch: pa.RecordBatch, partition: npt.NDArray[np.int32], tie: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int32], Keys]:
        """Compute the file and the key of each row."""
        fields = self._layout.fields
        forms = [column_values(batch.column(batch.schema.get_field_index(f.name)), f.type) for f in fields]
        return self._layout.place([values for values, _ in forms], [nulls for _, nulls in forms], partition, tie)


def _columns_with_nan(batch: pa.RecordBatch, floats: Sequence[int]) -> list[int]:
    """Find the numbers of those columns with floats that hold NaN."""
    return [i for i in floats if has_nan(batch.column(i))]


def _order(files: npt.NDArray[np.int32], keys: Keys | None) -> Ints:
    """Order rows by file and, if there are keys, by key."""
    if keys is None:
        return np.argsort(files, kind="stable")
    order = np.argsort(keys, kind="stable")
    # Files mostly follow each other on the curve.
    return order if (np.diff(files[order]) >= 0).all() else order[np.argsort(files[order], kind="stable")]


def _key_array(keys: Keys) -> pa.Array:
    if keys.dtype == np.int64:
        return pa.array(keys)
    width = keys.dtype.itemsize
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(keys), [None, pa.py_buffer(keys.tobytes())])


def _hashes(source: int, first: int, rows: int) -> npt.NDArray[np.uint64]:
    """Hash each row's position, the same at every read: the finalizer of SplitMix64 (Steele et al. 2014)."""
    words = np.arange(first, first + rows, dtype=np.uint64) + (np.uint64(source) << np.uint64(40))
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _compressed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())
