"""The table of keys in the docs: each skips files under `df()` and `zskip.enable`."""

from __future__ import annotations

from pathlib import Path

import documented_keys
import pytest
from pyspark.sql import SparkSession

import zskip

pytestmark = pytest.mark.spark


def test_the_table_has_no_other_key() -> None:
    tested = set().union(*(documented_keys.forms(key.key) for key in documented_keys.KEYS))
    assert len(documented_keys.in_docs()) > 15
    assert documented_keys.in_docs() - tested == {"collation_key"}, "how a text with a collation is shown"


def test_filters_on_each_key_skip_files(spark: SparkSession, tmp_path: Path) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.timeType.enabled", "true")
    documented_keys.rows(spark, "parquet").write.parquet(str(tmp_path / "t"))
    table = zskip.table(spark, str(tmp_path / "t"))
    documented_keys.index_keys(table, "parquet")
    plain = spark.read.parquet(table.path)
    expected = documented_keys.answers(plain, "parquet")
    assert documented_keys.misses(table.df(), expected, lambda: table.last_scan.files) == [], "under df()"
    with zskip.enabled(spark):
        assert documented_keys.misses(plain, expected, lambda: zskip.scans(spark)[0].files) == [], "under enable"
