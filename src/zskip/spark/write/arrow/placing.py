"""The near side of the shuffle: place rows of files, or of a DataFrame, and yield batches for groups of new files."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zskip.layout.cells import Keys
from zskip.layout.layout import Layout
from zskip.records import EXACT_NAMES, Bools, Field, Ints, Matching, Values
from zskip.spark.forms import curve_form
from zskip.spark.shipping import partition_number
from zskip.spark.write.arrow.access import Reach
from zskip.spark.write.arrow.columns import column_values, join, shrink
from zskip.spark.write.arrow.reading import Reader, Source, read_tasks
from zskip.spark.write.arrow.rows import RowColumns
from zskip.spark.write.arrow.schema import explain_limits, prepare_worker, schema_of_ddl
from zskip.spark.write.arrow.sorting import KEY, key_array, order_by_file
from zskip.spark.write.key_bounds import MakeBounds
from zskip.types import DataType

SHIPPED = "group integer, origin long, bytes long, counts binary, bounds binary, batch binary, read long, run integer"
"""The rows of the shuffle: the group of a batch, its origin, its bytes in memory, its rows for each file of the group,
and the compressed batch, whose rows lie by file. `origin` orders the batches of a group: the task, and a number. Some
batches have the `bounds` of keys for all that come with them (see `KeyBounds`). `read` adds up to the rows that a task
has read, and `run` is a mark of the task's run."""
_PENDING_BYTES = 96 << 20
"""Bytes of rows to divide at once."""
_SHIPPED_BYTES = 16 << 20
"""Bytes of the rows of one batch in the shuffle."""
_SENT_BYTES = 1 << 20
"""Bytes to send to Spark at once."""
_SHIPPED = schema_of_ddl(SHIPPED)

_Hashes = npt.NDArray[np.uint64]
_Files = npt.NDArray[np.int32]
_Partition = int | npt.NDArray[np.integer[Any]]
PlacedRows = tuple[pa.RecordBatch, _Partition, _Hashes, Sequence[pa.Array]]
"""Rows, the Hive partition of all or of each, a hash of each, and the keys that Spark has computed, in their forms."""
_TYPES_OF_FORMS = {"int": "long", "float": "double", "bytes": "binary"}
"""The types in which keys that Spark has computed arrive. As texts: see `Placement`."""


class _Placed(NamedTuple):
    """Rows, with the file and the key of each."""

    batch: pa.RecordBatch
    files: _Files
    keys: Keys | None


class Placement:
    """Which file each row goes to."""

    def __init__(
        self,
        *,
        schema: pa.Schema,
        named: pa.Schema | None = None,
        layout: Layout | None,
        files: int,
        files_a_group: int,
        make_bounds: MakeBounds | None = None,
    ) -> None:
        """named: the schema with the table's names, where files name its columns otherwise; layout: None where a
        row's Hive partition is the number of its file; files: their number; files_a_group: how many files, one after
        another, are one group, which takes the place of its files in the shuffle; make_bounds: where the far side gets
        the bounds of keys."""
        self.schema = schema
        fields = () if layout is None else layout.fields
        stored = schema if named is None else named
        self.keys = key_positions(stored, fields)
        """For each key the positions that lead to it; none for what Spark has computed."""
        # As text: the pickling of Spark 3.5 loses the content of dataclasses with slots.
        self.layout = None if layout is None else layout.to_json()
        self.files = files
        self.files_a_group = files_a_group
        self.make_bounds = make_bounds


def placer(
    placement: Placement, reach: Reach, *, corrected: bool, matching: Matching = EXACT_NAMES
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from the rows of `describe_tasks` to those of `SHIPPED`."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for task, sources in read_tasks(batches):
            reader = Reader(reach(), placement.schema, corrected=corrected, matching=matching)
            with explain_limits():
                yield from _Placer(placement, task).run(_read(reader, task, sources))

    return place


def row_placer(placement: Placement) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from rows of a DataFrame to the rows of `SHIPPED`.

    After the columns of the schema come the number of the row's Hive partition, the computed keys, and a hash of the
    row (`tie` in `Layout.place`).
    """

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        task, run = partition_number(), new_run()
        columns, width = RowColumns(placement.schema), len(placement.schema)
        with explain_limits():
            yield from _Placer(placement, task, run).run(
                (
                    columns.convert(batch),
                    batch.column(width).to_numpy(),
                    batch.columns[-1].to_numpy().astype(np.uint64),
                    batch.columns[width + 1 : -1],
                )
                for batch in batches
                if batch.num_rows
            )

    return place


def _read(reader: Reader, task: int, sources: Sequence[Source]) -> Iterator[PlacedRows]:
    for number, source in enumerate(sources):
        row = 0
        for batch in reader.batches(source):
            yield batch, source.partition, position_hashes(task << 32 | number, row, batch.num_rows), ()
            row += batch.num_rows


class _Outgoing:
    """Batches on their way to Spark, small ones together."""

    def __init__(self, run: int) -> None:
        self._run = run
        self._clear()

    def _clear(self) -> None:
        self.read = 0
        """Rows of which no batch has given the number."""
        self._rows: list[tuple[int, int, int, bytes, bytes | None]] = []
        self._sink = pa.BufferOutputStream()
        self._ends = [0]

    @property
    def is_full(self) -> bool:
        """Whether it is time to send them."""
        return self._ends[-1] >= _SENT_BYTES

    def add(
        self, group: int, origin: int, size: int, counts: Ints, bounds: bytes | None, batch: pa.RecordBatch
    ) -> None:
        """Compress a batch for a group; size: its bytes when it is read; counts: its rows for each of the files."""
        self._rows.append((group, origin, size, counts.astype(np.int32).tobytes(), bounds))
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
        read = pa.array([self.read, *[0] * (len(self._rows) - 1)])
        run = pa.array([self._run] * len(self._rows), pa.int32())
        yield pa.RecordBatch.from_arrays([*columns, batches, read, run], schema=_SHIPPED)
        self._clear()


class _Placer:
    """One task."""

    def __init__(self, placement: Placement, task: int, run: int = 0) -> None:
        """run: tells apart two runs of a task that may read other rows."""
        self._placement = placement
        self._layout = None if placement.layout is None else Layout.from_json(placement.layout)
        self._origin = task << 32
        self._outgoing = _Outgoing(run)
        self._bounds = None if placement.make_bounds is None else placement.make_bounds(placement.files)

    def run(self, rows: Iterable[PlacedRows]) -> Iterator[pa.RecordBatch]:
        """Place all rows of the task, and yield them some bytes at a time."""
        placed: list[_Placed] = []
        pending_bytes = 0
        for batch, partition, tie, computed in rows:
            placed.append(_Placed(batch, *self._place(batch, partition, tie, computed)))
            pending_bytes += batch.nbytes
            self._outgoing.read += batch.num_rows
            if pending_bytes >= _PENDING_BYTES:
                yield from self._divide(placed)
                pending_bytes = 0
        if placed:
            yield from self._divide(placed)
        yield from self._outgoing.take()

    def _place(
        self, batch: pa.RecordBatch, partition: _Partition, tie: _Hashes, computed: Sequence[pa.Array]
    ) -> tuple[_Files, Keys | None]:
        """Compute the file and the key of each row."""
        if self._layout is None:
            return np.broadcast_to(np.asarray(partition, np.int32), batch.num_rows), None
        rest = iter(computed)
        columns = [column_at(batch, path) if path else next(rest) for path in self._placement.keys]
        forms = key_forms(columns, self._layout.fields)
        files, keys = self._layout.place([values for values, _ in forms], [nulls for _, nulls in forms], partition, tie)
        if self._bounds is not None:
            self._bounds.add_rows(files, forms)
        return files, keys

    def _divide(self, placed: list[_Placed]) -> Iterator[pa.RecordBatch]:
        """Divide some rows by their groups; empties `placed`."""
        files = np.concatenate([part.files for part in placed])
        order = order_by_file(files, self._placement.files)
        row_bytes = max(sum(part.batch.nbytes for part in placed) / len(order), 1.0)
        batch = _take(placed, order, self._placement)
        placed.clear()
        files, files_a_group = files[order], self._placement.files_a_group
        groups = files // files_a_group
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        most = max(1, int(_SHIPPED_BYTES / row_bytes))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(files)], strict=True):
            group = int(groups[start])
            first_file = group * files_a_group
            bounds = None
            if self._bounds is not None:
                bounds = self._bounds.take(first_file, files_a_group)
            for first in range(start, end, most):
                last = min(first + most, end)
                counts = np.bincount(files[first:last] - first_file)
                size = int((last - first) * row_bytes)
                self._outgoing.add(group, self._origin, size, counts, bounds, batch.slice(first, last - first))
                self._origin, bounds = self._origin + 1, None
                if self._outgoing.is_full:
                    yield from self._outgoing.take()


def place_rows(placement: Placement, task: int, rows: Iterable[PlacedRows], run: int) -> Iterator[pa.RecordBatch]:
    """Place the rows of a task; yields the rows of `SHIPPED`. run: as `new_run` gives it."""
    yield from _Placer(placement, task, run).run(rows)


def new_run() -> int:
    """A mark of one run of a task, of 31 bits."""
    return uuid.uuid4().int >> 97


def key_forms(columns: Sequence[pa.Array], fields: Sequence[Field]) -> list[tuple[Values, Bools]]:
    """The values and nulls of keys, in their forms; Spark has computed those of expressions."""
    return [
        column_values(column, DataType(_TYPES_OF_FORMS[curve_form(field.type).value]) if field.computed else field.type)
        for column, field in zip(columns, fields, strict=True)
    ]


def key_positions(schema: pa.Schema, fields: Sequence[Field]) -> list[list[int]]:
    """For each key the positions that lead to it; none for an expression. schema: with the table's names."""
    return [[] if field.computed else _positions(schema, field.path) for field in fields]


def _positions(schema: pa.Schema, path: Sequence[str]) -> list[int]:
    """The position of a column, and of each field inside structs that leads to a key."""
    kind, positions = pa.struct(list(schema)), []
    for name in path:
        positions.append(kind.get_field_index(name))
        kind = kind.field(positions[-1]).type
    return positions


def column_at(batch: pa.RecordBatch, positions: Sequence[int]) -> pa.Array:
    """A column, or a field inside its structs, null where a struct around it is."""
    column = batch.column(positions[0])
    return pc.struct_field(column, positions[1:]) if positions[1:] else column


def _take(placed: Sequence[_Placed], order: Ints, placement: Placement) -> pa.RecordBatch:
    """Join batches, with their rows in another order."""
    rows = pa.array(order)
    names = placement.schema.names
    columns = [shrink(join([part.batch.column(i) for part in placed])).take(rows) for i in range(len(names))]
    if placement.layout is not None:
        keys = cast(Keys, np.concatenate([part.keys for part in placed if part.keys is not None]))
        names, columns = [*names, KEY], [*columns, key_array(keys[order])]
    return pa.RecordBatch.from_arrays(columns, names)


def position_hashes(source: int, first: int, rows: int) -> _Hashes:
    """Hash each row's position in a source, the same at every read."""
    start = _mix(np.full(1, source, np.uint64))
    return _mix(cast(_Hashes, start + np.arange(first, first + rows, dtype=np.uint64)))


def _mix(words: _Hashes) -> _Hashes:
    """Apply the finalizer of SplitMix64 (Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
