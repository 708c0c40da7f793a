"""New Iceberg tables of the session's own catalog: partitions as Spark spells them, and one commit with the rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tiers
from appends import INFO
from crashes import Countdown, Crash
from format_tables import with_ids
from iceberg_rows import create, load, rows, same
from owners import dead_owner
from pyspark.sql.functions import expr

import zskip
from zskip.errors import ColumnError, ConflictError, InputError, StorageError, UnsupportedError, ZskipError
from zskip.formats import IcebergFormat, StagedFile, claims
from zskip.formats.iceberg.catalog import TableDefinition
from zskip.spark.formats import session_catalog
from zskip.spark.formats.iceberg.catalog import SessionCatalog
from zskip.spark.jvm.gateway import Jvm
from zskip.storage import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id BIGINT, k BIGINT, name STRING, day DATE, ts TIMESTAMP"
COUNTER = itertools.count()
BY = {
    "hours and years": ["hours(ts)", "years(day)"],
    "months and numbers": ["month(day)", "truncate(k, 1000)"],
    "columns and buckets": ["name", "bucket(4, id)"],
    "days and texts": ["days(ts)", "truncate(3, name)"],
}


def new_name() -> str:
    return f"local.db.new{next(COUNTER)}"


def some(spark: SparkSession, start: int = 0) -> DataFrame:
    ts = "IF(id % 19 = 0, NULL, timestamp_seconds(1700000000 - (id % 5) * 40000))"
    day = "IF(id % 17 = 0, NULL, date_add(DATE'1969-12-30', int(id % 4) * 200))"
    name = "IF(id % 11 = 0, NULL, concat('é/%', id % 3))"
    return rows(spark, start, 500).selectExpr("id", "k - 700 AS k", f"{name} AS name", f"{day} AS day", f"{ts} AS ts")


def has_table(spark: SparkSession, name: str) -> bool:
    catalog = session_catalog(spark, name)
    assert catalog is not None
    return catalog.exists()


def place_of(spark: SparkSession, name: str) -> Path:
    return Path(spark.conf.get("spark.sql.catalog.local.warehouse"), *name.split(".")[1:])


def partitions(spark: SparkSession, name: str) -> dict[str, int]:
    """Rows by partition."""
    files = spark.sql(f"SELECT partition, record_count AS n FROM {name}.files")
    fields = files.schema["partition"].dataType.names  # type: ignore[attr-defined]
    grouped = files.groupBy(*(f"partition.`{field}`" for field in fields)).sum("n")
    return {f"{fields} {tuple(row[:-1])}": row[-1] for row in grouped.collect()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", tiers.nightly(BY))
def test_partitions(engine_spark: SparkSession, kind: str) -> None:
    spark, name, own = engine_spark, new_name(), new_name()
    result = zskip.write(some(spark), name, by=["id", "k"], partition_by=BY[kind], format="iceberg")
    assert (result.rows, result.by) == (500, ("id", "k"))
    spark.sql(f"CREATE TABLE {own} ({COLUMNS}) USING iceberg PARTITIONED BY ({', '.join(BY[kind])})")
    some(spark).writeTo(own).append()
    assert same(spark.table(name), some(spark))
    assert partitions(spark, name) == partitions(spark, own)
    one, other = load(spark, name), load(spark, own)
    assert str(one.spec()) == str(other.spec())
    assert str(one.schema()) == str(other.schema())
    assert str(one.properties().get("owner")) == str(other.properties().get("owner"))
    operations = spark.sql(f"SELECT operation FROM {name}.snapshots").collect()
    assert [row.operation for row in operations] == ["append"]
    options: dict[str, Any] = {"by": ["id", "k"], "format": "iceberg", "mode": "append"}
    with pytest.raises(InputError, match=r"is partitioned by .* of .*; leave partition_by out"):
        zskip.write(some(spark, 500), name, partition_by=["day"], **options)
    assert zskip.write(some(spark, 500), name, partition_by=BY[kind], **options).rows == 500
    expected = some(spark).unionAll(some(spark, 500))
    spark.catalog.refreshTable(name)
    for condition in ("day = DATE'1970-07-18'", "ts < TIMESTAMP'2023-11-14' AND name = 'é/%1' OR id = 77"):
        assert same(spark.table(name).where(condition), expected.where(condition))
        assert same(zskip.table(spark, name).df().where(condition), expected.where(condition))


def test_in_sql(engine_spark: SparkSession) -> None:
    spark, name = engine_spark, new_name()
    some(spark).createOrReplaceTempView("some_rows")
    zskip.sql(
        spark,
        f"CREATE TABLE {name} USING iceberg PARTITIONED BY (years(day), truncate(2, `name`), k) CLUSTER BY (id, ts) "
        "WITH (files = 2) AS SELECT id, k % 3 AS k, name, day, ts FROM some_rows",
    )
    assert same(spark.table(name), some(spark).selectExpr("id", "k % 3 AS k", "name", "day", "ts"))
    assert [str(field.name()) for field in load(spark, name).spec().fields()] == ["day_year", "name_trunc", "k"]


def test_refused_before_anything_is_written(engine_spark: SparkSession) -> None:
    spark, name = engine_spark, new_name()

    def refused(kind: type[ZskipError], match: str, frame: DataFrame, **options: Any) -> None:
        with pytest.raises(kind, match=match):
            zskip.write(frame, name, **{"by": ["id", "k"], "format": "iceberg", **options})
        assert not has_table(spark, name)
        assert not place_of(spark, name).exists()

    refused(InputError, r'names no transform of Iceberg; did you mean "day', some(spark), partition_by="dayz(ts)")
    refused(ColumnError, 'did you mean "name"', some(spark), partition_by=["truncate(2, nam)"])
    refused(ColumnError, 'no hour of "day", a date', some(spark), partition_by=["hours(day)"])
    refused(UnsupportedError, "by the values of a timestamptz", some(spark), partition_by=["ts"])
    refused(ColumnError, "by two periods of time", some(spark), partition_by=["days(ts)", "hours(ts)"])
    clash = some(spark).withColumn("ts_day", expr("1"))
    refused(InputError, "Iceberg refuses these partitions .*ts_day", clash, partition_by=["days(ts)"])
    refused(InputError, "has no rows; nothing was written", some(spark).where("id < 0"), partition_by=["days(ts)"])
    refused(ColumnError, "no column", some(spark), by=["id", "kk"])
    refused(Exception, "DIVIDE_BY_ZERO", some(spark).withColumn("z", expr("1 / (id - id)")), partition_by=["k"])  # type: ignore[arg-type]


NEW = pa.table({"id": pa.array(range(20), pa.int64()), "k": pa.array([i % 3 for i in range(20)], pa.int64())})
JSON = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"k","type":"long","nullable":true,"metadata":{}}]}'
)


def begin(spark: SparkSession, name: str) -> IcebergFormat:
    """The format of a table that is not there yet."""
    catalog = session_catalog(spark, name)
    assert catalog is not None
    new = catalog.draft(
        TableDefinition(columns=NEW.schema, schema_json=JSON, partition_by=("k",), case_sensitive=False)
    )
    root = new.current().root.removeprefix("file:")
    return IcebergFormat(LocalStorage(f"/{root.lstrip('/')}"), new)


def make(form: IcebergFormat, name: str) -> None:
    """Make the table with its first rows as `zskip.write` does."""
    base, root = form.snapshot(), Path(form.storage.root)
    (field,) = form.row_rules().partitions
    added, staging = [], form.stage()
    for k in range(3):
        path = f"{staging}/{name}{k}.parquet"
        pq.write_table(with_ids(NEW.filter(pc.equal(NEW["k"], k))), root / path)
        added.append(StagedFile(path=path, directory=f"{field}={k}", size=(root / path).stat().st_size))
    try:
        assert form.append(base, added, INFO) is not None
    except BaseException:
        form.abort(staging)
        raise


class _Dies:
    """Stands for SIGKILL at a step: nothing of zskip's runs after it, and its process counts as dead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: int, after: bool) -> None:
        steps = Countdown(0)
        self._left, self._after = step, after
        monkeypatch.setattr(steps, "at", self._at)
        monkeypatch.setattr(IcebergFormat, "abort", lambda *_: None)
        owner = dead_owner()
        monkeypatch.setattr(claims, "_owner", lambda: owner)
        for name in ("write", "rename", "delete"):
            monkeypatch.setattr(LocalStorage, name, _method(steps, getattr(LocalStorage, name)))
        for name in ("prepare", "send"):
            monkeypatch.setattr(SessionCatalog, name, _method(steps, getattr(SessionCatalog, name)))

    def _at(self, work: Callable[[], Any]) -> Any:
        self._left -= 1
        is_last = self._left == 0
        if is_last and not self._after:
            raise Crash
        found = work()
        if is_last:
            raise Crash
        return found


def _method(steps: Countdown, method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *arguments, **options: steps.at(lambda: method(self, *arguments, **options))


@pytest.mark.parametrize("after", tiers.nightly([True, False]), ids=["after", "before"])
def test_killed_at_every_step(engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    spark = engine_spark
    expected = sorted(map(tuple, (row.values() for row in NEW.to_pylist())))
    for step in range(1, 100):
        name = new_name()
        form = begin(spark, name)
        with monkeypatch.context() as patches:
            _Dies(patches, step, after)
            try:
                make(form, "dead")
                died = False
            except Crash:
                died = True
        if has_table(spark, name):
            form = IcebergFormat(form.storage, session_catalog(spark, name))
            form.abort(form.stage())
        else:
            make(begin(spark, name), "new")
        assert sorted(map(tuple, spark.table(name).collect())) == expected, step
        assert spark.sql(f"SELECT * FROM {name}.snapshots").count() == 1
        files = {row.file_path.rpartition("/")[2] for row in spark.sql(f"SELECT file_path FROM {name}.files").collect()}
        assert {file.name for file in Path(form.storage.root).rglob("*.parquet")} == files, step
        if not died:
            assert step > 8
            return
    pytest.fail("the write never ended")


def test_of_two_makers_one_is_first(engine_spark: SparkSession) -> None:
    spark, name = engine_spark, new_name()
    slow = begin(spark, name)
    make(begin(spark, name), "fast")
    with pytest.raises(ConflictError, match=r'another writer has made the table "local.db.*nothing was committed'):
        make(slow, "slow")
    assert spark.table(name).count() == 20
    assert {file.name[:4] for file in Path(slow.storage.root).rglob("*.parquet")} == {"fast"}


def test_an_overwrite_is_one_commit(engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, name = engine_spark, create(engine_spark, partitioned="bucket(2, id)")
    rows(spark).writeTo(name).append()
    prepared: list[int] = []

    def fail(self: SessionCatalog, *arguments: Any) -> None:
        prepared.append(spark.sql(f"SELECT * FROM {name}.snapshots").count())
        raise StorageError("the connection broke")

    with monkeypatch.context() as patches:
        patches.setattr(SessionCatalog, "send", fail)
        with pytest.raises(StorageError, match="the connection broke"):
            zskip.write(rows(spark, 5000, 50), name, by=["id", "k"], format="iceberg", mode="overwrite")
    assert prepared == [1]
    spark.catalog.refreshTable(name)
    assert same(spark.table(name), rows(spark))
    zskip.write(rows(spark, 5000, 50), name, by=["id", "k"], format="iceberg", mode="overwrite")
    spark.catalog.refreshTable(name)
    assert same(spark.table(name), rows(spark, 5000, 50))
    assert spark.sql(f"SELECT * FROM {name}.snapshots").count() == 2


def test_a_catalog_that_asks_for_the_namespace_at_the_commit(engine_spark: SparkSession) -> None:
    spark, jvm = engine_spark, Jvm.of(engine_spark)
    memory = jvm.find("org.apache.iceberg.inmemory.InMemoryCatalog")()
    memory.initialize("memory", jvm.find("java.util.HashMap")())
    namespace = jvm.call("org.apache.iceberg.catalog.Namespace", "of")(jvm.array("java.lang.String", ["none"]))
    identifier = jvm.call("org.apache.iceberg.catalog.TableIdentifier", "of")(namespace, "t")
    transaction = memory.buildTable(identifier, load(spark, create(spark)).schema()).createTransaction()
    catalog = SessionCatalog(spark, "memory.none.t")
    with pytest.raises(StorageError, match=r'"memory\.none\.t" has no such namespace .*CREATE NAMESPACE'):
        catalog.commit_transaction(transaction, lambda: False)
