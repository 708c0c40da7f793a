"""The far side of the shuffle: join what arrives for a file, sort it, and write one Parquet file."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zskip.errors import ZskipError
from zskip.index.collect.footers import NAN_STATISTICS
from zskip.layout.cells import Keys
from zskip.layout.pages import PageOrder
from zskip.records import Ints
from zskip.spark.write.arrow.access import Access, Reach
from zskip.spark.write.arrow.columns import grow, plain, without_unused
from zskip.spark.write.arrow.schema import NotArrow, explain_limits, first_line, leaves_of, prepare_worker, stored_bytes
from zskip.spark.write.arrow.sorting import decode, join_sorted, sorted_pieces, stable_order
from zskip.spark.write.arrow.spilling import Spilled

WRITTEN = "file int, name string, rows bigint, bytes bigint"
"""The columns that a task reports for each new file."""
_WRITTEN = pa.schema([("file", pa.int32()), ("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
SUFFIXES = {"zstd": ".zstd", "snappy": ".snappy", "gzip": ".gz", "uncompressed": ""}
"""Spark's suffixes of file names, by codec."""
_LEVELS = {"zstd": 3, "gzip": 6}
"""The defaults of parquet-mr."""
_PAGE_BYTES = 1 << 20
_ROW_GROUP_BYTES = 128 << 20
PENDING_BYTES = 192 << 20
"""Larger files go through an Arrow file on disk."""
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
        self.metadata = {key.encode(): value.encode() for key, value in metadata.items()}
        self.page_order = page_order

    def sort(self, keys: Keys) -> Ints:
        """Sort the rows of a file by their keys; returns positions."""
        return stable_order(keys) if self.page_order is None else self.page_order.sort(keys, self.page_rows)


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

        prepare_worker()
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
    with explain_limits():
        return _write_sorted(options, access, parts)


def _write_sorted(options: FileOptions, access: Access, parts: list[_Shipped]) -> pa.RecordBatch:
    parts.sort(key=lambda part: part.origin)
    file = parts[0].file
    nans = {int(i) for part in parts for i in np.frombuffer(part.nans, np.int32)}
    in_memory = sum(part.size for part in parts) <= PENDING_BYTES
    batches = (_grown(pa.ipc.open_stream(part.batch).read_next_batch(), options.schema) for part in parts)
    if in_memory:
        rows = list(batches)
        parts.clear()
        return write_parquet(options, access, file, join_sorted(rows, options.schema, options.sort), nans)
    with Spilled() as runs, Spilled() as spilled:
        for batch in batches:
            runs.add(decode(batch))
        parts.clear()
        for piece in sorted_pieces(runs.table().to_batches(), options.schema, options.sort):
            spilled.add(piece)
        return write_parquet(options, access, file, spilled.table(), nans)


def _grown(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [grow(column, field.type) for column, field in zip(batch.columns, schema, strict=False)]
    return pa.RecordBatch.from_arrays([*columns, *batch.columns[len(schema) :]], batch.schema.names)


def write_parquet(
    options: FileOptions, access: Access, file: int, table: pa.Table, nans: Collection[int]
) -> pa.RecordBatch:
    """Write rows as one Parquet file, complete and published, or not at all; returns the one row of `WRITTEN`.

    nans: the columns with NaN; they get no bounds, since Spark does not know that bounds leave out NaN.
    """
    name = f"part-{file:05d}-{uuid.uuid4()}-c000{SUFFIXES[options.codec]}.parquet"
    path = f"{options.directory}/{name}"
    table, has_dictionary = _prepare(table, options)
    leaves = [
        (leaf, has_dictionary[i], i in nans and pa.types.is_floating(kind))
        for i, field in enumerate(options.schema)
        for leaf, kind in leaves_of(field.type, field.name)
    ]
    scratch = access.scratch(path)
    try:
        with (
            pa.OSFile(scratch, "wb") as sink,
            pq.ParquetWriter(
                sink,
                table.schema,
                compression="none" if options.codec == "uncompressed" else options.codec,
                compression_level=options.level,
                use_dictionary=[leaf for leaf, repeats, _ in leaves if repeats],
                write_statistics=[leaf for leaf, _, has_nan in leaves if not has_nan] if nans else True,
                write_page_index=True,
                data_page_size=_PAGE_BYTES,
                max_rows_per_page=options.page_rows,
                store_schema=False,
                store_decimal_as_integer=True,
            ) as stream,
        ):
            stream.write_table(table, row_group_size=options.group_rows)
            stream.add_key_value_metadata(options.metadata | _nan_statistics(table, nans, options.group_rows))
        _sign(scratch)
        size = os.path.getsize(scratch)
        access.publish(scratch, path)
    except pa.ArrowException as error:
        raise NotArrow(f"pyarrow cannot write it: {first_line(error)}") from error
    except ZskipError as error:
        raise NotArrow(f"executors cannot write to its storage: {error}") from error
    finally:
        with suppress(OSError):
            os.remove(scratch)
    values = [[file], [name], [table.num_rows], [size]]
    return pa.RecordBatch.from_arrays(
        [pa.array(value, field.type) for value, field in zip(values, _WRITTEN, strict=True)], schema=_WRITTEN
    )


def _prepare(table: pa.Table, options: FileOptions) -> tuple[pa.Table, list[bool]]:
    """Prepare columns for Parquet: returns them with their fields, and which of them have a dictionary there."""
    has_dictionary = [_repeats(column, options.page_rows) for column in table.columns]
    columns = [
        _final_dictionary(column.chunk(0), repeats) if pa.types.is_dictionary(column.type) else column
        for column, repeats in zip(table.columns, has_dictionary, strict=True)
    ]
    # Not the types of other columns: their parts may have the ids of old files.
    fields = [
        field.with_type(column.type) if pa.types.is_dictionary(column.type) else field
        for field, column in zip(options.schema, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)), has_dictionary


def _final_dictionary(column: pa.DictionaryArray, repeats: bool) -> pa.Array:
    # Beside nulls pyarrow takes a value that is missing for one that is there, and bounds for wider ones.
    return without_unused(column) if repeats and not column.null_count else plain(column)


def _nan_statistics(table: pa.Table, nans: Collection[int], group_rows: int) -> dict[bytes, bytes]:
    """Record what columns with NaN hold beside it, for the index and for the logs of table formats."""
    starts = range(0, table.num_rows, group_rows)
    columns = [i for i in nans if pa.types.is_floating(table.column(i).type)]
    statistics = {
        table.field(i).name: [_count_nan(table.column(i).slice(start, group_rows)) for start in starts] for i in columns
    }
    return {NAN_STATISTICS: json.dumps(statistics).encode()} if columns else {}


def _count_nan(column: pa.ChunkedArray) -> tuple[int, int, float | None, float | None]:
    """The nulls, the NaN, and the bounds of the other values."""
    values = column.filter(pc.invert(pc.is_nan(column)))
    ends = pc.min_max(values).as_py()
    return column.null_count, len(column) - column.null_count - len(values), ends["min"], ends["max"]


def _repeats(column: pa.ChunkedArray, page_rows: int) -> bool:
    """Check if a dictionary shrinks a column, by its first page as in parquet-mr; always true for nested columns."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or not len(column):
        return True
    page = column.slice(0, page_rows).drop_null()
    if pa.types.is_dictionary(kind):
        kind, page = kind.value_type, page.cast(kind.value_type)
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
