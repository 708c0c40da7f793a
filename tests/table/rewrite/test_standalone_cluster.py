"""One machine or many: optimize and query on a standalone master with two workers, each a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import tables

import zskip
from zskip.errors import ZskipWarning

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER = """
    import os, sys
    from pyspark.sql import SparkSession
    import zskip

    spark = (
        SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.extraJavaOptions", os.environ["SPARK_SUBMIT_OPTS"])
        .config("spark.executor.memory", "512m").config("spark.driver.memory", "1g").config("spark.cores.max", "2")
        .config("spark.sql.shuffle.partitions", "4").config("spark.sql.session.timeZone", "UTC")
        .config("spark.executorEnv.PYTHONPATH", sys.argv[3]).getOrCreate()
    )

    def imported(_):
        try:
            import zskip
        except ImportError:
            return "none"
        return zskip.__file__

    print("ZSKIP", *spark.sparkContext.parallelize(range(4), 4).map(imported).distinct().collect())
    for curve in ("zorder", "hilbert"):
        table = zskip.table(spark, sys.argv[2])
        sampling = "bernoulli" if curve == "zorder" else "reservoir"
        result = table.optimize(by=["id", "user"], curve=curve, files=8, sampling=sampling)
        found = table.df().where("id BETWEEN 100 AND 199").count()
        print("DONE", curve, result.rows, result.files_after, found, table.last_scan.files, result.writer, flush=True)
    # Footers of many files are read by the workers; one of those files is damaged.
    import warnings
    from zskip.spark.collect import executors

    told, look = [], executors.Executors.parse_files

    def counted(self, what, make, files):
        for batch in look(self, what, make, files):
            told.append((what, len(batch), sum(found is not None for found in batch)))
            yield batch

    executors.Executors.parse_files = counted
    many = zskip.table(spark, sys.argv[4])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        info = many.index(granularity="row_group")
    print("INDEX", info.files, *told, any("part-0007" in str(each.message) for each in said))
    told.clear()
    try:
        many.optimize(by=["id", "user"], files=2)
    except zskip.ZskipError as error:
        print("REFUSED", type(error).__name__, *told)
    print("EXECUTORS", spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
    spark.stop()
"""

KILLER = """
    import os, sys, time
    from pyspark.sql import SparkSession
    import zskip
    from zskip.spark.write.arrow import job, tasks

    spark = (
        SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.extraJavaOptions", os.environ["SPARK_SUBMIT_OPTS"])
        .config("spark.executor.memory", "512m").config("spark.driver.memory", "1g").config("spark.cores.max", "2")
        .config("spark.speculation", "true").config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.quantile", "0.3").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    )

    def kill_worker():
        os.kill(os.getpid(), 9)

    def kill_executor():
        with open(f"/proc/{os.getppid()}/stat") as stat:
            os.kill(int(stat.read().rpartition(")")[2].split()[1]), 9)

    def be_slow():
        time.sleep(8)

    def once(function, trouble, marker):
        def run(batches):
            rows = list(function(batches))
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                trouble()
            yield from rows
        return run

    tasks._LEAST_TASK_BYTES = 1  # a task for each file, so that others run beside the one in trouble
    sides = {"placer": job.placer, "writer": job.writer}
    for trouble in (kill_worker, kill_executor, be_slow):
        for side, function in sides.items():
            marker = f"{sys.argv[3]}/{trouble.__name__}-{side}"
            setattr(job, side, lambda *given, **named: once(function(*given, **named), trouble, marker))
            table = zskip.table(spark, sys.argv[2])
            result = table.optimize(by=["id", "user"], files=8)
            setattr(job, side, function)
            print("DONE", os.path.exists(marker), result.writer, result.rows, table.df().count(), flush=True)
    for side, function in {"row_placer": job.row_placer, "writer": job.writer}.items():
        marker = f"{sys.argv[3]}/append-{side}"
        setattr(job, side, lambda *given, **named: once(function(*given, **named), kill_executor, marker))
        result = table.append(spark.range(6000, 6500, 1, 4))
        setattr(job, side, function)
        print("APPENDED", os.path.exists(marker), result.curve, result.rows, table.df().count(), flush=True)
    spark.stop()
"""

WITHOUT_ZSKIP = """
    import sys

    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "zskip":
                raise ImportError(name)

    sys.meta_path.insert(0, Absent())
"""


MANY = 520


def make_many(path: Path) -> Path:
    """A table of more files than the driver reads alone, one of them damaged."""
    path.mkdir()
    rows = tables.events(MANY * 4)
    for i in range(MANY):
        pq.write_table(rows.slice(i * 4, 4), path / f"part-{i:04}.parquet", row_group_size=2)
    (path / "part-0007.parquet").write_bytes(b"PAR1" + bytes(500) + b"PAR1")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(log: Path, *command: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]
    with log.open("wb") as out:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command], stdout=out, stderr=subprocess.STDOUT, env=environment
        )


def wait_for(log: Path, text: str, count: int = 1) -> None:
    until = time.monotonic() + 120
    while log.read_text(errors="replace").count(text) < count:
        assert time.monotonic() < until, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)


@pytest.fixture(scope="module")
def master(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers; `spark` has found a Java by then."""
    place = tmp_path_factory.mktemp("cluster")
    port, processes = free_port(), []
    url = f"spark://127.0.0.1:{port}"
    options = ["--host", "127.0.0.1", "--webui-port", str(free_port())]
    try:
        log = place / "master.log"
        processes.append(start(log, "org.apache.spark.deploy.master.Master", *options, "--port", str(port)))
        wait_for(log, "I have been elected leader")
        for number in range(2):
            work = ["--cores", "1", "--memory", "600m", "--work-dir", str(place / f"work-{number}")]
            options = ["--host", "127.0.0.1", "--webui-port", str(free_port())]
            worker = "org.apache.spark.deploy.worker.Worker"
            processes.append(start(place / f"worker-{number}.log", worker, *options, *work, url))
        wait_for(log, "Registering worker", 2)
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def test_optimize_and_query_on_two_workers(master: str, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "events")
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "sitecustomize.py").write_text(textwrap.dedent(WITHOUT_ZSKIP))
    many = make_many(tmp_path / "many")
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    driver = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DRIVER), master, str(path), str(bare), str(many)],
        capture_output=True, text=True, env=environment, timeout=400, check=False,
    )  # fmt: skip
    assert driver.returncode == 0, driver.stderr[-4000:]
    lines = [line.split() for line in driver.stdout.splitlines() if line.startswith("DONE")]
    assert [line[1:5] for line in lines] == [[curve, "6000", "8", "100"] for curve in ("zorder", "hilbert")]
    assert all(int(line[5]) < 8 for line in lines)
    assert [line[6] for line in lines] == ["arrow", "arrow"]
    assert "ZSKIP none\n" in driver.stdout
    assert driver.stdout.rstrip().endswith(" 2")
    assert tables.ids(path) == list(range(tables.ROWS))
    assert f"INDEX {MANY - 1} ('read the footers', {MANY}, {MANY - 1}) True\n" in driver.stdout
    assert f"REFUSED CorruptFileError ('look at', {MANY}, {MANY - 1})\n" in driver.stdout
    found, expected = zskip.open(str(many)), tmp_path / "expected"
    with pytest.warns(ZskipWarning, match="part-0007"):
        zskip.open(str(many), index_path=str(expected)).index(granularity="row_group")
    also = zskip.open(str(many), index_path=str(expected))
    # NaN is greater than 9. Spark has counted it, and footers tell nothing of it, so only one index knows its files.
    scores = tables.events(MANY * 4)["score"].to_pylist()
    hits = {f"part-{i // 4:04}.parquet" for i, score in enumerate(scores) if not score <= 9} | {"part-0007.parquet"}
    assert {Path(f).name for f in found.files("score > 9")} == hits
    assert {Path(f).name for f in also.files("score > 9")} >= hits
    for where in ("id BETWEEN 100 AND 199", "name = 'name-0005'", "user IS NULL", "price = 6.0"):
        assert [(f, f.row_groups) for f in found.files(where)] == [(f, f.row_groups) for f in also.files(where)]


@pytest.mark.nightly  # Each trouble costs an executor, which is slow to come and to go.
def test_what_is_killed_or_runs_twice_leaves_nothing_that_counts(master: str, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "events")
    (tmp_path / "markers").mkdir()
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    driver = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLER), master, str(path), str(tmp_path / "markers")],
        capture_output=True, text=True, env=environment, timeout=500, check=False,
    )  # fmt: skip
    assert driver.returncode == 0, driver.stderr[-4000:]
    lines = [line for line in driver.stdout.splitlines() if line.startswith("DONE")]
    assert lines == ["DONE True arrow 6000 6000"] * 6
    appended = [line for line in driver.stdout.splitlines() if line.startswith("APPENDED")]
    assert appended == ["APPENDED True zorder 500 6500", "APPENDED True zorder 500 7000"]
    assert tables.ids(path) == sorted([*range(tables.ROWS), *range(6000, 6500), *range(6000, 6500)])
