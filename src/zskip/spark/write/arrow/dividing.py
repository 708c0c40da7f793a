"""The far side of the shuffle: divide what arrives for a group of files among them, sort each, and write it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from zskip.layout.joining import join_segments
from zskip.layout.program import own_files
from zskip.records import Ints
from zskip.spark.shipping import partition_number
from zskip.spark.write.arrow.columns import grow
from zskip.spark.write.arrow.schema import explain_limits, prepare_worker
from zskip.spark.write.arrow.sorting import Sort, Spilled, decode, join_by_file, join_sorted, sorted_pieces
from zskip.spark.write.arrow.writing import PENDING_BYTES, FileOptions, Origins, write_parquet
from zskip.spark.write.key_bounds import MakeBounds


class Joining(NamedTuple):
    """Which files tasks make of segments that nobody had counted the rows of."""

    groups: Ints
    """(tasks + 1,) the first group of each task, and the number of groups."""
    levels: Ints
    """(segments - 1,) as `join_segments` takes them."""
    file_rows: float
    """Rows that a file should have."""

    def first_segments(self, counts: Ints, first: int) -> Ints:
        """The first segment of each file; counts: of rows, of the segments from `first` on."""
        return join_segments(counts / self.file_rows, self.levels[first : first + len(counts) - 1])

    def pieces(self, table: pa.Table, page_rows: int) -> Iterator[pa.Table]:
        """Divide the rows of segments that nothing divides into files, each of whole pages."""
        count = int(own_files(np.array([table.num_rows / self.file_rows]))[0])
        pages = -(-table.num_rows // (count * page_rows))
        rows = pages * page_rows if count > 1 else table.num_rows
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows)


class _Shipped(NamedTuple):
    """A batch as it comes out of the shuffle."""

    group: int
    origin: int
    size: int
    """Bytes in memory."""
    counts: Ints
    """Rows for each of the group's first files."""
    bounds: bytes | None
    """As `KeyBounds` packs them, of all of the group's files."""
    batch: pa.Buffer
    read: int
    """As in `SHIPPED`, as is the next."""
    run: int


def writer(
    options: FileOptions, files_a_group: int, joining: Joining | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from the batches of one group, the task's number, to the rows of `WRITTEN`.

    joining: which groups a task has in place of one, whose files are segments to be joined.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        task = partition_number()
        groups = range(task, task + 1) if joining is None else range(*joining.groups[task : task + 2].tolist())
        first, files = groups.start * files_a_group, len(groups) * files_a_group
        if joining is not None:
            files = min(files, len(joining.levels) + 1 - first)
        access = options.reach()
        with explain_limits(), Group(options.schema, files, options.make_bounds) as group:
            for part in arriving(batches):
                if part.group not in groups:
                    raise RuntimeError("zskip: a row came to the wrong file")
                group.add(part, part.group * files_a_group - first)
            starts = np.arange(files) if joining is None else joining.first_segments(group.counts, first)
            ends = dict(zip(starts.tolist(), [*starts[1:].tolist(), files], strict=True))
            for file, table in group.tables(options.sort, starts):
                metadata = None if group.bounds is None else group.bounds.metadata(file, ends[file])
                for piece in [table] if joining is None else joining.pieces(table, options.page_rows):
                    yield write_parquet(options, access, first + file, piece, group.take_origins(), metadata)

    return write


def arriving(batches: Iterable[pa.RecordBatch]) -> Iterator[_Shipped]:
    """Read the rows of `SHIPPED`."""
    for batch in batches:
        columns = [batch.column(i) for i in range(8)]
        for row in range(batch.num_rows):
            group, origin, size, counts, bounds, content, read, run = (column[row] for column in columns)
            yield _Shipped(
                group=group.as_py(),
                origin=origin.as_py(),
                size=size.as_py(),
                counts=np.frombuffer(counts.as_buffer(), np.int32).astype(np.int64),
                bounds=bounds.as_py(),
                batch=content.as_buffer(),
                read=read.as_py(),
                run=run.as_py(),
            )


class Group:
    """The rows of neighboring files: in memory, and in runs on disk once they are too many."""

    def __init__(self, schema: pa.Schema, files: int, make_bounds: MakeBounds | None = None) -> None:
        self._schema = schema
        self.bounds = None if make_bounds is None else make_bounds(files)
        """Of keys of the rows that have been added."""
        self._parts: list[tuple[_Shipped, int]] = []
        """With the first of the files that each counts rows of."""
        self._pending_bytes = 0
        self._bytes = 0
        self.counts: Ints = np.zeros(files, np.int64)
        """Rows of each file."""
        self._read, self._runs_of_tasks = 0, set[int]()
        self._runs: Spilled | None = None
        self._run_counts: list[Ints] = []
        self._stack = ExitStack()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, part: _Shipped, first: int = 0) -> None:
        """Add what has arrived; first: the first of its files."""
        self._parts.append((part, first))
        self._pending_bytes += part.size
        self._bytes += part.size
        self.counts[first : first + len(part.counts)] += part.counts
        if self.bounds is not None and part.bounds is not None:
            self.bounds.add_packed(part.bounds, first)
        self._read += part.read
        self._runs_of_tasks.add(part.origin >> 32 << 32 | part.run)
        if self._pending_bytes > PENDING_BYTES:
            self._spill()

    def take_origins(self) -> Origins:
        """Where the rows come from, once."""
        origins = Origins(self._read, np.array(sorted(self._runs_of_tasks), np.int64))
        self._read, self._runs_of_tasks = 0, set()
        return origins

    def tables(self, sort: Sort, starts: Ints | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yield each file that has rows, and these, sorted if they have keys.

        starts: the first files of those that become one, which has the number of the first; by default all.
        """
        if not self._parts and self._runs is None:
            return
        starts = np.arange(len(self.counts)) if starts is None else starts
        counts = np.add.reduceat(self.counts, starts)
        if self._runs is None:
            table = pa.Table.from_batches([self._join(starts, sort)[0]])
            for file, end, rows in zip(starts.tolist(), np.cumsum(counts).tolist(), counts.tolist(), strict=True):
                if rows:
                    yield file, table.slice(end - rows, rows)
            return
        if self._parts:
            self._spill()
        runs = self._runs.table().to_batches()
        run_counts = [np.add.reduceat(counts, starts) for counts in self._run_counts]
        run_starts = [np.cumsum(counts) - counts for counts in run_counts]
        row_bytes = self._bytes / int(counts.sum())
        for number in np.flatnonzero(counts).tolist():
            parts = [
                run.slice(int(start[number]), int(rows[number]))
                for run, start, rows in zip(runs, run_starts, run_counts, strict=True)
                if rows[number]
            ]
            if counts[number] * row_bytes <= PENDING_BYTES:
                yield int(starts[number]), join_sorted(parts, self._schema, sort)
                continue
            with Spilled() as spilled:
                for piece in sorted_pieces(parts, self._schema, sort):
                    spilled.add(piece)
                yield int(starts[number]), spilled.table()

    def _spill(self) -> None:
        """Write all rows in memory to disk, by file, so that each file finds its own in one place."""
        if self._runs is None:
            self._runs = self._stack.enter_context(Spilled())
        run, counts = self._join(np.arange(len(self.counts)), None)
        # All batches of a file on disk have the same types.
        self._runs.add(decode(run))
        self._run_counts.append(counts)

    def _join(self, starts: Ints, sort: Sort | None) -> tuple[pa.RecordBatch, Ints]:
        """Take the rows in memory, by file, with the rows of each file; without a sort, they keep their keys.

        starts: as `tables` takes it.
        """
        parts, self._parts, self._pending_bytes = self._parts, [], 0
        parts.sort(key=lambda pair: pair[0].origin)
        of_file = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(self.counts)))
        files = np.concatenate(
            [np.repeat(of_file[first : first + len(part.counts)], part.counts) for part, first in parts]
        )
        batches = [_grown(pa.ipc.open_stream(part.batch).read_next_batch(), self._schema) for part, _ in parts]
        parts.clear()
        count = len(starts)
        return join_by_file(batches, files, count, self._schema, sort), np.bincount(files, minlength=count)


def _grown(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [grow(column, field.type) for column, field in zip(batch.columns, schema, strict=False)]
    return pa.RecordBatch.from_arrays([*columns, *batch.columns[len(schema) :]], batch.schema.names)
