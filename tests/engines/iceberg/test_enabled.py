"""Iceberg's own reader in a session with `zskip.enable`: its answers, from fewer files than its own skipping leaves."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import plan_rows
import pytest
import tiers
from plan_rows import ENGINES
from pyspark.sql import DataFrame

import zskip
from zskip.errors import UnsupportedError, ZskipWarning
from zskip.spark.jvm.compiled import janino
from zskip.spark.jvm.gateway import Jvm
from zskip.table.read.kept_file import KeptFile
from zskip.table.read.plan import ScanPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("error::zskip.errors.ZskipWarning")

WHERES = [
    "id < 250",
    "u = 77",
    "abs(id - 1000) < 30",
    "id + 1 > 2310",
    "s LIKE 'n23%'",
    "u IN (5, 6) OR id = 9",
    "length(s) > 4 AND id + 1 > 2300",
    "id < 0",
    "v IS NULL",
    "v > 3",
]
FILES = 24
KINDS = {2: "position deletes", 3: "deletion vector"}
DELETED = "SELECT file_path, count(*) AS n FROM {}.position_deletes GROUP BY file_path"


def create(spark: SparkSession, *, version: int = 2, partitioned: str = "", mode: str = "merge-on-read") -> str:
    """A table of 2,400 rows in 24 files by `id`."""
    name = f"local.db.t{uuid.uuid4().hex[:12]}"
    properties = {"format-version": version, "write.distribution-mode": "none", "write.spark.fanout.enabled": "true"}
    properties |= {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    text = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    spark.sql(f"CREATE TABLE {name} (id BIGINT, u INT, s STRING, v DOUBLE) USING iceberg {by} TBLPROPERTIES ({text})")
    rows(spark).writeTo(name).append()
    return name


def rows(spark: SparkSession, start: int = 0, count: int = 2400, files: int = FILES) -> DataFrame:
    v = "CASE WHEN id % 3 = 0 THEN NULL WHEN id % 5 = 0 THEN double('NaN') ELSE id % 7 END AS v"
    return spark.range(start, start + count, 1, files).selectExpr(
        "id", "int(id * 7919 % 2400) AS u", "concat('n', id) AS s", v
    )


def both(spark: SparkSession, read: Callable[[], DataFrame]) -> tuple[list[str], list[str]]:
    """The rows of a query without zskip and with it."""
    plain = sorted(map(str, read().collect()))
    with zskip.enabled(spark):
        return plain, sorted(map(str, read().collect()))


def enabled(spark: SparkSession, sql: str) -> list[str]:
    """The rows of a query with zskip."""
    with zskip.enabled(spark):
        return sorted(map(str, spark.sql(sql).collect()))


def check(spark: SparkSession, read: Callable[[], DataFrame], wheres: list[str] = WHERES) -> None:
    """Many predicates, each on a scan of its own, have the same rows; it is one query."""

    def read_all() -> DataFrame:
        parts = (read().where(where).selectExpr("*", f"{i} AS number") for i, where in enumerate(wheres))
        return reduce(DataFrame.unionAll, parts)

    plain, pruned = both(spark, read_all)
    assert pruned == plain


def values(plan: ScanPlan, engine: str) -> list[str]:
    """The rows of a plan as another engine reads them."""
    return sorted(map(repr, plan_rows.rows(plan, engine)))


def stored(spark: SparkSession, name: str, files: list[KeptFile]) -> list[str]:
    """The live rows of some files as Iceberg reads them."""
    paths = [file.removeprefix("file:") for file in files]
    rows = spark.table(name).select("*", "_file").collect()
    return sorted(repr(tuple(row)[:-1]) for row in rows if row._file.removeprefix("file:") in paths)


def kept(spark: SparkSession, read: Callable[[], DataFrame]) -> int:
    """How many files the one scan of a query has read, of more that Iceberg would have."""
    with zskip.enabled(spark):
        read().collect()
    (scan,) = zskip.scans(spark)
    assert scan.files < scan.files_total
    return scan.files


def test_filters_that_iceberg_cannot_use(engine_spark: SparkSession) -> None:
    name = create(engine_spark)
    zskip.table(engine_spark, name).index(sketches=["values:u"])
    check(engine_spark, lambda: engine_spark.table(name))
    for where, files in {"u = 77": 1, "id + 1 > 2310": 1, "id < 250 AND u = 77": 0}.items():
        assert kept(engine_spark, lambda where=where: engine_spark.table(name).where(where)) == files  # type: ignore[misc]
        sql = f"SELECT s FROM {name} WHERE {where}"
        assert kept(engine_spark, lambda sql=sql: engine_spark.sql(sql)) == files  # type: ignore[misc]
    assert kept(engine_spark, lambda: engine_spark.read.format("iceberg").load(name).where("u = 77")) == 1
    with zskip.enabled(engine_spark):
        plan = engine_spark.table(name).where("u = 77")._jdf.queryExecution().toString()
        assert "zskip kept 1 of" in plan
        assert engine_spark.table(f"{name}.files").where("record_count > 0").count() == FILES


def test_older_snapshots_branches_and_tags(engine_spark: SparkSession) -> None:
    spark, name = engine_spark, create(engine_spark)
    zskip.table(spark, name).index(sketches=["values:u"])
    first = spark.sql(f"SELECT snapshot_id, string(committed_at) AS at FROM {name}.snapshots").collect()[0]
    spark.sql(f"ALTER TABLE {name} CREATE TAG before")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH b")
    rows(spark, 2400, 100, 1).writeTo(name).append()
    spark.sql(f"INSERT INTO {name}.branch_b VALUES (77, 77, 'on a branch', 1)")
    spark.sql(f"DELETE FROM {name} WHERE id < 300")
    old = {
        f"SELECT * FROM {name} VERSION AS OF {first.snapshot_id} WHERE u = 77": 1,
        f"SELECT * FROM {name} TIMESTAMP AS OF '{first.at}' WHERE u = 77": 1,
        f"SELECT * FROM {name} VERSION AS OF 'before' WHERE u = 77": 1,
        f"SELECT * FROM {name}.branch_b WHERE u = 77": 2,
        f"SELECT * FROM {name} VERSION AS OF 'b' WHERE u = 77": 2,
        f"SELECT * FROM {name} WHERE u = 77": 2,
    }
    for sql, files in old.items():
        plain, pruned = both(spark, lambda sql=sql: spark.sql(sql))  # type: ignore[misc]
        assert pruned == plain, sql
        assert kept(spark, lambda sql=sql: spark.sql(sql)) == files, sql  # type: ignore[misc]


@pytest.mark.parametrize("version", tiers.nightly([3, 2]))
def test_tables_with_deletes_are_indexed_and_pruned(engine_spark: SparkSession, tmp_path: Path, version: int) -> None:
    spark, name = engine_spark, create(engine_spark, version=version)
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3 OR id BETWEEN 100 AND 399")
    spark.sql(f"UPDATE {name} SET u = 77 WHERE id = 2399")
    table = zskip.table(spark, name)
    assert table.index(sketches=["values:u"]).files == FILES + 1
    check(spark, lambda: spark.table(name))
    check(spark, table.df)
    assert kept(spark, lambda: spark.table(name).where("u = 77")) == 2
    assert table.df().where("u = 77").count() == spark.table(name).where("u = 77").count()
    assert table.last_scan is not None
    assert table.last_scan.files == 2
    spark.sql(f"MERGE INTO {name} t USING (SELECT 79 AS u) o ON t.u = o.u WHEN MATCHED THEN DELETE")
    with zskip.enabled(spark):
        spark.sql(f"DELETE FROM {name} WHERE u = 80")
        spark.sql(f"UPDATE {name} SET s = 'x' WHERE u = 81")
        spark.sql(f"MERGE INTO {name} t USING (SELECT 82 AS u) o ON t.u = o.u WHEN MATCHED THEN DELETE")
    assert [row.s for row in spark.table(name).where("u BETWEEN 79 AND 82").collect()] == ["x"]
    check(spark, lambda: spark.table(name))
    spark.sql(f"CACHE TABLE {name}")
    assert table.verify(queries=3).mismatches == ()
    spark.sql(f"UNCACHE TABLE {name}")
    assert table.prune("u = 77").files == table.explain("u = 77").steps[-1].files == 2
    assert table.info().index is not None
    assert table.report(tmp_path / "report.html").exists()
    advice = table.advise(["u BETWEEN 100 AND 160", "u < 30"], files=24)
    assert ("u",) in {candidate.by for candidate in advice.candidates}
    with pytest.raises(UnsupportedError, match=r"df\(\)"):
        table.files()
    files = table.files("id < 250", deletes=True)
    counts = {row.file_path.removeprefix("file:"): row.n for row in spark.sql(DELETED.format(name)).collect()}
    assert len(files) == 3
    assert {file.removeprefix("file:"): len(file.deletes) for file in files if file.deletes}
    assert {delete.kind for file in files for delete in file.deletes} == {KINDS[version]}
    assert all(file.deletes for file in files if file.removeprefix("file:") in counts)
    for engine in ENGINES:
        assert values(table.plan("id < 250"), engine) == stored(spark, name, files)


def test_columns_are_found_by_their_ids(engine_spark: SparkSession) -> None:
    spark, name = engine_spark, create(engine_spark)
    zskip.table(spark, name).index(sketches=["values:u"])
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN u TO w")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN id TO u")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN v")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN v STRING")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN id INT")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN w TYPE BIGINT")
    spark.sql(f"INSERT INTO {name} VALUES (1, 5000000000, 'n', 'v3', 3)")
    wheres = [
        "w = 77",
        "u + 0 = 77",
        "v IS NULL",
        "v > '3'",
        "v = 'v3'",
        "id = 3",
        "id IS NULL AND w = 5",
        "w > 4000000000",
    ]
    check(spark, lambda: spark.table(name), wheres)
    assert kept(spark, lambda: spark.table(name).where("u + 1 > 2310")) == 2
    old = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").collect()[0].snapshot_id
    check(spark, lambda: spark.read.option("versionAsOf", old).table(name), ["u = 77", "id + 1 > 2310", "v IS NULL"])
    zskip.table(spark, name).index()
    check(spark, lambda: spark.table(name), wheres)
    check(spark, zskip.table(spark, name).df, wheres)
    assert kept(spark, lambda: spark.table(name).where("u + 1 > 2310")) == 1
    plan = zskip.table(spark, name).plan("w = 77 OR w > 4000000000")
    for engine in ENGINES:
        assert values(plan, engine) == stored(spark, name, list(plan.files))


@pytest.mark.parametrize("has_deletes", tiers.nightly([True, False]))
def test_first_rows(engine_spark: SparkSession, has_deletes: bool) -> None:
    spark, name = engine_spark, create(engine_spark)
    if has_deletes:
        spark.sql(f"DELETE FROM {name} WHERE id < 20 OR id > 2390")
    zskip.table(spark, name).index()
    for order in ("id DESC", "v, id", "v DESC NULLS LAST, id", "s"):
        for where in ("", "WHERE v IS NOT NULL AND id + 1 > 150"):
            sql = f"SELECT * FROM {name} {where} ORDER BY {order} LIMIT 12"
            plain, pruned = both(spark, lambda sql=sql: spark.sql(sql))  # type: ignore[misc]
            assert pruned == plain, sql
    assert kept(spark, lambda: spark.sql(f"SELECT id FROM {name} ORDER BY id LIMIT 12")) == 1 + has_deletes
    assert kept(spark, lambda: spark.sql(f"SELECT s FROM {name} ORDER BY id DESC LIMIT 120")) == 2 + has_deletes
    assert kept(spark, lambda: spark.sql(f"SELECT s FROM {name} LIMIT 250")) == 3
    with zskip.enabled(spark):
        assert len(spark.sql(f"SELECT s FROM {name} LIMIT 250").collect()) == 250
        assert len(spark.sql(f"SELECT s FROM {name} WHERE id + 1 > 2300 LIMIT 250").collect()) == 100 - 9 * has_deletes
        assert len(spark.sql(f"SELECT s FROM {name} LIMIT 3000").collect()) == 2400 - 29 * has_deletes
        assert spark.table(name).count() == 2400 - 29 * has_deletes


def test_a_table_in_the_place_of_another(engine_spark: SparkSession) -> None:
    spark, name = engine_spark, create(engine_spark)
    zskip.table(spark, name).index(sketches=["values:u"])
    columns = "id AS s, 'a' AS id, 77 AS u"
    spark.sql(f"CREATE OR REPLACE TABLE {name} USING iceberg AS SELECT {columns} FROM range(100)")
    check(spark, lambda: spark.table(name), ["u = 77", "s < 5", "id = 'a'", "u = 76"])
    spark.sql(f"DROP TABLE {name}")
    spark.sql(f"CREATE TABLE {name} USING iceberg AS SELECT 'a' AS u, 1 AS id FROM range(100)")
    check(spark, lambda: spark.table(name), ["u = 'a'", "id = 1", "id + 1 > 2", "u = '77'"])


def test_queries_of_sessions_that_are_not_enabled(engine_spark: SparkSession) -> None:
    spark, name, other = engine_spark, create(engine_spark), create(engine_spark)
    table = zskip.table(spark, name)
    table.index(sketches=["values:u"])
    spark.sql(f"DELETE FROM {name} WHERE id = 78")
    sql = f"SELECT s FROM {name} WHERE u = 77 UNION ALL SELECT s FROM {other} WHERE u = 78"
    assert sorted(zskip.sql(spark, sql).collect()) == sorted(spark.sql(sql).collect())
    (scan,) = zskip.scans(spark)
    assert scan.files == 1 < scan.files_total
    assert "zskip" not in spark.sql(sql)._jdf.queryExecution().toString()
    count = zskip.sql(spark, f"SELECT count(*) AS n FROM {name} WHERE id IN (SELECT max(id) FROM {name} WHERE u = 77)")
    assert count.collect()[0].n == 1
    steps = zskip.sql(spark, f"EXPLAIN SKIPPING {sql}").collect()
    read = {row.table: row.files for row in steps if row.step == "read"}
    assert read == {name: 1}
    assert any(row.table == other and "not indexed" in row.reason for row in steps)
    assert zskip.sql(spark, f"SELECT count(*) AS n FROM {name}.data_files").collect()[0].n == FILES
    spark.table(name).cache().count()
    try:
        (step,) = zskip.sql(spark, f"EXPLAIN SKIPPING SELECT s FROM {name} WHERE u = 77").collect()
        assert "cached" in step.reason
    finally:
        spark.table(name).unpersist()


@pytest.mark.parametrize(
    "method", tiers.nightly(["tasks", "SupportsRuntimeV2Filtering", "resetTasks", "deletes", "toJson"], daily=1)
)
def test_another_version_of_iceberg_keeps_its_tables(
    engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    name = create(engine_spark)
    zskip.table(engine_spark, name).index()
    jvm, java = Jvm.of(engine_spark), janino.read_java()
    assert f'"{method}"' in java
    for known in [known for known in jvm._cache if known.startswith("scan/")]:
        monkeypatch.delitem(jvm._cache, known)
    monkeypatch.setattr(janino, "read_java", lambda: java.replace(f'"{method}"', '"missing"'))
    sql = f"SELECT s FROM {name} WHERE id + 1 > 2310 ORDER BY id LIMIT 90"
    expected = engine_spark.sql(sql).collect()
    with zskip.enabled(engine_spark):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ZskipWarning)
            assert [engine_spark.sql(sql).collect() for _ in range(2)] == [expected, expected]
        texts = [str(warning.message) for warning in told if warning.category is ZskipWarning]
        assert len(texts) == 1, texts
        assert "could not use the index of Iceberg's table" in texts[0]
        assert "[zskip" not in engine_spark.sql(sql)._jdf.queryExecution().toString()
    for known in [known for known in jvm._cache if known.startswith("scan/")]:
        del jvm._cache[known]


def test_storage_partitioned_joins_and_icebergs_runtime_filters(engine_spark: SparkSession) -> None:
    spark = engine_spark
    one, other = (create(spark, partitioned="bucket(4, id)") for _ in range(2))
    days = create(spark, partitioned="v")
    for name in (one, other, days):
        zskip.table(spark, name).index(sketches=["values:u"])
    names = ["spark.sql.sources.v2.bucketing.enabled", "spark.sql.iceberg.planning.preserve-data-grouping"]
    names += ["spark.sql.sources.v2.bucketing.pushPartValues.enabled", "spark.sql.requireAllClusterKeysForCoPartition"]
    values = ["true", "true", "true", "false"]
    joined = f"SELECT a.id, b.s FROM {one} a JOIN {other} b ON a.id = b.id WHERE a.u = 77 OR a.u = 2300"
    pruned = f"SELECT a.id, a.v FROM {days} a JOIN {other} b ON a.v = b.v WHERE b.u IN (77, 81)"
    pairs = f"SELECT a.id, b.id FROM {one} a JOIN {one} b ON a.u = b.u WHERE a.s = "
    twice = f"{pairs} 'n77' UNION ALL {pairs} 'n78'"
    for sql in (joined, pruned, twice):
        plain, through = both(spark, lambda sql=sql: spark.sql(sql))  # type: ignore[misc]
        assert through == plain, sql
    for adaptive in ("false", "true"):
        try:
            for key, value in zip([*names, "spark.sql.adaptive.enabled"], [*values, adaptive], strict=True):
                spark.conf.set(key, value)
            spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
            plain, through = both(spark, lambda: spark.sql(joined))
            assert through == plain
            with zskip.enabled(spark):
                plan = spark.sql(joined)._jdf.queryExecution().executedPlan().toString()
            assert "Exchange" not in plan, "no shuffle"
            assert "[zskip kept" in plan
            plain, through = both(spark, lambda: spark.sql(pruned))
            assert through == plain
        finally:
            for key in [*names, "spark.sql.adaptive.enabled", "spark.sql.autoBroadcastJoinThreshold"]:
                spark.conf.unset(key)


@pytest.mark.parametrize("adaptive", tiers.nightly([True, False]))
def test_joins(engine_spark: SparkSession, tmp_path: Path, adaptive: bool) -> None:
    spark, fact = engine_spark, create(engine_spark)
    small = create(engine_spark)
    spark.sql(f"DELETE FROM {fact} WHERE id % 100 = 50")
    for name in (fact, small):
        zskip.table(spark, name).index()
    rows(spark).write.parquet(f"{tmp_path}/p")
    spark.read.parquet(f"{tmp_path}/p").createOrReplaceTempView("joined_files")
    where = "d.s IN ('n1301', 'n1310', 'n1350')"
    queries = {
        f"SELECT f.id, f.s FROM {fact} f JOIN {small} d ON f.id = d.id WHERE {where}": 1,
        f"SELECT f.s FROM {fact} f JOIN joined_files d ON f.id = d.id WHERE {where}": 1,
        f"SELECT f.s FROM {fact} f WHERE f.id IN (SELECT d.id FROM {small} d WHERE {where})": 1,
        f"SELECT f.s, d.v FROM {fact} f RIGHT JOIN {small} d ON f.id = d.id WHERE {where}": 1,
        f"SELECT count(*), sum(f.u) FROM {fact} f JOIN {small} d ON f.id = d.id WHERE {where} AND f.id + 1 > 1340": 1,
        f"SELECT f.s FROM {fact} f JOIN {small} d ON f.id = d.id WHERE d.s = 'none'": None,
        f"SELECT f.s, d.v FROM {fact} f LEFT JOIN {small} d ON f.id = d.id AND {where}": FILES,
        f"SELECT f.s FROM {fact} f LEFT ANTI JOIN {small} d ON f.id = d.id AND {where}": FILES,
        f"SELECT f.id, g.id FROM {fact} f JOIN {fact} g ON f.id = g.u JOIN {small} d ON g.u = d.id WHERE {where}": None,
        f"SELECT f.s FROM {fact} f JOIN {small} d ON f.id = d.u WHERE {where}": None,
    }
    plain = {sql: sorted(map(str, spark.sql(sql).collect())) for sql in queries}
    settings = {"spark.zskip.joins": "always", "spark.sql.adaptive.enabled": str(adaptive).lower()}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        for threshold in ("10m", "-1"):
            spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
            for sql, files in queries.items():
                assert enabled(spark, sql) == plain[sql], sql
                scans = [scan for scan in zskip.scans(spark) if scan.table.endswith(fact.rpartition(".")[2])]
                assert files is None or files in {scan.files for scan in scans}, (sql, scans)
            pair = f"SELECT f.s FROM {fact} f JOIN {small} d ON f.id = d.id WHERE d.s = "
            assert enabled(spark, f"{pair} 'n77' UNION ALL {pair} 'n1278'") == ["Row(s='n1278')", "Row(s='n77')"]
        spark.conf.set("spark.zskip.joins.keys", "2")
        for sql in queries:
            assert enabled(spark, sql) == plain[sql], sql
    finally:
        for key in (*settings, "spark.sql.autoBroadcastJoinThreshold", "spark.zskip.joins.keys"):
            spark.conf.unset(key)


@pytest.mark.parametrize("adaptive", tiers.nightly([True, False]))
def test_joins_by_expressions_and_by_wider_types(engine_spark: SparkSession, adaptive: bool) -> None:
    spark, fact, small = engine_spark, create(engine_spark), create(engine_spark)
    spark.sql(f"DELETE FROM {fact} WHERE id % 100 = 50")
    zskip.table(spark, fact).index(sketches=["ranges(1):upper(s)", "ranges(1):lower(s)", "values:u"])
    # Of the texts of a file, "n0" to "n99" and "n100" to "n199" have these between them, too.
    where = "d.s IN ('n1301', 'n1310', 'n1350')"
    queries = {
        f"SELECT f.id, f.s FROM {fact} f JOIN {small} d ON lower(f.s) = lower(d.s) WHERE {where}": 3,
        f"SELECT f.id FROM (SELECT id, ucase(s) k FROM {fact}) f JOIN {small} d ON k = upper(d.s) WHERE {where}": 3,
        f"SELECT f.s FROM {fact} f JOIN {small} d ON f.id + 1 = d.id AND upper(f.s) = 'N1300' WHERE {where}": 1,
        f"SELECT f.s FROM {fact} f JOIN (SELECT u + 1L AS k FROM {small} d WHERE {where}) d ON f.u = d.k": 2,
        f"SELECT f.s FROM {fact} f JOIN {small} d ON lower(f.s) = lower(d.s) WHERE d.s = 'none'": None,
        f"SELECT f.s FROM {fact} f JOIN {small} d ON reverse(f.s) = reverse(d.s) WHERE {where}": FILES,
        f"SELECT f.s FROM {fact} f LEFT ANTI JOIN {small} d ON lower(f.s) = lower(d.s) AND {where}": FILES,
    }
    # To Spark, the filters of the two scans differ in nothing: they are shuffled alike, and have the same keys.
    groups = f"(SELECT id, s, count(*) AS n FROM {fact} GROUP BY id, s)"
    keys = "(SELECT * FROM VALUES ('N1301'), ('n1401') AS d(k))"
    twice = [f"SELECT id, n FROM {groups} JOIN {keys} ON {name}(s) = k" for name in ("upper", "lower")]
    queries |= {" UNION ALL ".join(twice): None, " UNION ALL ".join(reversed(twice)): None}
    plain = {sql: sorted(map(str, spark.sql(sql).collect())) for sql in queries}
    settings = {"spark.zskip.joins": "always", "spark.sql.adaptive.enabled": str(adaptive).lower()}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        for threshold in ("10m", "-1"):
            spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
            for sql, files in queries.items():
                assert enabled(spark, sql) == plain[sql], sql
                scans = [scan for scan in zskip.scans(spark) if scan.table.endswith(fact.rpartition(".")[2])]
                assert files is None or {scan.files for scan in scans} == {files}, (sql, scans)
            assert len(scans) == 2, scans
    finally:
        for key in (*settings, "spark.sql.autoBroadcastJoinThreshold"):
            spark.conf.unset(key)


@pytest.mark.parametrize("adaptive", tiers.nightly([True, False]))
def test_key_queries_are_pruned_by_their_own_joins(engine_spark: SparkSession, tmp_path: Path, adaptive: bool) -> None:
    spark, fact, other = engine_spark, create(engine_spark), f"local.db.t{uuid.uuid4().hex[:12]}"
    spark.range(0, 2400, 1, FILES).selectExpr("id", "2399 - id AS k").writeTo(other).using("iceberg").create()
    for name in (fact, other):
        zskip.table(spark, name).index()
    rows(spark, 1301, 1, 1).write.parquet(f"{tmp_path}/one")
    spark.read.parquet(f"{tmp_path}/one").createOrReplaceTempView("one_day")
    sql = f"SELECT f.id FROM {fact} f JOIN {other} g ON f.id = g.k JOIN one_day d ON g.id = d.id WHERE d.s LIKE 'n%1'"
    settings = {"spark.zskip.joins": "always", "spark.sql.adaptive.enabled": str(adaptive).lower()}
    settings["spark.sql.autoBroadcastJoinThreshold"] = "10000"
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        plain, pruned = both(spark, lambda: spark.sql(sql))
    finally:
        for key in settings:
            spark.conf.unset(key)
    assert pruned == plain == ["Row(id=1098)"]
    files = {name: [s.files for s in zskip.scans(spark) if s.table.endswith(name[9:])] for name in (fact, other)}
    assert files == {fact: [1], other: [1, 1]}


def test_groups_are_shared_by_joins_with_different_broadcasts(engine_spark: SparkSession, tmp_path: Path) -> None:
    spark, name = engine_spark, f"local.db.t{uuid.uuid4().hex[:12]}"
    wide = "array_join(transform(sequence(1, 16), i -> sha2(string(id * 31 + i), 512)), '') AS s"
    rows(spark).select("id", "u").selectExpr("*", wide).writeTo(name).using("iceberg").create()
    zskip.table(spark, name).index()
    rows(spark).write.parquet(f"{tmp_path}/d")
    spark.read.parquet(f"{tmp_path}/d").createOrReplaceTempView("group_names")
    sql = (
        f"WITH w AS (SELECT id, count(s) AS n FROM {name} GROUP BY id), "
        "a AS (SELECT w.* FROM w JOIN group_names g ON w.id = g.id WHERE g.s LIKE 'n1%'), "
        "b AS (SELECT w.*, g.v FROM w JOIN group_names g ON w.id = g.id WHERE g.u < 1200) "
        "SELECT a.id, a.n, b.n FROM a JOIN b ON a.id = b.id"
    )
    plain, pruned = both(spark, lambda: spark.sql(sql))
    assert pruned == plain
    assert len([scan for scan in zskip.scans(spark) if scan.table.endswith(name[9:])]) == 1
    with zskip.enabled(spark):
        below = f"SELECT count(f.s) FROM {name} f JOIN group_names g ON f.id = g.id WHERE g.s = 'n77'"
        assert [row[0] for row in spark.sql(below).collect()] == [1]
    assert {scan.files for scan in zskip.scans(spark)} == {1}
