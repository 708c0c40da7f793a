"""The far side of the shuffle: divide what arrives for a group of files among them, sort each, and write it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from zskip.records import Ints
from zskip.spark.shipping import partition_number
from zskip.spark.write.arrow.columns import grow
from zskip.spark.write.arrow.schema import explain_limits, prepare_worker
from zskip.spark.write.arrow.sorting import Sort, Spilled, decode, join_by_file, join_sorted, sorted_pieces
from zskip.spark.write.arrow.writing import PENDING_BYTES, FileOptions, write_parquet


class _Shipped(NamedTuple):
    """A batch as it comes out of the shuffle."""

    group: int
    origin: int
    size: int
    """Bytes in memory."""
    counts: Ints
    """Rows for each of the group's first files."""
    batch: pa.Buffer


def writer(options: FileOptions, files_a_group: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from the batches of one group, the task's number, to the rows of `WRITTEN`."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        home = partition_number()
        access = options.reach()
        with explain_limits(), Group(options.schema, files_a_group) as group:
            for part in arriving(batches):
                if part.group != home:
                    raise RuntimeError("zskip: a row came to the wrong file")
                group.add(part)
            for file, table in group.tables(options.sort):
                yield write_parquet(options, access, home * files_a_group + file, table)

    return write


def arriving(batches: Iterable[pa.RecordBatch]) -> Iterator[_Shipped]:
    """Read the rows of `SHIPPED`."""
    for batch in batches:
        columns = [batch.column(i) for i in range(5)]
        for row in range(batch.num_rows):
            group, origin, size, counts, content = (column[row] for column in columns)
            rows = np.frombuffer(counts.as_buffer(), np.int32).astype(np.int64)
            yield _Shipped(group.as_py(), origin.as_py(), size.as_py(), rows, content.as_buffer())


class Group:
    """The rows of a group of files: in memory, and in runs on disk once they are too many."""

    def __init__(self, schema: pa.Schema, files: int) -> None:
        self._schema = schema
        self._files = files
        self._parts: list[_Shipped] = []
        self._pending_bytes = 0
        self._bytes, self._counts = 0, np.zeros(files, np.int64)
        self._runs: Spilled | None = None
        self._run_counts: list[Ints] = []
        self._stack = ExitStack()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, part: _Shipped) -> None:
        """Add what has arrived."""
        self._parts.append(part)
        self._pending_bytes += part.size
        self._bytes += part.size
        self._counts[: len(part.counts)] += part.counts
        if self._pending_bytes > PENDING_BYTES:
            self._spill()

    def tables(self, sort: Sort) -> Iterator[tuple[int, pa.Table]]:
        """Yield the number in the group of each file that has rows, and these, sorted if they have keys."""
        if not self._parts and self._runs is None:
            return
        if self._runs is None:
            counts = self._counts
            table = pa.Table.from_batches([self._join(sort)[0]])
            for file, end in enumerate(np.cumsum(counts).tolist()):
                if counts[file]:
                    yield file, table.slice(end - int(counts[file]), int(counts[file]))
            return
        if self._parts:
            self._spill()
        runs = self._runs.table().to_batches()
        starts = [np.cumsum(counts) - counts for counts in self._run_counts]
        row_bytes = self._bytes / int(self._counts.sum())
        for file in np.flatnonzero(self._counts).tolist():
            parts = [
                run.slice(int(start[file]), int(counts[file]))
                for run, start, counts in zip(runs, starts, self._run_counts, strict=True)
                if counts[file]
            ]
            if self._counts[file] * row_bytes <= PENDING_BYTES:
                yield file, join_sorted(parts, self._schema, sort)
                continue
            with Spilled() as spilled:
                for piece in sorted_pieces(parts, self._schema, sort):
                    spilled.add(piece)
                yield file, spilled.table()

    def _spill(self) -> None:
        """Write all rows in memory to disk, by file, so that each file finds its own in one place."""
        if self._runs is None:
            self._runs = self._stack.enter_context(Spilled())
        run, counts = self._join(None)
        # All batches of a file on disk have the same types.
        self._runs.add(decode(run))
        self._run_counts.append(counts)

    def _join(self, sort: Sort | None) -> tuple[pa.RecordBatch, Ints]:
        """Take the rows in memory, by file, with the rows of each file; without a sort, they keep their keys."""
        parts, self._parts, self._pending_bytes = self._parts, [], 0
        parts.sort(key=lambda part: part.origin)
        counts = [np.pad(part.counts, (0, self._files - len(part.counts))) for part in parts]
        batches = [_grown(pa.ipc.open_stream(part.batch).read_next_batch(), self._schema) for part in parts]
        parts.clear()
        return join_by_file(batches, counts, self._schema, sort), np.sum(counts, axis=0)


def _grown(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [grow(column, field.type) for column, field in zip(batch.columns, schema, strict=False)]
    return pa.RecordBatch.from_arrays([*columns, *batch.columns[len(schema) :]], batch.schema.names)
