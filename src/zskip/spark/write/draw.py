"""Draw the sample that a layout is fitted to: one narrow pass over the clustering columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.layout.sampling import ReservoirPlan
from zskip.records import Bools, Field, Floats, Ints, Sample, Values
from zskip.spark.forms import curve_form, form_of, quote_identifier
from zskip.spark.jvm import compat
from zskip.spark.shipping import by_value
from zskip.types import Form

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ORDINAL, _PART, _SEEN, _PLACE = "zskip_ordinal", "zskip_part", "zskip_seen", "zskip_place"
_SQL_TYPES = {Form.INT: "bigint", Form.FLOAT: "double", Form.BYTES: "binary"}
_DTYPES = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: object}


def draw_bernoulli(frame: DataFrame, fields: Sequence[Field], ordinal: str, fraction: float, seed: int) -> Sample:
    """Draw each row with the same probability; the same seed on the same files draws the same rows.

    ordinal: name of the integer column that numbers the Hive partitions. Raises ColumnError for a column that has no
    order.
    """
    narrow = frame.select(*_narrow(fields, ordinal))
    table = compat.collect_arrow(narrow if fraction >= 1.0 else narrow.sample(False, fraction, seed))
    return _sample(table, fields, np.full(table.num_rows, 1.0 / min(fraction, 1.0)))


def draw_with_places(
    frame: DataFrame, fields: Sequence[Field], ordinal: str, fraction: float, seed: int
) -> tuple[Sample, Ints]:
    """Draw as `draw_bernoulli`, and say of each row where it lies in its file, counted from 0."""
    import pyspark.sql.functions as F

    narrow = frame.select(*_narrow(fields, ordinal), F.col("_metadata.row_index").alias(_PLACE))
    table = compat.collect_arrow(narrow if fraction >= 1.0 else narrow.sample(False, fraction, seed))
    return _sample(table, fields, np.full(table.num_rows, 1.0 / min(fraction, 1.0))), _numpy(table, _PLACE)


def draw_reservoir(
    frame: DataFrame, fields: Sequence[Field], ordinal: str, plan_of: Callable[[int], ReservoirPlan], seed: int
) -> Sample:
    """Draw where the number of rows is unknown: a reservoir in each of Spark's partitions, weighted by its rows.

    Partitions that hold far more rows than others are drawn again, at the plain fraction. The process of Spark's
    `RangePartitioner.sketch`. plan_of: from a number of partitions to a plan. Raises ColumnError for a column that
    has no order.
    """
    import pyspark.sql.functions as F

    narrow = frame.select(*_narrow(fields, ordinal))
    plan = plan_of(max(narrow.rdd.getNumPartitions(), 1))
    schema = ", ".join([*_described(fields), f"{_PART} int", f"{_SEEN} bigint"])
    with by_value():
        drawn = narrow.mapInArrow(_reservoir(plan.rows_per_partition, seed), schema)
    table = compat.collect_arrow(drawn)
    part, seen = _numpy(table, _PART), _numpy(table, _SEEN)
    counts = np.zeros(int(part.max(initial=-1)) + 1, np.int64)
    counts[part] = seen
    again, fraction = plan.imbalanced(counts), plan.fraction(counts)
    kept = ~again[part]
    table, weights = table.filter(pa.array(kept)), plan.weights(counts)[part[kept]]
    if again.any():
        large = F.spark_partition_id().isin(np.flatnonzero(again).tolist())
        redrawn = compat.collect_arrow(narrow.where(large).sample(False, fraction, seed))
        if redrawn.num_rows:
            table = pa.concat_tables([table.select(redrawn.column_names).cast(redrawn.schema), redrawn])
            weights = np.concatenate([weights, np.full(redrawn.num_rows, 1.0 / fraction)])
    return _sample(table, fields, weights)


def _described(fields: Sequence[Field]) -> list[str]:
    """The columns of a sample as a Spark schema."""
    return [*(f"c{i} {_SQL_TYPES[curve_form(field.type)]}" for i, field in enumerate(fields)), f"{_ORDINAL} int"]


def _narrow(fields: Sequence[Field], ordinal: str) -> list[Column]:
    import pyspark.sql.functions as F

    forms = [form_of(field).alias(f"c{i}") for i, field in enumerate(fields)]
    return [*forms, F.col(quote_identifier(ordinal)).cast("int").alias(_ORDINAL)]


def _reservoir(size: int, seed: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Keep a uniform sample of `size` rows of a partition, with the partition's number and row count in each row.

    The rows with the smallest of independent random numbers are such a sample, as in Vitter's algorithm R, and are
    found a batch at a time. Runs in Spark's Python workers.
    """

    def draw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        random = np.random.default_rng([seed & 0xFFFFFFFF, number])
        held: pa.Table | None = None
        marks: Floats = np.empty(0)
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            new: Floats = random.random(batch.num_rows)
            pick = np.flatnonzero(new < marks.max()) if len(marks) >= size else np.arange(len(new))
            fresh = pa.Table.from_batches([batch]).take(pa.array(pick))
            held = fresh if held is None else pa.concat_tables([held, fresh])
            marks = np.concatenate([marks, new[pick]])
            if len(marks) > size:
                smallest = np.sort(np.argpartition(marks, size - 1)[:size])
                held, marks = held.take(pa.array(smallest)), marks[smallest]
        if held is not None and held.num_rows:
            of = pa.array(np.full(held.num_rows, number, np.int32))
            total = pa.array(np.full(held.num_rows, seen, np.int64))
            held = held.append_column("zskip_part", of).append_column("zskip_seen", total)
            yield from held.combine_chunks().to_batches()

    return draw


def _sample(table: pa.Table, fields: Sequence[Field], weights: Floats) -> Sample:
    """A sample from what Spark sent: columns c0, c1 ... in their forms, and the ordinal."""
    values = [_column(table, i, curve_form(field.type)) for i, field in enumerate(fields)]
    return Sample(
        fields=tuple(fields),
        columns=tuple(v for v, _ in values),
        nulls=tuple(n for _, n in values),
        partition=_numpy(table, _ORDINAL).astype(np.int32),
        weights=weights,
    )


def _numpy(table: pa.Table, name: str) -> Ints:
    return cast(Ints, table[name].to_numpy().astype(np.int64)) if table.num_rows else np.empty(0, np.int64)


def _column(table: pa.Table, i: int, form: Form) -> tuple[Values, Bools]:
    if not table.num_rows:
        return cast(Values, np.empty(0, _DTYPES[form])), np.empty(0, np.bool_)
    column = table[f"c{i}"]
    nulls = column.is_null().to_numpy()
    if form is Form.BYTES:
        values = np.empty(len(column), object)
        values[:] = pc.fill_null(column, b"").to_pylist()
        return values, nulls
    return cast(Values, pc.fill_null(column, 0).to_numpy()), nulls
