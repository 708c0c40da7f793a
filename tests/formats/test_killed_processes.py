"""SIGKILL in the middle of `maintain` and of an optimize in batches: no row is lost or doubled, the next call goes on.

A process is killed before every seventh thing that it changes, or before each with ZSKIP_KILL_EVERY=1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tiers
from format_tables import FORMATS, Maker, opened, rows_of
from victims import Victim, victim

import zskip

pytestmark = [pytest.mark.spark, pytest.mark.slow]  # A process is killed at each step.
EVERY = int(os.environ.get("ZSKIP_KILL_EVERY", "7"))
ROWS = 400


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with victim(tmp_path_factory.mktemp("victims")) as process:
        yield process


def wide(start: int) -> pa.Table:
    """Rows from everywhere."""
    rng = np.random.default_rng(start)
    ids = np.arange(start, start + ROWS)
    return pa.table({"id": ids, "a": rng.integers(0, 5000, ROWS), "b": rng.integers(0, 99, ROWS)})


def all_rows(maker: Maker, path: Path) -> Any:
    """What any engine reads once zskip has looked at the table, and so has finished what is committed."""
    opened(path).snapshot()
    return rows_of(maker.read(path))


@pytest.mark.parametrize("maker", tiers.nightly(FORMATS), ids=lambda maker: maker.name)
def test_maintain(maker: Maker, victims: Victim, tmp_path: Path) -> None:
    path = tmp_path / "t"
    maker.append(path, wide(0), partitioned=False)
    arguments = {"by": ["a", "b"], "target_file_size": 9_000}
    assert victims.call(maker.name, path, "maintain", arguments, 0) is not None
    step = 1 + FORMATS.index(maker)
    for number in range(1, 16):
        maker.append(path, wide(number * ROWS), partitioned=False)
        expected = rows_of(maker.read(path))
        done = victims.call(maker.name, path, "maintain", arguments, step)
        assert all_rows(maker, path) == expected, step
        if done is None:
            step += EVERY
        elif done["batches"]:
            break
    assert step > 10
    check(maker, path)


@pytest.mark.parametrize("maker", tiers.nightly(FORMATS[::-1]), ids=lambda maker: maker.name)
def test_batches(maker: Maker, victims: Victim, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for i in range(6):
        maker.append(path, wide(i * ROWS), partitioned=False)
    snapshot = opened(path).snapshot()
    expected = rows_of(maker.read(path))
    arguments = {"by": ["a", "b"], "target_file_size": 4_000, "max_batch": 2 * int(snapshot.sizes.max())}
    step, done, before = 1 + FORMATS.index(maker), None, 6
    while done is None:
        done = victims.call(maker.name, path, "optimize", arguments, step)
        assert all_rows(maker, path) == expected, step
        old = len(set(opened(path).snapshot().paths) & set(snapshot.paths))
        assert old <= before
        assert old % 2 == 0
        assert done is None or (done["batches"], done["batches_before"]) == (before // 2, 3 - before // 2)
        before = old
        step += EVERY
    assert before == 0
    check(maker, path)


def check(maker: Maker, path: Path) -> None:
    """What dead processes left goes, and nothing else."""
    expected = rows_of(maker.read(path))
    table = zskip.open(maker.address(path))
    table.clean(delete=True)
    assert (table.clean().leftovers, table.clean().unfinished) == ((), 0)
    assert rows_of(maker.read(path)) == expected
    assert not (path / "_zskip" / "operations" / "batches.gz").exists()
    assert len(table.files()) == len(opened(path).snapshot())


def test_batches_at_once(victims: Victim, tmp_path: Path) -> None:
    path, maker = tmp_path / "t", FORMATS[0]
    for i in range(6):
        maker.append(path, wide(i * ROWS), partitioned=False)
    size = 2 * int(opened(path).snapshot().sizes.max())
    expected = rows_of(maker.read(path))
    arguments = {"by": ["a", "b"], "target_file_size": 4_000, "max_batch": size, "jobs": 2}
    for step in range(8, 100, 2 * EVERY):
        done = victims.call(maker.name, path, "optimize", arguments, step)
        assert all_rows(maker, path) == expected, step
        if done is not None:
            break
    check(maker, path)
