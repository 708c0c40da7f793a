"""Iceberg tables that Iceberg's own reader and writer rewrite: with deletes, ids of rows, and names that files lack."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from iceberg_rows import delete_equal, load
from written_by import written_by

import zskip
from zskip.errors import ConflictError, UnsupportedError
from zskip.formats import IcebergFormat
from zskip.spark.jvm.gateway import Jvm
from zskip.table.rewrite import rewrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTER = itertools.count()
MERGE_ON_READ = ", ".join(f"'write.{operation}.mode' = 'merge-on-read'" for operation in ("delete", "update", "merge"))
LINEAGE = "_row_id", "_last_updated_sequence_number"


def create(spark: SparkSession, version: int, *, partitioned: str = "", files: int = 4, rows: int = 4000) -> str:
    """A table in files that each hold every value of k; p is 0 or 1."""
    name = f"local.db.e{next(COUNTER)}"
    by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, k BIGINT, name STRING, p INT) USING iceberg {by} "
        f"TBLPROPERTIES ('format-version' = '{version}', {MERGE_ON_READ})"
    )
    if rows:
        append(spark, name, 0, rows, files=files)
    return name


def append(spark: SparkSession, name: str, start: int, end: int, files: int = 1) -> None:
    columns = "id", "id * 7919 % 4001", "concat('é', id % 30)", "int(id % 2)"
    names = spark.table(name).columns
    rows = spark.range(start, end, 1, files).selectExpr(*map("{} AS {}".format, columns, names))
    rows.coalesce(files).writeTo(name).option("distribution-mode", "none").append()


def content(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def with_lineage(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    """All rows with the columns by which version 3 follows them."""
    return content(spark.table(name).select("*", *LINEAGE))


def files(spark: SparkSession, name: str) -> Counter[int]:
    """The numbers of live files by content: 0 for data, 1 for position deletes or vectors, 2 for equality deletes."""
    return Counter(
        row["content"]
        for part in ("data_files", "delete_files")
        for row in spark.sql(f"SELECT content FROM {name}.{part}").collect()
    )


def data_files(spark: SparkSession, name: str, part: str = "data_files") -> list[str]:
    """The paths of live data files, or of those of all snapshots."""
    return [row[0].removeprefix("file:") for row in spark.sql(f"SELECT file_path FROM {name}.{part}").collect()]


def last_operation(spark: SparkSession, name: str) -> str:
    return str(spark.sql(f"SELECT operation FROM {name}.snapshots ORDER BY committed_at").collect()[-1][0])


def files_with(spark: SparkSession, name: str, where: str) -> int:
    """The number of data files that hold a matching row."""
    return spark.table(name).where(where).select("_file").distinct().count()


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> None:
    """Do something when the new files are written and the commit is about to begin."""
    commit = rewrite.commit_files

    def late(*arguments: Any, **options: Any) -> Any:
        work()
        return commit(*arguments, **options)

    monkeypatch.setattr(rewrite, "commit_files", late)


@pytest.mark.parametrize("partitioned", tiers.nightly(["p", ""]))
def test_position_deletes_are_gone_after_an_optimize(
    engine_spark: SparkSession, partitioned: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zskip")
    name = create(engine_spark, 2, partitioned=partitioned)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    engine_spark.sql(f"UPDATE {name} SET name = 'new' WHERE id % 7 = 1")
    before = content(engine_spark.table(name))
    assert files(engine_spark, name)[1] > 0
    table = zskip.table(engine_spark, name)
    result = table.optimize(["k"], curve="linear", files=8)
    assert (result.files_after, result.rows, result.writer) == (8, len(before), "arrow")
    assert "Spark reads the files" not in caplog.text
    assert content(engine_spark.table(name)) == content(table.df()) == before
    assert files(engine_spark, name) == {0: 8}
    assert last_operation(engine_spark, name) == "replace"
    assert files_with(engine_spark, name, "k < 400") <= 2
    assert len(table.files("k < 400")) <= 2
    assert table.info().layout is not None


def test_equality_deletes_are_gone_once_they_apply_to_no_file(engine_spark: SparkSession) -> None:
    name = create(engine_spark, 2, rows=0)
    engine_spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD p")
    append(engine_spark, name, 0, 5000)
    delete_equal(engine_spark, name, "k", list(range(0, 4000, 3)))
    append(engine_spark, name, 5000, 5100)
    before = content(engine_spark.table(name))
    assert len(before) < 4000
    table = zskip.table(engine_spark, name)
    with pytest.raises(UnsupportedError, match="equality deletes"):
        table.files("k = 1")
    assert table.optimize(["k", "id"], files=2, where="p = 0").rows < 4000
    assert content(engine_spark.table(name)) == before
    assert files(engine_spark, name)[2] == 1
    table.optimize(["k", "id"], files=6)
    assert content(engine_spark.table(name)) == before
    assert files(engine_spark, name) == {0: 6}


@pytest.mark.parametrize("partitioned", tiers.nightly(["p", ""]))
def test_rows_of_version_3_keep_their_ids(
    engine_spark: SparkSession, partitioned: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zskip")
    name = create(engine_spark, 3, partitioned=partitioned)
    append(engine_spark, name, 4000, 5000)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    engine_spark.sql(f"UPDATE {name} SET name = 'new' WHERE id % 7 = 1")
    before = with_lineage(engine_spark, name)
    assert len({row[-2] for row in before}) == len(before)
    assert len({row[-1] for row in before}) > 2
    table = zskip.table(engine_spark, name)
    table.optimize(["k"], curve="linear", files=8)
    assert with_lineage(engine_spark, name) == before
    assert files(engine_spark, name) == {0: 8}
    assert files_with(engine_spark, name, "k < 400") <= 2
    # What comes later has ids of its own.
    append(engine_spark, name, 6000, 6100)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 11 = 1")
    before = with_lineage(engine_spark, name)
    assert len({row[-2] for row in before}) == len(before)
    result = table.compact(target_file_size="1MB")
    assert (result.rows, result.files_after) == (len(before), 2 if partitioned else 1)
    assert "Spark reads the files" not in caplog.text
    assert with_lineage(engine_spark, name) == before
    assert files(engine_spark, name) == {0: result.files_after}


@pytest.mark.parametrize("version", tiers.nightly([1, 2, 3]))
def test_renamed_columns_and_columns_of_the_same_name_as_a_dropped_one(
    engine_spark: SparkSession, version: int
) -> None:
    name = create(engine_spark, version)
    for change in ("RENAME COLUMN k TO other", "RENAME COLUMN id TO k", "DROP COLUMN name", "ADD COLUMN name BIGINT"):
        engine_spark.sql(f"ALTER TABLE {name} {change}")
    engine_spark.sql(f"INSERT INTO {name} SELECT k + 10000, other, p, k FROM {name} WHERE k < 100")
    before = content(engine_spark.table(name))
    table = zskip.table(engine_spark, name)
    table.optimize(["k", "other"], files=8)
    assert content(engine_spark.table(name)) == before
    assert files_with(engine_spark, name, "k < 400") < 8
    table.compact(target_file_size="1MB")
    assert content(engine_spark.table(name)) == content(table.df()) == before


def test_uuids_and_values_of_fixed_size(engine_spark: SparkSession) -> None:
    name = create(engine_spark, 2)
    types = "org.apache.iceberg.types.Types"
    jvm = Jvm.of(engine_spark)
    uuid = jvm.call(f"{types}$UUIDType", "get")()
    fixed = jvm.call(f"{types}$FixedType", "ofLength")(4)
    listed = jvm.call(f"{types}$ListType", "ofOptional")(1000, uuid)
    update = load(engine_spark, name).updateSchema().addColumn("u", uuid).addColumn("f", fixed)
    update.addColumn("l", listed).commit()
    engine_spark.sql(f"REFRESH TABLE {name}")
    text = "concat('12345678-1234-1234-1234-', lpad(id, 12, '0'))"
    engine_spark.sql(
        f"INSERT INTO {name} SELECT id + 4000, k, name, p, {text}, unhex(lpad(hex(id), 8, '0')), "
        f"IF(id % 3 = 0, NULL, array({text}, NULL)) FROM {name}"
    )
    before = content(engine_spark.table(name))
    schema = load(engine_spark, name).schema().toString()
    table = zskip.table(engine_spark, name)
    for by in (["k", "id"], ["u", "k"], ["f", "k"]):
        table.optimize(by, files=5)
        assert content(engine_spark.table(name)) == before
    assert load(engine_spark, name).schema().toString() == schema
    stored = {pq.read_schema(f).field("f").type for f in data_files(engine_spark, name)}
    assert stored == {pa.binary(4)}


def test_rows_from_before_version_3_get_ids(engine_spark: SparkSession) -> None:
    name = create(engine_spark, 2)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    before = content(engine_spark.table(name))
    engine_spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '3')")
    zskip.table(engine_spark, name).optimize(["k", "id"], files=4)
    assert content(engine_spark.table(name)) == before
    assert len({row[-2] for row in with_lineage(engine_spark, name)} - {None}) == len(before)
    assert files(engine_spark, name) == {0: 4}


def test_a_table_of_which_all_rows_are_deleted(engine_spark: SparkSession) -> None:
    name = create(engine_spark, 3)
    engine_spark.sql(f"DELETE FROM {name} WHERE k >= 0 AND id + k >= 0")
    table = zskip.table(engine_spark, name)
    table.optimize(["k", "id"], files=4)
    assert engine_spark.table(name).count() == 0
    append(engine_spark, name, 0, 10)
    assert engine_spark.table(name).count() == 10


def test_files_of_several_partition_specs(engine_spark: SparkSession) -> None:
    name = create(engine_spark, 2)
    engine_spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD p")
    append(engine_spark, name, 4000, 5000)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    before = content(engine_spark.table(name))
    specs = "SELECT spec_id, partition.p AS p, count(*) FROM {}.data_files GROUP BY 1, 2"
    result = zskip.table(engine_spark, name).optimize(["k"], curve="linear", files=5)
    assert (result.files_after, result.partitions) == (5, 3)
    assert content(engine_spark.table(name)) == before
    assert {row[:2] for row in engine_spark.sql(specs.format(name)).collect()} == {(0, None), (1, 0), (1, 1)}
    assert files(engine_spark, name) == {0: 5}


def test_a_table_is_rewritten_in_batches(engine_spark: SparkSession) -> None:
    name = create(engine_spark, 3, files=8)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    before = with_lineage(engine_spark, name)
    result = zskip.table(engine_spark, name).optimize(["k", "id"], files=8, max_batch="20kB", jobs=2)
    assert result.batches > 1
    assert with_lineage(engine_spark, name) == before
    assert set(files(engine_spark, name)) == {0}


@pytest.mark.parametrize("version", tiers.nightly([3, 2]))
def test_what_others_commit_meanwhile(
    engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    name = create(engine_spark, version)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    table = zskip.table(engine_spark, name)
    count = engine_spark.table(name).count()
    data = Path(table.path) / "data"
    for change in (
        f"DELETE FROM {name} WHERE id = 1",
        f"MERGE INTO {name} t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'merged'",
    ):
        meanwhile(monkeypatch, lambda change=change: engine_spark.sql(change))  # type: ignore[misc]
        live = set(data.iterdir())
        with pytest.raises(ConflictError, match="call again"):
            table.optimize(["k", "id"], files=4)
        # Only what the other writer has written is new.
        assert len([path for path in set(data.iterdir()) - live if path.suffix == ".parquet"]) <= 2
        monkeypatch.undo()
    assert engine_spark.table(name).count() == count - 1
    assert engine_spark.table(name).where("name = 'merged'").count() == 1
    meanwhile(
        monkeypatch,
        lambda: (append(engine_spark, name, 9000, 9010), delete_equal(engine_spark, name, "k", [3 * 7919 % 4001])),
    )
    table.optimize(["k", "id"], files=4)
    monkeypatch.undo()
    after = content(engine_spark.table(name))
    assert len(after) == count - 2 + 10
    assert not [row for row in after if row[0] in (1, 3)]
    table.optimize(["k", "id"], files=4)
    assert content(engine_spark.table(name)) == after
    assert files(engine_spark, name) == {0: 4}


def test_a_rewrite_that_dies_before_its_commit(engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    name = create(engine_spark, 3)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    before, version = with_lineage(engine_spark, name), engine_spark.sql(f"SELECT * FROM {name}.snapshots").count()

    def die() -> None:
        raise SystemExit

    meanwhile(monkeypatch, die)
    # A killed process removes nothing.
    monkeypatch.setattr(IcebergFormat, "abort", lambda self, staging: None)
    with pytest.raises(SystemExit):
        zskip.table(engine_spark, name).optimize(["k", "id"], files=4)
    monkeypatch.undo()
    assert with_lineage(engine_spark, name) == before
    assert engine_spark.sql(f"SELECT * FROM {name}.snapshots").count() == version
    table = zskip.table(engine_spark, name)
    table.optimize(["k", "id"], files=4)
    assert with_lineage(engine_spark, name) == before
    known = set(data_files(engine_spark, name, "all_data_files"))
    orphans = [path for path in (Path(table.path) / "data").rglob("*.parquet") if str(path) not in known]
    assert not orphans


def test_caches_of_iceberg_are_left_as_they_were(engine_spark: SparkSession) -> None:
    name = create(engine_spark, 3)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    table = zskip.table(engine_spark, name)
    table.optimize(["k", "id"], files=4)
    table.compact(target_file_size="1MB")
    jvm = Jvm.of(engine_spark)
    get = jvm.class_of("org.apache.iceberg.spark.SparkTableCache").getMethod("get", jvm.array("java.lang.Class", []))
    assert get.invoke(None, jvm.array("java.lang.Object", [])).size() == 0


@pytest.mark.parametrize("version", tiers.nightly([3, 2]))
def test_maintain_counts_deleted_rows(engine_spark: SparkSession, version: int) -> None:
    name = create(engine_spark, version)
    table = zskip.table(engine_spark, name)
    table.optimize(["k"], curve="linear", files=8)
    size = max(Path(path).stat().st_size for path in data_files(engine_spark, name))
    arguments = {"by": ["k"], "target_file_size": size}
    assert table.maintain(**arguments, dry_run=True).batches == 0
    # The second of eight files loses half of its rows, the last one a tenth.
    engine_spark.sql(f"DELETE FROM {name} WHERE k BETWEEN 500 AND 999 AND k % 2 = 0 OR k > 3500 AND k % 10 = 0")
    before = content(engine_spark.table(name))
    plan = table.maintain(**arguments, dry_run=True)
    assert (plan.batches, plan.files_removed, plan.files_added) == (1, 1, 1)
    assert plan.deleted_rows == pytest.approx(250, abs=50)
    assert "deleted rows dropped" in str(zskip.rows.blocks(plan))
    live, deletes = data_files(engine_spark, name), files(engine_spark, name)[1]
    result = table.maintain(**arguments)
    assert (result.batches, result.files_removed, result.deleted_rows) == (1, 1, plan.deleted_rows)
    assert content(engine_spark.table(name)) == before
    assert len(set(live) & set(data_files(engine_spark, name))) == 7
    assert files(engine_spark, name)[1] == deletes - 1 > 0
    assert table.maintain(**arguments, dry_run=True).batches == 0


def test_maintain_puts_new_rows_beside_deletes_in_order(engine_spark: SparkSession) -> None:
    name = create(engine_spark, 3, partitioned="p")
    engine_spark.sql(f"ALTER TABLE {name} RENAME COLUMN k TO day")
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 9 = 0")
    table = zskip.table(engine_spark, name)
    table.optimize(["day"], curve="linear", files=8)
    append(engine_spark, name, 4000, 8000, files=4)
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 9 = 1")
    before = with_lineage(engine_spark, name)
    result = table.maintain(target_file_size="4kB")
    assert result.batches > 0
    assert result.kept_after < result.kept_before
    assert with_lineage(engine_spark, name) == before


def test_times_are_written_through_arrow(engine_spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    times = pa.array([None if i % 9 == 0 else i * 7919 % 86_400 * 1_000_001 for i in range(2000)], pa.time64("us"))
    rows = pa.table({"id": range(2000), "k": [i * 7919 % 2003 for i in range(2000)], "at": times})
    made = catalog.create_table("db.t", rows.schema)
    made.append(rows)
    table = zskip.table(engine_spark, made)
    for by in (["k", "id"], ["at", "k"]):
        result = table.optimize(by, files=6)
        assert (result.writer, result.files_after) == ("arrow", 6)
        assert made.refresh().scan().to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
    table.compact(target_file_size="1MB")
    assert made.refresh().scan("at < '06:00:00'").to_arrow().num_rows == sum(
        t is not None and t.hour < 6 for t in times.to_pylist()
    )
    with written_by("spark"), pytest.raises(UnsupportedError, match='"at" as another type'):
        table.optimize(["k", "id"], files=6)
