"""The rows of a DataFrame and a sample of them from one run of its plan, kept where Spark keeps its caches.

    rows -> batches of Arrow, on disk -> sample -> layout -> place what lies there

Spark computes what a lost executor kept once more. Every partition has the mark of its run, so that rows of two runs,
which may differ, never come together: see `Recomputed`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.layout.sampling import ReservoirPlan
from zskip.records import Field, Ints, Sample
from zskip.spark.forms import PREFIX_BYTES
from zskip.spark.jvm.arrays import lookup
from zskip.spark.jvm.compat import collect_arrow, in_session, next_session
from zskip.spark.shipping import partition_number
from zskip.spark.write.arrow.columns import plain
from zskip.spark.write.arrow.placing import (
    PlacedRows,
    Placement,
    column_at,
    key_forms,
    new_run,
    place_rows,
    position_hashes,
)
from zskip.spark.write.arrow.rows import RowColumns, measure_rows
from zskip.spark.write.arrow.schema import explain_limits, prepare_worker, schema_of_ddl
from zskip.spark.write.draw import Reservoir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPOOLED = (
    "part integer, run integer, rows long, measured_rows long, measured_bytes long, "
    "chunk integer, sample binary, batch binary"
)
"""A batch of rows, a chunk of the sample, or, with `rows`, what a partition is in all."""
_SPOOLED = schema_of_ddl(SPOOLED)
_MEASURING_TASKS, _MEASURED_ROWS, _FEW_ROWS = 4, 20_000, 2_000
"""How many tasks tell the bytes of a row in a file from many rows, if they have any; others look at few."""
_LEAST_CHUNK = 256
"""Rows of the first chunk of a sample; each next one doubles what has come."""


def spooler(
    schema: pa.Schema, keys: Sequence[Sequence[int]], seed: int, codec: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from rows of a DataFrame to the rows of `SPOOLED`.

    After the columns of the schema come the number of the row's Hive partition and the computed keys. keys: as in
    `Placement`; codec: of the new files, as pyarrow names it.
    """
    size = ReservoirPlan.of(1).sample_size
    positions = [list(path) for path in keys]

    def spool(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        part = partition_number()
        common = {"part": part, "run": new_run()}
        columns, width = RowColumns(schema), len(schema)
        reservoir = Reservoir(size, seed, part)
        measured = (0, 0)
        with explain_limits():
            for batch in batches:
                if not batch.num_rows:
                    continue
                if not reservoir.row_count:
                    most = _MEASURED_ROWS if part < _MEASURING_TASKS else _FEW_ROWS
                    measured = measure_rows([batch.select(list(range(width))).slice(0, most)], codec)
                converted = columns.convert(batch)
                others = batch.columns[width:]
                reservoir.add(pa.Table.from_batches([_keys_of(converted, others, positions)]))
                rows = pa.RecordBatch.from_arrays(
                    [*converted.columns, *others], [str(i) for i in range(batch.num_columns)]
                )
                yield _record(common, batch=_pack(rows))
            for number, chunk in enumerate(_chunks(reservoir.shuffled())):
                yield _record(common, chunk=number, sample=_pack(chunk))
        yield _record(common, rows=reservoir.row_count, measured_rows=measured[0], measured_bytes=measured[1])

    return spool


def _keys_of(batch: pa.RecordBatch, others: Sequence[pa.Array], keys: Sequence[Sequence[int]]) -> pa.RecordBatch:
    """The keys of rows, no longer than layouts take them, and the number of their Hive partition."""
    ordinal, *computed = others
    rest = iter(computed)
    columns = [_prefixes(column_at(batch, path)) if path else next(rest) for path in keys]
    return pa.RecordBatch.from_arrays([*columns, ordinal], [str(i) for i in range(len(columns) + 1)])


def _prefixes(column: pa.Array) -> pa.Array:
    column = plain(column)
    is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    return pc.binary_slice(column.cast(pa.binary()), 0, PREFIX_BYTES) if is_text else column


def _chunks(sample: pa.Table | None) -> Iterator[pa.RecordBatch]:
    start, end = 0, _LEAST_CHUNK
    while sample is not None and start < sample.num_rows:
        yield sample.slice(start, end - start).combine_chunks().to_batches()[0]
        start, end = end, 2 * end


def _chunk_count(rows: int) -> int:
    """How many chunks hold so many rows of a sample.

    >>> [_chunk_count(rows) for rows in (0, 1, 256, 257, 512, 513)]
    [0, 1, 1, 2, 2, 3]
    """
    return 1 + (-(-rows // _LEAST_CHUNK) - 1).bit_length() if rows else 0


def _pack(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(batch)
    return cast(bytes, sink.getvalue().to_pybytes())


def _unpack(content: pa.BinaryScalar) -> pa.RecordBatch:
    return pa.ipc.open_stream(content.as_buffer()).read_next_batch()


def _record(common: Mapping[str, Any], **values: Any) -> pa.RecordBatch:
    values |= common
    return pa.RecordBatch.from_arrays(
        [pa.array([values.get(field.name)], field.type) for field in _SPOOLED], schema=_SPOOLED
    )


def spool_placer(placement: Placement) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` from the parts, runs and batches of one partition to the rows of `SHIPPED`."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        records = (record for batch in batches for record in zip(*batch.columns, strict=True))
        first = next(records, None)
        if first is not None:
            part, run, _ = first
            with explain_limits():
                rows = _rows(itertools.chain([first], records), placement.schema)
                yield from place_rows(placement, part.as_py(), rows, run.as_py())

    return place


def _rows(records: Iterable[Sequence[Any]], schema: pa.Schema) -> Iterator[PlacedRows]:
    width = len(schema)
    for number, (part, _, content) in enumerate(records):
        batch = _unpack(content)
        rows = pa.RecordBatch.from_arrays(batch.columns[:width], schema.names)
        # Of the place of a row, which stays the same in one run.
        tie = position_hashes(part.as_py() << 32 | number, 0, batch.num_rows)
        yield rows, batch.column(width).to_numpy(), tie, batch.columns[width + 1 :]


class Spool:
    """Rows on disk, until the block ends."""

    def __init__(self, spooled: DataFrame) -> None:
        """spooled: the columns of `SPOOLED`, in a private session."""
        from pyspark import StorageLevel

        self._frame = self._cached = spooled.persist(StorageLevel.DISK_ONLY)
        self._parts: dict[int, int] = {}
        """The rows of each of Spark's partitions."""
        self.row_bytes: float | None = None
        """Of a row in files, about; None where pyarrow does not write them."""

    def fill(self, settings: Mapping[str, str]) -> None:
        """Run the plan, with the settings of its own session; settings: by which batches are read, few at a time."""
        parts = collect_arrow(
            self._cached.where("rows IS NOT NULL").select("part", "rows", "measured_rows", "measured_bytes")
        ).to_pylist()
        self._parts = {part["part"]: part["rows"] for part in parts}
        many = [part for part in parts if part["part"] < _MEASURING_TASKS and part["measured_rows"]]
        rows, size = (sum(part[f"measured_{name}"] for part in many or parts) for name in ("rows", "bytes"))
        self.row_bytes = size / rows if rows else None
        self._frame = in_session(self._cached, next_session(self._cached.sparkSession, settings))

    @property
    def rows(self) -> int:
        """Number of all rows."""
        return sum(self._parts.values())

    @property
    def batches(self) -> DataFrame:
        """The input of `spool_placer`."""
        return self._frame.where("batch IS NOT NULL").select("part", "run", "batch")

    def draw(self, fields: Sequence[Field]) -> Sample:
        """Draw from each part as many rows as is its share of all."""
        import pyspark.sql.functions as F

        counts = np.zeros(max(self._parts, default=0) + 1, np.int64)
        counts[list(self._parts)] = list(self._parts.values())
        plan = ReservoirPlan.of(1)
        quotas = np.minimum(np.ceil(plan.fraction(counts) * counts).astype(np.int64), plan.sample_size)
        chunks: Ints = np.array([_chunk_count(int(quota)) for quota in quotas], np.int64)
        is_drawn = F.col("chunk") < lookup(self._frame.sparkSession, chunks, F.col("part"))
        drawn = collect_arrow(self._frame.where("chunk IS NOT NULL").where(is_drawn).select("part", "chunk", "sample"))
        samples: dict[int, list[pa.RecordBatch]] = {}
        for record in drawn.sort_by([("part", "ascending"), ("chunk", "ascending")]).to_batches():
            for part, content in zip(record.column("part"), record.column("sample"), strict=True):
                samples.setdefault(part.as_py(), []).append(_unpack(content))
        tables = {n: pa.Table.from_batches(chunks).slice(0, int(quotas[n])) for n, chunks in samples.items()}
        weights = [np.full(table.num_rows, counts[n] / table.num_rows) for n, table in tables.items()]
        rows = pa.concat_tables(tables.values()).combine_chunks().to_batches()[0]
        forms = key_forms(rows.columns[:-1], fields)
        return Sample(
            fields=tuple(fields),
            columns=tuple(values for values, _ in forms),
            nulls=tuple(nulls for _, nulls in forms),
            partition=rows.columns[-1].to_numpy().astype(np.int32),
            weights=np.concatenate(weights),
        )

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._cached.unpersist()
