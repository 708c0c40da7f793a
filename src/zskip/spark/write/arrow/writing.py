"""The far side of the shuffle: join what arrives for a file, sort it, and write one Parquet file."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zskip.errors import ZskipError
from zskip.layout.cells import Keys
from zskip.layout.page_order import PageOrder
from zskip.records import Ints
from zskip.spark.write.arrow.access import Access, Reach
from zskip.spark.write.arrow.forms import has_nan
from zskip.spark.write.arrow.reading import Reader, Source
from zskip.spark.write.arrow.schema import NotArrow, check_pyarrow, leaves_of, stored_bytes

WRITTEN = "file int, name string, rows bigint, bytes bigint"
"""The columns that a task reports for each new file."""
_WRITTEN = pa.schema([("file", pa.int32()), ("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
SUFFIXES = {"zstd": ".zstd", "snappy": ".snappy", "gzip": ".gz", "uncompressed": ""}
"""Spark's suffixes of file names, by codec."""
_LEVELS = {"zstd": 3, "gzip": 6}
"""The defaults of parquet-mr."""
_PAGE_BYTES = 1 << 20
_ROW_GROUP_BYTES = 128 << 20
_PENDING_BYTES = 192 << 20
"""Larger files go through an Arrow file on disk."""
_PIECE_BYTES = 32 << 20
_ARROW, _ZSKIP = b"parquet-cpp-arrow version ", b"parquet-cpp-zskip version "
"""The writer of a file: bounds of our own writer allow more conclusions (see `index.collect.trust`)."""


class FileOptions:
    """The options of new files, and their directory."""

    def __init__(
        self,
        *,
        reach: Reach,
        directory: str,
        schema: pa.Schema,
        codec: str,
        level: int | None,
        page_rows: int,
        row_bytes: float,
        metadata: Mapping[str, str],
        page_order: PageOrder | None = None,
    ) -> None:
        """directory: relative to the table; row_bytes: of a row in the files as they are; metadata: of the footers;
        page_order: of rows with keys, which lie by key without."""
        self.reach = reach
        self.directory = directory
        self.schema = schema
        self.codec = codec
        self.level = _LEVELS.get(codec) if level is None else level
        self.page_rows = page_rows
        # Whole pages, so that those of a second row group begin where the page order has them begin.
        rows = max(1, int(_ROW_GROUP_BYTES / max(row_bytes, 1e-9)))
        self.group_rows = rows - rows % page_rows or rows
        self.metadata = dict(metadata)
        self.page_order = page_order


class _Shipped(NamedTuple):
    """A batch as it comes out of the shuffle."""

    file: int
    origin: int
    size: int
    """Bytes in memory."""
    nans: bytes
    batch: pa.Buffer


def writer(options: FileOptions, files_a_task: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from batches, grouped by file, to the rows of `WRITTEN`."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        check_pyarrow()
        pa.set_cpu_count(1)
        context = TaskContext.get()
        home = context.partitionId() if context is not None else 0
        access = options.reach()
        parts: list[_Shipped] = []
        for part in _arriving(batches):
            if part.file // files_a_task != home:
                raise RuntimeError("zskip: a row came to the wrong file")
            if parts and parts[0].file != part.file:
                yield _write_file(options, access, parts)
                parts = []
            parts.append(part)
        if parts:
            yield _write_file(options, access, parts)

    return write


def _arriving(batches: Iterable[pa.RecordBatch]) -> Iterator[_Shipped]:
    for batch in batches:
        columns = [batch.column(i) for i in range(5)]
        for row in range(batch.num_rows):
            file, origin, size, nans, content = (column[row] for column in columns)
            yield _Shipped(file.as_py(), origin.as_py(), size.as_py(), nans.as_py(), content.as_buffer())


def _write_file(options: FileOptions, access: Access, parts: list[_Shipped]) -> pa.RecordBatch:
    """Write one file from the batches that arrived for it; empties them."""
    parts.sort(key=lambda part: part.origin)
    file = parts[0].file
    nans = {int(i) for part in parts for i in np.frombuffer(part.nans, np.int32)}
    in_memory = sum(part.size for part in parts) <= _PENDING_BYTES
    with _Runs(parts, in_memory=in_memory) as runs:
        parts.clear()
        pieces = runs.sorted_pieces(options)
        if in_memory:
            table = pa.Table.from_batches(pieces, options.schema)
            runs.forget()
            return _write_parquet(options, access, file, table, nans)
        with _Spilled(options.schema) as spilled:
            for piece in pieces:
                spilled.add(piece)
            runs.forget()
            return _write_parquet(options, access, file, spilled.table(), nans)


class _Spilled:
    """Batches in an Arrow file, which the system may cache in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        directory = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
        handle, self._path = tempfile.mkstemp(prefix="zskip-", suffix=".arrow", dir=directory)
        os.close(handle)
        self._sink = pa.OSFile(self._path, "wb")
        self._stream = pa.ipc.new_stream(self._sink, schema)

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self._stream.write_batch(batch)

    def table(self) -> pa.Table:
        """Map all batches into memory."""
        self._stream.close()
        self._sink.close()
        table = pa.ipc.open_stream(pa.memory_map(self._path)).read_all()
        # The map keeps the content, and a task that is killed leaves nothing.
        os.remove(self._path)
        return table

    def __enter__(self) -> _Spilled:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.remove(self._path)


class _Runs:
    """The batches of one file, each sorted by its key, if they have keys."""

    def __init__(self, parts: Sequence[_Shipped], *, in_memory: bool) -> None:
        batches = (pa.ipc.open_stream(part.batch).read_next_batch() for part in parts)
        self._spilled: _Spilled | None = None
        if in_memory:
            self._batches = list(batches)
            return
        first = next(batches)
        self._spilled = _Spilled(first.schema)
        self._spilled.add(first)
        for batch in batches:
            self._spilled.add(batch)
        self._batches = self._spilled.table().to_batches()

    def sorted_pieces(self, options: FileOptions) -> Iterator[pa.RecordBatch]:
        """Yield all rows by their keys, or in their old order, some bytes at a time."""
        batches, schema = self._batches, options.schema
        if len(batches[0].schema) == len(schema):
            yield from (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)
            return
        keys = np.concatenate([_keys(batch.column(len(schema))) for batch in batches])
        batches = [pa.RecordBatch.from_arrays(batch.columns[: len(schema)], schema=schema) for batch in batches]
        self._batches = batches
        by_page = options.page_order
        order = np.argsort(keys, kind="stable") if by_page is None else by_page.sort(keys, options.page_rows)
        ends = np.cumsum([batch.num_rows for batch in batches])
        step = max(1, int(_PIECE_BYTES / max(sum(batch.nbytes for batch in batches) / len(order), 1.0)))
        for start in range(0, len(order), step):
            yield _piece(batches, ends, order[start : start + step])

    def forget(self) -> None:
        """Let go of the batches."""
        self._batches = []

    def __enter__(self) -> _Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        if self._spilled is not None:
            self._spilled.__exit__()


def _keys(column: pa.Array) -> Keys:
    if pa.types.is_int64(column.type):
        return cast(Keys, column.to_numpy())
    width = column.type.byte_width
    return np.frombuffer(column.buffers()[1], f"S{width}", len(column), column.offset * width)


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


def _write_parquet(
    options: FileOptions, access: Access, file: int, table: pa.Table, nans: Collection[int]
) -> pa.RecordBatch:
    """Write rows as one Parquet file, complete and published, or not at all; returns the one row of `WRITTEN`.

    nans: the columns with NaN; they get no bounds, since Spark does not know that bounds leave out NaN.
    """
    name = f"part-{file:05d}-{uuid.uuid4()}-c000{SUFFIXES[options.codec]}.parquet"
    path = f"{options.directory}/{name}"
    leaves = [
        (leaf, i in nans and pa.types.is_floating(kind))
        for i, field in enumerate(options.schema)
        for leaf, kind in leaves_of(field.type, field.name)
    ]
    plain = {f.name for i, f in enumerate(options.schema) if not _repeats(table.column(i), options.page_rows)}
    scratch = access.scratch(path)
    try:
        with (
            pa.OSFile(scratch, "wb") as sink,
            pq.ParquetWriter(
                sink,
                options.schema,
                compression="none" if options.codec == "uncompressed" else options.codec,
                compression_level=options.level,
                use_dictionary=[leaf for leaf, _ in leaves if leaf not in plain],
                write_statistics=[leaf for leaf, has_nan in leaves if not has_nan] if nans else True,
                write_page_index=True,
                data_page_size=_PAGE_BYTES,
                max_rows_per_page=options.page_rows,
                store_schema=False,
                store_decimal_as_integer=True,
            ) as stream,
        ):
            stream.write_table(table, row_group_size=options.group_rows)
            stream.add_key_value_metadata(options.metadata)
        _sign(scratch)
        size = os.path.getsize(scratch)
        access.publish(scratch, path)
    except pa.ArrowException as error:
        raise NotArrow(f"pyarrow cannot write it: {str(error).splitlines()[0]}") from error
    except ZskipError as error:
        raise NotArrow(f"executors cannot write to its storage: {error}") from error
    finally:
        with suppress(OSError):
            os.remove(scratch)
    values = [[file], [name], [table.num_rows], [size]]
    return pa.RecordBatch.from_arrays(
        [pa.array(value, field.type) for value, field in zip(values, _WRITTEN, strict=True)], schema=_WRITTEN
    )


def _repeats(column: pa.ChunkedArray, page_rows: int) -> bool:
    """Check if a dictionary shrinks a column, by its first page as in parquet-mr; always true for nested columns."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or not len(column):
        return True
    page = column.slice(0, page_rows).drop_null()
    values = pc.count_distinct(page).as_py()
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        width = 4 + pc.sum(pc.binary_length(page)).as_py() / len(page) if len(page) else 4.0
    else:
        width = stored_bytes(kind)
    return bool(values * width + len(page) * max(values - 1, 1).bit_length() / 8 < max(len(page), 1) * width)


def _sign(path: str) -> None:
    """Record the writer in a file's footer."""
    with open(path, "r+b") as stream:
        stream.seek(-8, os.SEEK_END)
        footer_bytes = int.from_bytes(stream.read(4), "little")
        stream.seek(-8 - footer_bytes, os.SEEK_END)
        footer = stream.read(footer_bytes)
        # The field comes after all others that hold text.
        offset = footer.rfind(_ARROW)
        if offset >= 0:
            stream.seek(-8 - footer_bytes + offset, os.SEEK_END)
            stream.write(_ZSKIP)


class Bin(NamedTuple):
    """Files to merge into one, in order."""

    file: int
    sources: tuple[tuple[str, int, int], ...]
    """As `Source` begins."""


def merger(
    options: FileOptions, source: Reach, bins: Sequence[Bin], *, corrected: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from numbers of bins to the rows of `WRITTEN`, one new file for each."""
    plain_bins = [tuple(bin_) for bin_ in bins]

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_pyarrow()
        pa.set_cpu_count(1)
        reader = Reader(source(), options.schema, corrected=corrected)
        access = options.reach()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _merge(options, reader, access, Bin(*plain_bins[number]))

    return merge


def _merge(options: FileOptions, reader: Reader, access: Access, one: Bin) -> pa.RecordBatch:
    floats = [
        i
        for i, field in enumerate(options.schema)
        if any(pa.types.is_floating(leaf) for _, leaf in leaves_of(field.type))
    ]
    nans: set[int] = set()
    batches: list[pa.RecordBatch] = []
    spilled: _Spilled | None = None
    pending_bytes = 0
    try:
        for path, size, partition in one.sources:
            for batch in reader.batches(Source(path, size, partition)):
                nans.update(i for i in floats if i not in nans and has_nan(batch.column(i)))
                pending_bytes += batch.nbytes
                batches.append(batch)
                if pending_bytes > _PENDING_BYTES:
                    spilled = _Spilled(options.schema) if spilled is None else spilled
                    for batch in batches:
                        spilled.add(batch)
                    batches.clear()
        table = pa.Table.from_batches(batches, options.schema)
        if spilled is not None:
            for batch in batches:
                spilled.add(batch)
            batches.clear()
            table = spilled.table()
        return _write_parquet(options, access, one.file, table, nans)
    finally:
        if spilled is not None:
            spilled.__exit__()
