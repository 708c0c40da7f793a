"""Small files into larger ones, unchanged: one task reads the files of a bin and writes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from zskip.spark.write.arrow.access import Access, Reach
from zskip.spark.write.arrow.reading import Reader, Source
from zskip.spark.write.arrow.schema import explain_limits, prepare_worker
from zskip.spark.write.arrow.sorting import decode, join_sorted
from zskip.spark.write.arrow.spilling import Spilled
from zskip.spark.write.arrow.writing import PENDING_BYTES, FileOptions, write_parquet


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
        prepare_worker()
        reader = Reader(source(), options.schema, corrected=corrected)
        access = options.reach()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with explain_limits():
                    yield _merge(options, reader, access, Bin(*plain_bins[number]))

    return merge


def _merge(options: FileOptions, reader: Reader, access: Access, one: Bin) -> pa.RecordBatch:
    batches: list[pa.RecordBatch] = []
    spilled: Spilled | None = None
    pending_bytes = 0
    try:
        for path, size, partition in one.sources:
            for batch in reader.batches(Source(path, size, partition)):
                pending_bytes += batch.nbytes
                batches.append(batch)
                if pending_bytes > PENDING_BYTES:
                    spilled = Spilled() if spilled is None else spilled
                    for batch in batches:
                        spilled.add(decode(batch))
                    batches.clear()
        if spilled is None:
            return write_parquet(options, access, one.file, join_sorted(batches, options.schema, options.sort))
        for batch in batches:
            spilled.add(decode(batch))
        batches.clear()
        return write_parquet(options, access, one.file, spilled.table())
    finally:
        if spilled is not None:
            spilled.__exit__()
