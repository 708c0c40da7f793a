"""CREATE TABLE ... CLUSTER BY ... AS SELECT and INSERT INTO: by names and paths, and what is left to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ColumnError, InputError

pytestmark = pytest.mark.spark
ROWS = "SELECT id, pmod(hash(id), 100) AS v, concat('n', id) AS name FROM range(2000)"


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE written_by_sql LOCATION '{tmp_path}/db'")
    spark.catalog.setCurrentDatabase("written_by_sql")
    yield "written_by_sql"
    spark.catalog.setCurrentDatabase(before)
    spark.sql("DROP DATABASE written_by_sql CASCADE")


def test_a_table_by_its_name(spark: SparkSession, database: str) -> None:
    (row,) = zskip.sql(spark, f"CREATE TABLE t CLUSTER BY (id, v) WITH (files = 6) AS {ROWS}").collect()
    assert (row.rows, row.by, row.curve, row.version) == (2000, ["id", "v"], "zorder", 1)
    assert 4 <= row.files <= 6
    assert spark.table("t").count() == 2000
    table = zskip.table(spark, f"{database}.t")
    # By position, and cast as Spark casts.
    (added,) = zskip.sql(spark, "INSERT INTO t SELECT 5000 + id, 7, 'x' FROM range(50)").collect()
    assert (added.rows, added.curve) == (50, "zorder")
    (added,) = zskip.sql(spark, "INSERT INTO TABLE t (name, id, v) VALUES ('y', 9000, 1)").collect()
    assert added.rows == 1
    assert table.history()[0].operation == "append"
    assert spark.sql("SELECT name FROM t WHERE id = 9000").collect()[0].name == "y"
    assert zskip.sql(spark, "SELECT count(*) AS n FROM t WHERE v = 7 AND id >= 5000").collect()[0].n == 50
    with pytest.raises(InputError, match="already exists"):
        zskip.sql(spark, f"CREATE TABLE t CLUSTER BY (id, v) AS {ROWS}")
    with pytest.raises(Exception, match="INSERT_COLUMN_ARITY_MISMATCH"):
        zskip.sql(spark, "INSERT INTO t SELECT 1")


@pytest.mark.slow
def test_a_table_by_its_path(spark: SparkSession, tmp_path: Path) -> None:
    zskip.sql(spark, f"CREATE TABLE delta.`{tmp_path}/d` PARTITIONED BY (name) CLUSTER BY id AS {ROWS} WHERE id < 3")
    assert zskip.table(spark, f"{tmp_path}/d").df().count() == 3
    zskip.sql(spark, f"CREATE TABLE '{tmp_path}/p' CLUSTER BY (id, v) WITH (curve = 'hilbert', files = 3) AS {ROWS}")
    table = zskip.table(spark, f"{tmp_path}/p")
    layout = table.info().layout
    assert layout is not None
    assert layout.curve == "hilbert"
    (row,) = zskip.sql(spark, f"INSERT INTO '{tmp_path}/p' SELECT 10000 + id, 3, 'z' FROM range(20)").collect()
    assert (row.rows, row.curve) == (20, "hilbert")
    with pytest.raises(ColumnError, match="gives 1 columns"):
        zskip.sql(spark, f"INSERT INTO '{tmp_path}/p' SELECT 1")
    with pytest.raises(ColumnError, match='"id" is of type string'):
        zskip.sql(spark, f"INSERT INTO '{tmp_path}/p' SELECT 'a', 3, 'z'")
    assert table.df().count() == 2020


@pytest.mark.slow
def test_inserts_that_are_sparks(spark: SparkSession, database: str) -> None:
    zskip.sql(spark, "CREATE TABLE never (id BIGINT, v INT) USING parquet")
    zskip.sql(spark, "INSERT INTO never VALUES (1, 2)")
    assert spark.table("never").count() == 1
    zskip.sql(spark, "CREATE TABLE older CLUSTER BY (id, v) AS SELECT id, id % 7 AS v FROM range(100)")
    zskip.sql(spark, "ALTER TABLE older ADD COLUMNS (c INT)")
    zskip.sql(spark, "INSERT INTO older VALUES (1000, 1, 5)")
    assert spark.table("older").where("c = 5").count() == 1
    zskip.sql(spark, "CREATE TABLE parts (id BIGINT, v INT, k STRING) USING parquet PARTITIONED BY (k)")
    zskip.sql(spark, "INSERT INTO parts SELECT id, id % 7, concat('k', id % 2) FROM range(100)")
    zskip.sql(spark, "OPTIMIZE parts ZORDER BY (id, v)")
    zskip.sql(spark, "INSERT INTO parts PARTITION (k = 'k9') SELECT 1, 2")
    assert spark.table("parts").where("k = 'k9'").count() == 1
    # A new partition of an append through zskip is in the catalog, too.
    zskip.sql(spark, "INSERT INTO parts SELECT 1, 2, 'k8'")
    assert spark.table("parts").where("k = 'k8'").count() == 1
    assert spark.table("parts").count() == 102
