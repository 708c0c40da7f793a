"""Names of versions of an Iceberg table, and branches that the session selects: no verb takes one for main."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
import tiers
from iceberg_rows import create, load, rows, same
from pyspark.sql import SparkSession

import zskip
from zskip.errors import InputError, TableNotFoundError, UnsupportedError, ZskipError


@pytest.fixture
def spark(engine_spark: SparkSession) -> Iterator[SparkSession]:
    yield engine_spark
    for name in ("spark.wap.branch", "spark.wap.id"):
        engine_spark.conf.unset(name)
    engine_spark.catalog.setCurrentCatalog("spark_catalog")


def _table_with_branch(spark: SparkSession, *, deletes: bool = False, wap: bool = False) -> str:
    """A table of 200 rows with a tag, and a branch of 20 more."""
    name = create(spark)
    properties = {"write.delete.mode": "merge-on-read", "write.wap.enabled": str(wap).lower()}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({pairs})")
    rows(spark, 0, 200).writeTo(name).append()
    if deletes:
        spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    spark.sql(f"ALTER TABLE {name} CREATE TAG v1")
    rows(spark, 1000, 20).writeTo(f"{name}.branch_audit").append()
    return name


def _heads(spark: SparkSession, name: str) -> dict[str, int]:
    return {str(ref): int(ref_.snapshotId()) for ref, ref_ in dict(load(spark, name).refs()).items()}


def _writes(spark: SparkSession, name: str) -> list[Callable[[], object]]:
    new = rows(spark, 5000, 5)

    def write(mode: str) -> Callable[[], object]:
        return lambda: zskip.write(new, name, by=["id", "k"], format="iceberg", mode=mode)

    return [*map(write, ("error", "append", "overwrite")), lambda: zskip.table(spark, name).append(new)]


def test_versions_that_take_no_rows(spark: SparkSession) -> None:
    name = _table_with_branch(spark)
    zskip.table(spark, name).optimize(["id", "k"], files=2)
    before = _heads(spark, name)
    snapshot = load(spark, name).currentSnapshot()
    versions = ("tag_v1", f"snapshot_id_{snapshot.snapshotId()}", f"at_timestamp_{snapshot.timestampMillis()}")
    for version in (*versions, "changes", "Rewrite"):
        calls: list[Callable[[], Any]] = [
            lambda n=f"{name}.{version}": zskip.table(spark, n),
            lambda n=f"{name}.{version}": zskip.sql(spark, f"OPTIMIZE {n} ZORDER BY (id, k)"),
            lambda n=f"{name}.{version}": zskip.lake(spark, n),
            *_writes(spark, f"{name}.{version}"),
        ]
        for call in calls:
            with pytest.raises(ZskipError, match=version if call is not calls[2] else "pattern"):
                call()
        with pytest.raises(UnsupportedError, match=rf'"{version}" of the Iceberg table "{name}".*spark\.table'):
            zskip.table(spark, f"{name}.{version}")
    for metadata in ("files", "snapshots", "ALL_DATA_FILES"):
        for call in (lambda n=f"{name}.{metadata}": zskip.table(spark, n), *_writes(spark, f"{name}.{metadata}")):
            with pytest.raises(InputError, match=f'"{name}.{metadata}" is a metadata table'):
                call()
    # Spark refuses these, or inserts by itself.
    for version in versions:
        with pytest.raises(Exception, match=r"(?i)cannot write|not support"):
            zskip.sql(spark, f"INSERT INTO {name}.{version} SELECT * FROM {name} LIMIT 1")
    with pytest.raises(InputError, match=r'has no branch "none"; its branches are main, audit'):
        zskip.table(spark, f"{name}.branch_none").df()
    for write in _writes(spark, f"{name}.branch_none"):
        with pytest.raises(InputError, match='has no branch "none"'):
            write()
    with pytest.raises(TableNotFoundError):
        zskip.table(spark, "local.db.none.branch_audit")
    assert _heads(spark, name) == before


@pytest.mark.parametrize("deletes", tiers.nightly([True, False]))
def test_a_branch_by_its_name(spark: SparkSession, deletes: bool) -> None:
    name = _table_with_branch(spark, deletes=deletes)
    table = zskip.table(spark, name)
    table.optimize(["id", "k"], files=2)
    branch, before = f"{name}.branch_audit", _heads(spark, name)
    audit = zskip.table(spark, branch)
    _check_reads(audit, spark, branch, deep=True)
    # The index knows no file of the branch, which it may not forget either.
    for call in (audit.index, audit.compact, audit.maintain, lambda: audit.optimize(["id", "k"])):
        with pytest.raises(UnsupportedError, match=f'"audit".*open it as "{name}"'):
            call()
    with pytest.raises(UnsupportedError, match=f'open it as "{name}"'):
        zskip.sql(spark, f"OPTIMIZE {branch} ZORDER BY (id, k)")
    assert _heads(spark, name) == before
    assert audit.append(rows(spark, 2000, 30)).rows == 30
    zskip.write(rows(spark, 3000, 5), branch, by=["id", "k"], format="iceberg", mode="append")
    zskip.sql(spark, f"INSERT INTO {branch} SELECT * FROM {name} WHERE id = 7")
    _check_reads(audit, spark, branch)
    with pytest.raises(InputError, match=r'branch="other".*"audit"'):
        audit.append(rows(spark, 2000, 30), branch="other")
    with pytest.raises(InputError, match="already exists"):
        zskip.write(rows(spark, 0, 5), branch, by=["id", "k"], format="iceberg")
    zskip.write(rows(spark, 0, 5), branch, by=["id", "k"], format="iceberg", mode="overwrite")
    _check_reads(audit, spark, branch)
    assert same(audit.df(), rows(spark, 0, 5))
    assert {**_heads(spark, name), "audit": 0} == {**before, "audit": 0}
    assert len(table.files("id = 7")) == 1


def _check_reads(table: zskip.Table, spark: SparkSession, name: str, *, deep: bool = False) -> None:
    """Every read of a table object is of the rows that Spark reads under a name; deep: those of its audits, too."""
    expected = spark.table(name).where("id >= 1000").collect()
    assert Counter(map(str, table.df("id >= 1000").collect())) == Counter(map(str, expected))
    ids = [
        pq.read_table(str(file), columns=["id"])["id"].to_numpy() for file in table.files("id >= 1000", deletes=True)
    ]
    assert sum(int((part >= 1000).sum()) for part in ids) == len(expected)
    if deep:
        assert table.verify(queries=1).mismatches == ()
        explained = table.explain("id >= 1000", analyze=True)
        assert explained.regret is not None
        assert explained.regret.matching_rows == len(expected)


def test_tables_that_are_called_like_versions(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE local.db.branch_x (id BIGINT, k BIGINT) USING iceberg")
    outer = _table_with_branch(spark)
    spark.sql(f"CREATE TABLE {outer}.tag_v1 (id BIGINT, k BIGINT) USING iceberg")
    new = spark.range(9).selectExpr("id", "id % 4 k")
    for name in ("local.db.branch_x", f"{outer}.tag_v1"):
        assert zskip.table(spark, name).append(new).rows == 9
        zskip.write(new, name, by=["id", "k"], format="iceberg", mode="overwrite")
        zskip.table(spark, name).optimize(["id", "k"])
        assert zskip.table(spark, name).df().count() == spark.table(name).count() == 9


def test_names_without_their_catalog(spark: SparkSession) -> None:
    name = _table_with_branch(spark)
    short = name.removeprefix("local.")
    spark.sql("CREATE DATABASE IF NOT EXISTS db")
    spark.range(3).write.saveAsTable(short)
    try:
        spark.catalog.setCurrentCatalog("local")
        assert same(zskip.table(spark, short).df(), spark.table(name))
        assert same(zskip.table(spark, f"{short}.branch_audit").df(), spark.table(f"{name}.branch_audit"))
        spark.sql("USE local.db")
        assert same(zskip.table(spark, short.removeprefix("db.")).df(), spark.table(name))
        assert zskip.table(spark, f"spark_catalog.{short}").df().count() == 3
        zskip.sql(spark, f"OPTIMIZE {short} ZORDER BY (id, k)")
        assert zskip.table(spark, name).history()
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
        spark.sql(f"DROP TABLE {short}")


@pytest.mark.parametrize("deletes", tiers.nightly([True, False]))
def test_write_audit_publish_by_a_branch(spark: SparkSession, deletes: bool) -> None:
    name = _table_with_branch(spark, deletes=deletes, wap=True)
    table = zskip.table(spark, name)
    table.index()
    spark.conf.set("spark.wap.branch", "audit")
    before = _heads(spark, name)
    assert spark.table(name).count() == spark.table(f"{name}.branch_audit").count()
    _check_reads(table, spark, name, deep=True)
    for write in _writes(spark, name)[1:]:
        write()
        _check_reads(table, spark, name)
    zskip.sql(spark, f"INSERT INTO {name} SELECT * FROM {name} WHERE id = 5001")
    _check_reads(table, spark, name)
    assert {**_heads(spark, name), "audit": 0} == {**before, "audit": 0}
    # As Spark refuses it.
    for call in (
        lambda: zskip.table(spark, f"{name}.branch_main").append(rows(spark)),
        lambda: table.append(rows(spark), branch="main"),
    ):
        with pytest.raises(InputError, match=r'"main".*spark\.wap\.branch is "audit"'):
            call()
    assert {**_heads(spark, name), "audit": 0} == {**before, "audit": 0}
    assert same(zskip.table(spark, f"{name}.branch_main").df(), spark.sql(f"SELECT * FROM {name} VERSION AS OF 'main'"))
    # Rewrites and the index are about main.
    table.optimize(["id", "k"], files=2)
    table.index()
    spark.conf.set("spark.wap.branch", "none")
    _check_reads(table, spark, name)
    with pytest.raises(InputError, match='has no branch "none"'):
        table.append(rows(spark))
    spark.conf.unset("spark.wap.branch")
    _check_reads(table, spark, name)
    assert len(table.files("id = 7")) == 1


def test_write_audit_publish_by_an_id(spark: SparkSession) -> None:
    name = _table_with_branch(spark, wap=True)
    zskip.table(spark, name).optimize(["id", "k"], files=2)
    spark.conf.set("spark.wap.id", "w1")
    before = _heads(spark, name)
    for write in _writes(spark, name)[1:]:
        with pytest.raises(UnsupportedError, match=r'spark\.wap\.id is "w1"'):
            write()
    zskip.sql(spark, f"INSERT INTO {name} SELECT * FROM {name} WHERE id = 7")
    assert _heads(spark, name) == before
    summaries = spark.table(f"{name}.snapshots").selectExpr("summary['wap.id'] id").where("id = 'w1'")
    assert summaries.count() == 1
    # Tables that do not ask for an audit take rows as ever.
    plain = _table_with_branch(spark)
    for setting in ("spark.wap.id", "spark.wap.branch"):
        spark.conf.unset("spark.wap.id")
        spark.conf.set(setting, "audit")
        assert zskip.table(spark, plain).append(rows(spark, 9000, 5)).rows == 5
        assert same(zskip.table(spark, plain).df(), spark.table(plain))
