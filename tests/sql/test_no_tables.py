"""Statements about what is no table of zskip's: a clear error, or Spark's own full read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import zskip
from zskip import errors

VIEWS = ["none_view", "none_temp_view", "none_csv_view", "none_in_memory"]
FORMATS = ["none_as_csv", "json.`{0}/json`", "csv.`{0}/csv`"]


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("none")
    rows = spark.range(0, 300, 1, 3).selectExpr("id", "id % 7 AS v")
    rows.write.parquet(str(root / "t"))
    rows.write.json(str(root / "json"))
    rows.write.csv(str(root / "csv"))
    zskip.table(spark, str(root / "t")).index()
    spark.sql(f"CREATE OR REPLACE VIEW none_view AS SELECT * FROM parquet.`{root}/t` WHERE v < 5")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW none_temp_view AS SELECT * FROM parquet.`{root}/t`")
    spark.sql(f"CREATE TABLE none_as_csv (id LONG, v LONG) USING csv LOCATION '{root}/csv'")
    spark.read.schema("id LONG, v LONG").csv(str(root / "csv")).createOrReplaceTempView("none_csv_view")
    spark.createDataFrame([(1, 2), (7, 3)], "id LONG, v LONG").createOrReplaceTempView("none_in_memory")
    return root


@pytest.mark.parametrize("name", [*VIEWS, *FORMATS])
def test_statements_refuse_what_is_no_table(spark: SparkSession, root: Path, name: str) -> None:
    says = "is a view; name the table under it" if name in VIEWS else "(csv|CSV|JSON|json)"
    for statement in (
        "OPTIMIZE {} ZORDER BY (id, v)",
        "OPTIMIZE {}",
        "VERIFY {}",
    ):
        with pytest.raises(errors.UnsupportedError, match=says):
            zskip.sql(spark, statement.format(name.format(root)))


@pytest.mark.parametrize("path", ["csv", "json"])
def test_directories_of_other_files_are_refused(spark: SparkSession, root: Path, path: str) -> None:
    before = sorted((root / path).rglob("*"))
    for statement in ("OPTIMIZE '{}' ZORDER BY (id, v)", "VERIFY '{}'", "OPTIMIZE parquet.`{}` ZORDER BY (id, v)"):
        with pytest.raises(errors.CorruptFileError, match="not a readable Parquet file"):
            zskip.sql(spark, statement.format(root / path))
    assert sorted((root / path).rglob("*")) == before


@pytest.mark.parametrize("name", [*VIEWS, *FORMATS[:2], "range(300)", "VALUES (1L, 2L), (90L, 4L) AS t(id, v)"])
def test_queries_of_what_is_no_table(spark: SparkSession, root: Path, name: str) -> None:
    query = f"SELECT id FROM {name.format(root)} WHERE id < 5"
    assert sorted(zskip.sql(spark, query).collect()) == sorted(spark.sql(query).collect())
    steps = zskip.sql(spark, f"EXPLAIN SKIPPING {query}").collect()
    if name in ("none_view", "none_temp_view"):
        assert min(row.files for row in steps) == 1
    elif "csv" in name or "json" in name:
        assert ["read in full" in row.reason for row in steps] == [True]
    else:
        assert steps == []
