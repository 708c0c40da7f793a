"""The key and the file of every row, by a layout: in SQL if the curve allows it, else by the layout's own kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from zskip.layout.layout import Layout
from zskip.records import Field, Ints
from zskip.spark.forms import curve_form, form_of, quote_identifier
from zskip.spark.jvm.arrays import lookup, search, search_between
from zskip.spark.shipping import by_value
from zskip.types import ZEROS

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession


def place(frame: DataFrame, layout: Layout, *, ordinal: str, key: str, file_id: str) -> DataFrame:
    """Add two columns to a frame: the key on the curve, and the int file id.

    ordinal: name of the integer column that numbers the Hive partitions; key, file_id: names for the new columns.
    """
    import pyspark.sql.functions as F

    tie = _hash_rows(frame) if _has_spread(layout) else F.lit(0).cast("bigint")
    partition = F.col(quote_identifier(ordinal)).cast("int")
    if not layout.is_separable:
        placed = frame.withColumn(key, _place_by_kernel(layout, partition, tie))
        return placed.withColumn(file_id, F.col(f"{key}.file")).withColumn(key, F.col(f"{key}.key"))
    spark = frame.sparkSession
    placed = frame.withColumn(key, separable_key(spark, layout))
    return placed.withColumn(file_id, _file_id(spark, layout, F.col(key), partition, tie))


def separable_key(spark: SparkSession, layout: Layout) -> Column:
    """The key of a separable layout in SQL: the OR of one table lookup for each column."""
    import pyspark.sql.functions as F

    lookups = []
    for field, bounds, table in zip(layout.fields, layout.bounds, layout.spread_tables(), strict=True):
        bits = lookup(spark, table, _count_passed(search(spark, bounds, form_of(field))))
        lookups.append(F.coalesce(bits, F.lit(int(table[-1])).cast("bigint")))
    return reduce(lambda a, b: a.bitwiseOR(b), lookups)


def _count_passed(position: Column) -> Column:
    """Count the entries at or below a value, from the result of a binary search among them."""
    import pyspark.sql.functions as F

    return F.when(position < 0, F.bitwise_not(position)).otherwise(position + 1)


def _file_id(spark: SparkSession, layout: Layout, key: Column, ordinal: Column, tie: Column) -> Column:
    """The file id in SQL, by one search among the cuts of the row's Hive partition (as `Layout.place`)."""
    import pyspark.sql.functions as F

    first, last = (lookup(spark, layout.cut_starts, at).cast("int") for at in (ordinal, ordinal + 1))
    segment = _count_passed(search_between(spark, cast(Ints, layout.cut_keys), first, last, key)) + ordinal
    file_id = lookup(spark, layout.first_file, segment)
    if _has_spread(layout):
        file_id = file_id + F.pmod(tie, lookup(spark, layout.spread, segment))
    return file_id.cast("int")


def _has_spread(layout: Layout) -> bool:
    return int(layout.spread.max(initial=1)) > 1


def with_computed_keys(frame: DataFrame, fields: Sequence[Field], names: Sequence[str]) -> DataFrame:
    """Add each key that is an expression, in its form, as a last column; names: for the new columns."""
    import pyspark.sql.functions as F

    forms = [form_of(field).alias(name) for field, name in zip(fields, names, strict=True) if field.computed]
    return frame.select(*(F.col(quote_identifier(name)) for name in frame.columns), *forms) if forms else frame


def with_tie(frame: DataFrame, ordinal: str, tie: str, *, has_spread: bool) -> DataFrame:
    """Add a hash of each row, which spreads what is longer than a file over several, as the last column.

    ordinal: name of a column that is not hashed; has_spread: whether there is anything to spread.
    """
    import pyspark.sql.functions as F

    return frame.withColumn(tie, _hash_rows(frame.drop(ordinal)) if has_spread else F.lit(0).cast("bigint"))


def _hash_rows(frame: DataFrame) -> Column:
    """Hash each row by its position in its file: never negative, and the same at every read."""
    import pyspark.sql.functions as F
    from pyspark.errors import AnalysisException

    try:
        frame.select("_metadata.file_path", "_metadata.row_index").schema  # noqa: B018
        hashed = F.xxhash64(F.col("_metadata.file_path"), F.col("_metadata.row_index"))
    except AnalysisException:
        fields = (field for field in frame.schema if _is_hashable(field.dataType.simpleString()))
        hashed = F.xxhash64(*(F.col(quote_identifier(field.name)) for field in fields))
    return F.shiftrightunsigned(hashed, 1)


def _is_hashable(kind: str) -> bool:
    return "map<" not in kind and "variant" not in kind


def _place_by_kernel(layout: Layout, ordinal: Column, tie: Column) -> Column:
    """A struct of key and file, computed in Spark's Python workers; nulls travel apart, since pandas has none."""
    import pyspark.sql.functions as F
    from pyspark.sql.pandas.functions import pandas_udf

    forms = [form_of(field) for field in layout.fields]
    neutral = [F.lit(ZEROS[curve_form(field.type)]) for field in layout.fields]
    udf: Any = pandas_udf
    values = [F.coalesce(form, other) for form, other in zip(forms, neutral, strict=True)]
    nulls = [F.isnull(form) for form in forms]
    with by_value():
        kernel = udf(_make_kernel(layout), f"key {'binary' if layout.key_is_bytes else 'bigint'}, file int")
        return cast("Column", kernel(ordinal, tie, *values, *nulls))


def _make_kernel(layout: Layout) -> Callable[..., pd.DataFrame]:
    """Make the function that places one batch of rows in Spark's Python workers.

    The layout travels as JSON: the pickling of Spark 3.5 loses the content of dataclasses with slots.
    """
    import pandas as pd

    text = layout.to_json()
    layouts: list[Layout] = []

    def place_rows(ordinal: pd.Series, tie: pd.Series, *columns: pd.Series) -> pd.DataFrame:
        if not layouts:
            layouts.append(Layout.from_json(text))
        half = len(columns) // 2
        values = [column.to_numpy() for column in columns[:half]]
        nulls = [column.to_numpy().astype(bool) for column in columns[half:]]
        files, keys = layouts[0].place(values, nulls, ordinal.to_numpy(), tie.to_numpy().astype(np.uint64))
        return pd.DataFrame({"key": keys.astype(object) if layouts[0].key_is_bytes else keys, "file": files})

    place_rows.__annotations__ = {
        **{"ordinal": pd.Series, "tie": pd.Series, "columns": pd.Series},
        "return": pd.DataFrame,
    }
    return place_rows
