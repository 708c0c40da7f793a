"""Rows that tests write and append."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def points(start: int, rows: int = 4000) -> pa.Table:
    """Rows from everywhere, numbered from `start`."""
    rng = np.random.default_rng(start)
    return pa.table(
        {"id": np.arange(start, start + rows), "a": rng.integers(0, 5000, rows), "b": rng.integers(0, 900, rows)}
    )


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The same rows in Spark."""
    columns = [f"{f.name} {str(f.type).replace('int64', 'bigint')}" for f in rows.schema]
    return spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], ", ".join(columns))
