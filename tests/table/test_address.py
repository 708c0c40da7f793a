"""Tables by the names that the session's catalog gives them: found, rewritten, and known there as they are then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiers
from pyspark.sql import SparkSession

import zskip
from zskip.errors import InputError, TableNotFoundError, UnsupportedError, ZskipWarning
from zskip.table.version import read_snapshot

pytestmark = pytest.mark.spark

ROWS = "id, id * 7919 % 1000 AS v, concat('n', id) AS name"

SCRIPT = """
import sys, warnings
from zskip.table.version import read_snapshot
from pyspark.sql import SparkSession
import zskip

warnings.simplefilter("error", zskip.ZskipWarning)
place = sys.argv[1]
spark = (
    SparkSession.builder.master("local[2]").enableHiveSupport().config("spark.ui.enabled", "false")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL", "jdbc:derby:memory:zskip;create=true")
    .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={place} -Dderby.stream.error.file={place}/derby.log")
    .config("spark.sql.warehouse.dir", f"{place}/warehouse").config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2").config("hive.exec.dynamic.partition.mode", "nonstrict").getOrCreate()
)
spark.sql("CREATE DATABASE db")
rows = "SELECT id, id * 7919 % 1000 AS v, cast(id % 3 AS string) AS day FROM range(0, 900, 1, 4)"
kinds = {
    "managed": "USING parquet PARTITIONED BY (day)",
    "outside": f"USING parquet PARTITIONED BY (day) LOCATION '{place}/outside'",
}
for name, how in kinds.items():
    spark.sql(f"CREATE TABLE db.{name} (id bigint, v bigint, day string) {how}")
spark.sql("CREATE TABLE db.hive (id bigint, v bigint) PARTITIONED BY (day string) STORED AS parquet")
catalog = spark._jsparkSession.sessionState().catalog()
make = spark._jvm.org.apache.spark.sql.catalyst.TableIdentifier
some = spark._jvm.scala.Option.apply


def sizes(name):
    identifier = make(name, some("db"))
    whole = catalog.getTableMetadata(identifier).stats().toString()
    found = spark._jvm.scala.collection.JavaConverters.seqAsJavaList(
        catalog.listPartitions(identifier, spark._jvm.scala.Option.empty())
    )
    return whole, sorted(part.stats().toString() for part in found)


for name in (*kinds, "hive"):
    spark.sql(f"INSERT INTO db.{name} {rows}")
    if name != "outside":
        spark.sql(f"ANALYZE TABLE db.{name} COMPUTE STATISTICS")
    assert spark.table(f"db.{name}").count() == 900
    table = zskip.table(spark, f"spark_catalog.db.{name}" if name == "outside" else f"db.{name}")
    result = table.optimize(by=["id", "v"], files=2)
    assert result.files_before > result.files_after == 3, result
    # No REFRESH TABLE, no other files, no other rows, no other partitions.
    assert spark.table(f"db.{name}").where("id < 90").count() == 90
    assert sorted(r[0] for r in spark.sql(f"SHOW PARTITIONS db.{name}").collect()) == ["day=0", "day=1", "day=2"]
    files = read_snapshot(table._handle).sizes
    whole, parts = sizes(name)
    if name == "outside":
        assert whole == "None", whole
    else:
        assert whole == f"Some(CatalogStatistics({files.sum()},Some(900),Map()))", (whole, files)
    told = sorted(int(p.split("(")[2].split(",")[0]) for p in parts if p != "None")
    assert told in (sorted(files.tolist()), []), parts
    print("TOLD", name, sum(p != "None" for p in parts))
    spark.sql(f"INSERT INTO db.{name} SELECT id, 0, '3' FROM range(900, 950)")
    zskip.sql(spark, f"OPTIMIZE db.{name} ZORDER BY (id, v)").collect()
    assert spark.table(f"db.{name}").count() == 950
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = zskip.table(spark, f"db.{name}").df().where("day = '1'")
    # A directory does not say that a number is text.
    assert ("has other columns" in str(said[0].message)) and found.count() == 300
    assert dict(found.dtypes)["day"] == "string"
print("DONE")
"""


@pytest.fixture(scope="module")
def base(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with its own place, and a table of it."""
    spark.sql(f"CREATE DATABASE named LOCATION '{tmp_path_factory.mktemp('named')}'")
    spark.sql("CREATE TABLE named.t (id bigint, v bigint, name string, day date) USING parquet PARTITIONED BY (day)")
    spark.sql(
        f"INSERT INTO named.t SELECT {ROWS}, date_add(date'2024-01-01', cast(id % 3 AS int)) FROM range(0, 600, 1, 4)"
    )
    yield "named.t"
    spark.sql("DROP DATABASE named CASCADE")


def stats_of(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm
    database, _, table = name.partition(".")
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(table, jvm.scala.Option.apply(database))
    return spark._jsparkSession.sessionState().catalog().getTableMetadata(identifier).stats().toString()


def test_a_rewrite_by_name_is_seen_at_once(spark: SparkSession, base: str) -> None:
    spark.sql(f"ANALYZE TABLE {base} COMPUTE STATISTICS FOR COLUMNS id")
    before = stats_of(spark, base)
    assert "id -> " in before
    assert spark.table(base).count() == 600
    table = zskip.table(spark, base)
    assert table.optimize(by=["id", "v"], files=2).files_after == 3
    assert spark.table(base).where("id < 60").count() == table.df().where("id < 60").count() == 60
    assert table.last_scan is not None
    size = int(read_snapshot(table._handle).sizes.sum())
    assert stats_of(spark, base) == before.replace(before.split("(")[2].split(",")[0], str(size))
    for path in ("spark_catalog.named.t", "`named`.`t`"):
        assert zskip.table(spark, path).path == table.path


def test_a_rewrite_by_path_is_seen_under_the_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(0, 400, 1, 4).write.parquet(str(tmp_path / "t"))
    spark.sql(f"CREATE TABLE at_path USING parquet LOCATION '{tmp_path / 't'}'")
    try:
        assert spark.table("at_path").count() == 400  # The session keeps the files that it listed for this.
        zskip.table(spark, str(tmp_path / "t")).optimize(by="id", files=2, curve="linear")
        assert len(spark.table("at_path").inputFiles()) == 2
        assert spark.table("at_path").where("id < 60").count() == 60
    finally:
        spark.sql("DROP TABLE at_path")


def test_a_directory_comes_before_a_name(spark: SparkSession, base: str) -> None:
    # Below the directory in which the JVM was started, as Hadoop reads relative paths.
    there = next(path for path in Path.cwd().iterdir() if path.is_dir() and path.name.isidentifier())
    spark.sql(f"CREATE TABLE {there.name} (a int) USING parquet LOCATION '{zskip.table(spark, base).path}'")
    try:
        assert zskip.table(spark, there.name).path == str(there)
        assert zskip.table(spark, f"default.{there.name}").path == zskip.table(spark, base).path
    finally:
        spark.sql(f"DROP TABLE {there.name}")


@pytest.mark.parametrize("name", tiers.nightly(["spark_catalog.named.new", "`named`.new", "named.new"]))
def test_a_new_table_gets_a_name(spark: SparkSession, base: str, name: str) -> None:
    try:
        result = zskip.table(spark, base).optimize(by=["id", "v"], files=9, into=name)
        found = spark.table(name)
        assert found.schema == spark.table(base).schema
        assert sorted(found.collect()) == sorted(spark.table(base).collect())
        shown = [spark.sql(f"SHOW PARTITIONS {each}").collect() for each in (name, base)]
        assert sorted(shown[0]) == sorted(shown[1])
        new = zskip.table(spark, name)
        assert new.path == result.path
        assert len(new.files("id < 60")) < len(new.files()) == result.files_after
        with pytest.raises(InputError, match="already exists"):
            zskip.table(spark, base).optimize(by=["id", "v"], into=name)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    shutil.rmtree(result.path)


def test_a_new_table_has_the_types_of_the_catalog(spark: SparkSession, base: str) -> None:
    spark.sql("CREATE TABLE named.texts (id bigint, v bigint, p string) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO named.texts SELECT id, id, concat('0', id % 3) FROM range(30)")
    result = zskip.table(spark, "named.texts").optimize(by=["id", "v"], files=3, into="named.typed")
    assert spark.table("named.typed").schema == spark.table("named.texts").schema
    assert spark.table("named.typed").where("p = '01'").count() == 10
    spark.sql("DROP TABLE named.typed")
    shutil.rmtree(result.path)


def test_a_new_name_that_cannot_be(spark: SparkSession, base: str, tmp_path: Path) -> None:
    table = zskip.table(spark, base)
    spark.conf.set("spark.sql.catalog.ice", "org.example.Catalog")
    with pytest.raises(InputError, match=r"ice\.named\.new.*catalog ice.*spark_catalog"):
        table.optimize(by=["id", "v"], into="ice.named.new")
    spark.conf.unset("spark.sql.catalog.ice")
    with pytest.raises(InputError, match="letters, digits and underscores"):
        table.optimize(by=["id", "v"], into="named.`a new one`")
    # What is no name in a database is a path.
    assert table.optimize(by=["id", "v"], into=str(tmp_path / "no.database")).path == str(tmp_path / "no.database")


@pytest.mark.parametrize("name", ["named.none", "nodb.t", "t", "spark_catalog.named.none", "nocatalog.named.t"])
def test_a_name_of_nothing_is_a_path_of_nothing(spark: SparkSession, base: str, name: str) -> None:
    with pytest.raises(TableNotFoundError, match=name.replace(".", r"\.")):
        zskip.table(spark, name).info()


def test_what_is_no_table_of_files_says_so(spark: SparkSession, base: str) -> None:
    spark.sql("CREATE VIEW named.view AS SELECT 1 AS a")
    with pytest.raises(UnsupportedError, match="is a view"):
        zskip.table(spark, "named.view")
    spark.sql("CREATE TABLE named.json (a int) USING json")
    with pytest.raises(UnsupportedError, match="json"):
        zskip.table(spark, "named.json")
    with pytest.raises(InputError, match="of the format parquet, not delta"):
        zskip.table(spark, base, format="delta")


def test_partitions_that_the_catalog_does_not_know_are_said(spark: SparkSession, base: str) -> None:
    spark.sql("CREATE TABLE named.lacks (id bigint, v bigint, p int) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO named.lacks SELECT id, id, id % 3 FROM range(30)")
    spark.sql("ALTER TABLE named.lacks DROP PARTITION (p = 1)")
    root = zskip.table(spark, "named.lacks").path
    spark.range(5).selectExpr("id", "id AS v").write.parquet(f"{root}/p=1")
    with pytest.raises(UnsupportedError, match="MSCK REPAIR TABLE"):
        zskip.table(spark, "named.lacks")


def test_columns_are_those_of_the_catalog(spark: SparkSession, base: str) -> None:
    spark.sql("CREATE TABLE named.text (id bigint, v bigint, p string) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO named.text SELECT id, id, concat('0', id % 3) FROM range(30)")
    with pytest.warns(ZskipWarning, match="other columns in the catalog"):
        found = zskip.table(spark, "named.text").df()
    assert found.where("p = '01'").count() == 10


@pytest.mark.slow
def test_the_catalog_of_hive_stays_true(spark: SparkSession, tmp_path: Path) -> None:
    """spark: has found a Java."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True, text=True, env=environment, timeout=400, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.rstrip().endswith("DONE")
