"""Small files into larger ones, unchanged: one task reads the files of a bin and writes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from zskip.spark.write.arrow.access import Access, Reach
from zskip.spark.write.arrow.forms import has_nan
from zskip.spark.write.arrow.reading import Reader, Source
from zskip.spark.write.arrow.schema import explain_limits, leaves_of, prepare_worker
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
    floats = [
        i
        for i, field in enumerate(options.schema)
        if any(pa.types.is_floating(leaf) for _, leaf in leaves_of(field.type))
    ]
    nans: set[int] = set()
    batches: list[pa.RecordBatch] = []
    spilled: Spilled | None = None
    pending_bytes = 0
    try:
        for path, size, partition in one.sources:
            for batch in reader.batches(Source(path, size, partition)):
                nans.update(i for i in floats if i not in nans and has_nan(batch.column(i)))
                pending_bytes += batch.nbytes
                batches.append(batch)
                if pending_bytes > PENDING_BYTES:
                    spilled = Spilled() if spilled is None else spilled
                    for batch in batches:
                        spilled.add(decode(batch))
                    batches.clear()
        if spilled is None:
            return write_parquet(options, access, one.file, join_sorted(batches, options.schema, options.sort), nans)
        for batch in batches:
            spilled.add(decode(batch))
        batches.clear()
        return write_parquet(options, access, one.file, spilled.table(), nans)
    finally:
        if spilled is not None:
            spilled.__exit__()
