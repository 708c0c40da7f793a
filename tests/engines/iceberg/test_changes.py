"""MERGE, UPDATE and DELETE of Iceberg in a session with `zskip.enable`: the same table as without, from fewer files."""

from __future__ import annotations

import random
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
import tiers
from pyspark.sql import functions as F
from random_changes import KINDS, ROWS, random_source, random_statement
from two_sessions import run_amid

import zskip
from zskip.errors import ZskipWarning
from zskip.spark.scan.rule import notes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVOLVING = 0.2 if pyspark.__version__ >= "4.1" else 0.0
"""The share of MERGE that adds columns, which Iceberg takes since Spark 4.1."""
MODES = [("merge-on-read", 2), ("copy-on-write", 2), ("merge-on-read", 3), ("copy-on-write", 3)]
PARTITIONS = ["truncate(60, k)", "k", "bucket(8, k)"]
SOURCE = "(SELECT 3 * id + 110 AS k, id AS v FROM range(3)) o"
UPDATE = "WHEN MATCHED THEN UPDATE SET s = 'x'"
INSERT = "WHEN NOT MATCHED THEN INSERT (k, v, s, p) VALUES (o.k, o.v, 'new', 0)"


@pytest.fixture
def spark(engine_spark: SparkSession) -> SparkSession:
    """A session that looks for keys whatever that costs."""
    session = engine_spark.newSession()
    session.conf.set("spark.zskip.joins", "always")
    return session


def write(spark: SparkSession, mode: str, version: int, key: str = "id", by: str = "", **properties: str) -> str:
    """A table in the order of its key, with null keys."""
    name = f"local.db.t{uuid.uuid4().hex[:12]}"
    properties |= {"format-version": str(version)}
    # Else the rows of each partition would be sorted by a shuffle, and any file might hold any key.
    properties |= {"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"}
    properties |= {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    texts = ", ".join(f"'{one}' = '{value}'" for one, value in properties.items())
    partitions = f"PARTITIONED BY ({by})" if by else ""
    columns = (f"IF(id % 97 = 5, NULL, {key}) AS k", f"id * 7919 % {ROWS} AS v", "concat('n', id) AS s")
    rows = spark.range(0, ROWS, 1, 12).selectExpr(*columns, "CAST(id DIV 300 AS int) AS p")
    types = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in rows.schema.fields)
    spark.sql(f"CREATE TABLE {name} ({types}) USING iceberg {partitions} TBLPROPERTIES ({texts})")
    rows.writeTo(name).append()
    return name


def run(spark: SparkSession, table: str, sql: str) -> tuple[Any, tuple[zskip.ScanReport, ...]]:
    """What a statement does to a table: its error, or the rows afterwards and what Iceberg counted, and its scans."""
    before = len(spark.table(f"{table}.snapshots").collect())
    try:
        spark.sql(sql.format(t=table)).collect()
    except Exception as error:
        return (type(error).__name__, str(error).splitlines()[0].replace(table, "t")[:120]), ()
    scans = tuple(scan for scan in zskip.scans(spark) if not scan.for_keys)
    snapshots = spark.table(f"{table}.snapshots").orderBy("committed_at").collect()
    # Of rows that are copied, the files decide, and those that an earlier statement wrote may differ.
    counted = [
        sorted((name, n) for name, n in one.summary.items() if name.endswith(("-inserted", "-updated", "-deleted")))
        for one in snapshots[before:]
    ]
    frame = spark.table(table)
    return (len(snapshots), counted, sorted(frame.columns), sorted(map(str, frame.collect()))), scans


def changed(spark: SparkSession, table: str, copy: str, sql: str) -> tuple[zskip.ScanReport, ...]:
    """The scans of a statement in an enabled session, which changes the table as one without zskip changes a copy."""
    plain, _ = run(spark, copy, sql)
    with zskip.enabled(spark), warnings.catch_warnings():
        warnings.simplefilter("error", ZskipWarning)
        enabled, scans = run(spark, table, sql)
    assert enabled == plain, sql
    return scans


def summary(spark: SparkSession, table: str) -> dict[str, str]:
    """What Iceberg counted of the latest change."""
    return dict(spark.table(f"{table}.snapshots").orderBy("committed_at").collect()[-1].summary)


@pytest.mark.parametrize(("mode", "version"), tiers.nightly(MODES, 2))
def test_statements_read_the_files_that_they_change(spark: SparkSession, mode: str, version: int) -> None:
    """By keys of a query that comes first, or (-1) of what Spark broadcasts; `files`: so many are read at most."""
    statements = [
        (f"MERGE INTO {{t}} t USING {SOURCE} ON t.k = o.k {UPDATE} {INSERT}", "10MB", 1),
        (f"MERGE INTO {{t}} t USING {SOURCE} ON t.k = o.k {UPDATE} {INSERT}", "-1", 1),
        (f"MERGE INTO {{t}} t USING {SOURCE} ON t.v = 7 * o.v AND t.s LIKE '%1%' {UPDATE}", "-1", 3),
        (f"MERGE INTO {{t}} t USING (SELECT id + 5000 AS k, id AS v FROM range(3)) o ON t.k = o.k {INSERT}", "-1", 0),
        ("UPDATE {t} SET s = 'y' WHERE v = 77", "-1", 1),
        ("DELETE FROM {t} WHERE abs(v - 77) = 0 AND upper(s) LIKE 'N4%'", "-1", 3),
        (f"DELETE FROM {{t}} WHERE k IN (SELECT k FROM {SOURCE})", "-1", 1),
        (f"UPDATE {{t}} t SET s = 'z' WHERE EXISTS (SELECT 1 FROM {SOURCE} WHERE o.k = t.k)", "10MB", 1),
    ]
    for sql, broadcast, files in statements:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
        table, copy = (write(spark, mode, version) for _ in range(2))
        zskip.table(spark, table).index(sketches=["values:v", "ranges(1):upper(s)"])
        (scan,) = changed(spark, table, copy, sql)
        assert scan.files <= files, sql
        of_files = [summary(spark, one).get("deleted-data-files") for one in (table, copy)]
        assert of_files[0] == of_files[1], "copy-on-write replaces the same files"


@pytest.mark.parametrize(
    ("mode", "by"), tiers.nightly([(mode, by) for by in PARTITIONS for mode in ("merge-on-read", "copy-on-write")], 3)
)
def test_too_many_keys_of_a_partition(spark: SparkSession, tmp_path: Path, mode: str, by: str) -> None:
    """Only the first keys of a key query are known then, which are not for Iceberg's own pruning."""
    for name, value in (("spark.zskip.joins.keys", "10"), ("spark.sql.autoBroadcastJoinThreshold", "-1")):
        spark.conf.set(name, value)
    spark.range(100).selectExpr("IF(id = 9, double('NaN'), 3 * id) AS d", "3 * id AS k", "id AS v").write.parquet(
        str(tmp_path / "o")
    )
    source, key = f"parquet.`{tmp_path / 'o'}`", "CAST(id DIV 100 AS double)" if by == "k" else "id"
    table, copy = (write(spark, mode, 2, key=key, by=by) for _ in range(2))
    zskip.table(spark, table).index()
    on = "t.k = o.d" if by == "k" else "t.k = o.k"
    for sql in (
        f"MERGE INTO {{t}} t USING {source} o ON {on} {UPDATE} {INSERT}",
        f"DELETE FROM {{t}} t WHERE EXISTS (SELECT 1 FROM {source} o WHERE {on} AND v < 70)",
    ):
        changed(spark, table, copy, sql)
    query = f"SELECT /*+ MERGE(o) */ count(*) FROM {{}} t JOIN {source} o ON {on}"
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    expected = spark.sql(query.format(copy)).first()
    with zskip.enabled(spark):
        assert spark.sql(query.format(table)).first() == expected


@pytest.mark.parametrize(("mode", "version"), tiers.nightly(MODES, 2))
def test_rows_without_a_match_are_looked_for_in_all_files(spark: SparkSession, mode: str, version: int) -> None:
    table, copy = (write(spark, mode, version) for _ in range(2))
    zskip.table(spark, table).index()
    for clause in ("", UPDATE):
        merge = f"MERGE INTO {{t}} t USING {SOURCE} ON t.k = o.k {clause}"
        scans = changed(spark, table, copy, f"{merge} WHEN NOT MATCHED BY SOURCE AND t.v = 90 THEN DELETE")
        assert all(scan.files == scan.files_total for scan in scans)
        reasons = [leaf.reason for scan in scans for leaf in scan.leaves]
        assert ("rows without a match are changed, too" in reasons) == (mode == "merge-on-read"), reasons


@pytest.mark.parametrize(("mode", "version"), tiers.nightly(MODES, 2))
def test_two_source_rows_for_a_row_are_an_error_of_sparks(spark: SparkSession, mode: str, version: int) -> None:
    table, copy = (write(spark, mode, version) for _ in range(2))
    zskip.table(spark, table).index()
    twice = f"MERGE INTO {{t}} t USING (SELECT id + 200 - id AS k FROM range(2)) o ON t.k = o.k {UPDATE}"
    assert changed(spark, table, copy, twice) == ()
    with zskip.enabled(spark), pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(twice.format(t=table))


@pytest.mark.parametrize(("mode", "version"), tiers.nightly(MODES, 2))
def test_a_merge_that_cannot_be_pruned_runs_as_without_zskip(
    spark: SparkSession, mode: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, copy = (write(spark, mode, version) for _ in range(2))
    zskip.table(spark, table).index()

    def broken(*_: object) -> None:
        raise ValueError("no keys today")

    monkeypatch.setitem(notes.REFINE, "join", broken)
    sql = f"MERGE INTO {{t}} t USING {SOURCE} ON t.k = o.k {UPDATE} {INSERT}"
    plain, _ = run(spark, copy, sql)
    with zskip.enabled(spark), pytest.warns(ZskipWarning, match="no keys today"):
        enabled, scans = run(spark, table, sql)
    assert enabled == plain
    assert scans[0].files == 12


def test_keys_that_cannot_be_computed_are_no_matter_of_the_search(spark: SparkSession, tmp_path: Path) -> None:
    """Spark computes the keys of rows that a join drops only if it has to."""
    spark.range(3).selectExpr("IF(id = 1, 'x', string(100 * id)) AS s", "id").write.parquet(str(tmp_path / "o"))
    spark.udf.register("good", lambda i: i != 1, "boolean")
    good = f"SELECT id AS i FROM parquet.`{tmp_path / 'o'}` WHERE good(id)"
    source = f"(SELECT CAST(s AS bigint) AS k, id AS v FROM parquet.`{tmp_path / 'o'}` WHERE id IN ({good})) o"
    table, copy = (write(spark, "merge-on-read", 2) for _ in range(2))
    zskip.table(spark, table).index()
    spark.conf.set("spark.sql.ansi.enabled", "true")
    (scan,) = changed(spark, table, copy, f"MERGE INTO {{t}} t USING {source} ON t.k = o.k {UPDATE} {INSERT}")
    assert scan.files == 2


@pytest.mark.parametrize(("checkpoint", "files"), [(True, 1), (False, 12)])
def test_the_methods_of_a_data_frame_skip_files(spark: SparkSession, checkpoint: bool, files: int) -> None:
    """Rows of an RDD may be others when they are computed again."""
    table = write(spark, "merge-on-read", 2)
    zskip.table(spark, table).index()
    source = spark.createDataFrame([(110, 1, "x", 0), (700, 2, "x", 0)], "k bigint, v bigint, s string, p int")
    if checkpoint:
        source = source.localCheckpoint()
    with zskip.enabled(spark):
        merge = source.alias("o").mergeInto(table, F.expr(f"{table}.k = o.k"))
        merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
        (scan,) = (scan for scan in zskip.scans(spark) if not scan.for_keys)
    assert scan.files == files
    assert spark.table(table).where("s = 'x'").count() == 2


@pytest.mark.parametrize("seed", tiers.seeds(range(1, 81), daily=2))
def test_random_statements_change_a_table_as_without_zskip(spark: SparkSession, seed: int) -> None:
    pick = random.Random(seed)
    mode, version = MODES[seed % 4]
    kind = pick.choice(list(KINDS))
    key, others = KINDS[kind]
    by = pick.choice(["", "", "p", "truncate(100, v)"])
    if seed % 3 == 0:
        by = "bucket(4, k)" if kind != "double" else "p"
        spark.conf.set("spark.zskip.joins.keys", "2")
    table, copy = (write(spark, mode, version, key, by) for _ in range(2))
    indexed = zskip.table(spark, table)
    indexed.index(sketches=pick.choice([["values:v"], ["ranges(1):upper(s)"], []]))
    spark.conf.set("spark.sql.session.timeZone", pick.choice(["UTC", "Europe/Berlin", "America/St_Johns"]))
    spark.conf.set("spark.sql.ansi.enabled", pick.choice(["true", "false"]))
    pruned = 0

    def save(rows: str) -> str:
        name = f"local.db.s{uuid.uuid4().hex[:12]}"
        spark.sql(rows).writeTo(name).create()
        return name

    for _ in range(3 if seed < 3 else 6):
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", pick.choice(["-1", "10MB"]))
        sql = random_statement(pick, lambda: random_source(pick, key, others, save), EVOLVING)
        pruned += sum(scan.files < scan.files_total for scan in changed(spark, table, copy, sql))
        if pick.random() < 0.5:
            indexed.index()
    assert pruned or seed > 2, "this seed skips files"


OTHERS = [
    "INSERT INTO {t} SELECT 7, 1, 'late', 0",
    "UPDATE {t} SET s = 'late' WHERE k = 7",
    "DELETE FROM {t} WHERE k = 500",
    "INSERT INTO {t} SELECT 5000, 1, 'late', 0",
]


@pytest.mark.parametrize("isolation", tiers.nightly(("serializable", "snapshot")))
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("other", tiers.nightly(OTHERS))
def test_two_sessions_conflict_as_without_zskip(
    spark: SparkSession, tmp_path: Path, other: str, mode: str, isolation: str
) -> None:
    spark.sql("SELECT 7L AS k").write.parquet(str(tmp_path / "source"))
    outcomes = []
    files: list[int] = []
    for is_enabled in (False, True):
        table = write(spark, mode, 2, **{f"write.{verb}.isolation-level": isolation for verb in ("merge", "update")})
        zskip.table(spark, table).index()
        source = f"(SELECT * FROM parquet.`{tmp_path / 'source'}` CROSS JOIN (SELECT wait(id) AS w FROM range(1)))"
        merge = f"MERGE INTO {table} t USING {source} o ON t.k = o.k WHEN MATCHED THEN UPDATE SET s = string(o.w)"
        (zskip.enable if is_enabled else zskip.disable)(spark)
        error, scans = run_amid(spark, tmp_path / f"{is_enabled}", merge, other.format(t=table))
        cause = str(error).partition("ValidationException: ")[2].splitlines()
        reason = str(cause[:1]).partition(":")[0].replace(table, "t")
        files.extend(scan.files for scan in scans if scan.table and scan.table.endswith(table[-12:]))
        outcomes.append((type(error), reason, sorted(map(str, spark.table(table).collect()))))
    assert outcomes[0] == outcomes[1]
    assert files == [1], "the scan of the enabled session"
