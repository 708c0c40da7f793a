"""zskip's optimize of Hudi tables, asked of Hudi itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import tiers

import zskip
from zskip.errors import ConflictError, UnsupportedError
from zskip.formats.hudi.timeline import read_timeline
from zskip.storage import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = Path(__file__).parents[2] / "data" / "hudi"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.write.complex.keygen.validation.enable": "false",
}
Unpack = Callable[[str], Path]


def read(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("hudi").options(**options).load(str(path))


def rows_of(frame: DataFrame, *without: str) -> list[Any]:
    return sorted(map(tuple, frame.drop(*without).collect()), key=repr)


def upsert(spark: SparkSession, path: Path, where: str, name: str, **options: str) -> None:
    """Let Hudi change the names of some rows."""
    from pyspark.sql import functions as F

    frame = read(spark, path)
    own = [column for column in frame.columns if not column.startswith("_hoodie")]
    changed = frame.where(where).select(*own).withColumn("name", F.lit(name)).withColumn("ts", F.col("ts") + 1)
    changed.write.format("hudi").options(**{**OPTIONS, **options}).mode("append").save(str(path))


@pytest.mark.parametrize("name", tiers.nightly(["hive", "flat", "plain"]))
def test_an_optimize_keeps_rows_and_hudis_columns(name: str, engine_spark: SparkSession, unpack: Unpack) -> None:
    path = unpack(name)
    before = rows_of(read(engine_spark, path), "_hoodie_file_name")
    properties = (path / ".hoodie" / "hoodie.properties").read_text().splitlines()
    table = zskip.table(engine_spark, str(path))
    old = set(table.files())
    result = table.optimize(by=["v", "id"], files=6)
    after = read(engine_spark, path)
    assert rows_of(after, "_hoodie_file_name") == before
    live = {Path(row[0]).name for row in after.selectExpr("input_file_name()").distinct().collect()}
    new = table.files()
    assert {Path(file).name for file in new} == live
    assert not old & set(new)
    assert (result.files_after, result.rows) == (len(new), len(before)) == (6, len(before))
    assert result.bytes_after == sum(Path(file).stat().st_size for file in new)
    assert after.where("_hoodie_file_name <> element_at(split(input_file_name(), '/'), -1)").count() == 0
    info = table.info()
    assert info.layout is not None
    assert (info.version, info.layout.version, info.layout.by) == (result.version, result.version, ("v", "id"))
    assert info.rows == len(before)
    assert rows_of(table.df(), "_hoodie_file_name") == before
    if name == "hive":
        assert table.verify(queries=4).ok
    assert (path / ".hoodie" / "hoodie.properties").read_text().splitlines()[2:] == properties[2:]
    assert not (path / "_zskip").exists()
    assert not list((path / ".hoodie" / "zskip").glob("staging/*"))


@pytest.mark.slow
def test_the_table_before_is_still_there(engine_spark: SparkSession, unpack: Unpack) -> None:
    path = unpack("hive")
    table = zskip.table(engine_spark, str(path))
    before, version = rows_of(read(engine_spark, path)), table.info().version
    table.optimize(by=["v", "id"], files=4)
    assert rows_of(read(engine_spark, path, **{"as.of.instant": str(version)})) == before


@pytest.mark.slow
@pytest.mark.parametrize("index", tiers.nightly(["RECORD_INDEX", "BLOOM"]))
def test_hudi_finds_rows_after_an_optimize(index: str, engine_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.index.type": index,
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": str(index == "RECORD_INDEX").lower(),
        "hoodie.metadata.record.index.min.filegroup.count": "1",
        "hoodie.metadata.record.index.max.filegroup.count": "1",
    }
    frame = engine_spark.range(12).selectExpr("id", "1L AS ts", "'n' AS name", "CAST(id % 2 AS STRING) AS region")
    frame.write.format("hudi").options(**OPTIONS, **options).mode("append").save(str(path))
    table = zskip.table(engine_spark, str(path))
    table.optimize(by=["id"], curve="linear", files=4)
    upsert(engine_spark, path, "id IN (3, 4)", "later", **options)
    found = {row.id: row.name for row in read(engine_spark, path).collect()}
    assert read(engine_spark, path).count() == len(found) == 12 == table.df().count()
    assert {key for key, name in found.items() if name == "later"} == {3, 4}
    skipping = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    assert [row.name for row in read(engine_spark, path, **skipping).where("id = 3").collect()] == ["later"]


@pytest.mark.slow
def test_one_partition_is_rewritten_alone(engine_spark: SparkSession, unpack: Unpack) -> None:
    path = unpack("hive")
    table = zskip.table(engine_spark, str(path))
    before, old = rows_of(read(engine_spark, path), "_hoodie_file_name"), set(table.files())
    result = table.optimize(by=["v", "id"], files=1, where="region = 'a/b' OR region IS NULL")
    assert rows_of(read(engine_spark, path), "_hoodie_file_name") == before
    assert (result.files_before, result.files_after, result.partitions) == (4, 2, 2)
    assert len(old & set(table.files())) == 3


@pytest.mark.slow
def test_small_files_are_merged(engine_spark: SparkSession, unpack: Unpack) -> None:
    path = unpack("hive")
    table = zskip.table(engine_spark, str(path))
    before = rows_of(read(engine_spark, path), "_hoodie_file_name")
    result = table.compact()
    assert result.files_after == len(table.files()) == len({Path(file).parent for file in table.files()})
    assert result.files_after < result.files_before
    assert rows_of(read(engine_spark, path), "_hoodie_file_name") == before
    found = table.maintain(by=["v", "id"], target_file_size="1kB")
    assert found.batches > 0
    assert rows_of(read(engine_spark, path), "_hoodie_file_name") == before
    assert table.verify(queries=2).ok


@pytest.mark.slow
def test_rows_that_are_appended_meanwhile_stay(
    engine_spark: SparkSession, unpack: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpack("hive")
    before = rows_of(read(engine_spark, path), "_hoodie_file_name")

    def append() -> None:
        from pyspark.sql import functions as F

        frame = read(engine_spark, path).where("id = 0").withColumn("id", F.lit(999).cast("long"))
        own = [column for column in frame.columns if not column.startswith("_hoodie")]
        options = {**OPTIONS, **GUARDED, "hoodie.datasource.write.operation": "bulk_insert"}
        frame.select(*own).write.format("hudi").options(**options).mode("append").save(str(path))

    between(monkeypatch, "_write", append)
    zskip.table(engine_spark, str(path)).optimize(by=["v", "id"], files=4)
    after = read(engine_spark, path)
    assert rows_of(after.where("id <> 999"), "_hoodie_file_name") == before
    assert after.where("id = 999").count() == 1


GUARDED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
"""A writer that looks for conflicts."""


def between(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], None]) -> None:
    """Do something right before a step of the engine's commit."""
    from zskip.spark.formats.hudi.commits import HudiEngine

    original = getattr(HudiEngine, step)

    def stepped(self: HudiEngine, *arguments: Any) -> Any:
        act()
        return original(self, *arguments)

    monkeypatch.setattr(HudiEngine, step, stepped)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "guarded"),
    tiers.nightly([("_complete", False), ("_complete", True), ("_check_after", True), ("_write", False)], daily=2),
)
def test_an_update_meanwhile_wins(
    step: str, guarded: bool, engine_spark: SparkSession, unpack: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpack("hive")
    before = read(engine_spark, path).count()
    table = zskip.table(engine_spark, str(path))
    options = GUARDED if guarded else {}
    between(monkeypatch, step, lambda: upsert(engine_spark, path, "id = 5", "mine", **options))
    if step == "_check_after":
        # It came after the commit, and saw it.
        table.optimize(by=["v", "id"], files=4)
    else:
        with pytest.raises(ConflictError):
            table.optimize(by=["v", "id"], files=4)
    found = [(row.id, row.name) for row in read(engine_spark, path).collect()]
    assert len(found) == before == len({row[0] for row in found})
    assert (5, "mine") in found
    assert sorted((row.id, row.name) for row in table.df().collect()) == sorted(found)
    assert not read_timeline(LocalStorage(str(path))).pending


@pytest.mark.slow
def test_of_two_optimizes_one_wins(engine_spark: SparkSession, unpack: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpack("hive")
    before = rows_of(read(engine_spark, path), "_hoodie_file_name")
    done = []

    def other() -> None:
        if not done:
            done.append(zskip.table(engine_spark, str(path)).info())
            done.append(zskip.table(engine_spark, str(path)).optimize(by=["id"], curve="linear", files=4))

    between(monkeypatch, "_complete", other)
    with pytest.raises(ConflictError):
        zskip.table(engine_spark, str(path)).optimize(by=["v", "id"], files=5)
    assert rows_of(read(engine_spark, path), "_hoodie_file_name") == before
    assert zskip.table(engine_spark, str(path)).info().version == done[1].version


def test_what_hudi_must_cluster_itself_is_refused(engine_spark: SparkSession, unpack: Unpack) -> None:
    for name, old, new, match in (
        ("virtual", "", "", "meta.fields"),
        ("flat", "table.cdc.enabled=false", "table.cdc.enabled=true", "log of changes"),
    ):
        path = unpack(name)
        properties = path / ".hoodie" / "hoodie.properties"
        properties.write_text(properties.read_text().replace(old, new) if old else properties.read_text())
        files = sorted(path.rglob("*"))
        with pytest.raises(UnsupportedError, match=match):
            zskip.table(engine_spark, str(path)).optimize(by=["id", "v"], files=2)
        assert sorted(path.rglob("*")) == files


@pytest.mark.slow
def test_each_file_is_one_of_the_layout(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    frame = engine_spark.range(4000).selectExpr(
        "id", "1L AS ts", "CAST(id * 7919 % 4000 AS INT) AS a", "CAST(id * 104729 % 4000 AS INT) AS b", "'r' AS region"
    )
    options = {**OPTIONS, "hoodie.datasource.write.operation": "bulk_insert"}
    frame.write.format("hudi").options(**options).mode("append").save(str(path))
    table = zskip.table(engine_spark, str(path))
    table.optimize(by=["a", "b"], files=16)
    counts = [pq.read_metadata(file).num_rows for file in table.files()]
    assert (len(counts), sum(counts)) == (16, 4000)
    assert max(counts) < 2 * min(counts)
    assert len(table.files("a < 500 AND b < 500")) <= 4
    assert table.df().where("a < 500 AND b < 500").count() == frame.where("a < 500 AND b < 500").count()
