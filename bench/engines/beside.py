"""How often a writer of a Delta table must begin anew beside zskip's `maintain`, and beside Delta's own OPTIMIZE.

python bench/engines/beside.py --seconds 60 --pause 1 --appends 5

The writer (delta-rs) appends rows after each pause, and deletes two after some appends; the maintenance runs again and
again: `maintain` by two columns, delta-rs's compaction, and its Z-order by the same columns, each on its own table.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common
from zskip.errors import ConflictError

FIRST, EACH = 20_000, 200
BY = ["a", "b"]
TARGET = 100_000


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", seconds=60, pause=1.0, appends=5)
    spark = common.session()
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version}
    ways: dict[str, Callable[[str], Any]] = {
        "maintain": lambda path: zskip.table(spark, path).maintain(by=BY, target_file_size=TARGET),
        "delta_compact": lambda path: DeltaTable(path).optimize.compact(target_size=TARGET),
        "delta_zorder": lambda path: DeltaTable(path).optimize.z_order(BY, target_size=TARGET),
    }
    for name, work in ways.items():
        path = common.HOME / f"beside-{name}"
        shutil.rmtree(path, ignore_errors=True)
        figures |= {
            f"{name}_{figure}": value
            for figure, value in beside(Writer(path, options.pause, options.appends), work, options.seconds).items()
        }
        common.log(str(figures))
        shutil.rmtree(path)
    common.emit(figures, options.json)


def rows(start: int, count: int) -> pa.Table:
    """Rows from everywhere."""
    rng = np.random.default_rng(start)
    values = {name: rng.integers(0, 10_000, count) for name in BY}
    return pa.table({"id": np.arange(start, start + count), **values})


class Writer(threading.Thread):
    """Appends, and deletes after some appends, until it is told to stop."""

    def __init__(self, path: Path, pause: float, appends: int) -> None:
        """appends: for each delete; pause: seconds before each append."""
        super().__init__()
        self.path = str(path)
        self._pause, self._appends = pause, appends
        self.stop = threading.Event()
        self.writes = self.refused = 0
        self.ids = set(range(FIRST))
        write_deltalake(self.path, rows(0, FIRST))

    def run(self) -> None:
        """Write; what is refused is done again."""
        start = FIRST
        while not self.stop.wait(self._pause):
            self._until_done(lambda start=start: write_deltalake(self.path, rows(start, EACH), mode="append"))
            self.ids |= set(range(start, start + EACH))
            start += EACH
            if (start - FIRST) // EACH % self._appends:
                continue
            gone = (min(self.ids), start - 1)
            self._until_done(lambda gone=gone: DeltaTable(self.path).delete(f"id in {gone}"))
            self.ids -= set(gone)

    def _until_done(self, work: Callable[[], Any]) -> None:
        while True:
            try:
                work()
            except DeltaError:
                self.refused += 1
            else:
                self.writes += 1
                return


def beside(writer: Writer, work: Callable[[str], Any], seconds: int) -> dict[str, Any]:
    """One kind of maintenance, again and again, beside the writer."""
    path, done, failed = writer.path, 0, 0
    writer.start()
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            try:
                work(path)
                done += 1
            except (ConflictError, DeltaError):
                failed += 1
    finally:
        writer.stop.set()
        writer.join()
    if sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) != sorted(writer.ids):
        raise SystemExit(f"rows are lost or doubled in {path}")
    return {
        "runs": done,
        "failed": failed,
        "writes": writer.writes,
        "refused": writer.refused,
        "refused_pct": round(100 * writer.refused / max(writer.writes, 1), 2),
    }


if __name__ == "__main__":
    main()
