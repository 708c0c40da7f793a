"""New rows in Iceberg tables of the session's own catalog, through Iceberg's runtime: new, appended, overwritten."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from iceberg_rows import create, rows, same

import zskip
from zskip.errors import ColumnError, InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COUNTER = itertools.count()


def operations(spark: SparkSession, name: str) -> list[str]:
    return [
        row.operation for row in spark.sql(f"SELECT operation FROM {name}.snapshots ORDER BY committed_at").collect()
    ]


def test_an_append_by_the_tables_layout(engine_spark: SparkSession) -> None:
    name = create(engine_spark)
    for start in (0, 2000):
        rows(engine_spark, start).writeTo(name).append()
    table = zskip.table(engine_spark, name)
    table.optimize(["id", "k"], files=8)
    result = table.append(rows(engine_spark, 4000))
    assert (result.rows, result.curve, result.by) == (2000, "zorder", ("id", "k"))
    engine_spark.catalog.refreshTable(name)
    assert operations(engine_spark, name)[-1] == "append"
    assert same(engine_spark.table(name), rows(engine_spark, 0, 6000))
    assert same(zskip.table(engine_spark, name).df(), rows(engine_spark, 0, 6000))
    (inserted,) = zskip.sql(engine_spark, f"INSERT INTO {name} SELECT 9000, 1, 'x', 0.5, NULL, NULL").collect()
    assert (inserted.rows, inserted.curve) == (1, "zorder")
    assert engine_spark.sql(f"SELECT name FROM {name} WHERE id = 9000").collect()[0].name == "x"


def test_required_columns(engine_spark: SparkSession) -> None:
    name = create(engine_spark, columns="id BIGINT NOT NULL, k BIGINT")
    table = zskip.table(engine_spark, name)
    table.append(engine_spark.range(5).selectExpr("id", "id AS k"))
    with pytest.raises(ColumnError, match='"id", which must not be null, is missing'):
        table.append(engine_spark.range(5).selectExpr("id AS k"))
    with pytest.raises(InputError, match="hold a null"):
        table.append(engine_spark.sql("SELECT cast(NULL AS BIGINT) AS id, 1L AS k"))
    assert engine_spark.table(name).count() == 5


def test_new_and_overwritten(engine_spark: SparkSession) -> None:
    name = f"local.db.w{next(COUNTER)}"
    result = zskip.write(rows(engine_spark), name, by=["id", "k"], files=6, format="iceberg")
    assert result.rows == 2000
    assert 4 <= result.files <= 6
    assert same(engine_spark.table(name), rows(engine_spark))
    with pytest.raises(InputError, match="already exists"):
        zskip.write(rows(engine_spark), name, by=["id", "k"], format="iceberg")
    with pytest.raises(InputError, match='write format="iceberg"'):
        zskip.write(rows(engine_spark), name, by=["id", "k"])
    for own in (engine_spark.table(name), zskip.table(engine_spark, name).df()):
        with pytest.raises(InputError, match="would overwrite"):
            zskip.write(own, name, by=["id", "k"], format="iceberg", mode="overwrite")
    zskip.write(rows(engine_spark, 7000, 100), name, by=["k", "id"], format="iceberg", mode="overwrite")
    engine_spark.catalog.refreshTable(name)
    assert same(engine_spark.table(name), rows(engine_spark, 7000, 100))
    assert operations(engine_spark, name) == ["append", "overwrite"]
    other = f"local.db.w{next(COUNTER)}"
    zskip.sql(engine_spark, f"CREATE TABLE {other} USING iceberg CLUSTER BY (id, k) AS SELECT * FROM {name}")
    assert same(engine_spark.table(other), rows(engine_spark, 7000, 100))
    before = engine_spark.sql(f"SELECT * FROM {name} VERSION AS OF {_first(engine_spark, name)}")
    assert same(before, rows(engine_spark))


def _first(spark: SparkSession, name: str) -> int:
    snapshots = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").collect()
    return int(snapshots[0].snapshot_id)
