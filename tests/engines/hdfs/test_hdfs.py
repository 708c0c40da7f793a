"""Tables on HDFS, with Spark and without."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest
import tiers
from far_footers import check_executors
from pyspark.sql import DataFrame, SparkSession
from rounds import ADDED, run_rounds
from storage_laws import MakeStorage, StorageLaws, live
from typer.testing import CliRunner

import zskip
from zskip.cli.app import app
from zskip.errors import StorageError, TableNotFoundError, UnsupportedError
from zskip.spark.jvm.hadoop import HadoopStorage
from zskip.storage import Storage, storage_for

FORMATS = ["parquet", "delta", "iceberg"]
# What Hadoop's own paths cannot name are a colon and a slash.
ODD_NAMES = ["with space", "100%", "a%3Db=c", "naïve-日本-🙂", "quote\"'", "#hash?query", "*[glob]{x}", "..dots"]


@pytest.fixture(params=tiers.nightly(["spark", "alone"]))
def make_storage(request: pytest.FixtureRequest, cluster: str) -> MakeStorage:
    if request.param == "alone":
        return lambda path: storage_for(f"{cluster}{path}", {})
    spark = request.getfixturevalue("engine_spark")
    return lambda path: HadoopStorage(spark, f"{cluster}{path}")


class TestOnHdfs(StorageLaws):
    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_live_a_whole_life(self, storage: Storage, name: str) -> None:
        live(storage, name)


def test_both_ways_see_the_same(engine_spark: SparkSession, place: str) -> None:
    alone, spark = storage_for(place + "//t/", {}), HadoopStorage(engine_spark, f"{place}/t")
    assert alone.root == spark.root == f"{place}/t"
    assert alone.kind == spark.kind == "cluster"
    for name in ("x", "a b/%20#x", "_log/1"):
        alone.write(name, name.encode())
    assert sorted(alone.walk(lambda name: name.startswith("_"))) == sorted(spark.walk(lambda name: name[0] == "_"))
    for path in ("", "a b", "x", "none"):
        assert sorted(alone.list_dir(path)) == sorted(spark.list_dir(path))
        assert alone.stat(path) == spark.stat(path)
    content = bytes(range(256)) * 1000
    alone.write("big", content)
    for size in (None, len(content)):
        with alone.open("big", size) as stream:
            assert stream.seek(-5, 2) == len(content) - 5
            assert stream.read(100) == content[-5:]
            assert stream.read(100) == b""
            assert stream.seek(100_000) == 100_000
            assert [stream.read(7), stream.read(100_000)] == [content[100_000:100_007], content[100_007:200_007]]


def rows(spark: SparkSession, start: int, stop: int, files: int) -> DataFrame:
    return spark.range(start, stop, 1, files).selectExpr("id", "id * 7919 % 1000 AS v")


def make(spark: SparkSession, name: str, place: str) -> tuple[str, str, Callable[[int, int], None]]:
    """What the table is called with Spark and without, and what adds rows to it."""
    if name == "iceberg":
        catalog = f"hdfs{abs(hash(place))}"
        for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}.items():
            spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
        spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", place)
        spark.sql(f"CREATE TABLE {catalog}.db.t (id bigint, v bigint) USING iceberg")
        table = f"{catalog}.db.t"
        return table, f"{place}/db/t", lambda start, stop: rows(spark, start, stop, 1).writeTo(table).append()
    path = f"{place}/t" if name == "parquet" else f"{place}/t".replace(" ", "").replace("%", "")
    return path, path, lambda start, stop: rows(spark, start, stop, 1).write.format(name).mode("append").save(path)


@pytest.mark.parametrize("name", tiers.nightly(FORMATS, daily=2))
def test_a_table_lives_on_hdfs(engine_spark: SparkSession, place: str, name: str) -> None:
    called, path, add = make(engine_spark, name, place)
    for start in range(0, 1000, 100):
        add(start, start + 100)
    alone = zskip.open(path)
    assert alone.info().format == name
    assert alone.index().files == 10
    assert [len(alone.files("id between 330 and 440")), len(alone.files())] == [2, 10]
    table = zskip.table(engine_spark, called)
    result = table.optimize(by=["id", "v"], files=4)
    assert (result.files_before, result.files_after) == (10, 4)
    found = table.df()
    assert [found.count(), found.where("id between 330 and 440").count()] == [1000, 111]
    assert 0 < len(alone.files("id < 100")) < len(alone.files()) == 4
    assert alone.files("id < 100") == table.files("id < 100")
    shown = CliRunner().invoke(app, ["files", path, "--where", "id < 100"])
    assert (shown.exit_code, shown.output.splitlines()) == (0, alone.files("id < 100"))
    assert "\n  4 files, " in str(alone.explain("id < 100"))
    assert alone.history()[0].operation == "optimize"
    add(1000, 1010)
    assert table.maintain().files_removed >= 0
    table.index()
    assert sorted(row["id"] for row in table.df().select("id").collect()) == list(range(1010))
    assert table.clean(delete=True).leftovers == ()
    assert alone.info().rows == 1010


def test_a_lake_is_surveyed_and_maintained(engine_spark: SparkSession, place: str) -> None:
    path, _, add = make(engine_spark, "parquet", f"{place}/lake/a")
    for start in range(0, 400, 100):
        add(start, start + 100)
    storage_for(f"{place}/lake/broken", {}).write("x.parquet", b"PAR1PAR1")
    lines = {line.table: line for line in zskip.lake(None, f"{place}/lake").survey().tables}
    assert {table: bool(line.error) for table, line in lines.items()} == {path: False, f"{place}/lake/broken": True}
    assert (lines[path].files, lines[path].action) == (4, "compact")
    done = zskip.lake(engine_spark, f"{place}/lake").maintain()
    assert [table.files_removed for table in done.tables] == [4]
    assert list(done.failed) == [f"{place}/lake/broken"]
    assert sorted(row["id"] for row in zskip.table(engine_spark, path).df().collect()) == list(range(400))


def test_hudi_says_that_its_package_does_not_go_there(engine_spark: SparkSession, place: str) -> None:
    storage_for(f"{place}/t", {}).write(".hoodie/hoodie.properties", b"hoodie.table.name=t\n")
    with pytest.raises(UnsupportedError, match="does not reach HDFS"):
        zskip.open(f"{place}/t").files()


def test_delta_says_where_its_package_does_not_look(place: str) -> None:
    storage_for(f"{place}/t", {}).write("_delta_log/00000000000000000000.json", b"{}")
    with pytest.raises(UnsupportedError, match=r'with spaces, "%" or the like.*rename it'):
        zskip.open(f"{place}/t").files()


@pytest.mark.parametrize("name", tiers.nightly(["delta", "parquet"]))
def test_of_two_rewrites_and_an_appender_none_loses_a_row(engine_spark: SparkSession, place: str, name: str) -> None:
    called, path, add = make(engine_spark, name, place)
    add(0, 500)
    add(500, 1000)

    def append(start: int) -> None:
        ids = np.arange(start, start + ADDED)
        if name == "delta":
            deltalake.write_deltalake(path, pa.table({"id": ids, "v": ids % 7}), mode="append")
        else:
            add(start, start + ADDED)

    run_rounds(lambda: zskip.table(engine_spark, called), append, 1000, 4)


def test_executors_read_footers(engine_spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, path, add = make(engine_spark, "parquet", place)
    add(0, 100)
    add(100, 200)
    check_executors(engine_spark, HadoopStorage(engine_spark, path), monkeypatch)


def test_bad_input(cluster: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableNotFoundError, match=r'%20\S*/t"'):
        zskip.open(f"{place}/t").files()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"hdfs://127.0.0.1:{free.getsockname()[1]}/t"
    quick = {"dfs.client.failover.max.attempts": "2"}
    with pytest.raises(StorageError, match=r"hdfs://127.0.0.1.*refused.*check host, port"):
        zskip.open(dead, storage_options=quick).files()
    with pytest.raises(StorageError, match="HADOOP_CONF_DIR"):
        zskip.open("hdfs://no-such-service/t").files()
    with pytest.raises(StorageError, match="HADOOP_CONF_DIR"):
        zskip.open("hdfs:///t").files()
    (tmp_path / "core-site.xml").write_text(
        f"<configuration><property><name>fs.defaultFS</name><value>{cluster}</value></property></configuration>"
    )
    storage_for(f"{place}/t", {}).write("x", b"1")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert storage_for(f"hdfs://{place.removeprefix(cluster)}/t", {}).read("x") == b"1"
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    with pytest.raises(StorageError, match=r"AccessControlException: Permission denied.*HADOOP_USER_NAME.*index_path="):
        storage_for(f"{place}/t", {}).write("y", b"1")
