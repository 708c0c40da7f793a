"""Hudi tables that Hudi itself has written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import zskip
from zskip.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_hudi_table_is_not_read_as_parquet(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = engine_spark.range(10).selectExpr("id", "id % 2 AS v")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    rows.write.format("hudi").options(**options).mode("overwrite").save(path)
    assert engine_spark.read.format("hudi").load(path).count() == 10
    with pytest.raises(UnsupportedError, match="hudi"):
        zskip.table(engine_spark, path).df()
