"""Small files into larger ones, unchanged: one task reads the files of a bin and writes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from zskip.records import EXACT_NAMES, Matching
from zskip.spark.write.arrow.access import Access, Reach
from zskip.spark.write.arrow.reading import Reader, read_tasks
from zskip.spark.write.arrow.schema import explain_limits, prepare_worker
from zskip.spark.write.arrow.sorting import Spilled, decode, join_sorted
from zskip.spark.write.arrow.writing import PENDING_BYTES, FileOptions, Origins, write_parquet


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
