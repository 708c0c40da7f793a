"""Which columns keep their dictionaries only as long as few values lie in a file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow.parquet as pq

from zskip.formats.footers.footer import codec_of, read_raw_footer
from zskip.records import Snapshot
from zskip.storage import Storage

_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_ENTROPY_CODECS = {"zstd", "gzip", "brotli"}
_OFTEN = 4


def count_dictionary_values(
    storage: Storage, snapshot: Snapshot, *, without: Sequence[str], codec: str | None = None
) -> list[tuple[float, int]]:
    """Columns of fixed width whose dictionaries the table keeps: the number of values, and the bytes of each.

    Decided by the table's first and last row group. Excluded are the columns `without`, and columns with few values
    only because of the order of rows: their two groups share no values, or hardly any value occurs four times. No
    column needs its dictionary if `codec`, or the table's own codec, writes frequent values in fewer bits anyway.
    Raises CorruptFileError if a file cannot be read.
    """
    if not len(snapshot):
        return []
    footers = [read_raw_footer(storage, snapshot.paths[i], int(snapshot.sizes[i])) for i in (0, -1)]
    ends = [footer.metadata for footer in footers]
    if not all(end.num_row_groups and end.num_columns for end in ends) or any(f.encrypted for f in footers):
        return []
    if (codec or codec_of(footers[0])) in _ENTROPY_CODECS:
        return []
    groups = ends[0].row_group(0), ends[1].row_group(ends[1].num_row_groups - 1)
    dictionaries = []
    for i in range(min(group.num_columns for group in groups)):
        first, last = (group.column(i) for group in groups)
        width = _WIDTHS.get(first.physical_type)
        has_dictionary = any(encoding.endswith("_DICTIONARY") for encoding in first.encodings)
        is_sound = all(
            part.physical_type == end.schema.column(i).physical_type
            for part, end in zip((first, last), ends, strict=True)
        )
        if (
            width is None
            or not is_sound
            or not has_dictionary
            or first.path_in_schema in without
            or _are_disjoint(first, last)
        ):
            continue
        values = _solve_distinct(first.total_uncompressed_size, first.num_values, width)
        if _OFTEN * values <= first.num_values:
            dictionaries.append((values, width))
    return dictionaries


def _are_disjoint(one: pq.ColumnChunkMetaData, other: pq.ColumnChunkMetaData) -> bool:
    """Whether the bounds of two chunks do not overlap, as far as they are known."""
    has_bounds = all(part.statistics is not None and part.statistics.has_min_max for part in (one, other))
    if not has_bounds or (one.path_in_schema, one.physical_type) != (other.path_in_schema, other.physical_type):
        return False
    a, b = one.statistics, other.statistics
    # Raw values: Python cannot hold a date before year 1, or nanoseconds.
    return bool(a.max_raw < b.min_raw or b.max_raw < a.min_raw)


def _solve_distinct(size: int, count: int, width: int) -> float:
    """The number of values in a dictionary, from the bytes of the dictionary and of the rows' references to it."""
    low, high = 1.0, float(max(count, 1))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if width * middle + count * math.log2(middle) / 8 < size else (low, middle)
    return high
