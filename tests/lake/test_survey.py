"""`Lake.survey`: each line is what the table's own metadata says, and nothing is written."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import sys
from pathlib import Path

import format_tables
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.advisor.maintenance.planner import Batch
from zskip.advisor.workload.reservoir import LIFE_MS
from zskip.advisor.workload.workload import Query, Workload
from zskip.lake.examine import UNRECORDED, queries_a_day
from zskip.lake.ranking import FileReads, rank_rewrites
from zskip.lake.results import OPEN_COST, TableHealth
from zskip.records import Partition, Snapshot
from zskip.table.workload.recording import flush


def lines(root: Path, spark: SparkSession | None = None, **options: int) -> dict[str, TableHealth]:
    survey = zskip.lake(spark, str(root)).survey(**options)
    return {Path(table.table).name: table for table in survey.tables}


def test_lines_without_spark(tmp_path: Path) -> None:
    tables.make_events(tmp_path / "plain")
    format_tables.DeltaMaker().append(tmp_path / "delta", format_tables.content(), partitioned=False)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.parquet").write_bytes(b"PAR1 no footer PAR1")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    survey = zskip.lake(None, str(tmp_path)).survey()
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before
    assert [Path(table.table).name for table in survey.tables] == ["plain", "delta", "broken"], "errors last"
    plain, delta, broken = survey.tables
    assert (plain.format, plain.files, plain.small_files, plain.rows, plain.indexed) == ("parquet", 6, 6, None, 0.0)
    assert (plain.action, plain.bytes_to_rewrite, plain.is_recorded) == ("compact", plain.bytes, False)
    assert (plain.bytes_read_a_day, plain.files_read_a_day_after) == (UNRECORDED * plain.bytes, UNRECORDED)
    assert plain.saved_bytes_a_day == 5 * OPEN_COST * UNRECORDED
    assert plain.days_to_pay == plain.bytes_to_rewrite / plain.saved_bytes_a_day
    assert (delta.format, delta.rows, delta.indexed, delta.action) == ("delta", 40, 1.0, "leave")
    assert "a.parquet" in broken.error
    assert broken.action == "leave"
    text = str(survey)
    assert "3 tables" in text
    assert "1 of them cannot be read" in text
    assert "compact" in text
    assert text.splitlines()[1].split()[:3] == ["table", "format", "files"]


def test_a_bug_is_a_line_and_its_traceback_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tables.make_events(tmp_path / "t")

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(sys.modules["zskip.lake.examine"], "_examine", fail)
    (line,) = zskip.lake(None, str(tmp_path)).survey().tables
    assert line.error == "ZeroDivisionError: a bug"
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_the_rate_of_a_steady_stream_is_found() -> None:
    now = dt.datetime.now(dt.timezone.utc)
    for days, rate in itertools.product((1, 30, 700), (1.0, 50.0)):
        ages = np.arange(0, days, 1 / rate) * 24 * 3600 * 1000
        weight = float(np.exp(-ages / LIFE_MS).sum())
        queries = (Query(where="a = 1", weight=weight),)
        workload = Workload(queries=queries, scans=len(ages), since=now - dt.timedelta(days=days), recording=True)
        assert queries_a_day(workload) == pytest.approx(rate, rel=0.05)
    hour = Workload(queries=(Query(where="a = 1", weight=10.0),), scans=10, since=now - dt.timedelta(hours=1))
    assert queries_a_day(hour) == pytest.approx(10, rel=0.05), "an hour's queries may be those of a day"
    assert queries_a_day(Workload(queries=())) == UNRECORDED
    assert queries_a_day(Workload(queries=(), recording=True)) == 0


@pytest.mark.parametrize("seed", range(5))
def test_merges_are_worth_what_each_query_no_longer_opens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    files, queries = 12, 5
    masks, weights = rng.random((queries, files)) < 0.4, rng.dirichlet(np.ones(queries))
    sizes = rng.integers(1, 1000, files)
    snapshot = Snapshot(
        root="/t",
        version=0,
        fields=(),
        partition_fields=(),
        partitions=(Partition(directory=""),),
        paths=tuple(f"{i:02}" for i in range(files)),
        sizes=sizes,
        mtimes_ms=np.zeros(files, np.int64),
        partition_of=np.zeros(files, np.int32),
    )
    merged = np.sort(rng.permutation(files)[:6])
    batch = Batch(positions=merged, files=1, bytes=int(sizes[merged].sum()), saves=0.0, merges=True)
    reads = FileReads(share=weights @ masks, masks=masks, weights=weights)
    (found,) = rank_rewrites(snapshot, [batch], reads=reads, rows=sizes, queries=7.0, min_gain=0.0, budget=None)
    opened = saved = 0.0
    for mask, weight in zip(masks, weights, strict=True):
        old = [i for i in merged if mask[i]]
        opened += 7 * weight * (len(old) - bool(old))
        saved += 7 * weight * (sum(sizes[i] for i in old) - bool(old) * batch.bytes)
    assert found.saved_files == pytest.approx(opened)
    assert found.saved_bytes == pytest.approx(saved)
    guess = FileReads(share=weights @ masks)
    assert guess.of_any(merged) >= reads.of_any(merged) - 1e-9, "unknown queries save less, never more"


@pytest.mark.spark
def test_recorded_queries_are_measured(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lake" / "events"
    rng = np.random.default_rng(0)
    path.mkdir(parents=True)
    for i in range(8):
        rows = pa.table({"a": rng.integers(0, 1000, 40_000), "day": np.full(40_000, i), "b": rng.random(40_000)})
        pq.write_table(rows, path / f"{i}.parquet")
    table = zskip.table(spark, str(path))
    table.index()
    zskip.lake(spark, str(tmp_path / "lake")).record(True)
    wheres = ["day = 3", "day >= 6", "a BETWEEN 10 AND 12", "a BETWEEN 500 AND 501"] * 5
    for where in wheres:
        table.files(where)
    zskip.lake(None, str(tmp_path / "lake")).record(False)
    (line,) = lines(tmp_path / "lake").values()
    assert line.is_recorded
    assert line.queries_a_day == pytest.approx(20, rel=0.1)
    assert line.rows == 320_000
    read = [table.prune(where) for where in wheres]
    assert line.bytes_read_a_day == pytest.approx(line.queries_a_day * np.mean([r.bytes for r in read]))
    assert line.files_read_a_day == pytest.approx(line.queries_a_day * np.mean([r.files for r in read]))


@pytest.mark.slow
@pytest.mark.spark
def test_queries_read_all_files_of_an_unclustered_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lake" / "events"
    rng = np.random.default_rng(0)
    path.mkdir(parents=True)
    for i in range(6):
        rows = pa.table({"a": rng.permutation(100_000), "pad": rng.random(100_000)})
        pq.write_table(rows, path / f"{i}.parquet", compression="none", use_dictionary=False)
    table = zskip.table(spark, str(path))
    table.index()
    table.record(True)
    for i in range(10):
        table.files(f"a BETWEEN {i * 1000} AND {i * 1000 + 99}")
    flush()
    (line,) = lines(tmp_path / "lake").values()
    assert (line.files_read_a_day, line.bytes_read_a_day) == pytest.approx(
        (6 * line.queries_a_day, line.bytes * line.queries_a_day)
    )
    assert line.action in ("compact", "optimize by a")
    assert math.isfinite(line.days_to_pay or 0)
