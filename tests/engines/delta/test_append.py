"""New rows in Delta tables that use what only Delta Lake commits: exact rows, rules, batches, and other writers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
import tiers

import zskip
from zskip.errors import ColumnError, ConflictError, InputError, UnsupportedError
from zskip.formats.delta import format as delta_format
from zskip.spark.formats.delta.commits import DeltaEngine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

KINDS = {
    "mapped by name": "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'",
    "rowTracking": "'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true'",
    "deletionVectors": "'delta.enableDeletionVectors' = 'true'",
    "cluster by": "'delta.enableDeletionVectors' = 'true'",
    "mapped by id": "'delta.columnMapping.mode' = 'id'",
    "changes": "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'",
    "in-commit timestamps": "'delta.enableInCommitTimestamps' = 'true'",
    "widened": "'delta.enableTypeWidening' = 'true', 'delta.enableDeletionVectors' = 'true'",
}
COLUMNS = "id BIGINT, a INT, n STRUCT<q: INT, r: STRING>, list ARRAY<STRUCT<z: INT>>, `re gion` STRING"


def make(spark: SparkSession, path: str, kind: str) -> None:
    """A table with deleted rows, renamed columns or wider types."""
    columns = COLUMNS.replace("`re gion`", "`re gion`" if "mapped" in kind else "region")
    by = (
        "CLUSTER BY (id, a)"
        if kind == "cluster by"
        else f"PARTITIONED BY ({columns.split(', ')[-1].rpartition(' ')[0]})"
    )
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {by} TBLPROPERTIES ({KINDS[kind]})")
    rows(spark, 0).toDF(*spark.table(f"delta.`{path}`").columns).write.format("delta").mode("append").save(path)
    if "mapped" in kind:
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN a TO old_a")
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO a")
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN n.q TO s")
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN old_a TO id")
    if kind == "widened":
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN a TYPE BIGINT")
    first = load(spark, path).columns[0]
    spark.sql(f"DELETE FROM delta.`{path}` WHERE `{first}` % 10 = 3")


def rows(spark: SparkSession, start: int, count: int = 600) -> DataFrame:
    return spark.range(start, start + count, 1, 2).selectExpr(
        "id",
        "int(id * 7919 % 4001) AS a",
        "named_struct('q', int(id % 31), 'r', string(id)) AS n",
        "array(named_struct('z', int(id % 7))) AS list",
        "IF(id % 3 = 0, NULL, concat('p é', id % 3)) AS region",
    )


def fitting(spark: SparkSession, path: str, start: int) -> DataFrame:
    """New rows with the table's columns."""
    table = load(spark, path)
    renamed = rows(spark, start).toDF(*table.columns)
    return renamed.select(*(renamed[f"`{f.name}`"].cast(f.dataType).alias(f.name) for f in table.schema.fields))


def load(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("delta").load(path)


def content(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def writers(path: str) -> set[str]:
    """The writers of all data files that are still there."""
    return {pq.read_metadata(file).created_by.split(" version ")[0] for file in Path(path).rglob("*.parquet")}


def check(spark: SparkSession, path: str, expected: list[str]) -> None:
    """Check the rows under Delta's reader and ours, and that no statistics hide any."""
    frame = load(spark, path)
    first = frame.columns[0]
    assert content(frame) == content(zskip.table(spark, path).df()) == expected
    some = f"`{first}` IN (7, 700, 901, 1300)"
    answers = [content(each.where(some)) for each in (frame, zskip.table(spark, path).df())]
    assert answers == [content(frame.where(some.replace("`", "+`", 1)))] * 2


@pytest.mark.parametrize("kind", tiers.nightly(KINDS))
def test_rows_are_appended_and_overwritten(engine_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t ü")
    make(engine_spark, path, kind)
    before = content(load(engine_spark, path))
    assert len(before) == 540
    more = fitting(engine_spark, path, 600)
    table = zskip.table(engine_spark, path)
    assert table.append(more, batch=("stream", 1)).rows == 600
    assert table.append(more, batch=("stream", 1)).rows == 0
    after = sorted(before + content(more))
    assert content(load(engine_spark, path)) == after
    assert writers(path) >= {"parquet-cpp-zskip"}
    ids = load(engine_spark, path).columns[:2]
    if kind == "mapped by name":
        table.optimize(ids, files=6)
        last = fitting(engine_spark, path, 1200)
        assert table.append(last, batch=("stream", 2)).by == tuple(ids)
        check(engine_spark, path, sorted(after + content(last)))
        engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE `{ids[0]}` % 10 = 4")
    zskip.write(more, path, by=ids, format="delta", mode="overwrite")
    check(engine_spark, path, content(more))
    history = engine_spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]
    assert (history.operation, history.operationParameters["mode"]) == ("WRITE", "Overwrite")
    if kind == "rowTracking":
        numbers = engine_spark.sql(f"SELECT _metadata.row_id AS r FROM delta.`{path}`")
        assert numbers.where("r IS NOT NULL").distinct().count() == 600
    if kind == "changes":
        changes = engine_spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3)
        assert changes.load(path).where("_commit_version = 3").groupBy("_change_type").count().collect() == [
            ("insert", 600)
        ]


def test_deleted_rows_need_no_session_to_append(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(engine_spark, path, "deletionVectors")
    form = zskip.open(path)._handle.format
    form.check_appendable()
    with pytest.raises(UnsupportedError, match=r"overwrite.*deletionVectors"):
        form.check_appendable(overwrites=True)
    make(engine_spark, str(tmp_path / "m"), "mapped by name")
    with pytest.raises(UnsupportedError, match=r"append to.*columnMapping.*Delta Lake loaded"):
        zskip.open(str(tmp_path / "m"))._handle.format.check_appendable()


def test_rules_for_rows(engine_spark: SparkSession, tmp_path: Path) -> None:
    path, spark = str(tmp_path / "t"), engine_spark
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT NOT NULL, a BIGINT, twice BIGINT GENERATED ALWAYS AS (a * 2)) "
        "USING delta"
    )
    spark.sql(f"INSERT INTO delta.`{path}` (id, a) VALUES (1, 1)")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (a < 100)")
    table = zskip.table(spark, path)
    good = spark.range(2, 90).selectExpr("id", "id AS a", "id * 2 AS twice")
    with pytest.raises(ColumnError, match=r'"twice" is missing, a generated column \(a \* 2\)'):
        table.append(good.drop("twice"))
    bad = {
        r'CHECK constraint "small" .*\{5, 100, 200\}': "5L AS id, 100L AS a, 200L AS twice",
        r'CHECK constraint "small" .*\{5, null, null\}': "5L AS id, BIGINT(NULL) AS a, BIGINT(NULL) AS twice",
        r'generated column "twice" .*\{5, 7, 15\}': "5L AS id, 7L AS a, 15L AS twice",
        "hold a null": "BIGINT(NULL) AS id, 7L AS a, 14L AS twice",
    }
    for told, row in bad.items():
        rejected = good.unionAll(spark.sql(f"SELECT {row}"))
        with pytest.raises(InputError, match=told):
            table.append(rejected)
    with pytest.raises(InputError, match="hold a null"):
        zskip.write(rejected, path, by=["id", "a"], format="delta", mode="overwrite")
    assert load(spark, path).count() == 1
    assert not list((tmp_path / "t" / "_zskip" / "staging").glob("*"))
    table.append(good)
    assert content(load(spark, path)) == content(good.unionAll(spark.sql("SELECT 1L, 1L, 2L")))


def test_identity_columns(engine_spark: SparkSession, tmp_path: Path) -> None:
    spark = engine_spark
    for kind in ("ALWAYS", "BY DEFAULT"):
        path = str(tmp_path / kind[:2])
        spark.sql(f"CREATE TABLE delta.`{path}` (i BIGINT GENERATED {kind} AS IDENTITY, a BIGINT) USING delta")
        spark.sql(f"INSERT INTO delta.`{path}` (a) VALUES (1)")
        given, missing = spark.sql("SELECT 77L AS i, 2L AS a"), spark.sql("SELECT 2L AS a")
        if kind == "ALWAYS":
            with pytest.raises(UnsupportedError, match=r"identity column.*df.write.format"):
                zskip.table(spark, path).append(given)
            continue
        with pytest.raises(ColumnError, match='"i" is missing, an identity column'):
            zskip.table(spark, path).append(missing)
        zskip.table(spark, path).append(given)
        assert load(spark, path).where("i = 77").collect() == [(77, 2)]


def test_a_table_that_changes_meanwhile(
    engine_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, spark = str(tmp_path / "t"), engine_spark
    make(spark, path, "mapped by name")
    before, more = content(load(spark, path)), fitting(spark, path, 600)
    columns = load(spark, path).columns
    commit, work = DeltaEngine.commit, []

    def slow(self: DeltaEngine, *arguments: object, **options: object) -> int | None:
        if work:
            work.pop()()
        return commit(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaEngine, "commit", slow)
    # Another append, and a delete, stay.
    work.append(lambda: fitting(spark, path, 5000).write.format("delta").mode("append").save(path))
    zskip.table(spark, path).append(more)
    expected = sorted(before + content(more) + content(fitting(spark, path, 5000)))
    # The same batch at once is appended once.
    batch = fitting(spark, path, 9000)
    work.append(lambda: zskip.table(spark, path).append(batch, batch=("s", 1)))
    assert zskip.table(spark, path).append(batch, batch=("s", 1)).rows == 0
    expected = sorted(expected + content(batch))
    check(spark, path, expected)
    # Columns and constraints that change are conflicts.
    changes = (
        f"ALTER TABLE delta.`{path}` RENAME COLUMN `{columns[0]}` TO other",
        f"ALTER TABLE delta.`{path}` ADD CONSTRAINT few CHECK (other > -1)",
    )
    for change in changes:
        work.append(lambda text=change: spark.sql(text))  # type: ignore[misc]
        with pytest.raises(ConflictError, match="were changed meanwhile"):
            zskip.table(spark, path).append(fitting(spark, path, 600))
        assert content(load(spark, path).toDF(*columns)) == expected


@pytest.mark.parametrize("commits", [True, False])
def test_a_commit_that_fails_or_is_not_confirmed(
    engine_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    path, spark = str(tmp_path / "t"), engine_spark
    make(spark, path, "rowTracking")
    before, more = content(load(spark, path)), fitting(spark, path, 600)
    commit = DeltaEngine.commit

    def fail(self: DeltaEngine, *arguments: object, **options: object) -> int | None:
        if commits:
            commit(self, *arguments, **options)  # type: ignore[arg-type]
        raise delta_format.StorageError("the connection broke")

    monkeypatch.setattr(DeltaEngine, "commit", fail)
    if commits:
        assert zskip.table(spark, path).append(more).rows == 600
    else:
        with pytest.raises(delta_format.StorageError, match="connection broke"):
            zskip.table(spark, path).append(more)
    monkeypatch.undo()
    check(spark, path, sorted(before + content(more) * commits))
    assert not list((tmp_path / "t" / "_zskip" / "staging").glob("*"))
