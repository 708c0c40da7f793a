"""Draw the sample that a layout is fitted to: one narrow pass over the clustering columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.layout.layout import Layout
from zskip.layout.sampling import ReservoirPlan
from zskip.records import Bools, Field, Floats, Ints, Sample, Values, objects, zeros
from zskip.spark.forms import curve_form, form_of, quote_identifier
from zskip.spark.jvm import compat
from zskip.spark.shipping import partition_number, ship
from zskip.types import Form

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ORDINAL, _PART, _PART_ROWS, _POSITION = "zskip_ordinal", "zskip_part", "zskip_part_rows", "zskip_position"
_SQL_TYPES = {Form.INT: "bigint", Form.FLOAT: "double", Form.BYTES: "binary"}


def draw_bernoulli(frame: DataFrame, fields: Sequence[Field], ordinal: str, fraction: float, seed: int) -> Sample:
    """Draw each row with the same probability; the same seed on the same files draws the same rows.

    ordinal: name of the integer column that numbers the Hive partitions. Raises ColumnError for a column that has no
    order.
    """
    return _draw(frame.select(*_select_forms(fields, ordinal)), fields, fraction, seed)[0]


def draw_with_positions(
    frame: DataFrame, fields: Sequence[Field], ordinal: str, row: str, fraction: float, seed: int
) -> tuple[Sample, Ints]:
    """Draw as `draw_bernoulli`; also return the position of each row in its file, which is the column `row`."""
    import pyspark.sql.functions as F

    narrow = frame.select(*_select_forms(fields, ordinal), F.col(row).alias(_POSITION))
    sample, table = _draw(narrow, fields, fraction, seed)
    return sample, _to_integers(table, _POSITION)


def _draw(narrow: DataFrame, fields: Sequence[Field], fraction: float, seed: int) -> tuple[Sample, pa.Table]:
    table = compat.collect_arrow(narrow if fraction >= 1.0 else narrow.sample(False, fraction, seed))
    return _to_sample(table, fields, np.full(table.num_rows, 1.0 / min(fraction, 1.0))), table


def draw_reservoir(frame: DataFrame, fields: Sequence[Field], ordinal: str, seed: int) -> Sample:
    """Draw without the number of rows: a reservoir in each of Spark's partitions, weighted by its rows.

    Partitions with far more rows than others are drawn again, at the plain fraction, as in Spark's
    `RangePartitioner.sketch`. Raises ColumnError for a column that has no order.
    """
    import pyspark.sql.functions as F

    narrow = frame.select(*_select_forms(fields, ordinal))
    plan = ReservoirPlan.of(narrow.rdd.getNumPartitions())
    columns = [f"c{i} {_SQL_TYPES[curve_form(field.type)]}" for i, field in enumerate(fields)]
    schema = ", ".join([*columns, f"{_ORDINAL} int", f"{_PART} int", f"{_PART_ROWS} bigint"])
    table = compat.collect_arrow(narrow.mapInArrow(ship(_reservoir(plan.rows_per_partition, seed)), schema))
    part, part_rows = _to_integers(table, _PART), _to_integers(table, _PART_ROWS)
    counts = np.zeros(int(part.max(initial=-1)) + 1, np.int64)
    counts[part] = part_rows
    again, fraction = plan.imbalanced(counts), plan.fraction(counts)
    kept = ~again[part]
    table, weights = table.filter(pa.array(kept)), plan.weights(counts)[part[kept]]
    if again.any():
        large = F.spark_partition_id().isin(np.flatnonzero(again).tolist())
        redrawn = compat.collect_arrow(narrow.where(large).sample(False, fraction, seed))
        if redrawn.num_rows:
            table = pa.concat_tables([table.select(redrawn.column_names).cast(redrawn.schema), redrawn])
            weights = np.concatenate([weights, np.full(redrawn.num_rows, 1.0 / fraction)])
    return _to_sample(table, fields, weights)


def count_by_group(frame: DataFrame, layout: Layout, ordinal: str, files_a_group: int) -> Ints:
    """(groups,) the rows of each group of files, some files one after another, by one narrow pass over the keys.

    layout: of an unpartitioned table, without spread; ordinal: as in `draw_bernoulli`.
    """
    narrow = frame.select(*_select_forms(layout.fields, ordinal))
    counted = narrow.mapInArrow(ship(_counter(layout.to_json(), files_a_group)), "counts binary")
    counts = [np.frombuffer(content, np.int64) for content in compat.collect_arrow(counted)["counts"].to_pylist()]
    total: Ints = np.sum([np.zeros(-(-layout.file_count // files_a_group), np.int64), *counts], axis=0)
    return total


def _counter(layout_json: str, files_a_group: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Count the rows of a partition by the groups of their files; runs in Spark's Python workers."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        layout = Layout.from_json(layout_json)
        counts = np.zeros(-(-layout.file_count // files_a_group), np.int64)
        for batch in batches:
            table, rows = pa.Table.from_batches([batch]), batch.num_rows
            forms = [_to_values(table, i, curve_form(field.type)) for i, field in enumerate(layout.fields)]
            files, _ = layout.place([v for v, _ in forms], [n for _, n in forms], 0, np.zeros(rows, np.uint64))
            counts += np.bincount(files // files_a_group, minlength=len(counts))
        yield pa.RecordBatch.from_pydict({"counts": pa.array([counts.tobytes()], pa.binary())})

    return count


def _select_forms(fields: Sequence[Field], ordinal: str) -> list[Column]:
    import pyspark.sql.functions as F

    forms = [form_of(field).alias(f"c{i}") for i, field in enumerate(fields)]
    return [*forms, F.col(quote_identifier(ordinal)).cast("int").alias(_ORDINAL)]


class Reservoir:
    """A uniform sample of the rows of a partition.

    The rows with the smallest of independent random numbers are such a sample, as in Vitter's algorithm R, and are
    found a batch at a time.
    """

    def __init__(self, size: int, seed: int, number: int) -> None:
        """size: the most rows; number: of the partition."""
        self._size = size
        self._random = np.random.default_rng([seed & 0xFFFFFFFF, number])
        self._marks: Floats = np.empty(0)
        self._most = np.inf
        """The greatest mark of a row that may stay."""
        self._rows: pa.Table | None = None
        self.row_count = 0
        """Of the partition."""

    def add(self, batch: pa.Table) -> None:
        """Let some rows take part."""
        self.row_count += batch.num_rows
        new: Floats = self._random.random(batch.num_rows)
        pick = np.flatnonzero(new < self._most)
        fresh = batch.take(pa.array(pick))
        self._rows = fresh if self._rows is None else pa.concat_tables([self._rows, fresh])
        self._marks = np.concatenate([self._marks, new[pick]])
        if len(self._marks) > 2 * self._size:  # Not for each batch: it copies all rows.
            self._trim()

    def _trim(self) -> None:
        if self._rows is not None and len(self._marks) > self._size:
            smallest = np.sort(np.argpartition(self._marks, self._size - 1)[: self._size])
            self._rows, self._marks = self._rows.take(pa.array(smallest)), self._marks[smallest]
            self._most = float(self._marks.max())

    @property
    def rows(self) -> pa.Table | None:
        """In the order in which they came."""
        self._trim()
        return self._rows

    def shuffled(self) -> pa.Table | None:
        """The rows in an order of which each beginning is a uniform sample, too."""
        rows = self.rows
        return None if rows is None else rows.take(pa.array(np.argsort(self._marks)))


def _reservoir(size: int, seed: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Keep a uniform sample of `size` rows of a partition, with the partition's number and row count in each row.

    Runs in Spark's Python workers.
    """

    def draw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = partition_number()
        kept = Reservoir(size, seed, number)
        for batch in batches:
            kept.add(pa.Table.from_batches([batch]))
        reservoir = kept.rows
        if reservoir is not None and reservoir.num_rows:
            part = pa.array(np.full(reservoir.num_rows, number, np.int32))
            total = pa.array(np.full(reservoir.num_rows, kept.row_count, np.int64))
            reservoir = reservoir.append_column("zskip_part", part).append_column("zskip_part_rows", total)
            yield from reservoir.combine_chunks().to_batches()

    return draw


def _to_sample(table: pa.Table, fields: Sequence[Field], weights: Floats) -> Sample:
    """Build a sample from the rows that Spark sent: columns c0, c1 ... in their forms, and the ordinal."""
    values = [_to_values(table, i, curve_form(field.type)) for i, field in enumerate(fields)]
    return Sample(
        fields=tuple(fields),
        columns=tuple(v for v, _ in values),
        nulls=tuple(n for _, n in values),
        partition=_to_integers(table, _ORDINAL).astype(np.int32),
        weights=weights,
    )


def _to_integers(table: pa.Table, name: str) -> Ints:
    return cast(Ints, table[name].to_numpy().astype(np.int64)) if table.num_rows else np.empty(0, np.int64)


def _to_values(table: pa.Table, i: int, form: Form) -> tuple[Values, Bools]:
    if not table.num_rows:
        return zeros(form, 0), np.empty(0, np.bool_)
    column = table[f"c{i}"]
    nulls = column.is_null().to_numpy()
    if form is Form.BYTES:
        return objects(pc.fill_null(column, b"").to_pylist()), nulls
    return cast(Values, pc.fill_null(column, 0).to_numpy()), nulls
