"""Arrays and tables of the driver in Spark's plans: as literals, plain arrays in the JVM, or as rows, one a partition.

Spark's own `array_binary_search` copies or boxes its array, and Spark 3.5 has none. `StaticInvoke`, with
which Spark's own functions call Java methods, reaches `java.util.Arrays.binarySearch` on every version.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from zskip.records import Ints, Values
from zskip.spark.jvm import compat
from zskip.spark.jvm.connect import PARALLELISM
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_TYPE = "org.apache.spark.sql.types.DataType"
_SEARCH = ("java.util.Arrays", "binarySearch")
_LONGS = '{"type":"array","elementType":"long","containsNull":false}'


def search(spark: SparkSession, values: Values, value: Column) -> Column:
    """The index of a value in a sorted array, or -(insertion point) - 1 for a missing value; null for null.

    values: distinct and ascending, in one of the forms; value: bigint, double or binary. NaN sorts above all numbers,
    -0.0 below 0.0, and binary by unsigned bytes.
    """
    if values.dtype != object:
        return compat.call_java(spark, *_SEARCH, _object_literal(spark, _primitive_array(spark, values)), value)
    jvm = Jvm.of(spark)
    texts = json.dumps([base64.b64encode(v).decode() for v in values.tolist()])
    array = jvm.find("com.fasterxml.jackson.databind.ObjectMapper")().readValue(
        texts, jvm.call("java.lang.Class", "forName")("[[B")
    )
    binary = jvm.call(_TYPE, "fromJson")('"binary"')
    order = jvm.module("org.apache.spark.sql.catalyst.util.TypeUtils").getInterpretedOrdering(binary)
    comparator = _object_literal(spark, order, jvm.class_of("java.util.Comparator"))
    return compat.call_java(spark, *_SEARCH, _object_literal(spark, array), value, comparator)


def search_between(spark: SparkSession, values: Ints, first: Column, last: Column, value: Column) -> Column:
    """Like `search`, in the slice of the array from `first` up to, but not including, `last`."""
    array = _object_literal(spark, _primitive_array(spark, values))
    return compat.call_java(spark, *_SEARCH, array, first, last, value)


def lookup(spark: SparkSession, table: npt.NDArray[np.integer[Any]], index: Column) -> Column:
    """The bigint at an index of a table; null for null and for an index out of range."""
    import pyspark.sql.functions as F

    if compat.is_connected(spark):
        return F.get(F.from_json(F.lit(json.dumps(table.tolist())), "array<bigint>"), index)
    jvm = Jvm.of(spark)
    array = jvm.call(f"{_EXPRESSIONS}.UnsafeArrayData", "fromPrimitiveArray")(
        _primitive_array(spark, table.astype(np.int64))
    )
    literal = jvm.find(f"{_EXPRESSIONS}.Literal")(array, jvm.call(_TYPE, "fromJson")(_LONGS))
    return F.get(compat.column_of(spark, literal), index)


def frame_of_texts(spark: SparkSession, texts: Sequence[str]) -> DataFrame:
    """A DataFrame of one column, with a partition for each text, which travels with no other task.

    spark: a `private_session`, since a setting of it changes.
    """
    from pyspark.sql import DataFrame

    parallelism = (PARALLELISM, str(max(len(texts), 1)))
    if compat.is_connected(spark):
        spark.conf.set(*parallelism)
        return spark.createDataFrame([(text,) for text in texts], "value string")
    jvm, java = Jvm.of(spark), spark._jsparkSession
    list_class = jvm.call("java.lang.Class", "forName")("java.util.ArrayList")
    rows = jvm.find("com.fasterxml.jackson.databind.ObjectMapper")().readValue(json.dumps(texts), list_class)
    java.conf().set(*parallelism)
    return DataFrame(java.createDataset(rows, jvm.call("org.apache.spark.sql.Encoders", "STRING")()).toDF(), spark)


def _object_literal(spark: SparkSession, value: JavaObject, java_class: JavaObject = None) -> JavaObject:
    """A literal of any Java object, declared as a class, by default its own."""
    jvm = Jvm.of(spark)
    data_type = jvm.find("org.apache.spark.sql.types.ObjectType")(java_class or value.getClass())
    return jvm.find(f"{_EXPRESSIONS}.Literal")(value, data_type)


def _primitive_array(spark: SparkSession, values: Values) -> JavaObject:
    """A `long[]` or a `double[]`, filled in one call."""
    jvm, gateway = Jvm.of(spark), cast("Any", spark.sparkContext._gateway)
    is_float = values.dtype == np.float64
    array = gateway.new_array(gateway.jvm.double if is_float else gateway.jvm.long, len(values))
    (jvm.doubles(values) if is_float else jvm.longs(values)).get(array)
    return array
