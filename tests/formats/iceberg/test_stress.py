"""Two optimizers of an Iceberg table against processes that append, delete and update: no row is lost or doubled.

ZSKIP_STRESS_ROUNDS says how often each optimizer tries; 100, that is 200 rewrites, take some minutes.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("pyiceberg_core")

import iceberg_stress
from format_tables import content, maker, opened, rewrite

ROUNDS = int(os.environ.get("ZSKIP_STRESS_ROUNDS", "4"))
WRITERS = {"appended": iceberg_stress.append, "deleted": iceberg_stress.delete, "updated": iceberg_stress.update}


@pytest.mark.slow
def test_whoever_writes_at_the_same_time(tmp_path: Path) -> None:
    path, iceberg = tmp_path / "t", maker("iceberg")
    for start in (0, 40):
        iceberg.append(path, content(40, start), partitioned=True)
    context = multiprocessing.get_context("forkserver")
    logs = {name: tmp_path / name for name in (*WRITERS, "one", "two")}
    writers = [
        context.Process(target=work, args=(str(path), str(logs[name]), seed))
        for seed, (name, work) in enumerate(WRITERS.items())
    ]
    optimizers = [
        context.Process(target=iceberg_stress.optimize, args=(str(path), str(logs[name]), seed, ROUNDS))
        for seed, name in enumerate(("one", "two"), len(WRITERS))
    ]
    for process in (*writers, *optimizers):
        process.start()
    for process in optimizers:
        process.join(60 + 30 * ROUNDS)
    (tmp_path / "done").touch()
    for process in writers:
        process.join(120)
    assert [process.exitcode for process in (*writers, *optimizers)] == [0] * len(logs)
    outcomes = Counter(iceberg_stress.read(logs["one"]) + iceberg_stress.read(logs["two"]))
    assert sum(outcomes.values()) == 2 * ROUNDS
    appended, deleted, updated = (iceberg_stress.read(logs[name]) for name in WRITERS)
    expected = Counter([*range(80), *appended, *(new for _, new in updated)])
    expected.subtract([*deleted, *(old for old, _ in updated)])
    print(dict(outcomes), len(appended), len(deleted), len(updated))
    assert all((appended, deleted, updated))
    assert Counter(iceberg.read(path)["id"].to_pylist()) == expected
    rewrite(opened(path), "last")
    counts = Counter(iceberg.read(path)["id"].to_pylist())
    assert counts == expected
