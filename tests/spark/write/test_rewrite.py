"""The full pass: each row in its file, every column as it was, failures in one sentence."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import placing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job_groups import job_group
from pyspark.sql import DataFrame, SparkSession

from zskip.errors import ConflictError, CorruptFileError, StorageError, UnsupportedError, ZskipError
from zskip.formats.compression import Compression
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.records import Field
from zskip.spark.jobs import describe_jobs
from zskip.spark.jvm.compat import frame_of_rows, private_session
from zskip.spark.jvm.failures import error_from_text
from zskip.spark.progress import count_tasks, show_progress
from zskip.spark.write import routing
from zskip.spark.write.draw import draw_bernoulli
from zskip.spark.write.rewrite import WriteOptions, check_writable, file_of, routed, write_rows, writing_session
from zskip.types import DataType

pytestmark = pytest.mark.spark
OPTIONS = WriteOptions(compression=Compression(codec="zstd"))
AWKWARD = ["a.b", "a b", "`", "été", "x,y;{}()=", "__zskip_key", "__ZSKIP_FILE", "key", "p.q", "_metadata", "select"]


def rewrite(frame: DataFrame, ordinal: str, layout: Layout, target: str, options: WriteOptions) -> None:
    write_rows(routed(frame, ordinal, layout), target, options)


def fields(**types: str) -> tuple[Field, ...]:
    return tuple(Field(name=name, type=DataType(kind)) for name, kind in types.items())


def fitted(frame: DataFrame, by: tuple[Field, ...], files: list[int], **kwargs) -> Layout:
    sample = draw_bernoulli(frame, by, "part", 1.0, 1)
    rows = np.bincount(sample.partition, minlength=len(files))
    return fit(sample, np.array(files), partition_rows=rows, **kwargs)


def source(spark: SparkSession, path: Path, rows: int = 5_000) -> None:
    frame = spark.range(0, rows, 1, 5).selectExpr(
        "id", "id * 7919 % 1000 AS a", "CAST(id * 104729 % 997 AS STRING) AS b"
    )
    frame.write.parquet(str(path))


def read(session: SparkSession, path: Path, ordinal: str = "CAST(id % 3 AS INT)") -> DataFrame:
    return session.read.parquet(str(path)).selectExpr("*", f"{ordinal} AS part")


def files_in(path: Path) -> dict[int, pa.Table]:
    found = [f for f in sorted(path.iterdir()) if not f.name.startswith(".")]
    assert all(f.suffix == ".parquet" for f in found)
    tables = {file_of(f.name): pq.read_table(f) for f in found}
    assert len(tables) == len(found)
    return {file: table for file, table in tables.items() if table.num_rows}


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_each_row_is_in_its_file_whatever_the_settings(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None], curve: str
) -> None:
    source(spark, tmp_path / "t")
    conf("spark.sql.adaptive.enabled", "true")
    conf("spark.sql.adaptive.advisoryPartitionSizeInBytes", "1g")
    conf("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false")
    conf("spark.sql.files.maxRecordsPerFile", "10")
    conf("spark.sql.shuffle.partitions", "3")
    conf("spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.ConstantFolding")
    conf("spark.sql.parquet.compression.codec", "gzip")
    session = writing_session(spark)
    frame = read(session, tmp_path / "t")
    layout = fitted(frame, fields(a="long", b="string"), [5, 1, 9], curve=curve)
    rewrite(
        frame,
        "part",
        layout,
        str(tmp_path / "out"),
        WriteOptions(compression=Compression(codec="snappy")),
    )
    written = files_in(tmp_path / "out")
    assert sum(t.num_rows for t in written.values()) == 5_000
    for file, table in written.items():
        assert table.column_names == ["id", "a", "b"]
        a, b, ids = (
            table["a"].to_numpy(),
            np.array([s.encode() for s in table["b"].to_pylist()], object),
            table["id"].to_numpy(),
        )
        none = np.zeros(len(a), bool)
        keys = layout.keys([a, b], [none, none])
        segment = layout.segment(keys, (ids % 3).astype(int)) + layout.cut_starts[ids % 3] + ids % 3
        assert (
            (layout.first_file[segment] <= file) & (file < layout.first_file[segment] + layout.spread[segment])
        ).all()
        assert (np.diff(keys) >= 0).all()
    names = [f.name for f in (tmp_path / "out").iterdir()]
    assert not [n for n in names if n.startswith("_")]
    assert all("snappy" in n for n in names if n.endswith(".parquet"))


def test_a_file_id_out_of_range_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path / "t")
    frame = spark.read.parquet(str(tmp_path / "t")).selectExpr("*", "CAST(id % 8 AS INT) AS f")
    assert routing.route(frame, "f", 8).count() == 5_000
    outside = frame.selectExpr("id", "IF(id = 77, 8, f) AS f")
    with pytest.raises(ZskipError, match="wrong file"), describe_jobs(spark, "route"):
        routing.route(outside, "f", 8).count()


def test_a_wrong_hash_fails_the_job(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(spark, tmp_path / "t")
    session = writing_session(spark)
    frame = read(session, tmp_path / "t", "0")
    layout = fitted(frame, fields(a="long", b="string"), [6])
    right = routing.routes
    monkeypatch.setattr(routing, "routes", lambda files: np.roll(right(files), 1))
    with pytest.raises(ZskipError, match="wrong file"), describe_jobs(spark, "rewrite"):
        rewrite(frame, "part", layout, str(tmp_path / "out"), OPTIONS)


def test_routes_are_where_spark_hashes_them(spark: SparkSession) -> None:
    values = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 2_000, dtype=np.int64)
    frame = spark.createDataFrame([(int(v),) for v in values], "v bigint")
    assert routing.spark_hash(values).tolist() == [r[0] for r in frame.selectExpr("hash(v)").collect()]
    for files in (1, 2, 3, 64, 1_000, 4_099):
        assert (routing.spark_hash(routing.routes(files)).astype(int) % files).tolist() == list(range(files))


def test_columns_come_back_as_they_were(spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None]) -> None:
    conf("spark.sql.parquet.outputTimestampType", "INT96")
    conf("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
    conf("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED")
    rows = 200
    columns = [placing.values_of(kind, rows, 6) for kind in placing.TYPES]
    frame = placing.frame_of(spark, placing.TYPES, columns, [0] * rows).drop("p")
    frame = frame.selectExpr(
        "*", "named_struct('x', c3, 'y', array(c11)) AS nested", "map(coalesce(c11, ''), c4) AS m",
        "monotonically_increasing_id() AS id",
    )  # fmt: skip
    frame.write.parquet(str(tmp_path / "t"))
    session = writing_session(spark)
    before = session.read.parquet(str(tmp_path / "t"))
    frame = before.selectExpr("*", "0 AS part")
    layout = fitted(frame, fields(c3="integer", c14="timestamp"), [4])
    rewrite(frame, "part", layout, str(tmp_path / "out"), OPTIONS)
    after = spark.read.parquet(str(tmp_path / "out"))
    assert after.schema.json() == before.schema.json()
    # Python has no intervals of months.
    comparable = ["CAST(c17 AS STRING)", *(f"c{i}" for i in range(17)), "nested", "m", "id"]
    assert sorted(map(repr, after.selectExpr(*comparable).collect())) == sorted(
        map(repr, before.selectExpr(*comparable).collect())
    )
    one = next(iter(files_in(tmp_path / "out")))
    schema = pq.ParquetFile(next((tmp_path / "out").glob(f"part-{one:05d}-*.parquet"))).schema
    stored = {schema.column(i).path: schema.column(i).physical_type for i in range(len(schema))}
    assert stored["c14"] == "INT64"


def test_awkward_column_names(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(50).selectExpr(
        *(f"id + {i} AS `{name.replace('`', '``')}`" for i, name in enumerate(AWKWARD))
    ).write.parquet(str(tmp_path / "t"))
    session = writing_session(spark)
    frame = session.read.parquet(str(tmp_path / "t")).selectExpr("*", "0 AS part")
    check_writable(frame)
    by = (Field(name="a.b", type=DataType("long")), Field(name="`", type=DataType("long")))
    rewrite(frame, "part", fitted(frame, by, [3]), str(tmp_path / "out"), OPTIONS)
    after = spark.read.parquet(str(tmp_path / "out"))
    assert after.columns == AWKWARD
    assert sorted(after.collect()) == sorted(spark.read.parquet(str(tmp_path / "t")).collect())


def test_names_that_differ_only_in_case(spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None]) -> None:
    pq.write_table(
        pa.table({"a": range(60), "A": [i * 7 % 60 for i in range(60)], "__Zskip_Key": [1] * 60}),
        tmp_path / "t.parquet",
    )
    conf("spark.sql.caseSensitive", "true")
    session = writing_session(spark)
    frame = session.read.parquet(str(tmp_path / "t.parquet")).selectExpr("*", "0 AS part")
    rewrite(frame, "part", fitted(frame, fields(a="long", A="long"), [2]), str(tmp_path / "out"), OPTIONS)
    after = pa.concat_tables(files_in(tmp_path / "out").values()).sort_by("a")
    assert after.column_names == ["a", "A", "__Zskip_Key"]
    assert after["A"].to_pylist() == [i * 7 % 60 for i in range(60)]


def test_dates_before_the_gregorian_calendar_stay(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None]
) -> None:
    modes = ("spark.sql.parquet.datetimeRebaseModeInWrite", "spark.sql.parquet.int96RebaseModeInWrite")
    for mode in modes:
        conf(mode, "CORRECTED")
    spark.sql("SELECT id, DATE '1500-01-01' AS d, TIMESTAMP '1200-02-29 01:02:03' AS t FROM range(20)").write.parquet(
        str(tmp_path / "t")
    )
    for mode in modes:
        conf(mode, "EXCEPTION")
    frame = writing_session(spark).read.parquet(str(tmp_path / "t")).selectExpr("*", "0 AS part")
    rewrite(frame, "part", fitted(frame, fields(id="long", d="date"), [2]), str(tmp_path / "out"), OPTIONS)
    after = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(after.collect()) == sorted(spark.read.parquet(str(tmp_path / "t")).collect())


def test_a_column_that_parquet_cannot_hold_is_named(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match='"gap"'):
        check_writable(spark.sql("SELECT 1 AS a, make_interval(1) AS gap"))


def test_the_session_and_the_thread_are_left_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path / "t")
    context = spark.sparkContext
    settings = {r.key: r.value for r in spark.sql("SET").collect()}
    with job_group(context, "mine", "my words"):
        with describe_jobs(spark, "rewrite 5 files of t"):
            assert context.getLocalProperty("spark.job.description") == "zskip: rewrite 5 files of t"
            frame = read(writing_session(spark), tmp_path / "t", "0")
            write_rows(
                routed(frame, "part", fitted(frame, fields(a="long", id="long"), [3])), str(tmp_path / "out"), OPTIONS
            )
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my words"
        with pytest.raises(KeyError), describe_jobs(spark, "fail"):
            raise KeyError("not Spark's")
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    assert {r.key: r.value for r in spark.sql("SET").collect()} == settings
    assert SparkSession.getActiveSession()._jsparkSession.equals(spark._jsparkSession)


def test_a_corrupt_input_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path / "t")
    bad = sorted((tmp_path / "t").glob("part-*.parquet"))[2]
    data = bytearray(bad.read_bytes())
    footer = int.from_bytes(data[-8:-4], "little") + 8
    data[4:-footer] = bytes(len(data) - footer - 4)
    bad.write_bytes(data)
    (bad.parent / f".{bad.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CorruptFileError, match=bad.name) as caught, describe_jobs(spark, "sample 1 columns of t"):
        draw_bernoulli(read(spark, tmp_path / "t", "0"), fields(a="long", b="string"), "part", 1.0, 1)
    assert caught.value.__cause__ is not None
    assert "\n" not in str(caught.value)


def test_a_file_that_went_away_is_a_conflict(spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path / "t")
    frame = read(spark, tmp_path / "t", "0")
    next((tmp_path / "t").glob("part-*.parquet")).unlink()
    with pytest.raises(ConflictError, match="part-"), describe_jobs(spark, "sample 1 columns of t"):
        draw_bernoulli(frame, fields(a="long", b="string"), "part", 1.0, 1)


def test_a_target_that_cannot_be_made(spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path / "t")
    (tmp_path / "file").write_text("in the way")
    frame = read(writing_session(spark), tmp_path / "t", "0")
    layout = fitted(frame, fields(a="long", id="long"), [3])
    with pytest.raises(StorageError), describe_jobs(spark, "rewrite 5 files of t"):
        rewrite(frame, "part", layout, str(tmp_path / "file" / "out"), OPTIONS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x\nCaused by: java.io.IOException: No space left on device", StorageError),
        ("x\nCaused by: org.apache.hadoop.security.AccessControlException: Permission denied: user=a", StorageError),
        ("x\nCaused by: java.lang.RuntimeException: file:/t/a.parquet is not a Parquet file.", CorruptFileError),
        ("x\nCaused by: java.lang.OutOfMemoryError: Java heap space", UnsupportedError),
        ("x\nCaused by: java.io.EOFException", StorageError),
        ("Could not read footer\nCaused by: java.net.SocketException: Connection reset", StorageError),
        ("Job aborted", UnsupportedError),
        ("", UnsupportedError),
    ],
)  # fmt: skip
def test_failures_by_their_text(text: str, kind: type[ZskipError]) -> None:
    error = error_from_text("rewrite 2 files of t", text)
    assert type(error) is kind
    assert "\n" not in str(error)


def test_failures_in_workers_are_named(spark: SparkSession) -> None:
    def broken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import no_such_module

        yield from no_such_module.each(batches)

    said = "Spark failed to count: ModuleNotFoundError: No module named 'no_such_module'; set PYSPARK_PYTHON"
    with pytest.raises(UnsupportedError, match=said) as caught, describe_jobs(spark, "count"):
        spark.range(3).mapInArrow(broken, "id long").collect()
    assert "\n" not in str(caught.value)


def test_interrupting_cancels_the_jobs_and_goes_on(spark: SparkSession) -> None:
    timer = threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), describe_jobs(spark, "wait"):
        spark.range(10**13).selectExpr("sum(hash(id))").collect()
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    assert spark.range(10).count() == 10


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_only(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zskip.spark.progress._spark_shows_its_own", lambda context: False)
    context = spark.sparkContext
    with job_group(context, "progress"):
        with show_progress(context, "progress", "count"):
            assert not [t for t in threading.enumerate() if t.name == "zskip-progress"]
        monkeypatch.setattr(sys, "stderr", Terminal())
        with show_progress(context, "progress", "count"):
            assert [t for t in threading.enumerate() if t.name == "zskip-progress"]
            spark.range(0, 1000, 1, 6).selectExpr("java_method('java.lang.Thread', 'sleep', 1L)", "id").count()
            context._jsc.sc().listenerBus().waitUntilEmpty()  # what jobs did reaches the tracker a little later
            completed, total = count_tasks(context, "progress")
        assert completed == total >= 6
        assert not [t for t in threading.enumerate() if t.name == "zskip-progress"]


def test_rows_of_a_private_session_leave_the_callers_session_active(spark: SparkSession) -> None:
    private = private_session(spark, {"spark.sql.shuffle.partitions": "77"})
    assert frame_of_rows(private, [(1, "a")], "i int, s string").collect() == [(1, "a")]
    assert SparkSession.getActiveSession() is spark
    in_jvm = spark._jvm.org.apache.spark.sql.SparkSession.getActiveSession().get()
    assert in_jvm.equals(spark._jsparkSession)


def test_a_private_session_changes_nothing_outside(spark: SparkSession) -> None:
    private = private_session(spark, {"spark.sql.shuffle.partitions": "77"})
    assert private.conf.get("spark.sql.shuffle.partitions") == "77"
    assert spark.conf.get("spark.sql.shuffle.partitions") != "77"
