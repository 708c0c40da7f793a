"""New rows in Iceberg tables with deletes, row ids, partitions, renamed columns and batches."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import tiers
from iceberg_rows import COUNTER, create, delete_equal, load, rows, same
from written_by import written_by

import zskip
from zskip.errors import ColumnError, UnsupportedError
from zskip.formats.iceberg.catalog import UnknownCommitError
from zskip.spark.formats.iceberg.catalog import SessionCatalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

BY = {
    "identity and bucket": "day, bucket(4, id)",
    "days and truncate": "days(ts), truncate(3, name)",
    "hours, months": "hours(ts), months(day)",
    "years and numbers": "years(day), truncate(100, k)",
}

NESTED = "tags ARRAY<STRING>, m MAP<STRING, STRUCT<a: INT, b: ARRAY<INT>>>, st STRUCT<x: ARRAY<STRUCT<y: INT>>>"


def check(spark: SparkSession, name: str, expected: DataFrame) -> None:
    """Check the rows under Iceberg's reader and ours, and that no bounds or partitions hide any."""
    spark.catalog.refreshTable(name)
    assert same(spark.table(name), expected)
    ours = zskip.table(spark, name).df()
    assert same(ours, expected)
    for condition in ("id IN (3, 2003, 4100)", "name LIKE 'é%' AND id > 1990", "day = DATE'2024-01-02' AND k < 50"):
        wanted = expected.where(condition)
        assert same(spark.table(name).where(condition), wanted)
        assert same(ours.where(condition), wanted)


@pytest.mark.parametrize(("version", "kind"), tiers.nightly([(3, "both"), (2, "values"), (2, "rows"), (3, "rows")]))
def test_after_deletes(engine_spark: SparkSession, version: int, kind: str) -> None:
    spark = engine_spark
    name = create(spark, version=version)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    rows(spark, 0).coalesce(1).writeTo(name).append()
    left = rows(spark, 0)
    if kind != "values":
        spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
        left = left.where("id % 10 != 3")
    if kind != "rows":
        delete_equal(spark, name, "id", range(0, 2000, 7))
        left = left.where("id % 7 != 0")
    table = zskip.table(spark, name)
    # The deleted ids come again, and stay.
    more = rows(spark, 0, 4000).where("id < 20 OR id >= 2000")
    assert table.append(more, batch=("stream", 1)).rows == 2020
    check(spark, name, left.unionAll(more))
    table.optimize(["id", "k"], files=6)
    assert table.append(rows(spark, 4000), batch=("stream", 2)).by == ("id", "k")
    check(spark, name, left.unionAll(more).unionAll(rows(spark, 4000)))
    assert table.append(more, batch=("stream", 1)).rows == 0
    if version == 3:
        ids = spark.sql(f"SELECT _row_id AS r FROM {name}")
        assert ids.where("r IS NOT NULL").distinct().count() == spark.table(name).count()
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 4")
    zskip.write(more, name, by=["id", "k"], format="iceberg", mode="overwrite")
    check(spark, name, more)
    assert spark.sql(f"SELECT * FROM {name}.delete_files").count() == 0


@pytest.mark.parametrize("version", tiers.nightly([3, 2]))
def test_parts_of_lists_and_maps_have_ids(engine_spark: SparkSession, version: int) -> None:
    spark, name = engine_spark, create(engine_spark, version=version, columns=f"id BIGINT, {NESTED}")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    values = spark.range(400).selectExpr(
        "id",
        "array(concat('t', id % 5), NULL) AS tags",
        "map('k', named_struct('a', CAST(id AS INT), 'b', array(1, 2))) AS m",
        "named_struct('x', array(named_struct('y', CAST(id AS INT)))) AS st",
    )
    values.writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
    # Without ids, nobody would find the elements of the renamed columns.
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN tags TO labels")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN m.value.a TO c")
    renamed = "transform_values(m, (k, v) -> named_struct('c', v.a, 'b', v.b)) AS m"
    values = values.selectExpr("id", "tags AS labels", renamed, "st")
    table = zskip.table(spark, name)
    assert table.append(values).rows == 400
    expected = [repr(row) for row in values.where("id % 7 != 0").unionAll(values).collect()]
    for _ in range(2):
        spark.catalog.refreshTable(name)
        assert sorted(map(repr, spark.table(name).collect())) == sorted(expected)
        assert table.optimize(["id"], curve="linear", files=3).writer == "arrow"


def test_a_name_that_another_column_takes(engine_spark: SparkSession) -> None:
    """All columns of files have ids, also beside lists: by its name, the old column would be found for the new one."""
    spark, name = engine_spark, f"local.db.names{next(COUNTER)}"
    some = spark.range(0, 400, 1, 4).selectExpr("id", "id % 7 AS k", "id * 10 AS a", "array(id) AS l")
    zskip.write(some, name, by=["id", "k"], files=4, format="iceberg")
    table = zskip.table(spark, name)
    refusal = r'Spark would write column "l" as another type, or its parts without'
    with written_by("spark"), pytest.raises(UnsupportedError, match=refusal):
        table.optimize(["id", "k"])
    for change in (lambda: table.append(some), lambda: table.optimize(["k", "a"], files=3), table.compact):
        change()
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN a TO t")
        spark.sql(f"ALTER TABLE {name} ADD COLUMN a BIGINT")
        for frame in (spark.table(name), zskip.table(spark, name).df()):
            assert frame.where("a IS NULL AND t = id * 10 AND l[0] = id").count() == 800
        spark.sql(f"ALTER TABLE {name} DROP COLUMN a")
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN t TO a")


@pytest.mark.parametrize("kind", tiers.nightly(BY))
def test_partitions(engine_spark: SparkSession, kind: str) -> None:
    spark = engine_spark
    columns = "id BIGINT, k BIGINT, name STRING, day DATE, ts TIMESTAMP"

    def some(start: int) -> DataFrame:
        ts = "IF(id % 19 = 0, NULL, timestamp_seconds(1700000000 - (id % 5) * 40000))"
        day = "IF(id % 17 = 0, NULL, date_add(DATE'1969-12-30', int(id % 4) * 200))"
        return rows(spark, start, 500).selectExpr("id", "k - 700 AS k", "name", f"{day} AS day", f"{ts} AS ts")

    name = create(spark, partitioned="id", columns=columns)
    some(0).writeTo(name).append()
    spark.sql(f"ALTER TABLE {name} DROP PARTITION FIELD id")
    for field in re.split(r", (?![^(]*\))", BY[kind]):
        spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD {field}")
    zskip.table(spark, name).append(some(600))
    own = create(spark, partitioned=BY[kind], columns=columns)
    some(600).sortWithinPartitions("id").writeTo(own).append()
    expected = some(0).unionAll(some(600))
    spark.catalog.refreshTable(name)
    assert same(spark.table(name), expected)
    assert same(zskip.table(spark, name).df(), expected)

    def partitions(table: str) -> dict[str, int]:
        """Rows by partition under the current spec."""
        last = spark.sql(f"SELECT max(spec_id) AS s FROM {table}.files").collect()[0].s
        files = spark.sql(f"SELECT partition, record_count AS n FROM {table}.files WHERE spec_id = {last}")
        fields = [f for f in files.schema["partition"].dataType.names if f != "id"]  # type: ignore[attr-defined]
        grouped = files.groupBy(*(f"partition.`{field}`" for field in fields)).sum("n")
        return {str(tuple(row[:-1])): row[-1] for row in grouped.collect()}

    assert partitions(name) == partitions(own)
    for condition in ("day = DATE'1970-07-18'", "ts < TIMESTAMP'2023-11-14' AND name LIKE 'éé%' OR id = 777"):
        assert same(spark.table(name).where(condition), expected.where(condition))
        assert same(zskip.table(spark, name).df().where(condition), expected.where(condition))


def test_columns_that_were_renamed_or_have_defaults(engine_spark: SparkSession) -> None:
    spark = engine_spark
    name = create(spark, version=3)
    rows(spark, 0).writeTo(name).append()
    for change in (
        "RENAME COLUMN k TO old",
        "RENAME COLUMN id TO k",
        "RENAME COLUMN old TO id",
        "RENAME COLUMN n.q TO z",
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN x")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN x STRING")
    load(spark, name).updateSchema().updateColumnDefault("x", _text(spark, "usual")).commit()
    more = (
        spark.table(name)
        .limit(0)
        .unionAll(
            rows(spark, 2000).selectExpr("id", "k", "name", "named_struct('z', n.q, 'r', n.r)", "day", "string(x)")
        )
    )
    expected = spark.table(name).unionAll(more).collect()
    with pytest.raises(ColumnError, match=r'"x" is missing, a column with a default \(usual\)'):
        zskip.table(spark, name).append(more.drop("x"))
    zskip.table(spark, name).append(more)
    spark.catalog.refreshTable(name)
    for frame in (spark.table(name), zskip.table(spark, name).df()):
        assert sorted(map(str, frame.collect())) == sorted(map(str, expected))
        assert frame.where("k = 2001").count() == 1


def _text(spark: SparkSession, text: str) -> Any:
    from zskip.spark.jvm.gateway import Jvm

    return Jvm.of(spark).call("org.apache.iceberg.expressions.Literal", "of")(text)


def test_refusals(engine_spark: SparkSession) -> None:
    spark = engine_spark
    name = create(spark, partitioned="x", columns="id BIGINT, x DOUBLE")
    with pytest.raises(UnsupportedError, match=r'partitioned by "x", a double; append with its engine'):
        zskip.table(spark, name).append(spark.sql("SELECT 1L AS id, 1d AS x"))
    name = create(spark, columns="id BIGINT, st STRUCT<a: INT NOT NULL>")
    with pytest.raises(UnsupportedError, match=r'has a required nested column \("a"\)'):
        zskip.table(spark, name).append(spark.sql("SELECT 1L AS id, named_struct('a', 1) AS st"))


def _meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Do something just before the next commit."""
    commit, waiting = SessionCatalog.send, [work]

    def slow(self: SessionCatalog, *arguments: Any) -> None:
        if waiting:
            waiting.pop()()
        commit(self, *arguments)

    monkeypatch.setattr(SessionCatalog, "send", slow)


def test_two_writers_at_once(engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = engine_spark
    name = create(spark, partitioned="bucket(3, id)")
    rows(spark, 0).writeTo(name).append()
    table, expected = zskip.table(spark, name), rows(spark, 0)
    _meanwhile(monkeypatch, lambda: rows(spark, 9000).writeTo(name).append())
    table.append(rows(spark, 2000), batch=("a", 1))
    expected = expected.unionAll(rows(spark, 9000)).unionAll(rows(spark, 2000))
    check(spark, name, expected)
    batch = rows(spark, 4000)
    _meanwhile(monkeypatch, lambda: zskip.table(spark, name).append(batch, batch=("a", 2)))
    assert table.append(batch, batch=("a", 2)).rows == 0
    expected = expected.unionAll(batch)
    check(spark, name, expected)
    assert zskip.table(spark, name)._handle.format.last_batch("a") == 2
    operations = spark.sql(f"SELECT operation FROM {name}.snapshots").collect()
    assert {row.operation for row in operations} == {"append"}


@pytest.mark.parametrize("commits", [True, False])
def test_a_commit_that_is_not_confirmed(
    engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    spark = engine_spark
    name = create(spark, version=3)
    rows(spark, 0).writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id < 5")
    commit = SessionCatalog.send

    def fail(self: SessionCatalog, *arguments: Any) -> None:
        if commits:
            commit(self, *arguments)
        raise UnknownCommitError("the connection broke")

    monkeypatch.setattr(SessionCatalog, "send", fail)
    table, batch = zskip.table(spark, name), ("a", 1)
    with pytest.raises(UnknownCommitError):
        table.append(rows(spark, 2000), batch=batch)
    monkeypatch.undo()
    expected = rows(spark, 5, 1995)
    check(spark, name, expected.unionAll(rows(spark, 2000)) if commits else expected)
    # Repeated, the batch is in the table once.
    assert table.append(rows(spark, 2000), batch=batch).rows == (0 if commits else 2000)
    check(spark, name, expected.unionAll(rows(spark, 2000)))
