"""Rows with a column of every type that can be clustered, as a Spark frame and as the forms they must get."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from zskip.layout.layout import Layout
from zskip.records import Bools, Field, Sample, Values
from zskip.types import DataType, Form, encode

TYPES = (
    "boolean", "byte", "short", "integer", "long", "float", "double", "decimal(4,0)", "decimal(18,2)", "decimal(18,18)",
    "decimal(38,5)", "string", "binary", "date", "timestamp", "timestamp_ntz",
    "interval day to second", "interval year to month",
)  # fmt: skip
AWKWARD_TEXT = [
    "",
    "a",
    "a\0",
    "a\0b",
    "é",
    "e\u0301",
    "\U0001f600",
    "\uffff",
    "quote'\"\\",
    "zz" * 200,
    "{}[],:",
    "\n",
]
AWKWARD_BYTES = [b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff", b"\xff\xfe", b"\xc3(", b"ab" * 200, b"'\"\\"]
AWKWARD_FLOATS = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1e38, 1.5]


def values_of(data_type: str, rows: int, seed: int, *, nulls: float = 0.1) -> list[Any]:
    """Random Python values of a type, extremes among them, some None."""
    rng = np.random.default_rng([seed, TYPES.index(data_type)])
    values = [_value(data_type, rng) for _ in range(rows)]
    return [None if rng.random() < nulls else value for value in values]


def _value(data_type: str, rng: np.random.Generator) -> Any:
    if data_type == "boolean":
        return bool(rng.integers(2))
    if data_type in ("byte", "short", "integer", "long"):
        top = {"byte": 7, "short": 15, "integer": 31, "long": 63}[data_type]
        bits = int(rng.integers(1, top + 1))
        return int(rng.integers(-(2**bits), 2**bits - 1, endpoint=True, dtype=np.int64))
    if data_type in ("float", "double"):
        if rng.random() < 0.3:
            return AWKWARD_FLOATS[rng.integers(len(AWKWARD_FLOATS))]
        return float(np.float32(rng.normal(scale=100)))
    if data_type.startswith("decimal"):
        kind = DataType(data_type)
        digits = int(rng.integers(1, kind.precision + 1))
        unscaled = int("".join(map(str, rng.integers(0, 10, digits)))) * int(rng.choice([-1, 1]))
        return decimal.Decimal(unscaled).scaleb(-kind.scale, decimal.Context(prec=50))
    if data_type == "string":
        return AWKWARD_TEXT[rng.integers(len(AWKWARD_TEXT))] if rng.random() < 0.4 else f"name-{rng.integers(500)}"
    if data_type == "binary":
        awkward = rng.random() < 0.4
        return AWKWARD_BYTES[rng.integers(len(AWKWARD_BYTES))] if awkward else rng.bytes(int(rng.integers(1, 12)))
    if data_type == "date":
        return dt.date(1, 1, 2) + dt.timedelta(days=int(rng.integers(3_600_000)))
    if data_type in ("timestamp", "timestamp_ntz"):
        zone = dt.timezone.utc if data_type == "timestamp" else None
        return dt.datetime(1900, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=int(rng.integers(6 * 10**15)))
    if data_type == "interval day to second":
        return dt.timedelta(microseconds=int(rng.integers(-(10**14), 10**14)))
    return int(rng.integers(-500, 500))


def frame_of(spark: SparkSession, types: tuple[str, ...], columns: list[list[Any]], partitions: list[int]) -> DataFrame:
    """A frame of columns c0, c1 ... and the ordinal `p`."""

    def declared(kind: str) -> str:
        return "int" if kind == "interval year to month" else kind

    schema = ", ".join([*(f"c{i} {declared(kind)}" for i, kind in enumerate(types)), "p int"])
    frame = spark.createDataFrame(list(zip(*columns, partitions, strict=True)), schema, verifySchema=False)
    for i, kind in enumerate(types):
        if kind == "interval year to month":
            frame = frame.withColumn(f"c{i}", _months(f"c{i}"))
    return frame


def _months(name: str) -> Any:
    import pyspark.sql.functions as F

    return F.expr(f"make_ym_interval(0, {name})")


def forms_of(data_type: str, values: list[Any]) -> tuple[Values, Bools]:
    """What the column must be on the curve, computed value by value in Python."""
    kind = DataType(data_type)
    nulls = np.array([v is None for v in values])
    if kind.is_decimal and kind.precision > 18:
        return np.array([0.0 if v is None else float(v) for v in values]), nulls
    encoded = [None if v is None else _encoded(v, kind) for v in values]
    if kind.form is Form.BYTES:
        made = np.empty(len(values), object)
        made[:] = [b"" if v is None else v[:256] for v in encoded]
        return made, nulls
    if kind.form is Form.FLOAT:
        return np.array([0.0 if v is None else v for v in encoded]) + 0.0, nulls
    return np.array([0 if v is None else v for v in encoded], np.int64), nulls


def _encoded(value: Any, kind: DataType) -> Any:
    if kind.name == "interval year to month":
        return value
    return float(np.float32(value)) if kind.name == "float" else encode(value, kind)


def sample_of(types: tuple[str, ...], columns: list[list[Any]], partitions: list[int]) -> Sample:
    """A sample that holds every row once."""
    made = [forms_of(kind, values) for kind, values in zip(types, columns, strict=True)]
    return Sample(
        fields=tuple(Field(name=f"c{i}", type=DataType(kind)) for i, kind in enumerate(types)),
        columns=tuple(v for v, _ in made),
        nulls=tuple(n for _, n in made),
        partition=np.array(partitions, np.int32),
        weights=np.ones(len(partitions)),
    )


def placed_by(layout: Layout, sample: Sample, tie: np.ndarray) -> tuple[list[Any], list[int]]:
    """Keys and file ids of the rows of a sample by the layout's own kernels."""
    files, keys = layout.place(sample.columns, sample.nulls, sample.partition, tie)
    return keys.tolist(), files.tolist()
