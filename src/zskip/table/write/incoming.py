"""The rows of a DataFrame as a table takes them: its columns in its order, and the partition of each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ColumnError, InputError, UnsupportedError
from zskip.formats.hive import DEFAULT_PARTITION, directory_of
from zskip.records import Ints, Snapshot
from zskip.spark.forms import free_name, quote_identifier
from zskip.spark.jvm.compat import check_limits, in_session
from zskip.spark.schema import free_ordinal, ordinal_of, read_struct
from zskip.table.session import is_session_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.formats import RowRules
    from zskip.spark.schema import TableSchema

_PARTITION_TYPES = ("byte", "short", "integer", "long", "string", "date")
_BROKEN, _END = "zskip: the row breaks ", " (end of the row)"
_MOST_CHARACTERS = 300


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Incoming:
    """New rows with the columns of a table's files."""

    frame: DataFrame
    """The number of each row's directory comes last."""
    directories: tuple[str, ...]
    """The Hive partition directories of the rows; one empty path in an unpartitioned table."""
    rows: Ints | None
    """(directories,) rows of each; None where they were not counted."""

    @property
    def ordinal(self) -> str:
        """The last column."""
        return ordinal_of(self.frame)


def check_frame(df: Any) -> SparkSession:
    """Check that `df` is a DataFrame with columns of different names, and no stream; returns its session.

    Raises InputError and ColumnError.
    """
    if not hasattr(df, "mapInArrow") or not hasattr(df, "isStreaming"):
        raise InputError(f"{type(df).__name__} is not a Spark DataFrame; give one, such as spark.read.csv(path)")
    if df.isStreaming:
        raise InputError(
            "this DataFrame is a stream, which has no end; write its batches from foreachBatch, as in "
            "df.writeStream.foreachBatch(lambda batch, number: table.append(batch, batch=(name, number)))"
        )
    if not df.columns:
        raise InputError("the DataFrame has no columns; there is nothing to write")
    spark: SparkSession = df.sparkSession
    keys = [column_key(name, is_session_case_sensitive(spark)) for name in df.columns]
    counts = Counter(keys)
    repeated = [name for name, key in zip(df.columns, keys, strict=True) if counts[key] > 1]
    if repeated:
        raise ColumnError(f'the DataFrame has more than one column "{repeated[0]}"; rename or drop the others')
    return spark


def column_key(name: str, case_sensitive: bool) -> str:
    """The same text for names that a session does not tell apart."""
    return name if case_sensitive else name.lower()


def align(df: DataFrame, schema: TableSchema, rules: RowRules, *, case_sensitive: bool) -> DataFrame:
    """The rows with the table's columns in its order, partition columns last; missing columns are null.

    A row that breaks one of the rules' conditions fails the job that reads it (`find_broken_rule`). Raises ColumnError
    that names each column that is missing, extra or of another type.
    """
    import pyspark.sql.functions as F

    names = {field.name for field in schema.snapshot.fields}
    data = [field for field in read_struct(schema.data_json).fields if field.name in names]
    columns = [*data, *read_struct(schema.partition_json).fields]
    partition_names = {field.name for field in schema.snapshot.partition_fields}

    sources = {column_key(field.name, case_sensitive): field for field in df.schema.fields}
    problems = []
    selected = []
    for field in columns:
        source = sources.pop(column_key(field.name, case_sensitive), None)
        expected = field.dataType.simpleString()
        if source is None and field.name in partition_names:
            problems.append(f'the partition column "{field.name}" is missing')
        elif source is None and field.name in rules.given:
            problems.append(f'"{field.name}" is missing, {rules.given[field.name]}, which zskip does not compute')
        elif source is None and field.name in rules.required:
            problems.append(f'"{field.name}", which must not be null, is missing')
        elif source is not None and source.dataType.simpleString() != expected:
            actual = source.dataType.simpleString()
            problems.append(f'"{source.name}" is of type {actual}, and {expected} in the table')
        else:
            value = F.lit(None).cast(field.dataType) if source is None else F.col(quote_identifier(source.name))
            selected.append(value.alias(field.name))
    problems += [f'"{field.name}" is not in the table' for field in sources.values()]
    if problems:
        raise ColumnError(
            f'the DataFrame does not fit "{schema.snapshot.root}": {"; ".join(problems)}. Cast, rename or drop '
            "columns; nothing was written"
        )
    return _check_each_row(df.select(*selected), rules)


def _check_each_row(frame: DataFrame, rules: RowRules) -> DataFrame:
    import pyspark.sql.functions as F

    for name, condition in rules.checks.items():
        row = F.substring(F.struct(*(quote_identifier(c) for c in frame.columns)).cast("string"), 1, _MOST_CHARACTERS)
        failure = F.raise_error(F.concat(F.lit(f"{_BROKEN}{name}: "), F.coalesce(row, F.lit("")), F.lit(_END)))
        frame = frame.where(F.when(F.expr(condition), F.lit(True)).otherwise(failure.cast("boolean")))
    return frame


def find_broken_rule(error: BaseException) -> InputError | None:
    """The error for a row that breaks one of the table's rules, if that made Spark's job fail."""
    from zskip.spark.jvm.failures import text_with_causes

    if not isinstance(error, Exception) or _BROKEN not in (text := text_with_causes(error)):
        return None
    rule = text.partition(_BROKEN)[2].partition(_END)[0]
    return InputError(f"a new row breaks the table's {rule}; nothing was committed")


def number_partitions(
    spark: SparkSession, aligned: DataFrame, snapshot: Snapshot, expressions: Mapping[str, str]
) -> Incoming:
    """Number the partitions of aligned rows, and move them to a session of their own.

    spark: a `writing_session`; expressions: as in `RowRules.partitions`.
    In a partitioned table this counts the rows of each partition, which is one job.
    """
    import pyspark.sql.functions as F

    check_limits(spark)
    frame = in_session(aligned, spark)
    values_of = {field.name: F.col(quote_identifier(field.name)) for field in snapshot.partition_fields}
    values_of |= {name: F.expr(text) for name, text in expressions.items()}
    names, ordinal = list(values_of), free_ordinal(frame.columns)
    if not names:
        return Incoming(frame=frame.withColumn(ordinal, F.lit(0)), directories=("",), rows=None)
    for field in snapshot.partition_fields:
        if field.type.name not in _PARTITION_TYPES:
            raise UnsupportedError(
                f'zskip does not write to "{snapshot.root}", which is partitioned by "{field.name}" of type '
                f"{field.type}; write with Spark, and let maintain() put the new rows in order. Nothing was written"
            )
    texts = [value.cast("string") for value in values_of.values()]
    counts = frame.groupBy(*(text.alias(f"k{i}") for i, text in enumerate(texts))).count().collect()
    values = [tuple(row[:-1]) for row in counts]
    _check_texts(names, values)
    keys = [free_name(f"__zskip_key_{i}", frame.columns) for i in range(len(names))]
    rows = [(*value, number) for number, value in enumerate(values)]
    described = ", ".join([*(f"{key} string" for key in keys), f"{ordinal} int"])
    known = frame.sparkSession.createDataFrame(rows, described)
    same = [text.eqNullSafe(F.col(key)) for text, key in zip(texts, keys, strict=True)]
    joined = frame.join(F.broadcast(known), same, "left")
    number = F.col(ordinal)
    # The plan runs again: rows of a partition that was not there must not be lost.
    checked = F.when(number.isNotNull(), number).otherwise(
        F.raise_error(F.lit("zskip: the DataFrame gave other rows when it was read again; persist it")).cast("int")
    )
    data = [F.col(quote_identifier(field.name)) for field in snapshot.fields]
    numbered = joined.select(*data, checked.alias(ordinal))
    return Incoming(
        frame=numbered,
        directories=tuple(directory_of(names, value) for value in values),
        rows=np.array([row[-1] for row in counts], np.int64),
    )


def _check_texts(names: Sequence[str], values: Sequence[tuple[str | None, ...]]) -> None:
    for value in values:
        for name, text in zip(names, value, strict=True):
            if text in ("", DEFAULT_PARTITION):
                raise InputError(
                    f'the partition column "{name}" holds the text "{text}", which directories cannot tell from null; '
                    "write null, or another text. Nothing was written"
                )
