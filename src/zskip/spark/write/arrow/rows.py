"""Rows in the order in which they come: of a DataFrame, as Spark hands them to Python, or of files to merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zskip.records import EXACT_NAMES, Matching
from zskip.spark.shipping import lighten_worker, partition_number
from zskip.spark.write.arrow.access import Access, Reach
from zskip.spark.write.arrow.columns import as_type, wide
from zskip.spark.write.arrow.reading import Reader, read_tasks
from zskip.spark.write.arrow.schema import explain_limits, prepare_worker
from zskip.spark.write.arrow.sorting import Spilled, decode, join_sorted
from zskip.spark.write.arrow.writing import PENDING_BYTES, FileOptions, Origins, column_bytes, write_parquet

_DICTIONARY_BYTES, _FEW_ROWS = 8 << 10, 1024
"""A text column keeps dictionaries of at most so many bytes; few rows say nothing about their number of values."""
MEASURED = "rows long, bytes long"
_MEASURED_BYTES = 64 << 20
"""Of rows in memory, that are measured."""


class RowColumns:
    """Converts the batches of one task; texts with few values get dictionaries, for as long as these stay small."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._repeating = {
            i for i, field in enumerate(schema) if pa.types.is_string(field.type) or pa.types.is_binary(field.type)
        }

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The first columns of a batch, one for each of the schema, in its types."""
        columns = [as_type(column, field.type) for column, field in zip(batch.columns, self._schema, strict=False)]
        for i in sorted(self._repeating):
            encoded = columns[i].dictionary_encode()
            size = encoded.dictionary.nbytes
            if size <= _DICTIONARY_BYTES and (4 * size <= columns[i].nbytes or batch.num_rows < _FEW_ROWS):
                columns[i] = encoded
            else:
                self._repeating.remove(i)
        return pa.RecordBatch.from_arrays(columns, self._schema.names)


def row_writer(options: FileOptions) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from rows of a DataFrame to the rows of `WRITTEN`: a file for each task."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        task = partition_number()
        columns = RowColumns(options.schema)
        with explain_limits():
            rows = (columns.convert(batch) for batch in batches if batch.num_rows)
            yield from write_in_order(options, options.reach(), task, rows)

    return write


def row_reader(
    source: Reach, schema: pa.Schema, *, corrected: bool, matching: Matching, numbers: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from tasks to rows of files, each with the number of its partition.

    numbers: the names of that column and, if files are whole and have no deletes, of one with the row's own number.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        reader = Reader(source(), schema, corrected=corrected, matching=matching)
        names = [*schema.names, *numbers]
        for _, sources in read_tasks(batches):
            for one in sources:
                first = 0
                for batch in reader.batches(one):
                    rows = np.arange(first, first := first + batch.num_rows)
                    columns = [wide(column) for column in decode(batch).columns]
                    columns += [pa.array(np.full(len(rows), one.partition)), pa.array(rows)]
                    yield pa.RecordBatch.from_arrays(columns[: len(names)], names)

    return read


def merger(
    options: FileOptions, source: Reach, *, corrected: bool, matching: Matching = EXACT_NAMES
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from tasks, a file for each, to the rows of `WRITTEN`."""

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        reader = Reader(source(), options.schema, corrected=corrected, matching=matching)
        access = options.reach()
        for file, sources in read_tasks(batches):
            with explain_limits():
                rows = (batch for source in sources for batch in reader.batches(source))
                yield from write_in_order(options, access, file, rows)

    return merge


def write_in_order(
    options: FileOptions, access: Access, file: int, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write batches, one after another, as one file; yields the row of `WRITTEN`, none without rows."""
    batches: list[pa.RecordBatch] = []
    pending_bytes = read = 0
    with ExitStack() as stack:
        spilled: Spilled | None = None
        for batch in rows:
            read += batch.num_rows
            pending_bytes += batch.nbytes
            batches.append(batch)
            if spilled is not None or pending_bytes > PENDING_BYTES:
                spilled = stack.enter_context(Spilled()) if spilled is None else spilled
                for one in batches:
                    spilled.add(decode(one))
                batches.clear()
        if read:
            table = spilled.table() if spilled else join_sorted(batches, options.schema, options.sort)
            yield write_parquet(options, access, file, table, Origins(read, np.zeros(0, np.int64)))


def row_measurer(codec: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` that tells how many bytes the first rows of each task take in a file.

    It gives nothing where there are no rows, and of types that pyarrow does not write. codec: as pyarrow names it.
    """

    def measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lighten_worker()
        first: list[pa.RecordBatch] = []
        for batch in batches:
            if sum(one.nbytes for one in first) < _MEASURED_BYTES:
                first.append(batch)
        if not first:
            return
        rows, size = measure_rows(first, codec)
        if rows:
            yield pa.record_batch({"rows": [rows], "bytes": [size]})

    return measure


def measure_rows(batches: Sequence[pa.RecordBatch], codec: str) -> tuple[int, int]:
    """Number of rows, and their bytes in a file; (0, 0) for types that pyarrow does not write."""
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(pa.Table.from_batches(batches), sink, compression=codec)
    except pa.ArrowException:
        return 0, 0
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    return metadata.num_rows, column_bytes(metadata)
