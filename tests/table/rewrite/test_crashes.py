"""Death at any moment, Ctrl-C and a full disk: the table is as before or as after, never in between."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import StorageError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OPTIMIZE = """
    import resource, signal, sys
    {before}
    import zskip
    from zskip.spark.jvm.session import local_session
    spark = local_session("fault", cores=2)
    spark.range(1).count()
    print("ready", flush=True)
    try:
        zskip.table(spark, sys.argv[1]).optimize(by=["id", "user"], files=12)
    except zskip.ZskipError as error:
        print("refused", type(error).__name__, error, flush=True)
        sys.exit(3)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
    print("done", flush=True)
"""


def start(path: Path, before: str = "") -> subprocess.Popen[str]:
    """An optimize in another process, up to the moment when Spark is ready."""
    code = textwrap.dedent(OPTIMIZE).format(before=before)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready", process.communicate()
    return process


def check_whole(path: Path) -> None:
    """Every row is there once: for zskip at once, for any reader after zskip's next call."""
    files = zskip.open(str(path)).files()
    assert sum(Path(f).exists() for f in files) == len(files)
    assert tables.ids(path) == list(range(tables.ROWS))


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_at_a_random_moment(tmp_path: Path, how: signal.Signals) -> None:
    chance = random.Random(int(how))
    path = tables.make_events(tmp_path / "t")
    # Each in a JVM of its own; `test_killed_processes.py` kills at many more steps.
    for delay in [chance.uniform(0, 6) for _ in range(3 if how == signal.SIGKILL else 1)]:
        process = start(path)
        time.sleep(delay)
        os.killpg(process.pid, how) if how == signal.SIGKILL else process.send_signal(how)
        process.communicate(timeout=60)
        check_whole(path)


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t", rows=tables.ROWS)
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    before = {f: f.stat().st_mtime_ns for f in tables.visible(path)}
    out, err = start(path, before=limit).communicate(timeout=120)
    assert "refused" in out, (out, err)
    assert {f: f.stat().st_mtime_ns for f in tables.visible(path)} == before
    check_whole(path)


def test_a_table_that_may_not_be_written(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    is_root = os.geteuid() == 0
    if is_root:
        try:
            subprocess.run(["chattr", "+i", str(path)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("root may write everywhere, and this file system knows no immutable directories")
    else:
        path.chmod(0o555)
    try:
        with pytest.raises(StorageError):
            zskip.table(spark, str(path)).optimize(by=["id", "user"], files=12)
        assert len(zskip.open(str(path)).files()) == 6
    finally:
        if is_root:
            subprocess.run(["chattr", "-i", str(path)], check=False, capture_output=True)
        path.chmod(0o755)
