"""Building an index from footers, and bringing it up to date.

python bench/index/index_build.py --files 10000 --columns 100 --more-files 100000 --added 100

The tables are hard links to 500 different files of 20 rows, whose columns are of six types in turn and whose bounds
are random: long, double, string, timestamp, decimal and date. Their footers hold no schema of Arrow's, as Spark's do
not, and are read from memory, by one process.

- `build`: the min/max index of a new table. A core's files a second are those by the processors' time of all threads.
- `refresh`: the index of a table of ten columns that got some files more. `beyond_s` is without the time that reading
  just those files' footers takes, `with_listing_s` what `zskip.open(path).index()` takes, which lists the table first.
"""

from __future__ import annotations

import datetime as dt
import decimal
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common
from zskip.formats.parquet.format import ParquetFormat
from zskip.index import refresh
from zskip.index.collect.parallel_footers import collect_footers
from zskip.storage import LocalStorage

DISTINCT = 500
ROWS = 20
REFRESHED_COLUMNS = 10
KINDS: tuple[Callable[[Any], pa.Array], ...] = (
    lambda rng: pa.array(rng.integers(0, 10**9, ROWS)),
    lambda rng: pa.array(rng.random(ROWS)),
    lambda rng: pa.array([f"{n:016x}" for n in rng.integers(0, 2**62, ROWS).tolist()]),
    lambda rng: pa.array(rng.integers(0, 10**15, ROWS), pa.timestamp("us", "UTC")),
    lambda rng: pa.array([decimal.Decimal(n).scaleb(-2) for n in rng.integers(0, 10**9, ROWS).tolist()]).cast(
        pa.decimal128(12, 2)
    ),
    lambda rng: pa.array([dt.date(2020, 1, 1) + dt.timedelta(n) for n in rng.integers(0, 3000, ROWS).tolist()]),
)


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=10_000, columns=100, more_files=100_000, added=100, rounds=3)
    rng = np.random.default_rng(options.seed)
    figures = {
        "machine": common.machine(),
        "build": built(options.files, options.columns, options.rounds, rng),
        "refresh": refreshed(options.more_files, options.added, options.rounds, rng),
    }
    common.emit(figures, options.json)


def built(files: int, columns: int, rounds: int, rng: np.random.Generator) -> dict[str, Any]:
    """Files a second, of the round that took the processors least."""
    path = common.HOME / "out" / "building"
    with_files(path, distinct(path, columns, rng), range(files))
    storage = LocalStorage(str(path))
    snapshot = ParquetFormat(storage).snapshot()
    took = []
    for _ in range(rounds):
        shutil.rmtree(path / "_zskip", ignore_errors=True)
        started = time.process_time()
        clock = common.seconds(lambda: refresh(storage, snapshot))
        took.append((time.process_time() - started, clock))
        common.log(f"build: {took[-1][0]:.2f} s of processors in {took[-1][1]:.2f} s")
    covered = zskip.open(str(path)).info().index
    if covered is None or (covered.files, covered.columns) != (files, columns):
        raise SystemExit(f"not all is indexed: {covered}")
    processors, clock = min(took)
    size = (path / "part-0000000.parquet").stat().st_size
    shutil.rmtree(path)
    return {
        "files": files,
        "columns": columns,
        "kb_a_file": round(size / 1e3, 1),
        "s": round(clock, 2),
        "cpu_s": round(processors, 2),
        "files_a_second": round(files / clock),
        "files_a_second_a_core": round(files / processors),
    }


def refreshed(files: int, added: int, rounds: int, rng: np.random.Generator) -> dict[str, Any]:
    """Seconds of refreshes, each after some files were added; medians."""
    path = common.HOME / "out" / "refreshing"
    held = distinct(path, REFRESHED_COLUMNS, rng)
    with_files(path, held, range(files))
    storage = LocalStorage(str(path))
    format_ = ParquetFormat(storage)
    refresh(storage, format_.snapshot())
    new = new_files(files, added)
    whole, reading, listed = [], [], []
    for _ in range(rounds):
        with_files(path, held, next(new))
        snapshot = format_.snapshot()
        fresh = np.array([name >= name_of(len(snapshot) - added) for name in snapshot.paths])
        reading.append(common.seconds(lambda f=fresh, s=snapshot: collect_footers(storage, s, f, np.zeros_like(f))))  # type: ignore[misc]
        whole.append(common.seconds(lambda s=snapshot: refresh(storage, s)))  # type: ignore[misc]
        with_files(path, held, next(new))
        listed.append(common.seconds(zskip.open(str(path)).index))
        common.log(
            f"refresh: {whole[-1]:.2f} s, of which reading {reading[-1]:.2f} s; listing, too: {listed[-1]:.2f} s"
        )
    covered = zskip.open(str(path)).info().index
    if covered is None or covered.files != files + 2 * rounds * added:
        raise SystemExit(f"not all is indexed: {covered}")
    shutil.rmtree(path)
    return {
        "files": files,
        "added": added,
        "s": round(statistics.median(whole), 3),
        "reading_s": round(statistics.median(reading), 3),
        "beyond_s": round(statistics.median(a - b for a, b in zip(whole, reading, strict=True)), 3),
        "with_listing_s": round(statistics.median(listed), 3),
    }


def new_files(start: int, count: int) -> Iterator[range]:
    """The numbers of some files, and of those after them, and so on."""
    while True:
        yield range(start, start + count)
        start += count


def name_of(number: int) -> str:
    """A file's name."""
    return f"part-{number:07d}.parquet"


def distinct(path: Path, columns: int, rng: np.random.Generator) -> list[Path]:
    """Some files that differ, in a hidden directory of a new table."""
    shutil.rmtree(path, ignore_errors=True)
    (path / "_distinct").mkdir(parents=True)
    files = [path / "_distinct" / f"{i}.parquet" for i in range(DISTINCT)]
    for file in files:
        arrays = {f"column_{i:03d}": KINDS[i % len(KINDS)](rng) for i in range(columns)}
        pq.write_table(pa.table(arrays), file, compression="zstd", store_schema=False)
    return files


def with_files(path: Path, held: list[Path], numbers: range) -> None:
    """Add files to a table."""
    for number in numbers:
        os.link(held[number % len(held)], path / name_of(number))


if __name__ == "__main__":
    main()
