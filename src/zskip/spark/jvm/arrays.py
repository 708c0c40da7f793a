"""Sorted arrays and tables as literals of a Spark expression, held in the JVM as they are: no parsing, no boxing.

Spark's own `array_binary_search` copies or boxes its array, and Spark 3.5 has none. `StaticInvoke`, by which Spark
calls Java methods for its functions, reaches `java.util.Arrays.binarySearch` on every version.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from zskip.records import Ints, Values
from zskip.spark.jvm import compat
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_TYPE = "org.apache.spark.sql.types.DataType"
_SEARCH = ("java.util.Arrays", "binarySearch")
_LONGS = '{"type":"array","elementType":"long","containsNull":false}'


def search(spark: SparkSession, values: Values, value: Column) -> Column:
    """The place of a value in a sorted array, or -(insertion place) - 1 where it is not there, null for null.

    values: distinct and ascending, in one of the forms; value: bigint, double or binary. NaN lies above all numbers,
    binary is compared by unsigned bytes, -0.0 lies below 0.0.
    """
    if values.dtype != object:
        return compat.call_java(spark, *_SEARCH, _object(spark, _numbers(spark, values)), value)
    jvm = Jvm.of(spark)
    texts = json.dumps([base64.b64encode(v).decode() for v in values.tolist()])
    array = jvm.find("com.fasterxml.jackson.databind.ObjectMapper")().readValue(
        texts, jvm.call("java.lang.Class", "forName")("[[B")
    )
    binary = jvm.call(_TYPE, "fromJson")('"binary"')
    order = jvm.module("org.apache.spark.sql.catalyst.util.TypeUtils").getInterpretedOrdering(binary)
    comparator = _object(spark, order, jvm.class_of("java.util.Comparator"))
    return compat.call_java(spark, *_SEARCH, _object(spark, array), value, comparator)


def search_between(spark: SparkSession, values: Ints, first: Column, last: Column, value: Column) -> Column:
    """As `search`, in a part of an array: from place `first` on to `last`, itself left out."""
    array = _object(spark, _numbers(spark, values))
    return compat.call_java(spark, *_SEARCH, array, first, last, value)


def lookup(spark: SparkSession, table: npt.NDArray[np.integer[Any]], place: Column) -> Column:
    """The bigint at a place of a table, null for null and where there is no such place."""
    import pyspark.sql.functions as F

    jvm = Jvm.of(spark)
    array = jvm.call(f"{_EXPRESSIONS}.UnsafeArrayData", "fromPrimitiveArray")(_numbers(spark, table.astype(np.int64)))
    literal = jvm.find(f"{_EXPRESSIONS}.Literal")(array, jvm.call(_TYPE, "fromJson")(_LONGS))
    return F.get(compat.column_of(spark, literal), place)


def _object(spark: SparkSession, value: JavaObject, java_class: JavaObject = None) -> JavaObject:
    """A literal of any Java object, as of a class, by default its own."""
    jvm = Jvm.of(spark)
    kind = jvm.find("org.apache.spark.sql.types.ObjectType")(java_class or value.getClass())
    return jvm.find(f"{_EXPRESSIONS}.Literal")(value, kind)


def _numbers(spark: SparkSession, values: Values) -> JavaObject:
    """A `long[]` or a `double[]`, filled by one call."""
    jvm, gateway = Jvm.of(spark), cast("Any", spark.sparkContext._gateway)
    is_float = values.dtype == np.float64
    bytes_ = jvm.call("java.nio.ByteBuffer", "wrap")(
        np.ascontiguousarray(values, ">f8" if is_float else ">i8").tobytes()
    )
    buffer = bytes_.asDoubleBuffer() if is_float else bytes_.asLongBuffer()
    array = gateway.new_array(gateway.jvm.double if is_float else gateway.jvm.long, len(values))
    buffer.get(array)
    return array
