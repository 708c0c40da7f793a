"""A clustering column has the same form in Spark as in Python, whatever its type and name."""

from __future__ import annotations

import numpy as np
import placing
import pytest
from pyspark.sql import SparkSession
from session_settings import settings

from zskip.errors import ColumnError
from zskip.records import Field
from zskip.spark.forms import curve_form, form_of
from zskip.types import DataType, Form

pytestmark = pytest.mark.spark
ROWS = 300
SPARK_TYPES = {Form.INT: "bigint", Form.FLOAT: "double", Form.BYTES: "binary"}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_forms_are_those_of_the_types(spark: SparkSession, zone: str) -> None:
    columns = [placing.values_of(kind, ROWS, 1) for kind in placing.TYPES]
    frame = placing.frame_of(spark, placing.TYPES, columns, [0] * ROWS)
    fields = [Field(name=f"c{i}", type=DataType(kind)) for i, kind in enumerate(placing.TYPES)]
    with settings(spark, session__timeZone=zone):
        formed = frame.select(*(form_of(field).alias(field.name) for field in fields))
        assert dict(formed.dtypes) == {f.name: SPARK_TYPES[curve_form(f.type)] for f in fields}
        rows = formed.collect()
    for i, (kind, values) in enumerate(zip(placing.TYPES, columns, strict=True)):
        expected, nulls = placing.forms_of(kind, values)
        got = [row[i] for row in rows]
        assert [v is None for v in got] == nulls.tolist(), kind
        for mine, want, null in zip(got, expected.tolist(), nulls, strict=True):
            if not null:
                mine = bytes(mine) if isinstance(mine, bytearray) else mine
                assert mine == want or (mine != mine and want != want), kind
                assert not (isinstance(mine, float) and mine == 0 and np.signbit(mine)), kind


@pytest.mark.parametrize("name", ["a.b", "a b", "`", "a`b", "été", "select", "1", "q\"u'o", "x,y;{}()=", "UPPER"])
def test_any_name_is_found(spark: SparkSession, name: str) -> None:
    frame = spark.range(3).toDF(name)
    form = form_of(Field(name=name, type=DataType("long")))
    assert [r[0] for r in frame.select(form).collect()] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["array<integer>", "nested", "interval", "void", "string collate", "variant"])
def test_types_without_order_are_refused(kind: str) -> None:
    with pytest.raises(ColumnError, match=kind.replace("<", "<")):
        form_of(Field(name="a", type=DataType(kind)))
