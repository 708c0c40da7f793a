"""Fields and expressions as clustering columns of tables that Delta Lake itself reads and commits to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import documented_keys
import pytest
import tiers

import zskip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = """
    SELECT id, IF(id % 17 = 0, NULL, named_struct(
        'a', CAST(pmod(hash(id, 1), 1000) AS INT),
        'c', named_struct('d', concat('k', lpad(CAST(pmod(hash(id, 2), 500) AS STRING), 3, '0'))))) AS st
    FROM range({start}, {end}, 1, 4)
"""
KINDS = {
    "columnMapping": {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "plain": {},
}


def events(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.sql(EVENTS.format(start=start, end=end))


def count_files(table: zskip.Table, where: str) -> int:
    """The files that a predicate keeps, whoever reads them."""
    return table.explain(where).steps[-1].files


def content(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


@pytest.mark.parametrize("kind", tiers.nightly(KINDS))
def test_rows_are_placed_by_nested_fields(engine_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t ü")
    events(engine_spark, 0, 3000).write.format("delta").options(**KINDS[kind]).save(path)
    if kind == "columnMapping":
        engine_spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN st.a TO b")
        engine_spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN st TO payload")
    engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")
    first, second = ("payload.b", "payload.c.d") if kind == "columnMapping" else ("st.a", "st.c.d")
    own = engine_spark.read.format("delta").load(path)
    filters = [f"{first} BETWEEN 100 AND 150", f"{second} = 'k007'", f"{first} IS NULL"]
    before = [content(own.where(where)) for where in ("true", *filters)]
    table = zskip.table(engine_spark, path)
    result = table.optimize(by=[first, second], files=12)
    assert (result.by, result.files_after) == ((first, second), 12)
    own = engine_spark.read.format("delta").load(path)
    for frame in (own, table.df()):
        assert [content(frame.where(where)) for where in ("true", *filters)] == before
    assert count_files(table, filters[0]) <= 6
    assert count_files(table, f"{first} < 100 AND {second} >= 'k400'") <= 3
    column, nested = first.split(".")
    new = events(engine_spark, 3000, 3500)
    if kind == "columnMapping":
        new = new.selectExpr("id", "IF(st IS NULL, NULL, named_struct('b', st.a, 'c', st.c)) AS payload")
    appended = table.append(new)
    assert appended.by == (first, second)
    assert count_files(table, f"id >= 3000 AND {column}.{nested} < 50") <= appended.files
    assert table.maintain().by == (first, second)
    assert table.df().count() == len(before[0]) + 500
    assert table.verify(queries=2).ok


@pytest.mark.nightly
def test_bounds_in_footers_are_not_of_another_column_of_the_name(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = engine_spark.range(0, 2000, 1, 4).selectExpr(
        "id", "concat('A', id % 500) AS a", "concat('B', id % 500) AS b"
    )
    rows.write.format("delta").options(**KINDS["columnMapping"]).save(path)
    table = zskip.table(engine_spark, path)
    assert table.optimize(by=["lower(a)"], curve="linear", files=8).writer == "arrow"
    for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
        engine_spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN {old} TO {new}")
    table = zskip.table(engine_spark, path)
    table.index()
    assert table.df().where("lower(a) = 'b7'").count() == 4
    assert count_files(table, "lower(a) LIKE 'a%'") == 0


def test_a_workload_chooses_sketches(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = engine_spark.range(0, 8000, 1, 8).selectExpr("id", "concat('User', hash(id)) AS s")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")
    frame = engine_spark.read.format("delta").load(path)
    emails = [f"lower(s) = '{row.s}'" for row in frame.selectExpr("lower(s) AS s").limit(20).collect()]
    before = [content(frame.where(where)) for where in emails[:2]]
    table = zskip.table(engine_spark, path)
    (choice,) = table.index(sketches="auto", workload=emails).choices or ()
    assert (choice.action, choice.spec.partition(":")[2]) == ("build", "lower(s)")
    assert max(count_files(table, where) for where in emails) <= 4
    with zskip.enabled(engine_spark):
        assert [content(engine_spark.read.format("delta").load(path).where(where)) for where in emails[:2]] == before


def test_filters_on_each_documented_key_skip_files(engine_spark: SparkSession, tmp_path: Path) -> None:
    spark, path = engine_spark, str(tmp_path / "t")
    mapped = {"delta.columnMapping.mode": "name"}
    documented_keys.rows(spark, "delta").write.format("delta").options(**mapped).save(path)
    table = zskip.table(spark, path)
    documented_keys.index_keys(table, "delta")
    own = spark.read.format("delta").load(path)
    expected = documented_keys.answers(own, "delta")
    assert documented_keys.misses(table.df(), expected, lambda: table.last_scan.files) == [], "under df()"
    with zskip.enabled(spark):
        assert documented_keys.misses(own, expected, lambda: zskip.scans(spark)[0].files) == [], "under enable"
