"""Rewrites and appends of directories that other programs wrote: they keep what they do not understand, or refuse."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.errors import UnsupportedError, ZskipError

REWRITES: dict[str, Callable[[Any], object]] = {
    "optimize": lambda table: table.optimize(by=["a", "c"], files=1),
    "batches": lambda table: table.optimize(by=["a", "c"], max_batch="1MB", target_file_size="1MB"),
    "compact": lambda table: table.compact(target_file_size="1MB"),
    "maintain": lambda table: table.maintain(by=["a", "c"], target_file_size="1MB"),
}


def write(path: Path, start: int = 0, rows: int = 100, **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"a": range(start, start + rows), "c": range(rows)}
    pq.write_table(pa.table(columns | {name: [value] * rows for name, value in more.items()}), path)


def contents(path: Path) -> dict[str, bytes]:
    """What lies in a table, without what belongs to zskip."""
    files = (file for file in path.rglob("*") if file.is_file() and "_zskip" not in file.parts)
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def refuse(spark: SparkSession, path: Path, says: str, verbs: dict[str, Callable[[Any], object]]) -> None:
    """Each verb raises UnsupportedError, and writes nothing."""
    before = contents(path)
    for name, verb in verbs.items():
        with pytest.raises(UnsupportedError, match=says):
            pytest.fail(f"{name}: {verb(zskip.table(spark, str(path)))}")
        assert contents(path) == before, name
        assert not list(path.glob("_zskip/staging/*")), name


@pytest.mark.parametrize("lacks", ["_common_metadata", "key"])
def test_columns_that_spark_does_not_see_are_not_lost(spark: SparkSession, tmp_path: Path, lacks: str) -> None:
    path = tmp_path / "t"
    for i in range(4):
        write(path / f"{i}.parquet", 100 * i, b={"x": 1, "y": i})
    if lacks == "key":
        spark.range(1).selectExpr("id a", "id c").write.parquet(str(tmp_path / "old"))
        old = min((tmp_path / "old").glob("*.parquet"))
        for file in path.glob("*.parquet"):
            rows = pq.read_table(file).replace_schema_metadata(pq.read_schema(old).metadata)
            pq.write_table(rows, file)
    else:
        schema = pa.schema({"a": pa.int64(), "c": pa.int64(), "b": pa.struct({"x": pa.int64()})})
        pq.write_metadata(schema, path / lacks)
    lost = r'column "b"' if lacks == "key" else r'column "b\.y"'
    refuse(spark, path, lost, REWRITES)
    if lacks == "_common_metadata":
        (path / lacks).unlink()
        zskip.table(spark, str(path)).compact(target_file_size="1MB")
        rows = pa.concat_tables(pq.read_table(file) for file in path.glob("*.parquet"))
        assert sorted(b["y"] for b in rows["b"].to_pylist()) == [i for i in range(4) for _ in range(100)]


# The log of a stream's sink


def stream(spark: SparkSession, tmp_path: Path, batches: int) -> Path:
    """Write batches of 100 rows in two partitions by a stream, and leave a file of a batch that failed."""
    source, path = tmp_path / "source", tmp_path / "a b%20ä"
    for batch in range(batches):
        write(source / f"{batch}.parquet", 100 * batch)
    reader = spark.readStream.schema("a long, c long").option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = reader.selectExpr("a", "c", "a % 2 p").writeStream.format("parquet").partitionBy("p")
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start(
        str(path)
    ).awaitTermination()
    file = min(path.rglob("*.parquet"))
    shutil.copy(file, file.with_name("part-99999-failed.parquet"))
    return path


def test_only_the_log_of_a_stream_says_what_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    try:
        path = stream(spark, tmp_path, 3)
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    assert list((path / "_spark_metadata").glob("*.compact"))
    plain, table = spark.read.parquet(str(path)), zskip.table(spark, str(path))
    expected = sorted(plain.collect())
    assert len(expected) == 300
    assert sorted(table.df().collect()) == expected
    names = {file.rpartition("/")[2] for file in plain.inputFiles()}
    assert {Path(file).name for file in zskip.open(str(path)).files()} == names
    assert table.index().files == len(names)
    assert {Path(file).name for file in table.files("a < 100")} < names
    assert table.info().files == len(names)
    assert table.verify().ok
    new = spark.createDataFrame([(1, 1, 1)], "a long, c long, p int").select(*plain.columns)
    verbs = REWRITES | {
        "append": lambda table: table.append(new),
        "write": lambda table: zskip.write(new, str(path), by=["a", "c"], mode="overwrite"),
        "sql": lambda table: zskip.sql(spark, f"OPTIMIZE '{path}' ZORDER BY (a, c)"),
    }
    refuse(spark, path, "a stream of Spark writes it", verbs)
    table.optimize(by=["a", "c"], into=str(tmp_path / "into"))
    assert sorted(spark.read.parquet(str(tmp_path / "into")).select(*plain.columns).collect()) == expected
    with pytest.raises(ZskipError, match="a partition of a table that a stream of Spark writes"):
        zskip.table(spark, str(path / "p=1")).df()


# Buckets


def test_files_that_are_buckets_stay_buckets(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE DATABASE buckets LOCATION '{tmp_path / 'db'}'")
    try:
        frame = spark.range(0, 400, 1, 2).selectExpr("id a", "id % 7 c")
        for name in ("t", "u"):
            frame.write.bucketBy(4, "a").saveAsTable(f"buckets.{name}")
        path, before = tmp_path / "db" / "t", spark.table("buckets.t").collect()
        verbs = REWRITES | {
            "append": lambda table: table.append(frame),
            "write": lambda table: zskip.write(frame, str(path), by=["a", "c"], mode="overwrite"),
        }
        refuse(spark, path, "its files are buckets", verbs)
        assert sorted(zskip.table(spark, str(path)).df().collect()) == sorted(before)
        zskip.table(spark, str(path)).optimize(by=["a", "c"], files=2, into=str(tmp_path / "into"))
        assert spark.read.parquet(str(tmp_path / "into")).count() == 400
        zskip.table(spark, str(tmp_path / "into")).compact(target_file_size="1MB")
    finally:
        spark.sql("DROP DATABASE buckets CASCADE")


# Files without rows


def test_a_rewrite_keeps_partitions_and_columns_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"a": range(100), "c": range(100)})

    def make(name: str, *full: int) -> Path:
        path = tmp_path / name
        for day in (1, 2, 3):
            for i in range(3):
                file = path / f"day={day}" / f"{i}.parquet"
                file.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(rows if day in full else rows.slice(0, 0), file)
        return path

    for full, verbs in {(): {"optimize": REWRITES["optimize"]}, (2,): REWRITES}.items():
        for name, verb in verbs.items():
            path = make(f"{name} {full}", *full)
            result: Any = verb(zskip.table(spark, str(path)))
            assert len({file.parent for file in path.rglob("*.parquet")}) == 3, name
            frame = spark.read.parquet(str(path))
            assert frame.columns == ["a", "c", "day"]
            assert frame.count() == 300 * len(full)
            assert zskip.table(spark, str(path)).info().files == len(list(path.rglob("day=*/*.parquet")))
        for size in (None, "1MB") if full else (None,):
            into = tmp_path / f"into {full} {size}"
            batch = {} if size is None else {"max_batch": size, "target_file_size": size}
            result = zskip.table(spark, str(make(f"from {full} {size}", *full))).optimize(
                by=["a", "c"], into=str(into), **batch
            )
            assert result.files_after == len(list(into.rglob("day=*/*.parquet")))
            assert {file.parent.name for file in into.rglob("day=*/*.parquet")} == {"day=1", "day=2", "day=3"}
            frame = spark.read.parquet(str(into))
            assert (frame.columns, frame.count()) == (["a", "c", "day"], 300 * len(full))


# Summaries of other programs


@pytest.mark.slow
def test_the_footers_that_others_have_collected_go_with_a_commit(spark: SparkSession, tmp_path: Path) -> None:
    def make(name: str) -> Path:
        path = tmp_path / name
        for i in range(2):
            write(path / f"{i}.parquet", 100 * i)
        pq.write_metadata(pq.read_schema(path / "0.parquet"), path / "_metadata")
        pq.write_metadata(pq.read_schema(path / "0.parquet"), path / "_common_metadata")
        return path

    new = spark.createDataFrame([(1, 1)], "a long, c long")
    for name, verb in {**REWRITES, "append": lambda table: table.append(new)}.items():
        path = make(name)
        verb(zskip.table(spark, str(path)))
        changed = not (path / "0.parquet").exists() or name == "append"
        assert (path / "_metadata").exists() != changed, name
        assert (path / "_common_metadata").exists(), name
        assert spark.read.parquet(str(path)).count() == 200 + (name == "append")
    path = make("overwrite")
    zskip.write(new.selectExpr("a", "c d"), str(path), by=["a", "d"], mode="overwrite")
    assert spark.read.parquet(str(path)).columns == ["a", "d"]
    assert not (path / "_common_metadata").exists()


# Columns of files under the names of partition columns


@pytest.mark.slow
def test_the_directory_wins_over_the_column_in_the_file(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for i, part in enumerate(["x", "y", "y", "x"]):
        write(path / f"P={part}" / f"{i}.parquet", 100 * i, rows=100, p=f"own {part}")
    table, plain = zskip.table(spark, str(path)), spark.read.parquet(str(path))
    table.index(sketches=["values(10):P", "bloom(0.01):upper(P)"])
    for where, files in {"P = 'x'": 2, "P = 'own x'": 0, "p IN ('y', 'z') AND a < 150": 1, "upper(P) = 'Y'": 2}.items():
        assert len(zskip.open(str(path)).files(where)) == len(table.files(where)) == files, where
        assert sorted(table.df().where(where).collect()) == sorted(plain.where(where).collect()), where
        table.explain(where)
    assert table.verify("P = 'x'").ok
    table.optimize(by=["a", "c"], where="P = 'x'", files=1)
    kept = pa.concat_tables(pq.ParquetFile(file).read(["p"]) for file in path.glob("P=x/*.parquet"))
    assert kept["p"].to_pylist() == ["own x"] * 200
    table.append(spark.createDataFrame([("x", 1000, 1), ("new", 1001, 2)], "P string, a long, c long"))
    (new,) = path.glob("P=new/*.parquet")  # The first file, so that Spark does not infer the column of the others.
    assert pq.read_schema(new).names == ["a", "c"], "as partitionBy writes"
    expected = sorted(map(repr, spark.read.parquet(str(path)).select("a", "c", "P").collect()))
    assert len(expected) == 402
    table.compact(target_file_size="1MB")
    assert sorted(map(repr, spark.read.parquet(str(path)).select("a", "c", "P").collect())) == expected
    assert sorted(map(repr, table.df().select("a", "c", "P").collect())) == expected
    kept = pa.concat_tables(pq.ParquetFile(file).read(["a", "p"]) for file in path.glob("P=x/*.parquet"))
    assert sum(own == "own x" for own in kept["p"].to_pylist()) == 200


# Directories


@pytest.mark.parametrize("leads", ["in", "nested"])
def test_directories_that_are_links_are_not_rewritten(spark: SparkSession, tmp_path: Path, leads: str) -> None:
    path, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    for i in range(4):
        write(path / "day=1" / "h=0" / f"{i}.parquet", 100 * i)
        write(elsewhere / "h=1" / f"{i}.parquet", 100 * i)
    link = path / ("day=2" if leads == "in" else "day=1/h=2")
    link.symlink_to({"in": path / "day=1", "nested": elsewhere / "h=1"}[leads])
    expected = sorted(spark.read.parquet(str(path)).collect())
    assert sorted(zskip.table(spark, str(path)).df().collect()) == expected
    new = spark.createDataFrame([(1, 1, 2, 0)], "a long, c long, day int, h int")
    refuse(spark, path, '(day=2|h=2)" is a link', REWRITES | {"append": lambda table: table.append(new)})
    zskip.table(spark, str(path)).optimize(by=["a", "c"], into=str(tmp_path / "into"))
    assert sorted(spark.read.parquet(str(tmp_path / "into")).collect()) == expected


def test_a_root_and_files_that_are_links(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for i in range(4):
        write(tmp_path / "files" / f"{i}.parquet", 100 * i)
        path.mkdir(exist_ok=True)
        (path / f"{i}.parquet").symlink_to(tmp_path / "files" / f"{i}.parquet")
    (tmp_path / "link").symlink_to(path)
    expected = sorted(spark.read.parquet(str(path)).collect())
    zskip.table(spark, str(tmp_path / "link")).optimize(by=["a", "c"], files=1)
    assert sorted(spark.read.parquet(str(path)).collect()) == expected
    assert len(list((tmp_path / "files").iterdir())) == 4


def test_plain_directories_beside_files_are_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for name in ("0.parquet", "1.parquet", "old/2.parquet", "old/older/3.parquet"):
        write(path / name, 100 * int(Path(name).stem))
    table, plain = zskip.table(spark, str(path)), spark.read.parquet(str(path))
    assert sorted(table.df().collect()) == sorted(plain.collect())
    assert [Path(file).name for file in zskip.open(str(path)).files()] == ["0.parquet", "1.parquet"]
    table.optimize(by=["a", "c"], files=1)
    assert spark.read.parquet(str(path)).count() == 200
    assert len(list(path.glob("old/**/*.parquet"))) == 2


@pytest.mark.parametrize("directory", ["b=", "=b"])
def test_directories_that_spark_does_not_read_are_named(spark: SparkSession, tmp_path: Path, directory: str) -> None:
    write(tmp_path / "b=1" / "0.parquet")
    write(tmp_path / directory / "0.parquet")
    for verb in (lambda table: table.df(), lambda table: table.index(), *REWRITES.values()):
        with pytest.raises(UnsupportedError, match=directory):
            verb(zskip.table(spark, str(tmp_path)))


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark 4.1 has the type")
@pytest.mark.parametrize("is_set", [True, False])
def test_a_type_that_the_session_does_not_read_is_named(spark: SparkSession, tmp_path: Path, is_set: bool) -> None:
    times = pa.table({"a": [1], "t": pa.array([1], pa.time64("us")), "c": [1]})
    pq.write_table(times, tmp_path / "0.parquet")
    if is_set:
        spark.conf.set("spark.sql.timeType.enabled", "false")
    try:
        for verb in (lambda table: table.df(), REWRITES["optimize"]):
            with pytest.raises(UnsupportedError, match=r'column "t".*timeType\.enabled=true'):
                verb(zskip.table(spark, str(tmp_path)))
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")
