"""The near side of the shuffle: read files, place their rows by a layout, and yield batches for groups of new files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zskip.layout.cells import Keys
from zskip.layout.layout import Layout
from zskip.records import Ints
from zskip.spark.write.arrow.access import Reach
from zskip.spark.write.arrow.columns import join, shrink
from zskip.spark.write.arrow.forms import column_values
from zskip.spark.write.arrow.reading import Reader, Source
from zskip.spark.write.arrow.schema import explain_limits, prepare_worker
from zskip.spark.write.arrow.sorting import KEY, key_array

SHIPPED = "group int, origin bigint, bytes bigint, counts binary, batch binary"
"""The rows of the shuffle: the group of a batch, its origin, its bytes in memory, its rows for each file of the group,
and the compressed batch, whose rows lie by file. `origin` orders the batches of a group."""
_PENDING_BYTES = 96 << 20
"""Bytes of rows to divide at once."""
_SHIPPED_BYTES = 16 << 20
"""Bytes of the rows of one batch in the shuffle."""
_SENT_BYTES = 1 << 20
"""Bytes to send to Spark at once."""
_SHIPPED = pa.schema(
    [
        ("group", pa.int32()),
        ("origin", pa.int64()),
        ("bytes", pa.int64()),
        ("counts", pa.binary()),
        ("batch", pa.binary()),
    ]
)


_Hashes = npt.NDArray[np.uint64]


class _Placed(NamedTuple):
    """Rows, with the file and the key of each."""

    batch: pa.RecordBatch
    files: npt.NDArray[np.int32]
    keys: Keys


class Placement:
    """The input of a task that places rows."""

    def __init__(
        self,
        *,
        reach: Reach,
        schema: pa.Schema,
        layout: Layout,
        tasks: Sequence[Sequence[Source]],
        files_a_group: int,
        sort: bool,
        corrected: bool,
    ) -> None:
        """tasks: the sources of each; files_a_group: how many files, one after another, are one group, which takes the
        place of its files in the shuffle; sort: whether the rows of a file are to be sorted by their keys."""
        self.reach = reach
        self.schema = schema
        # As text: the pickling of Spark 3.5 loses the content of dataclasses with slots.
        self.layout = layout.to_json()
        self.tasks = [list(sources) for sources in tasks]
        self.files_a_group = files_a_group
        self.sort = sort
        self.corrected = corrected


def placer(placement: Placement) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from numbers of tasks to batches of rows."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for task in batch.column(0).to_pylist():
                with explain_limits():
                    yield from _Placer(placement, task).run()

    return place


class _Outgoing:
    """Batches on their way to Spark, small ones together."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._rows: list[tuple[int, int, int, bytes]] = []
        self._sink = pa.BufferOutputStream()
        self._ends = [0]

    @property
    def is_full(self) -> bool:
        """Whether it is time to send them."""
        return self._ends[-1] >= _SENT_BYTES

    def add(self, group: int, origin: int, size: int, counts: Ints, batch: pa.RecordBatch) -> None:
        """Compress a batch for a group; size: its bytes when it is read; counts: its rows for each of the files."""
        self._rows.append((group, origin, size, counts.astype(np.int32).tobytes()))
        # Not a constant of the module: these cannot be pickled.
        compression = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
        with pa.ipc.new_stream(self._sink, batch.schema, options=compression) as stream:
            stream.write_batch(batch)
        self._ends.append(self._sink.tell())

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield what is there, if anything is, and begin anew."""
        if not self._rows:
            return
        columns = [pa.array(v, f.type) for v, f in zip(zip(*self._rows, strict=True), _SHIPPED, strict=False)]
        ends = pa.py_buffer(np.array(self._ends, np.int32))
        batches = pa.Array.from_buffers(pa.binary(), len(self._rows), [None, ends, self._sink.getvalue()])
        yield pa.RecordBatch.from_arrays([*columns, batches], schema=_SHIPPED)
        self._clear()


class _Placer:
    """One task."""

    def __init__(self, placement: Placement, task: int) -> None:
        self._placement = placement
        self._layout = Layout.from_json(placement.layout)
        self._task = task
        self._origin = task << 32
        self._sources = placement.tasks[task]
        self._outgoing = _Outgoing()

    def run(self) -> Iterator[pa.RecordBatch]:
        """Read all sources of the task, and yield their rows some bytes at a time."""
        placement = self._placement
        reader = Reader(placement.reach(), placement.schema, corrected=placement.corrected)
        placed: list[_Placed] = []
        pending_bytes = 0
        for number, source in enumerate(self._sources):
            row = 0
            for batch in reader.batches(source):
                tie = _hashes(self._task << 32 | number, row, batch.num_rows)
                placed.append(_Placed(batch, *self._place(batch, source.partition, tie)))
                row += batch.num_rows
                pending_bytes += batch.nbytes
                if pending_bytes >= _PENDING_BYTES:
                    yield from self._divide(placed)
                    pending_bytes = 0
        if placed:
            yield from self._divide(placed)
        yield from self._outgoing.take()

    def _place(self, batch: pa.RecordBatch, partition: int, tie: _Hashes) -> tuple[npt.NDArray[np.int32], Keys]:
        """Compute the file and the key of each row."""
        fields = self._layout.fields
        forms = [column_values(batch.column(batch.schema.get_field_index(f.name)), f.type) for f in fields]
        return self._layout.place([values for values, _ in forms], [nulls for _, nulls in forms], partition, tie)

    def _divide(self, placed: list[_Placed]) -> Iterator[pa.RecordBatch]:
        """Divide some rows by their groups; empties `placed`."""
        files = np.concatenate([part.files for part in placed])
        # NumPy sorts short integers by radix.
        short = files.astype(np.uint16) if self._layout.file_count <= 1 << 16 else files
        order = np.argsort(short, kind="stable")
        row_bytes = max(sum(part.batch.nbytes for part in placed) / len(order), 1.0)
        batch = _take(placed, order, self._placement)
        placed.clear()
        files, files_a_group = files[order], self._placement.files_a_group
        groups = files // files_a_group
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        most = max(1, int(_SHIPPED_BYTES / row_bytes))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(files)], strict=True):
            group = int(groups[start])
            for first in range(start, end, most):
                last = min(first + most, end)
                counts = np.bincount(files[first:last] - group * files_a_group)
                size = int((last - first) * row_bytes)
                self._outgoing.add(group, self._origin, size, counts, batch.slice(first, last - first))
                self._origin += 1
                if self._outgoing.is_full:
                    yield from self._outgoing.take()


def _take(placed: Sequence[_Placed], order: Ints, placement: Placement) -> pa.RecordBatch:
    """Join batches, with their rows in another order."""
    rows = pa.array(order)
    names = placement.schema.names
    columns = [shrink(join([part.batch.column(i) for part in placed])).take(rows) for i in range(len(names))]
    if placement.sort:
        keys = np.concatenate([part.keys for part in placed])
        names, columns = [*names, KEY], [*columns, key_array(keys[order])]
    return pa.RecordBatch.from_arrays(columns, names)


def _hashes(source: int, first: int, rows: int) -> _Hashes:
    """Hash each row's position in a source, the same at every read."""
    start = _mix(np.full(1, source, np.uint64))
    return _mix(cast(_Hashes, start + np.arange(first, first + rows, dtype=np.uint64)))


def _mix(words: _Hashes) -> _Hashes:
    """Apply the finalizer of SplitMix64 (Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
