"""`zskip.enable` under Spark Connect: queries as they are give the rows that they give without it, from fewer files."""

from __future__ import annotations

import warnings

import documented_keys
import pytest
import tiers
from connect_server import connect_server
from connected_queries import FILES, RandomFrames, rows_of, write_table
from pyspark.errors import AnalysisException
from pyspark.sql.types import BooleanType, DoubleType

import zskip
from zskip.errors import ZskipWarning

QUERIES = 20
"""Random queries of a test."""
pytestmark = pytest.mark.slow  # A server in a JVM of its own.


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with connect_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    root = tmp_path_factory.mktemp("tables")
    for i, name in enumerate("tu"):
        write_table(root / name, i, partitioned=i == 0)
        zskip.open(str(root / name)).index(granularity="row_group" if i else "file")
    return root


@pytest.fixture(scope="module")
def sessions(server):
    """A session that runs queries as they are, and one that skips files."""
    plain, enabled = (server.session() for _ in range(2))
    zskip.enable(enabled)
    return plain, enabled


@pytest.mark.parametrize("first", tiers.nightly(range(0, 1000, QUERIES)))
def test_random_queries(sessions, tables, first):
    skipping = 0
    for seed in range(first, first + QUERIES):
        frames = []
        for spark in sessions:
            spark.conf.set("spark.sql.session.timeZone", "America/New_York" if seed % 3 == 1 else "UTC")
            spark.conf.set("spark.sql.ansi.enabled", str(seed % 4 != 1).lower())
            spark.conf.set("spark.sql.caseSensitive", str(seed % 5 == 1).lower())
            draw = RandomFrames(seed, lambda name, s=spark: s.read.parquet(str(tables / name)), "tu")
            try:
                frames.append(draw.frame())
            except AnalysisException:
                break  # An ambiguous name.
        if len(frames) == 2:
            expected, rows = map(rows_of, frames)
            # A row that raises may lie in a file that is skipped.
            assert rows == expected or isinstance(expected, str), (seed, frames[0].explain("extended"))
            skipping += any(scan.files < scan.files_total for scan in zskip.scans(sessions[1]))
    assert skipping > QUERIES / 4


def test_what_is_read(sessions, tables):
    plain, enabled = sessions
    path = str(tables / "u")
    for spark in sessions:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    frame = enabled.read.parquet(path)
    assert frame.where("id < 50").count() == 50
    (scan,) = zskip.scans(enabled)
    assert (scan.files, scan.files_total, scan.table) == (2, FILES, path)
    assert frame.where("id < 50 and s like '%x'").count() == 0
    assert len(frame.where("id < 30").select("_metadata.file_name").distinct().collect()) == 1
    zskip.disable(enabled)
    assert frame.where("id < 30").count() == 30
    assert zskip.scans(enabled) == (scan,) or zskip.scans(enabled)[0].files == 1
    with zskip.enabled(enabled):
        assert frame.where("id between 100 and 110").count() == 11
        assert zskip.scans(enabled)[0].files == 1
    before = zskip.scans(enabled)
    assert frame.where("id < 30").count() == 30
    assert zskip.scans(enabled) == before
    enabled.sql("SET spark.zskip.enabled = true")
    assert frame.where("id < 90").count() == 90
    assert zskip.scans(enabled)[0].files == 3
    assert zskip.scans(plain) == ()


def test_new_files_and_lost_indexes(sessions, tmp_path):
    enabled = sessions[1]
    root = tmp_path / "t"
    write_table(root, 1, partitioned=False)
    zskip.open(str(root)).index()
    frame = enabled.read.parquet(str(root))
    assert frame.where("id < 30").count() == 30
    (root / "part-00.parquet").rename(root / "part-99.parquet")
    assert frame.where("id < 30").count() == 30
    write_table(root, 2, partitioned=False)
    assert frame.where("id < 30").count() == 60
    zskip.open(str(root)).index()
    assert frame.where("id < 30").count() == 60
    assert zskip.scans(enabled)[0].files == 2
    for path in sorted((root / "_zskip").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    before = zskip.scans(enabled)
    assert frame.where("id < 30").count() == 60
    assert zskip.scans(enabled) == before


def test_a_damaged_index_costs_a_warning(sessions, tmp_path):
    enabled = sessions[1]
    write_table(tmp_path, 1, partitioned=False)
    zskip.open(str(tmp_path)).index()
    (manifest,) = (tmp_path / "_zskip" / "index").glob("manifest-*.json")
    manifest.write_bytes(manifest.read_bytes()[:-9])
    with pytest.warns(ZskipWarning, match="read in full: .*damaged"):
        assert enabled.read.parquet(str(tmp_path)).where("id < 30").count() == 30
    with warnings.catch_warnings():
        warnings.simplefilter("error", ZskipWarning)
        assert enabled.read.parquet(str(tmp_path)).where("id < 50").count() == 50


def test_what_stays_as_it_is(sessions, tables, tmp_path):
    """Commands, streams, and reads that say more than a path."""
    enabled = sessions[1]
    path = str(tables / "u")
    frame, before = enabled.read.parquet(path).where("id < 30"), zskip.scans(enabled)
    frame.write.parquet(str(tmp_path / "copy"))
    assert enabled.read.parquet(str(tmp_path / "copy")).count() == 30
    assert enabled.read.option("mergeSchema", "true").parquet(path).where("id < 30").count() == 30
    assert enabled.read.schema("id long").parquet(path).where("id < 30").count() == 30
    assert enabled.read.parquet(path, path).where("id < 30").count() == 60
    query = enabled.readStream.schema(frame.schema).parquet(path).where("id < 30").writeStream.format("memory")
    running = query.queryName("m").trigger(availableNow=True).start()
    running.awaitTermination(60)
    assert enabled.table("m").count() == 30
    assert zskip.scans(enabled) == before


def test_frames_of_a_table(sessions, tables):
    """`df()` chooses files when a query is sent, of those that were live when it was called."""
    plain = sessions[0]
    table = zskip.table(plain, str(tables / "u"))
    frame = table.df()
    assert (frame.count(), table.last_scan.files) == (480, FILES)
    assert frame.where("id < 50").count() == 50
    assert table.last_scan.files == 2
    assert frame.groupBy("v").count().where("v is null").count() == 1
    assert plain.read.parquet(str(tables / "u")).where("id < 50").count() == 50
    assert table.df("id < 50").where("id < 30").count() == 30
    frame.where("id < 30").createOrReplaceTempView("of_frame")
    assert plain.table("of_frame").count() == 30


def test_rows_that_the_session_keeps_are_not_read_again(sessions, tables):
    enabled = sessions[1]
    frame, before = enabled.read.parquet(str(tables / "u")).persist(), zskip.scans(enabled)
    assert frame.where("id < 30").count() == 30
    assert "InMemoryTableScan" in frame.where("id < 30")._explain_string()
    assert zskip.scans(enabled) == before
    frame.unpersist()
    assert frame.where("id < 30").count() == 30
    assert zskip.scans(enabled)[0].files == 1


def test_functions_of_the_session(server, tables):
    enabled = server.session()
    zskip.enable(enabled)
    frame = enabled.read.parquet(str(tables / "u"))
    assert frame.where("floor(id / 1D) < 30").count() == 30
    enabled.udf.register("floor", lambda value: -value, DoubleType())
    assert frame.where("floor(id / 1D) = -450D").count() == 1


def test_conditions_with_functions_of_the_user_are_unknown(spark, server, tmp_path):
    classic, connected, path = spark.newSession(), server.session(), str(tmp_path / "t")
    rows = classic.range(0, 800, 1, 8).selectExpr("id", "concat('n', id, IF(id DIV 100 = 3, ' special', '')) AS s")
    rows.write.parquet(path)
    classic.udf.register("rare", lambda text: "special" in text, "boolean")
    zskip.table(classic, path).index(sketches=["matches:rare(s)", "matches:s LIKE '%sp%ial%'"])
    connected.udf.register("rare", lambda text: text.endswith("5"), BooleanType())
    zskip.enable(connected)
    for where, rows, files in [("rare(s)", 70, 8), ("s LIKE '%sp%ial%' AND id >= 0", 100, 1)]:
        assert connected.read.parquet(path).where(where).count() == rows
        assert not zskip.scans(connected) or zskip.scans(connected)[0].files == files


def test_the_workload_is_recorded(sessions, tables):
    enabled = sessions[1]
    table = zskip.open(str(tables / "t"))
    table.record()
    try:
        for limit in (30, 60):
            enabled.read.parquet(str(tables / "t")).where(f"id < {limit}").count()
        enabled.read.parquet(str(tables / "t")).where("id < 90").explain()
        assert table.workload(clear=True).scans == 2
    finally:
        table.record(False)


def test_filters_on_each_documented_key_skip_files(spark, sessions, tmp_path):
    plain, enabled = sessions
    path = str(tmp_path / "t")
    classic = spark.newSession()
    for session in (classic, *sessions):
        session.conf.set("spark.sql.timeType.enabled", "true")
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.ansi.enabled", "true")
    documented_keys.rows(classic, "connect").write.parquet(path)
    documented_keys.index_keys(zskip.table(classic, path), "connect")
    expected = documented_keys.answers(plain.read.parquet(path), "connect")
    # What texts with letters are depends on Java and ICU, which a server does not tell: only its own index counts.
    of_letters = ["c = 'c0250'", "lower(s) = 'n0250'"]
    missed = documented_keys.misses(enabled.read.parquet(path), expected, lambda: zskip.scans(enabled)[0].files)
    assert missed == of_letters, "under enable"
    table = zskip.table(enabled, path)
    assert documented_keys.misses(table.df(), expected, lambda: table.last_scan.files) == of_letters, "under df()"
