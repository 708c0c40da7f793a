"""Read the statistics of one Parquet file from its footer, as far as they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.index.leaves import Column, Leaf, Leaves, read_leaves
from zskip.index.trust import Trust, judge, odd_columns
from zskip.types import Encoded, Form

MAX_BOUND_BYTES = 64
"""Longer bounds of strings are shortened: the lower one is cut, the upper one cut and rounded up."""

_TAIL_BYTES = 1 << 16
_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_TRAILER_BYTES = 8
_DAY_1900 = -25_567
_MICROS_1900 = _DAY_1900 * 86_400_000_000


class LeafStats(NamedTuple):
    """What one file's footer says of one column."""

    column: int
    """Place in `FooterStats.columns`."""
    nulls: int
    """-1 where unknown."""
    lower: Encoded | None
    """In the form of the column's type; None where unknown, and then so is `upper`."""
    upper: Encoded | None
    nans: int = -1
    """-1 where unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FooterStats:
    """What one file's footer says."""

    rows: int
    columns: tuple[Column, ...]
    """All columns the file holds, those that cannot be indexed too."""
    defaults: frozenset[str]
    """Top-level columns that files without them hold a default in, not nulls."""
    stats: tuple[LeafStats, ...]
    """Of the columns of which something is known."""
    row_groups: tuple[FooterStats, ...] = ()
    """The same of each row group, where it was asked for."""


class FooterReader:
    """Reads the footers of files, remembering what their schemas mean; safe to share between threads.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> stream = io.BytesIO()
    >>> pq.write_table(pa.table({"a": [3, None, 1]}), stream)
    >>> FooterReader().read(stream, stream.tell()).stats
    (LeafStats(column=0, nulls=1, lower=1, upper=3, nans=-1),)
    """

    def __init__(self) -> None:
        self._known: list[tuple[pq.ParquetSchema, Leaves]] = []

    def read(self, stream: BinaryIO, size: int, *, row_groups: bool = False) -> FooterStats:
        """Read the footer of a file of `size` bytes; row_groups: say of each of them what it says of the file.

        Raises ValueError, OSError or a pyarrow error where the file is not a readable Parquet file.
        """
        footer, tail = _read_tail(stream, size)
        metadata = pq.ParquetFile(pa.BufferReader(tail)).metadata
        keys = metadata.metadata
        trust = judge(footer, metadata.num_columns, metadata.created_by, keys)
        collated, defaults = odd_columns(keys)
        leaves = self._leaves(metadata.schema)
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        if sum(group.num_rows for group in groups) != metadata.num_rows:
            raise ValueError("its row groups do not add up to its rows")
        columns = leaves.columns
        unsure = set() if trust.utc_int96 else {leaf.column for leaf in leaves.indexed if leaf.int96}
        if collated or unsure:
            columns = tuple(
                Column(c.path, None) if c.path[0] in collated or i in unsure else c for i, c in enumerate(columns)
            )
        indexed = [leaf for leaf in leaves.indexed if columns[leaf.column].type is not None]

        def of(some: list[Any], parts: tuple[FooterStats, ...] = ()) -> FooterStats:
            found = [merge_groups(leaf, some, trust) for leaf in indexed]
            stats = tuple(x for x in found if x.nulls >= 0 or x.lower is not None)
            rows = sum(group.num_rows for group in some)
            return FooterStats(rows=rows, columns=columns, defaults=defaults, stats=stats, row_groups=parts)

        return of(groups, tuple(of([group]) for group in groups) if row_groups else ())

    def _leaves(self, schema: pq.ParquetSchema) -> Leaves:
        for known, leaves in self._known:
            if known.equals(schema):
                return leaves
        leaves = read_leaves(schema)
        self._known = [(schema, leaves), *self._known[:15]]
        return leaves


def _read_tail(stream: BinaryIO, size: int) -> tuple[bytes, bytes]:
    """Give the footer's bytes, and the end of the file from the footer on."""
    if size < _TRAILER_BYTES + len(_MAGIC):
        raise ValueError("it is too short to be a Parquet file")
    tail = _read_range(stream, max(0, size - _TAIL_BYTES), size)
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise ValueError("its footer is encrypted")
    if tail[-4:] != _MAGIC:
        raise ValueError("it does not end as a Parquet file does")
    length = int.from_bytes(tail[-8:-4], "little")
    whole = length + _TRAILER_BYTES
    if whole > size:
        raise ValueError("its footer is longer than the file")
    if whole > len(tail):
        tail = _read_range(stream, size - whole, size)
    return tail[-whole:-_TRAILER_BYTES], tail[-whole:]


def _read_range(stream: BinaryIO, start: int, end: int) -> bytes:
    stream.seek(start)
    parts = []
    while start < end:
        part = stream.read(end - start)
        if not part:
            raise ValueError("it is shorter than its listing said")
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def merge_groups(leaf: Leaf, groups: list[Any], trust: Trust) -> LeafStats:
    """Bring the statistics of all row groups of one leaf together.

    Any group that has values and no bounds leaves the file unbounded.
    """
    nulls = 0
    lowers: list[Any] = []
    uppers: list[Any] = []
    bounded = True
    for group in groups:
        stats = group.column(leaf.ordinal).statistics
        rows = group.num_rows
        missing = _null_count(stats, rows, leaf.required)
        nulls = -1 if nulls < 0 or missing < 0 else nulls + missing
        if missing == rows or not bounded:
            continue
        if stats is None or not stats.has_min_max:
            bounded = False
            continue
        lowers.append(stats.min_raw)
        uppers.append(stats.max_raw)
    bounds = _bounds(leaf, lowers, uppers, trust) if bounded else None
    nans = 0 if trust.nan_in_bounds and bounds and leaf.type.form is Form.FLOAT else -1
    lower, upper = bounds or (None, None)
    return LeafStats(leaf.column, nulls, lower, upper, nans)


def _null_count(stats: Any, rows: int, required: bool) -> int:
    if required or rows == 0:
        return 0
    if stats is None or not stats.has_null_count:
        return -1
    count = stats.null_count
    return count if count is not None and 0 <= count <= rows else -1


def _bounds(leaf: Leaf, lowers: list[Any], uppers: list[Any], trust: Trust) -> tuple[Encoded, Encoded] | None:
    """Decode the bounds of the groups and merge them; None where they may not be believed."""
    form = leaf.type.form
    if not lowers or (leaf.by_bytes and not trust.ordered) or (form is Form.FLOAT and not trust.floats):
        return None
    if leaf.decimal_bytes and not trust.decimal_bytes:
        return None
    decode = leaf.decode
    low: list[Any] = lowers if decode is None else [decode(x) for x in lowers]
    high: list[Any] = uppers if decode is None else [decode(x) for x in uppers]
    if None in low or None in high or any(a > b for a, b in zip(low, high, strict=True)):
        return None
    lower, upper = min(low), max(high)
    if leaf.calendar and not trust.proleptic and lower < (_DAY_1900 if leaf.type.name == "date" else _MICROS_1900):
        return None
    if form is Form.BYTES and not leaf.type.is_decimal:
        upper = shorten_upper(upper)
        return None if upper is None else (lower[:MAX_BOUND_BYTES], upper)
    return lower, upper


def shorten_upper(value: bytes) -> bytes | None:
    r"""Give a bound of at most `MAX_BOUND_BYTES` that is not below `value`; None where there is none.

    >>> shorten_upper(b"a" * 100) == b"a" * 63 + b"b"
    True
    """
    if len(value) <= MAX_BOUND_BYTES:
        return value
    head = value[:MAX_BOUND_BYTES].rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None
