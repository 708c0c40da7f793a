"""Reads the trustworthy statistics of one Parquet file from its footer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.index.collect.trust import Trust, find_special_columns, is_of_zskip, judge
from zskip.index.store.leaves import Column, Decode, Leaf, Leaves, read_leaves
from zskip.index.store.thrift import encrypted_columns
from zskip.predicate.patterns import next_prefix
from zskip.types import Encoded, Form

NAN_STATISTICS = b"zskip.nan_statistics"
"""The key under which the rewrite through Arrow records the statistics of columns that have none because of NaN: for
each row group the nulls, the NaN, and the bounds of the other values."""
MAX_BOUND_BYTES = 64
"""Longer bounds of strings are shortened: the lower one is cut, the upper one cut and rounded up."""

_TAIL_BYTES = 1 << 16
_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_TRAILER_BYTES = 8
_DAY_1900 = -25_567
_MICROS_1900 = _DAY_1900 * 86_400_000_000


_PlanKey = tuple[Trust, frozenset[str], frozenset[int]]
"""As `plan_footers` takes them."""


class LeafLists(NamedTuple):
    """A footer's statistics of all columns: lists, faster than thousands of records."""

    columns: tuple[int, ...]
    """Positions in `FooterStats.columns`; shared by footers with the same plan."""
    nulls: list[int]
    """-1 if unknown, as in `nans`."""
    lower: list[Encoded | None]
    """In the form of the column's type; None if unknown, and then so is `upper`."""
    upper: list[Encoded | None]
    nans: list[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class FooterStats:
    """The statistics in one file's footer."""

    rows: int
    columns: tuple[Column, ...]
    """All columns of the file, including those that cannot be indexed."""
    defaults: frozenset[str]
    """Top-level columns with a default, which files without the column hold instead of nulls."""
    leaves: LeafLists
    """Statistics of the columns that can be indexed."""
    row_groups: tuple[FooterStats, ...] = ()
    """The same for each row group, if requested."""


class EncryptedFooterError(ValueError):
    """A footer that says nothing without its key."""


class RawFooter(NamedTuple):
    """A file's footer."""

    content: bytes
    """The Thrift `FileMetaData`, and its signature where columns are encrypted."""
    metadata: pq.FileMetaData
    encrypted: frozenset[int]
    """The positions of encrypted leaf columns: pyarrow ends the process that asks for the metadata of their chunks."""


def read_footer(stream: BinaryIO, size: int | None = None) -> RawFooter:
    """Read a file's footer; size: of the file in bytes, None to ask the stream.

    Raises EncryptedFooterError, and ValueError, OSError or a pyarrow error if the file is not a readable Parquet file.
    """
    footer, tail = _read_tail(stream, stream.seek(0, os.SEEK_END) if size is None else size)
    metadata = _Footer(pa.BufferReader(tail)).metadata
    # Where columns are encrypted, a signature follows the metadata.
    is_signed = metadata.serialized_size < len(footer)
    return RawFooter(footer, metadata, encrypted_columns(footer) if is_signed else frozenset())


class FooterReader:
    """Reads the footers of files and caches the plans for their schemas; safe to share between threads.

    with_ids: whether the ids of the columns' fields are read.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> stream = io.BytesIO()
    >>> pq.write_table(pa.table({"a": [3, None, 1]}), stream)
    >>> FooterReader().read(stream, stream.tell()).leaves
    LeafLists(columns=(0,), nulls=[1], lower=[1], upper=[3], nans=[-1])
    """

    def __init__(self, *, with_ids: bool = False) -> None:
        self._with_ids = with_ids
        self._cached: list[tuple[pq.ParquetSchema, Leaves, dict[_PlanKey, Plan]]] = []

    def read(self, stream: BinaryIO, size: int, *, row_groups: bool = False) -> FooterStats:
        """Read the footer of a file of `size` bytes; row_groups: also return the statistics of each row group.

        Raises ValueError, OSError or a pyarrow error if the file is not a readable Parquet file.
        """
        footer, metadata, encrypted = read_footer(stream, size)
        keys = metadata.metadata
        trust = judge(footer, metadata.num_columns, metadata.created_by, keys)
        collated, defaults = find_special_columns(keys)
        plan = self._plan(metadata.schema, trust, collated, encrypted)
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        rows = [group.num_rows for group in groups]
        if sum(rows) != metadata.num_rows:
            raise ValueError("its row groups do not add up to its rows")
        group_leaves = [read_group_stats(plan, group) for group in groups]
        # Other writers may copy the keys of a file, but not its rows.
        if keys is not None and NAN_STATISTICS in keys and is_of_zskip(metadata.created_by):
            _add_nan_statistics(plan, rows, group_leaves, json.loads(keys[NAN_STATISTICS]))

        stats = partial(FooterStats, columns=plan.columns, defaults=defaults)
        return stats(
            rows=metadata.num_rows,
            leaves=group_leaves[0] if len(group_leaves) == 1 else _merge_groups(plan, rows, group_leaves),
            row_groups=tuple(stats(rows=n, leaves=x) for n, x in zip(rows, group_leaves, strict=True) if row_groups),
        )

    def _plan(
        self, schema: pq.ParquetSchema, trust: Trust, collated: frozenset[str], encrypted: frozenset[int]
    ) -> Plan:
        cached = next((x for x in self._cached if x[0].equals(schema)), None)
        if cached is None:
            cached = (schema, read_leaves(schema, with_ids=self._with_ids), {})
            self._cached = [cached, *self._cached[:15]]
        _, leaves, plans = cached
        plan = plans.get((trust, collated, encrypted))
        if plan is None:
            plan = plans[trust, collated, encrypted] = plan_footers(leaves, trust, collated, encrypted)
        return plan


class _Footer(pq.ParquetFile):  # type: ignore[misc]
    """A file of which only the footer is read."""

    def _build_nested_paths(self) -> dict[str, list[int]]:
        """Empty: pyarrow needs them only to read rows, and they take a sixth of the time."""
        return {}


class Step(NamedTuple):
    """How one leaf's statistics are read."""

    ordinal: int
    physical_type: str
    column: int
    """Position in `Plan.columns`."""
    required: bool
    trusted: bool
    """Whether bounds can be trusted."""
    decode: Decode | None
    least: int | None
    """Lower bounds below this value depend on the calendar."""
    cut: bool
    """Whether bounds are shortened."""
    tells_nan: bool
    """Whether bounds show that there is no NaN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How footers with one schema and one level of trust are read."""

    columns: tuple[Column, ...]
    steps: tuple[Step, ...]
    leaves: tuple[int, ...]
    """The columns of the steps."""


def plan_footers(
    leaves: Leaves, trust: Trust, collated: frozenset[str], encrypted: frozenset[int] = frozenset()
) -> Plan:
    """Plan how to read footers.

    collated: top-level columns that are not ordered by their bytes; encrypted: positions of leaf columns of which
    nothing may be indexed.
    """
    columns = leaves.columns
    shifted = set() if trust.utc_int96 else {leaf.column for leaf in leaves.indexed if leaf.int96}
    hidden = shifted | {leaves.column_of[ordinal] for ordinal in encrypted}
    if collated or hidden:
        columns = tuple(
            c._replace(type=None) if c.path[0] in collated or i in hidden else c for i, c in enumerate(columns)
        )
    steps = tuple(_step(leaf, trust) for leaf in leaves.indexed if columns[leaf.column].type is not None)
    return Plan(columns=columns, steps=steps, leaves=tuple(step.column for step in steps))


def _step(leaf: Leaf, trust: Trust) -> Step:
    form = leaf.type.form
    is_unordered = leaf.by_bytes and not trust.ordered
    is_wrong = (
        (form is Form.FLOAT and not trust.floats)
        or (leaf.decimal_bytes and not trust.decimal_bytes)
        or (not trust.times and (leaf.calendar or leaf.type.is_time))
    )
    first = _DAY_1900 if leaf.type.name == "date" else _MICROS_1900
    return Step(
        ordinal=leaf.ordinal,
        physical_type=leaf.physical_type,
        column=leaf.column,
        required=leaf.required,
        trusted=not (is_unordered or is_wrong),
        decode=leaf.decode,
        least=first if leaf.calendar and not trust.proleptic else None,
        cut=form is Form.BYTES and not leaf.type.is_decimal,
        tells_nan=trust.nan_in_bounds and form is Form.FLOAT,
    )


def _read_tail(stream: BinaryIO, size: int) -> tuple[bytes, bytes]:
    """The footer's bytes, and the end of the file from the footer on."""
    if size < _TRAILER_BYTES + len(_MAGIC):
        raise ValueError("it is too short to be a Parquet file")
    tail = _read_range(stream, max(0, size - _TAIL_BYTES), size)
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise EncryptedFooterError("its footer is encrypted")
    if tail[-4:] != _MAGIC:
        raise ValueError("it does not end as a Parquet file does")
    length = int.from_bytes(tail[-8:-4], "little")
    footer_size = length + _TRAILER_BYTES
    if footer_size > size:
        raise ValueError("its footer is longer than the file")
    if footer_size > len(tail):
        tail = _read_range(stream, size - footer_size, size)
    return tail[-footer_size:-_TRAILER_BYTES], tail[-footer_size:]


def _read_range(stream: BinaryIO, start: int, end: int) -> bytes:
    stream.seek(start)
    parts = []
    while start < end:
        part = stream.read(end - start)
        if not part:
            raise ValueError("it is shorter than in its listing")
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def read_group_stats(plan: Plan, group: Any) -> LeafLists:
    """The statistics of a row group's leaves, in one loop without calls of its own: there are millions."""
    column, rows = group.column, group.num_rows
    lists = LeafLists(plan.leaves, [], [], [], [])
    add_nulls, add_lower, add_upper, add_nans = (values.append for values in lists[1:])
    for ordinal, physical_type, _, required, trusted, decode, least, cut, tells_nan in plan.steps:
        chunk = column(ordinal)
        # pyarrow ends the process that asks for statistics of another type.
        if chunk.physical_type != physical_type:
            raise ValueError(f"a column is of type {physical_type} in its schema and {chunk.physical_type} beside")
        stats = chunk.statistics
        nulls = -1
        if required or not rows:
            nulls = 0
        elif stats is not None and stats.has_null_count:
            count = stats.null_count
            nulls = count if count is not None and 0 <= count <= rows else -1
        lower: Any = None
        upper: Any = None
        if trusted and nulls != rows and stats is not None and stats.has_min_max:
            lower, upper = stats.min_raw, stats.max_raw
            if decode is not None:
                lower, upper = decode(lower), decode(upper)
            if lower is None or upper is None or lower > upper or (least is not None and lower < least):
                lower = upper = None
            elif cut and len(upper) > MAX_BOUND_BYTES:
                upper = shorten_upper(upper)
            if cut:
                lower = None if upper is None else lower[:MAX_BOUND_BYTES]
        add_nulls(nulls)
        add_lower(lower)
        add_upper(upper)
        add_nans(0 if tells_nan and lower is not None else -1)
    return lists


def _add_nan_statistics(
    plan: Plan, rows: Sequence[int], groups: Sequence[LeafLists], statistics: Mapping[str, Sequence[Any]]
) -> None:
    """Add statistics from a file's metadata; statistics: for each top-level column those of all row groups."""
    for i, step in enumerate(plan.steps):
        path = plan.columns[step.column].path
        known = statistics.get(path[0], ()) if len(path) == 1 and step.tells_nan else ()
        for group, group_rows, (nulls, nans, lower, upper) in zip(groups, rows, known, strict=False):
            if group.lower[i] is None and min(nulls, nans) >= 0 and nulls + nans <= group_rows:
                group.nulls[i], group.nans[i], group.lower[i], group.upper[i] = nulls, nans, lower, upper


def _merge_groups(plan: Plan, rows: Sequence[int], groups: Sequence[LeafLists]) -> LeafLists:
    """The statistics of all row groups together: a group with values but no bounds leaves the file unbounded."""
    merged = LeafLists(plan.leaves, [], [], [], [])
    for i in range(len(plan.steps)):
        nulls = [x.nulls[i] for x in groups]
        not_null = [x for x, count in zip(groups, rows, strict=True) if x.nulls[i] != count]
        nans = [x.nans[i] for x in not_null]
        with_values = [x for x, count in zip(groups, rows, strict=True) if x.nulls[i] + max(x.nans[i], 0) != count]
        lows: list[Any] = [x.lower[i] for x in with_values]
        highs: list[Any] = [x.upper[i] for x in with_values]
        bounded = bool(with_values) and None not in lows
        merged.nulls.append(-1 if -1 in nulls else sum(nulls))
        merged.lower.append(min(lows) if bounded else None)
        merged.upper.append(max(highs) if bounded else None)
        merged.nans.append(-1 if not nans or -1 in nans else sum(nans))
    return merged


def shorten_upper(value: bytes) -> bytes | None:
    r"""A bound of at most `MAX_BOUND_BYTES` that is not below `value`; None if there is none.

    >>> shorten_upper(b"a" * 100) == b"a" * 63 + b"b"
    True
    """
    return value if len(value) <= MAX_BOUND_BYTES else next_prefix(value[:MAX_BOUND_BYTES])
