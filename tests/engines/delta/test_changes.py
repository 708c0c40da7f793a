"""MERGE, UPDATE and DELETE of Delta in a session with `zskip.enable`: the same table as without, from fewer files."""

from __future__ import annotations

import random
import shutil
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiers
from pyspark.sql import functions as F
from random_changes import KINDS, ROWS, random_source, random_statement
from session_settings import settings
from two_sessions import run_amid

import zskip
from zskip.errors import ZskipWarning
from zskip.spark.scan.rule import notes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
PROPERTIES = [{}, VECTORS, VECTORS | MAPPED, FEED, VECTORS | FEED | {"delta.enableRowTracking": "true"}]
COUNTED = ("numSourceRows", "numDeletedRows", "numUpdatedRows", "numCopiedRows", "numRemovedFiles")
OF_TARGET = ("numTargetRows", "numTargetFilesRemoved", "numDeletionVectors", "numTargetDeletionVectors")


@pytest.fixture
def spark(engine_spark: SparkSession) -> SparkSession:
    """A session that looks for keys whatever that costs."""
    session = engine_spark.newSession()
    session.conf.set("spark.zskip.joins", "always")
    return session


def write(spark: SparkSession, path: str, kind: str = "id", *by: str, **properties: str) -> None:
    """Write a table in the order of its key, with null keys."""
    rows = spark.range(0, ROWS, 1, 12)
    key = f"IF(id % 97 = 5, NULL, {kind}) AS k"
    rows = rows.selectExpr(key, f"id * 7919 % {ROWS} AS v", "concat('n', id) AS s", "CAST(id DIV 300 AS int) AS p")
    rows.write.format("delta").partitionBy(*by).options(**properties).save(path)


def run(spark: SparkSession, path: str, sql: str) -> tuple[Any, tuple[zskip.ScanReport, ...]]:
    """What a statement does to a table: its error, or the rows afterwards and the metrics, and its scans."""
    try:
        spark.sql(sql.format(t=f"delta.`{path}`")).collect()
    except Exception as error:
        return (type(error).__name__, str(error).splitlines()[0].replace(path, "t")[:120]), ()
    scans = tuple(scan for scan in zskip.scans(spark) if not scan.for_keys)
    (last,) = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()
    metrics = {
        name: value for name, value in last.operationMetrics.items() if name in COUNTED or name.startswith(OF_TARGET)
    }
    table = spark.read.format("delta").load(path)
    return (last.version, metrics, sorted(table.columns), sorted(map(str, table.collect()))), scans


def changed(spark: SparkSession, path: str, sql: str, copy: str = "") -> tuple[zskip.ScanReport, ...]:
    """The scans of a statement in an enabled session, which changes the table as one without zskip changes a copy."""
    if not copy:
        copy = f"{path} {time.time_ns()}"
        shutil.copytree(path, copy)
    plain, _ = run(spark, copy, sql)
    with zskip.enabled(spark), warnings.catch_warnings():
        warnings.simplefilter("error", ZskipWarning)
        enabled, scans = run(spark, path, sql)
    assert enabled == plain, sql
    return scans


@pytest.mark.parametrize("properties", tiers.nightly([VECTORS, {}, VECTORS | MAPPED]))
def test_statements_read_the_files_that_they_change(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    path = str(tmp_path / "t ü")
    write(spark, path, **properties)
    table = zskip.table(spark, path)
    table.index(sketches=["values:v"])
    source = "(SELECT 3 * id + 110 AS k, id AS v FROM range(3)) o"
    update = "WHEN MATCHED THEN UPDATE SET s = 'x'"
    insert = "WHEN NOT MATCHED THEN INSERT (k, v, s) VALUES (o.k, o.v, 'new')"
    search = changed(spark, path, f"MERGE INTO {{t}} t USING {source} ON t.k = o.k {update} {insert}")[0]
    assert (search.files, search.files_total) == (1, 12)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    by_sketch = f"MERGE INTO {{t}} t USING (SELECT 7 * id AS v FROM range(3)) o ON t.v = o.v AND t.s LIKE 'n%' {update}"
    assert changed(spark, path, by_sketch)[0].files < 8, "three files, and those that are not indexed"
    table.index(sketches=["values:v"])
    new = "(SELECT 700 + id AS k, id AS v FROM range(3)) o"
    scans = changed(spark, path, f"MERGE INTO {{t}} t USING {new} ON t.k = o.k AND t.s <> 'z' {insert}")
    assert scans[0].files == 1, "one, though no file holds a match"
    table.index(sketches=["values:v"])
    assert changed(spark, path, "UPDATE {t} SET s = 'y' WHERE v = 77")[0].files <= 3
    by_source = f"MERGE INTO {{t}} t USING {source} ON t.k = o.k WHEN NOT MATCHED BY SOURCE AND t.v = 90 THEN DELETE"
    everything = changed(spark, path, by_source)[0]
    assert everything.files == everything.files_total
    assert any("without a match" in leaf.reason for leaf in everything.leaves)
    twice = "(SELECT id + 200 - id AS k FROM range(2)) o"
    with zskip.enabled(spark), pytest.raises(Exception, match="DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW"):
        spark.sql(f"MERGE INTO delta.`{path}` t USING {twice} ON t.k = o.k {update}")


def rows_read(spark: SparkSession) -> int:
    """By all stages until now."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    quantiles = spark.sparkContext._gateway.new_array(spark._jvm.double, 0)
    stages = spark.sparkContext._jsc.sc().statusStore().stageList(None, False, False, quantiles, None)
    return sum(stages.apply(i).inputRecords() for i in range(stages.size()))


@pytest.mark.parametrize("kind", tiers.nightly(["bigint", "string", "decimal", "timestamp", "double"], 2))
def test_files_with_matches_are_read_again_in_parts(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Where rows without a match stay in their files, that is with deletion vectors."""
    path, (key, _) = str(tmp_path / "t"), KINDS[kind]
    small = {"parquet.block.size": "1024", "parquet.page.size.row.check.min": "50"}
    small["spark.sql.parquet.outputTimestampType"] = "TIMESTAMP_MICROS"  # Which has statistics.
    rows = spark.range(0, ROWS, 1, 1).selectExpr(f"IF(id % 97 = 5, NULL, {key}) AS k", "id AS v", "uuid() AS s")
    with settings(spark, **small):
        rows.write.format("delta").options(**VECTORS).save(path)
    zskip.table(spark, path).index()
    last = 60 if kind == "string" else 900  # Texts have one range.
    source = f"(SELECT {key} AS k FROM VALUES (20L), (41L), (55L), ({last}L) AS x(id)) o"
    update = "WHEN MATCHED AND v > 30 THEN UPDATE SET s = 'x' WHEN NOT MATCHED THEN INSERT (k, s) VALUES (o.k, 'new')"
    shutil.copytree(path, f"{path} copy")
    tables, read = [], []
    for one in (f"{path} copy", path):
        before = rows_read(spark)
        with zskip.enabled(spark) if one == path else nullcontext():
            tables.append(run(spark, one, f"MERGE INTO {{t}} t USING {source} ON t.k = o.k {update}")[0])
        read.append(rows_read(spark) - before)
    assert tables[0] == tables[1]
    assert (read[0] - read[1] > ROWS) == (kind != "double"), "read twice after the search"


@pytest.mark.parametrize("way", ["mergeInto", "DeltaTable"])
def test_methods_skip_files_as_statements_do(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = str(tmp_path / "t")
    write(spark, path)
    zskip.table(spark, path).index()
    source = spark.sql("SELECT 100L + id AS k, 1L AS v, 'x' AS s, 0 AS p FROM range(2)").alias("o")
    with zskip.enabled(spark):
        if way == "mergeInto":
            spark.sql(f"CREATE TABLE merged USING delta LOCATION '{path}'")
            source.mergeInto("merged", F.expr("merged.k = o.k")).whenMatched().updateAll().merge()
            spark.sql("DROP TABLE merged")
        else:
            table = spark._jvm.io.delta.tables.DeltaTable.forPath(spark._jsparkSession, path)
            getattr(table, "as")("t").merge(source._jdf, "t.k = o.k").whenMatched().updateAll().execute()
        assert zskip.scans(spark)[0].files == 1
    assert spark.read.format("delta").load(path).where("s = 'x'").count() == 2


def test_a_merge_that_cannot_be_pruned_runs_as_without_zskip(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    write(spark, path)
    zskip.table(spark, path).index()

    def broken(*_: object) -> None:
        raise ValueError("no keys today")

    monkeypatch.setitem(notes.REFINE, "join", broken)
    source = "(SELECT id + 7 AS k FROM range(1))"
    merge = f"MERGE INTO delta.`{path}` t USING {source} o ON t.k = o.k WHEN MATCHED THEN UPDATE SET s = 'x'"
    with zskip.enabled(spark), pytest.warns(ZskipWarning, match="no keys today"):
        spark.sql(merge).collect()
    assert zskip.scans(spark)[0].files == 12
    assert spark.read.format("delta").load(path).where("s = 'x'").count() == 1


def test_the_recorded_keys_of_a_merge_tell_what_to_cluster_by(engine_spark: SparkSession, tmp_path: Path) -> None:
    """Recorded, they are looked up even where no file can be skipped."""
    spark, path = engine_spark.newSession(), str(tmp_path / "t")
    rows = spark.range(0, 60_000, 1, 6).selectExpr("id * 7919 % 60000 AS k", "uuid() AS s", "id AS v")
    rows.write.format("delta").save(path)
    table = zskip.table(spark, path)
    table.index()
    table.record()
    source = "(SELECT 30000 + id AS k FROM range(300)) o"
    with zskip.enabled(spark):
        spark.sql(f"MERGE INTO delta.`{path}` t USING {source} ON t.k = o.k WHEN MATCHED THEN UPDATE SET s = 'x'")
    (query,) = table.workload().queries
    assert query.where.startswith("k IN (30000L, ")
    table.index()
    assert table.advise(files=6).best.by == ("k",)  # type: ignore[union-attr]
    assert table.what_if(["k"], files=6).kept < 0.4
    assert table.optimize("auto", files=6).by == ("k",)


@pytest.mark.parametrize("seed", tiers.seeds(range(1, 61)))
def test_random_statements_change_a_table_as_without_zskip(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    path, copy = str(tmp_path / "t"), str(tmp_path / "copy")
    properties = pick.choice(PROPERTIES)
    key, others = KINDS[pick.choice(list(KINDS))]
    write(spark, path, key, *(["p"] if pick.random() < 0.3 else []), **properties)
    table = zskip.table(spark, path)
    table.index(sketches=pick.choice([["values:v"], ["ranges(1):upper(s)"], []]))
    shutil.copytree(path, copy)
    spark.conf.set("spark.sql.session.timeZone", pick.choice(["UTC", "Europe/Berlin", "America/St_Johns"]))
    spark.conf.set("spark.sql.ansi.enabled", pick.choice(["true", "false"]))
    pruned = 0
    for i in range(3 if seed == 1 else 6):
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", pick.choice(["-1", "10MB"]))
        other = str(tmp_path / f"source {i}")

        def save(rows: str, other: str = other) -> str:
            spark.sql(rows).write.format("delta").save(other)
            return f"delta.`{other}`"

        sql = random_statement(pick, lambda save=save: random_source(pick, key, others, save))
        pruned += sum(scan.files < scan.files_total for scan in changed(spark, path, sql, copy))
        if pick.random() < 0.3:
            table.index()
    assert pruned or seed != 1, "this seed skips files"
    if "delta.enableChangeDataFeed" in properties:
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "0")
        changes = [feed.load(one).drop("_commit_timestamp").collect() for one in (copy, path)]
        assert sorted(map(str, changes[1])) == sorted(map(str, changes[0]))


@pytest.mark.parametrize(
    "other",
    tiers.nightly(
        (
            "INSERT INTO {t} SELECT 7, 1, 'late', 0",
            "UPDATE {t} SET s = 'late' WHERE k = 7",
            "DELETE FROM {t} WHERE k = 500",
            "INSERT INTO {t} SELECT 5000, 1, 'late', 0",
        )
    ),
)
def test_two_sessions_conflict_as_without_zskip(spark: SparkSession, tmp_path: Path, other: str) -> None:
    """Under Delta's one isolation level outside of Databricks, Serializable."""
    outcomes = []
    files: list[int] = []
    for is_enabled in (False, True):
        path = str(tmp_path / f"t {is_enabled}")
        write(spark, path)
        zskip.table(spark, path).index()
        merge = f"MERGE INTO delta.`{path}` t USING (SELECT wait(7) AS k) o ON t.k = o.k WHEN MATCHED THEN DELETE"
        (zskip.enable if is_enabled else zskip.disable)(spark)
        error, scans = run_amid(spark, tmp_path / f"{is_enabled}", merge, other.format(t=f"delta.`{path}`"))
        files.extend(scan.files for scan in scans[:1] if scan.table == path)
        outcomes.append((type(error), sorted(map(str, spark.read.format("delta").load(path).collect()))))
    assert outcomes[0] == outcomes[1]
    assert files == [1], "the search of the enabled session"
