"""Fields and expressions as clustering columns of Iceberg tables, which know columns by their ids."""

from __future__ import annotations

import uuid
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


def count_files(table: zskip.Table, where: str) -> int:
    """The files that a predicate keeps, whoever reads them."""
    return table.explain(where).steps[-1].files


def content(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


@pytest.mark.parametrize("deletes", tiers.nightly([True, False]), ids=["deletes", "whole"])
def test_rows_are_placed_by_nested_fields(engine_spark: SparkSession, deletes: bool) -> None:
    name = f"local.db.keys_{uuid.uuid4().hex[:8]}"
    struct = "STRUCT<a: INT, c: STRUCT<d: STRING>>"
    modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    engine_spark.sql(f"CREATE TABLE {name} (id BIGINT, st {struct}) USING iceberg TBLPROPERTIES ({modes})")
    engine_spark.sql(EVENTS.format(start=0, end=3000)).writeTo(name).append()
    engine_spark.sql(f"ALTER TABLE {name} RENAME COLUMN st.a TO b")
    engine_spark.sql(f"ALTER TABLE {name} ADD COLUMN st.a INT")
    if deletes:
        engine_spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    filters = ["st.b BETWEEN 100 AND 150", "st.c.d = 'k007'", "st.b IS NULL", "st.a IS NULL", "st.a = 5"]
    before = [content(engine_spark.table(name).where(where)) for where in ("true", *filters)]
    table = zskip.table(engine_spark, name)
    result = table.optimize(by=["st.b", "st.c.d"], files=12)
    assert (result.by, result.files_after) == (("st.b", "st.c.d"), 12)
    for frame in (engine_spark.table(name), table.df()):
        assert [content(frame.where(where)) for where in ("true", *filters)] == before
    assert count_files(table, "st.b BETWEEN 100 AND 150") <= 6
    assert count_files(table, "st.b < 100 AND st.c.d >= 'k400'") <= 3
    assert count_files(table, "st.a = 5") == 0
    row = "IF(id % 3 = 0, NULL, named_struct('b', CAST(id % 1000 AS INT), 'c', named_struct('d', 'k1'), 'a', 5)) AS st"
    appended = table.append(engine_spark.range(3000, 3500).selectExpr("id", row))
    assert appended.by == ("st.b", "st.c.d")
    assert engine_spark.table(name).where("st.a = 5").count() == 333
    assert count_files(table, "st.a = 5") <= appended.files
    assert table.maintain().by == ("st.b", "st.c.d")
    assert table.df().count() == len(before[0]) + 500


@pytest.mark.parametrize("deletes", tiers.nightly([True, False]), ids=["deletes", "whole"])
def test_rows_are_placed_by_expressions(engine_spark: SparkSession, deletes: bool) -> None:
    name = f"local.db.keys_{uuid.uuid4().hex[:8]}"
    modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    columns = "id BIGINT, s STRING, m MAP<STRING, BIGINT>, tags ARRAY<STRING>"
    engine_spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg TBLPROPERTIES ({modes})")
    tags = "array(concat('tag', left(CAST(pmod(hash(id), 500) AS STRING), 1)), NULL) AS tags"
    rows = "id", "concat('User', pmod(hash(id), 500)) AS s", "map('k', pmod(hash(id, 1), 300)) AS m", tags
    engine_spark.range(0, 3000, 1, 4).selectExpr(*rows).writeTo(name).append()
    if deletes:
        engine_spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
    engine_spark.sql(f"ALTER TABLE {name} RENAME COLUMN s TO email")
    before = content(engine_spark.table(name))
    table = zskip.table(engine_spark, name)
    assert table.optimize(by=["LOWER(email)", "id % 16"], files=8).by == ("lower(email)", "mod(id, 16L)")
    assert content(engine_spark.table(name)) == before
    whole = engine_spark.createDataFrame(engine_spark.table(name).collect(), engine_spark.table(name).schema)
    table.index(sketches=["values(64):explode(tags)", "bloom(0.001):explode(map_values(m))"])
    for where in ("lower(email) = 'user77'", "array_contains(tags, 'tag7')", "exists(tags, x -> x LIKE '%ag9')"):
        with zskip.enabled(engine_spark):
            for frame in (table.df(), engine_spark.table(name)):
                assert content(frame.where(where)) == content(whole.where(where)) != []
        assert count_files(table, where) < 8, where
    assert count_files(table, "exists(map_values(m), x -> x = 999)") == 0
    new = engine_spark.range(3000, 3200).selectExpr("id", "'New' AS email", "map('k', id) AS m", "array('new') AS tags")
    new.writeTo(name).append()
    table.maintain()
    assert len(content(table.df())) == len(before) + 200
    for where in ("lower(email) = 'new'", "array_contains(tags, 'new')", "m['k'] > 2999"):
        assert len(content(table.df().where(where))) == 200


@pytest.mark.nightly
def test_bounds_in_footers_are_not_of_another_column_of_the_name(engine_spark: SparkSession) -> None:
    name = f"local.db.keys_{uuid.uuid4().hex[:8]}"
    rows = engine_spark.range(0, 2000, 1, 4).selectExpr(
        "id", "concat('A', id % 500) AS a", "concat('B', id % 500) AS b"
    )
    rows.writeTo(name).using("iceberg").create()
    assert zskip.table(engine_spark, name).optimize(by=["lower(a)"], curve="linear", files=8).writer == "arrow"
    for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
        engine_spark.sql(f"ALTER TABLE {name} RENAME COLUMN {old} TO {new}")
    table = zskip.table(engine_spark, name)
    table.index()
    assert table.df().where("lower(a) = 'b7'").count() == 4
    assert count_files(table, "lower(a) LIKE 'a%'") == 0


def test_a_workload_chooses_sketches(engine_spark: SparkSession) -> None:
    name = f"local.db.auto_{uuid.uuid4().hex[:8]}"
    modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    engine_spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING) USING iceberg TBLPROPERTIES ({modes})")
    engine_spark.range(0, 8000, 1, 8).selectExpr("id", "concat('User', hash(id)) AS s").writeTo(name).append()
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    emails = [
        f"lower(s) = '{row.s}'" for row in engine_spark.sql(f"SELECT lower(s) AS s FROM {name} LIMIT 20").collect()
    ]
    before = [content(engine_spark.table(name).where(where)) for where in emails[:2]]
    table = zskip.table(engine_spark, name)
    (choice,) = table.index(sketches="auto", workload=emails).choices or ()
    assert (choice.action, choice.spec.partition(":")[2]) == ("build", "lower(s)")
    assert max(count_files(table, where) for where in emails) <= 4
    with zskip.enabled(engine_spark):
        assert [content(engine_spark.table(name).where(where)) for where in emails[:2]] == before


def test_filters_on_each_documented_key_skip_files(engine_spark: SparkSession) -> None:
    spark, name = engine_spark, f"local.db.keys_{uuid.uuid4().hex[:8]}"
    documented_keys.rows(spark, "iceberg").writeTo(name).create()
    table = zskip.table(spark, name)
    documented_keys.index_keys(table, "iceberg")
    own = spark.table(name)
    expected = documented_keys.answers(own, "iceberg")
    assert documented_keys.misses(table.df(), expected, lambda: table.last_scan.files) == [], "under df()"
    with zskip.enabled(spark):
        assert documented_keys.misses(own, expected, lambda: zskip.scans(spark)[0].files) == [], "under enable"
