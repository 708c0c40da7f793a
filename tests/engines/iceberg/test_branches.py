"""Rows on a branch of an Iceberg table of the session's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from iceberg_rows import create, load, rows, same

import zskip
from zskip.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_rows_on_a_branch(engine_spark: SparkSession) -> None:
    spark = engine_spark
    name = create(spark, partitioned="bucket(2, id)", version=3)
    rows(spark, 0).writeTo(name).append()
    table = zskip.table(spark, name)
    table.optimize(["id", "k"], files=4)
    with pytest.raises(InputError, match=r'has no branch "audit"; its branches are main\. ALTER TABLE local\.db\.t'):
        table.append(rows(spark, 2000), branch="audit")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    spark.sql(f"ALTER TABLE {name} CREATE TAG good")
    with pytest.raises(InputError, match=r'has a tag "good", which takes no rows; its branches are main, audit'):
        table.append(rows(spark, 2000), branch="good")
    head, history = _head(spark, name, "main"), len(table.history())
    result = table.append(rows(spark, 2000), batch=("a", 1), branch="audit")
    assert (result.rows, result.by) == (2000, ("id", "k"))
    # A batch is looked for on its branch.
    assert table.append(rows(spark, 2000), batch=("a", 1), branch="audit").rows == 0
    assert table._handle.format.last_batch("a") is None
    rows(spark, 8000, 10).writeTo(f"{name}.branch_audit").append()
    on_branch = f"SELECT * FROM {name} VERSION AS OF 'audit'"
    expected = rows(spark, 0, 4000).unionAll(rows(spark, 8000, 10))
    assert same(spark.sql(on_branch), expected)
    assert (_head(spark, name, "main"), len(table.history())) == (head, history)
    assert same(table.df(), rows(spark, 0))
    assert same(table.df().where("id = 1500"), rows(spark, 1500, 1))
    # As Spark names a branch.
    (inserted,) = zskip.sql(spark, f"INSERT INTO {name}.branch_audit SELECT * FROM {name} WHERE id = 7").collect()
    assert (inserted.rows, inserted.curve) == (1, "zorder")
    expected = expected.unionAll(rows(spark, 7, 1))
    assert same(spark.sql(on_branch), expected)
    spark.sql(f"CALL local.system.fast_forward('{name.partition('.')[2]}', 'main', 'audit')")
    spark.catalog.refreshTable(name)
    assert table._handle.format.last_batch("a") == 1
    table.index()
    for frame in (spark.table(name), table.df()):
        assert same(frame, expected)
        assert same(frame.where("id = 2500"), rows(spark, 2500, 1))
    # Rows of the branch, from the table itself, in place of all that the branch has.
    zskip.write(
        spark.table(name).where("id < 50"), name, by=["id", "k"], format="iceberg", mode="overwrite", branch="audit"
    )
    assert same(spark.sql(on_branch), rows(spark, 0, 50).unionAll(rows(spark, 7, 1)))
    assert same(table.df(), expected)
    assert table.append(rows(spark, 9000, 5), branch="main").rows == 5
    assert table.df().where("id >= 9000").count() == 5


def test_a_branch_that_moves_meanwhile(engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from zskip.spark.formats.iceberg.catalog import SessionCatalog

    spark, name = engine_spark, create(engine_spark)
    rows(spark, 0).writeTo(name).append()
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    send, batch = SessionCatalog.send, rows(spark, 4000)
    waiting = [lambda: zskip.table(spark, name).append(batch, batch=("a", 1), branch="audit")]

    def slow(self: SessionCatalog, *arguments: object) -> None:
        if waiting:
            waiting.pop()()
        send(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SessionCatalog, "send", slow)
    assert zskip.table(spark, name).append(batch, batch=("a", 1), branch="audit").rows == 0
    waiting.append(lambda: zskip.table(spark, name).append(rows(spark, 6000), branch="main"))
    assert zskip.table(spark, name).append(rows(spark, 8000), batch=("a", 2), branch="audit").rows == 2000
    on_branch = spark.sql(f"SELECT * FROM {name} VERSION AS OF 'audit'")
    assert same(on_branch, rows(spark, 0).unionAll(batch).unionAll(rows(spark, 8000)))
    assert same(zskip.table(spark, name).df(), rows(spark, 0).unionAll(rows(spark, 6000)))


def test_where_no_branch_can_be(engine_spark: SparkSession, tmp_path: Path) -> None:
    spark = engine_spark
    rows(spark, 0, 10).write.parquet(str(tmp_path / "plain"))
    rows(spark, 0, 10).write.format("delta").save(str(tmp_path / "delta"))
    for name, form in (("plain", "parquet"), ("delta", "delta")):
        with pytest.raises(UnsupportedError, match=f'branch="audit": only Iceberg tables .* of the format {form}'):
            zskip.table(spark, str(tmp_path / name)).append(rows(spark), branch="audit")
        assert spark.read.format(form).load(str(tmp_path / name)).count() == 10
    with pytest.raises(InputError, match=r'branch="audit": there is no table "local\.db\.none" yet'):
        zskip.write(rows(spark), "local.db.none", by=["id", "k"], format="iceberg", branch="audit")


def _head(spark: SparkSession, name: str, branch: str) -> int:
    return int(load(spark, name).refs()[branch].snapshotId())
