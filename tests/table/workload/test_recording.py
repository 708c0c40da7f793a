"""Recording a workload: in the background, by several processes, and never to a query's harm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import tables
from session_settings import settings

import zskip
from zskip.advisor.workload.workload import Workload
from zskip.errors import IndexFormatError, InputError, ZskipWarning
from zskip.records import ScanReport
from zskip.storage import LocalStorage
from zskip.table.handle import Handle
from zskip.table.optimize_request import check_arguments, check_request
from zskip.table.rewrite.maintenance_request import MaintenanceRequest
from zskip.table.workload import recording

REPORT = ScanReport(files=1, files_total=4, bytes=1, bytes_total=4, rows=10, rows_total=40, seconds=0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tables.make_events(tmp_path / "t")
    zskip.open(str(found)).index()
    return found


def test_scans_are_recorded_while_it_is_on(path: Path) -> None:
    table = zskip.open(str(path))
    table.files("id = 1")
    assert len(table.workload()) == 0
    assert "not recorded" in str(table.workload())
    table.record()
    table.files("id = 1")
    table.files("id = 2 AND user < 5")
    table.files("id = 1")
    found = table.workload()
    assert found.recording
    assert found.scans == 3
    assert found.since is not None
    assert len(found.queries) == 2
    assert found.shapes() == pytest.approx({"id = ?": 2 / 3, "id = ? AND user < ?": 1 / 3})
    table.record(False)
    table.files("id = 3")
    assert table.workload().scans == 3
    assert table.workload(clear=True).scans == 3
    assert table.workload().scans == 0


def test_only_yes_and_no_are_answers(path: Path) -> None:
    with pytest.raises(InputError, match="True or False"):
        zskip.open(str(path)).record("on")  # type: ignore[arg-type]


def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    table = zskip.open(str(path))
    table.record()
    recorders = [recording.Recorder(LocalStorage(str(path))) for _ in range(3)]

    def write(number: int) -> None:
        for i in range(10):
            recorders[number].note(lambda i=i: f"id = {number * 100 + i}", REPORT)  # type: ignore[misc]
            recorders[number].flush()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = table.workload()
    assert found.scans >= 30
    assert len(found.queries) == 30


def test_what_a_process_has_noted_is_written_when_it_ends(path: Path) -> None:
    zskip.open(str(path)).record()
    code = f"import zskip; zskip.open({str(path)!r}).files('id = 7')"
    subprocess.run([sys.executable, "-c", code], check=True)
    found = zskip.open(str(path)).workload()
    assert [q.where for q in found.queries] == ["id = 7L"]


def test_a_damaged_reservoir_warns_once_and_starts_anew(path: Path) -> None:
    table = zskip.open(str(path))
    table.record()
    table.files("id = 1")
    assert table.workload().scans == 1
    (held,) = (path / "_zskip" / "workload").glob("*.reservoir")
    held.write_bytes(held.read_bytes()[:-9])
    with pytest.warns(ZskipWarning, match="damaged.*starts over"):
        assert table.workload().scans == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.files("id = 2")
        assert table.workload().scans == 1


def test_a_flood_of_scans_stays_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_ENTRIES", 50)
    asked = []
    recorder = recording.Recorder(LocalStorage(str(path)))
    for i in range(500):
        recorder.note(lambda i=i: asked.append(i) or f"id = {i}", REPORT)  # type: ignore[misc, func-returns-value]
    recorder.flush()
    assert len(asked) == 50
    found = recording.read_workload(Handle(LocalStorage(str(path)), None))
    assert found.scans == 500
    assert len(found.queries) == 50
    # 50 drawn entries stand for 500 scans, give or take 70; the distribution has a long tail.
    assert 250 < sum(q.weight for q in found.queries) < 1_000


def test_what_is_forgotten_does_not_come_back_with_a_write_of_that_moment(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, home = zskip.open(str(path)), LocalStorage(str(path))
    recorder = recording.Recorder(home)
    recorder.note(lambda: "id = 1", REPORT)
    recorder.flush()
    read = recording._latest_or_new

    def then_somebody_clears(home: LocalStorage) -> tuple[int, object]:
        found = read(home)
        monkeypatch.undo()
        assert table.workload(clear=True).scans == 1
        return found

    monkeypatch.setattr(recording, "_latest_or_new", then_somebody_clears)
    recorder.note(lambda: "id = 2", REPORT)
    recorder.flush()
    assert [q.where for q in table.workload().queries] == ["id = 2"]


def test_what_another_version_wrote_is_left_alone_until_it_is_cleared(path: Path) -> None:
    table = zskip.open(str(path))
    table.record()
    table.files("id = 1")
    assert table.workload().scans == 1
    (held,) = (path / "_zskip" / "workload").glob("*.reservoir")
    held.write_bytes(b'{"zskip_workload": 99}\n')
    with pytest.raises(IndexFormatError, match=r"format 99.*clear=True"):
        table.workload()
    assert table.workload(clear=True).scans == 0
    table.files("id = 2")
    assert table.workload().scans == 1


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_table_that_may_not_be_written_is_read_as_ever(path: Path) -> None:
    table = zskip.open(str(path))
    table.record()
    os.chmod(path / "_zskip" / "workload", 0o500)
    assert table.files("id = 1")
    recording.flush()


def test_failing_texts_and_writes_reach_no_query(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = zskip.open(str(path))
    table.record()
    monkeypatch.setattr(recording, "_publish", lambda *_: 1 / 0)
    assert table.files("id = 1")
    recording.flush()
    monkeypatch.undo()
    recorder = recording.Recorder(LocalStorage(str(path)))
    recorder.note(lambda: 1 / 0, REPORT)  # type: ignore[arg-type, return-value]
    recorder.flush()
    assert table.workload().scans >= 1


@pytest.mark.spark
def test_scans_of_spark_are_recorded_but_not_those_of_audits(spark: object, path: Path) -> None:
    table = zskip.table(spark, str(path))  # type: ignore[arg-type]
    table.index()
    table.record()
    frame = table.df()
    frame.where("id < 100 AND name LIKE 'name-00%'").count()
    frame.where("id IN (1, 2) OR user = 3").count()
    zskip.sql(spark, f"SELECT count(*) FROM parquet.`{path}` WHERE user = 7").collect()  # type: ignore[arg-type]
    table.verify(queries=2)
    table.explain("id = 5", analyze=True)
    found = table.workload()
    assert found.scans == 3
    texts = " | ".join(q.where for q in found.queries)
    assert "id < 100" in texts
    assert " OR " in texts
    assert "user = 7" in texts
    assert found.rows_read is not None
    zskip.enable(spark)  # type: ignore[arg-type]
    try:
        spark.read.parquet(str(path)).where("day = DATE '2024-03-01'").count()  # type: ignore[attr-defined]
        found = table.workload()
    finally:
        zskip.disable(spark)  # type: ignore[arg-type]
    assert found.scans == 4
    assert "day = DATE '2024-03-01'" in " | ".join(q.where for q in found.queries)
    assert len(found.shapes()) == 4
    table.record(False)
    table.workload(clear=True)
    assert not table.workload().recording
    assert table.workload().scans == 0


def test_the_keys_of_joins_are_recorded(spark: Any, path: Path) -> None:
    table = zskip.table(spark, str(path))
    table.record()
    rows = spark.range(0, 1500, 3).toDF("other")
    joins = {"spark.zskip.joins": "always", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    with settings(spark, **joins):
        frame = table.df()
        frame.join(rows.where("other % 2 = 0"), frame.id == rows.other).where("user > 5").count()
    (query,) = table.workload().queries
    keys, *others = query.where.split(" AND ")
    assert "user > 5L" in others
    values = [int(value) for value in re.findall(r"\d+", keys)]
    assert (values[0], values[-1], len(values)) == (0, 1494, 64), query.where


def test_a_workload_that_can_be_walked_through_once_is_read_for_every_step() -> None:
    asked = check_request(by="auto", curve="auto", files=2, workload=(f"id = {i}" for i in range(3)), max_batch="1GB")
    upkeep = check_arguments(MaintenanceRequest, workload=iter(["id = 1"]))
    assert isinstance(asked.workload, tuple)
    assert isinstance(upkeep.workload, tuple)
    assert [len(Workload.of(asked.workload)) for _ in range(2)] == [3, 3]
    assert [len(Workload.of(upkeep.workload)) for _ in range(2)] == [1, 1]
