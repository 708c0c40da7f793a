"""Tables that only Delta Lake itself can read or commit to, through the session's own Delta Lake."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiers
from scans import files_read

import zskip
from zskip.errors import ConflictError, UnsupportedError, ZskipWarning
from zskip.spark.formats.delta import commits as delta_commits
from zskip.spark.jvm import compat
from zskip.table.rewrite import rewrite as rewriting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

KINDS = {
    "columnMapping": {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "rowTracking": {"delta.enableRowTracking": "true"},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
}


def make(spark: SparkSession, path: str, kind: str, *, partitioned: bool) -> None:
    rows = spark.range(0, 4000, 1, 2).selectExpr("id", "id * 7919 % 4000 AS a", "id * 104729 % 4000 AS b")
    rows = rows.selectExpr("*", "IF(id % 3 = 0, NULL, concat('p é', id % 3)) AS region")
    writer = rows.write.format("delta").options(**KINDS[kind])
    (writer.partitionBy("region") if partitioned else writer).save(path)
    if kind == "columnMapping":
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN b TO `c d`")
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN a TO b")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")


def load(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.read.format("delta").options(**options).load(path)


def content(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def without_delta(path: str) -> None:
    """What optimize asks of a table where there is no session with Delta Lake."""
    opened = zskip.open(path)
    opened.info()
    opened._handle.format.check_replaceable()


def history(spark: SparkSession, path: str) -> Any:
    return spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]


@pytest.mark.parametrize("kind", tiers.nightly(KINDS))
def test_a_table_of_a_feature_is_rewritten(
    engine_spark: SparkSession, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zskip")
    path, second = str(tmp_path / "t ü"), "b" if kind == "columnMapping" else "a"
    make(engine_spark, path, kind, partitioned=kind != "rowTracking")
    before, version = content(load(engine_spark, path)), history(engine_spark, path)["version"]
    assert len(before) == 3600
    by_id = "SELECT id, _metadata.row_id AS r FROM delta.`{}`" if kind == "rowTracking" else "SELECT 1"
    identities = content(engine_spark.sql(by_id.format(path)))
    with pytest.raises(UnsupportedError, match=rf"{kind}.*Delta Lake loaded"):
        without_delta(path)
    table = zskip.table(engine_spark, path)
    assert content(table.df()) == before
    result = table.optimize(["id", second], files=12)
    assert (result.version, result.writer) == (version + 1, "arrow")
    assert "Spark reads the files" not in caplog.text
    assert content(load(engine_spark, path)) == content(table.df()) == before
    assert content(load(engine_spark, path, versionAsOf=version)) == before
    assert content(engine_spark.sql(by_id.format(path))) == identities
    assert result.files_after == 12
    assert len(load(engine_spark, path).inputFiles()) == 12
    assert 1 <= files_read(load(engine_spark, path).where("id < 300")) <= 6
    told = history(engine_spark, path)
    assert (told["operation"], told["operationParameters"]["zOrderBy"]) == ("OPTIMIZE", f'["id","{second}"]')
    layout = table.info().layout
    assert layout is not None
    assert layout.by == ("id", second)
    assert table.verify(queries=2).ok
    needs_delta = kind == "columnMapping"
    assert (table.explain("id < 300").reader is not None) is needs_delta
    assert len(table.files("id < 300")) <= 6


def test_deleted_rows_stay_deleted(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(engine_spark, path, "deletionVectors", partitioned=True)
    table = zskip.table(engine_spark, path)
    before = content(load(engine_spark, path))
    assert "deletionVectors" in str(table.explain("id < 9"))
    assert table.explain("id < 9", analyze=True).regret.matching_rows == 8
    with pytest.raises(UnsupportedError, match=r"not its rows.*df.*deletes=True"):
        table.files("id < 9")
    result = table.optimize(["id", "a"], files=3, where="region = 'p é1'")
    assert engine_spark.getActiveSession() is engine_spark
    assert (result.files_after, result.partitions) == (3, 1)
    assert content(load(engine_spark, path)) == content(table.df()) == before


def test_a_table_of_an_unknown_feature_is_not_rewritten(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    engine_spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, k BIGINT, v VARIANT, p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    engine_spark.sql(
        f"INSERT INTO delta.`{path}` SELECT id, id * 7919 % 1000, parse_json(concat('{{\"a\": ', id, '}}')), "
        "IF(id % 2 = 0, 'x', NULL) FROM range(0, 1000, 1, 4)"
    )
    engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")
    table, before = zskip.table(engine_spark, path), sorted(tmp_path.rglob("*"))
    for rewrite in (lambda: table.optimize(["k", "id"], files=4), table.compact):
        with pytest.raises(UnsupportedError, match=r"variantType.*Delta's own OPTIMIZE. Nothing was written"):
            rewrite()
    assert sorted(tmp_path.rglob("*")) == before
    assert table.df("id < 100").count() == 90


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["columnMapping", "deletionVectors", "rowTracking"])
def test_small_files_are_merged(engine_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t ü")
    make(engine_spark, path, kind, partitioned=True)
    engine_spark.sql(f"INSERT INTO delta.`{path}` SELECT * FROM delta.`{path}` WHERE id < 60")
    table = zskip.table(engine_spark, path)
    before, version = content(load(engine_spark, path)), history(engine_spark, path)["version"]
    by_id = "SELECT id, _metadata.row_id AS r FROM delta.`{}`" if kind == "rowTracking" else "SELECT 1"
    identities = content(engine_spark.sql(by_id.format(path)))
    result = table.compact()
    assert (result.files_after, result.partitions, result.batches) == (3, 3, 1)
    assert (result.version, result.removed.files) == (version + 1, result.files_before)
    assert content(engine_spark.sql(by_id.format(path))) == identities
    assert content(load(engine_spark, path)) == content(table.df()) == before
    assert content(load(engine_spark, path, versionAsOf=version)) == before
    assert table.compact().batches == 0
    table.maintain(by=["id", "b"])
    assert content(load(engine_spark, path)) == content(table.df()) == before
    assert content(engine_spark.sql(by_id.format(path))) == identities


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> None:
    """Do something when the rewrite has read the table and is about to commit."""
    commit = rewriting.commit_files

    def late(*arguments: Any, **options: Any) -> Any:
        work()
        return commit(*arguments, **options)

    monkeypatch.setattr(rewriting, "commit_files", late)


def test_an_append_meanwhile_is_kept(
    engine_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    make(engine_spark, path, "deletionVectors", partitioned=False)
    before = content(load(engine_spark, path))
    more = engine_spark.range(10_000, 10_005).selectExpr("id", "id AS a", "id AS b", "'new' AS region")
    meanwhile(monkeypatch, lambda: more.write.format("delta").mode("append").save(path))
    zskip.table(engine_spark, path).optimize(["id", "a"], files=4)
    assert content(load(engine_spark, path)) == sorted(before + content(more))


@pytest.mark.parametrize("change", tiers.nightly(["DELETE FROM {} WHERE id = 7", "ALTER TABLE {} ADD COLUMN more int"]))
def test_a_change_meanwhile_is_a_conflict(
    engine_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = str(tmp_path / "t")
    make(engine_spark, path, "deletionVectors", partitioned=False)
    meanwhile(monkeypatch, lambda: engine_spark.sql(change.format(f"delta.`{path}`")))
    with pytest.raises(ConflictError, match="call again"):
        zskip.table(engine_spark, path).optimize(["id", "a"], files=4)
    now = load(engine_spark, path)
    assert now.count() == 3600 - change.startswith("DELETE")
    live = {Path(name).name for name in now.inputFiles()}
    assert history(engine_spark, path)["operationParameters"].get("zOrderBy") in (None, "[]")
    monkeypatch.undo()
    zskip.table(engine_spark, path).optimize(["id", "a"], files=4)
    assert not live & {Path(name).name for name in load(engine_spark, path).inputFiles()}
    assert load(engine_spark, path).count() == now.count()


def test_another_delta_is_refused_before_any_work(
    engine_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    make(engine_spark, path, "inCommitTimestamp", partitioned=False)
    before = sorted(tmp_path.rglob("*"))
    for name, counts in (("DeltaLog.update", {7}), ("Nowhere.update", {1})):
        monkeypatch.setitem(delta_commits._METHODS, name, counts)
        with pytest.raises(UnsupportedError, match=r"delta-spark.*Nothing was written"):
            zskip.table(engine_spark, path).optimize(["id", "a"], files=2)
        monkeypatch.undo()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("feature", ["liquid", "fooBar"])
def test_a_feature_that_this_delta_does_not_know_is_refused_before_any_work(
    engine_spark: SparkSession, tmp_path: Path, feature: str
) -> None:
    path = str(tmp_path / "t")
    engine_spark.range(90).selectExpr("id", "id % 7 AS k").repartition(3).write.format("delta").save(path)
    log = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [feature]}
    log.write_text("\n".join(map(json.dumps, lines)))
    for checksum in {*log.parent.glob("*.crc"), *log.parent.glob(".*.crc")}:
        checksum.unlink()
    table, before = zskip.table(engine_spark, path), sorted(tmp_path.rglob("*"))
    new = engine_spark.sql("SELECT 1L id, 2L k")
    for call in (lambda: table.optimize(["id", "k"]), table.compact, lambda: table.append(new)):
        with pytest.raises(UnsupportedError, match=rf"{feature}.*Nothing was written"):
            call()
    assert sorted(tmp_path.rglob("*")) == before
    assert table.df().count() == 90


@pytest.mark.parametrize("kind", ["", "inCommitTimestamp"])
def test_manifests_for_other_engines_name_the_live_files(engine_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    enabled = {"delta.compatibility.symlinkFormatManifest.enabled": "true", **KINDS.get(kind, {})}
    settings = ", ".join(f"'{name}' = '{value}'" for name, value in enabled.items())
    engine_spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, k BIGINT) USING delta TBLPROPERTIES ({settings})")
    for _ in range(2):
        rows = engine_spark.range(100).selectExpr("id", "id * 7 % 101 AS k")
        rows.write.format("delta").mode("append").save(str(path))

    def check() -> None:
        named = (path / "_symlink_format_manifest" / "manifest").read_text().split()
        live = load(engine_spark, str(path)).inputFiles()
        assert sorted(Path(name).name for name in named) == sorted(Path(name).name for name in live)

    check()
    table = zskip.table(engine_spark, str(path))
    for change in (
        lambda: table.append(rows),
        lambda: table.optimize(["id", "k"], files=2),
        lambda: zskip.write(rows, str(path), by=["id", "k"], format="delta", mode="overwrite"),
    ):
        change()
        check()
    # Made by hand, and not by the property.
    engine_spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{next(iter(enabled))}')")
    table.append(rows)
    check()


def test_a_catalog_learns_of_a_rewrite_beside_another_active_session(engine_spark: SparkSession) -> None:
    engine_spark.sql("DROP TABLE IF EXISTS default.by_ids")
    engine_spark.sql(
        "CREATE TABLE default.by_ids USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'id', "
        "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true') "
        "AS SELECT id, id % 7 AS a, id % 2 AS p FROM range(0, 1000, 1, 4)"
    )
    engine_spark.sql("DELETE FROM default.by_ids WHERE id % 10 = 3")
    try:
        other = engine_spark.newSession()
        other.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
        with compat.active_session(other), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ZskipWarning)
            zskip.table(engine_spark, "default.by_ids").optimize(["a", "id"], files=2)
        assert not [str(warning.message) for warning in caught if warning.category is ZskipWarning]
        assert engine_spark.table("default.by_ids").count() == 900
    finally:
        engine_spark.sql("DROP TABLE default.by_ids")


def test_a_table_of_the_catalog_by_its_name(engine_spark: SparkSession, tmp_path: Path) -> None:
    engine_spark.sql(f"CREATE TABLE by_name (id bigint, v bigint) USING delta LOCATION '{tmp_path}/a b'")
    engine_spark.range(0, 900, 1, 6).selectExpr("id", "id * 7919 % 900 AS v").writeTo("by_name").append()
    try:
        for name in ("default.by_name", "spark_catalog.default.by_name"):
            table = zskip.table(engine_spark, name)
            assert table.info().format == "delta"
            assert table.optimize(by=["id", "v"], files=3).files_after == 3
            assert engine_spark.table(name).where("id < 90").count() == table.df().where("id < 90").count() == 90
        zskip.sql(engine_spark, "OPTIMIZE default.by_name ZORDER BY (v, id) WITH (files = 2)").collect()
        assert engine_spark.table("by_name").inputFiles() != []
        assert table.info().files == 2
    finally:
        engine_spark.sql("DROP TABLE by_name")
