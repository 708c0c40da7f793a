"""The index by itself: RFC-27's shape beside wide Parquet and Spark SQL, and a million files.

python bench/index/index.py --files 1288 --columns 2078 --million 1000000

`index_data.py` says how the values are made. Everything is read cold: before each round the pages of all files are
dropped from memory (`posix_fadvise`). Each part runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import common
from shared.index_data import keep, make_index, read_snapshot
from zskip.index import BoundIndex, Index
from zskip.index.store.segment import INDEX_DIR, SegmentReader
from zskip.predicate import Columns, Predicate, parse
from zskip.prune import prune
from zskip.records import Snapshot
from zskip.storage import LocalStorage

PARTS = ("rfc27", "million")
TEN = 10


def main() -> None:
    """Run the parts one after another, and print the figures."""
    options = common.arguments(
        __doc__ or "", files=1288, columns=2078, million=1_000_000, rounds=9, spark=1, only="", make=""
    )
    if options.make:
        make(Path(options.make), options.files, options.columns, options.seed)
    elif options.only:
        path = common.HOME / f"index-{options.only}"
        measured = rfc27(path, options) if options.only == "rfc27" else million(path, options)
        print(json.dumps(measured))
    else:
        figures: dict[str, Any] = {"machine": common.machine()}
        for part in PARTS:
            figures[part] = in_a_process(part, options)
        common.emit(figures, options.json)


def in_a_process(part: str, options: Any) -> dict[str, Any]:
    path = common.HOME / f"index-{part}"
    files, columns = (options.files, options.columns) if part == "rfc27" else (options.million, 10)
    given = [f"--seed={options.seed}", f"--files={files}", f"--columns={columns}"]
    given += [f"--rounds={options.rounds}", f"--spark={options.spark}"]
    found = common.in_a_process(__file__, part, given, path)
    shutil.rmtree(path)
    return found


def make(path: Path, files: int, columns: int, seed: int) -> None:
    keep(path, make_index(str(path), files, columns, seed))


def opened(snapshot: Snapshot) -> BoundIndex:
    """The index as a query opens it: the manifest, the list of files, and their places in the snapshot."""
    index = Index.load(LocalStorage(snapshot.root))
    assert index is not None
    return index.bind(snapshot)


Took = list[tuple[float, float]]
"""Seconds of some calls: by the clock, and of the processors."""


def cold(path: Path, rounds: int, work: Callable[[], Any]) -> Took:
    """Call with none of the files below a directory in memory."""
    return [(evict(path), *timed(work))[1:] for _ in range(rounds)]


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock, and of the processors."""
    started = time.process_time()
    return common.seconds(work), time.process_time() - started


def shown(name: str, took: Took) -> dict[str, float]:
    """The median and the least by the clock, and the processors' median, in the unit that the name ends with."""
    what, _, unit = name.rpartition("_")
    factor, digits = {"s": (1, 3), "ms": (1000, 1)}[unit]
    clock, processors = zip(*took, strict=True)
    found = {name: statistics.median(clock), f"{what}_least_{unit}": min(clock)}
    found[f"{what}_cpu_{unit}"] = statistics.median(processors)
    return {name: round(value * factor, digits) for name, value in found.items()}


def evict(path: Path) -> None:
    """Drop the pages of files from memory, as far as the kernel does without root."""
    for file in path.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


# RFC-27


def rfc27(path: Path, options: Any) -> dict[str, Any]:
    """Full read, ten entries (a column of ten files), and four columns of all files, three ways.

    `by_a_query` matches the list of files with the live ones, too, and lays the entries out for pruning.
    """
    snapshot = read_snapshot(path)
    names = [snapshot.fields[i * len(snapshot.fields) // 4 + 3].name for i in range(4)]
    ten = np.linspace(0, len(snapshot) - 1, TEN).astype(np.int64)
    wide = path / "wide.parquet"
    wanted = pa.array([snapshot.paths[i] for i in ten.tolist()])

    def ten_entries() -> Any:
        return entries_of(snapshot.root, names[:1], wanted)

    def four_columns() -> Any:
        return entries_of(snapshot.root, names)

    def bound(columns: list[str]) -> Any:
        index = opened(snapshot)
        return [index.column((name,)) for name in columns]

    def everything() -> Any:
        index = Index.load(LocalStorage(snapshot.root))
        assert index is not None
        return [SegmentReader(index.storage, s).rows(0, s.entries) for s in index.manifest.segments]

    def of_wide(columns: list[str] | None) -> Any:
        with pq.ParquetFile(wide) as source:
            return source.read(columns)

    rounds = options.rounds
    parts = [f"{name}{end}" for name in names for end in ("_min", "_max", "_nulls")]
    size = sum(f.stat().st_size for f in (path / INDEX_DIR).iterdir())
    figures = {
        "entries": len(snapshot) * len(snapshot.fields),
        "mb": round(size / 1e6, 1),
        **shown("full_s", cold(path, rounds, everything)),
        **shown("ten_ms", cold(path, 3 * rounds, ten_entries)),
        **shown("range_ms", cold(path, 3 * rounds, four_columns)),
        **shown("ten_by_a_query_ms", cold(path, 3 * rounds, lambda: bound(names[:1]))),
        **shown("range_by_a_query_ms", cold(path, 3 * rounds, lambda: bound(names))),
    }
    pq.write_table(wide_table(snapshot), wide, compression="zstd", use_dictionary=False)
    figures |= {
        "wide_mb": round(wide.stat().st_size / 1e6, 1),
        **shown("wide_full_s", cold(path, 3, lambda: of_wide(None))),
        **shown("wide_ten_ms", cold(path, rounds, lambda: of_wide(["path", *parts[:3]]).take(ten))),
        **shown("wide_range_ms", cold(path, rounds, lambda: of_wide(["path", *parts]))),
    }
    return {**figures, **(by_spark(path, wide, snapshot, names, ten) if options.spark else {})}


def entries_of(root: str, names: list[str], paths: pa.Array | None = None) -> list[tuple[Any, ...]]:
    """Nulls and bounds of columns, in the files at some paths or all: the manifest, the list of files, the entries."""
    index = Index.load(LocalStorage(root))
    assert index is not None
    found = []
    for segment in index.manifest.segments:
        reader = SegmentReader(index.storage, segment)
        listed = reader.listing().paths
        known = segment.columns.tops()
        for name in names:
            entries = reader.entries(known.index(name))
            at = slice(None) if paths is None else np.isin(entries.files, pc.index_in(paths, value_set=listed))
            found.append((listed, entries.nulls[at], entries.lower[at], entries.upper[at], entries.bounded[at]))
    return found


def wide_table(snapshot: Snapshot) -> pa.Table:
    """One row a file, three columns for each of the table's."""
    bound = opened(snapshot)
    columns: dict[str, Any] = {"path": pa.array(snapshot.paths)}
    for field in snapshot.fields:
        stats = bound.column((field.name,))
        assert stats is not None
        columns |= {
            f"{field.name}_min": stats.lower,
            f"{field.name}_max": stats.upper,
            f"{field.name}_nulls": stats.nulls,
        }
    return pa.table(columns)


def by_spark(path: Path, wide: Path, snapshot: Snapshot, names: list[str], ten: Any) -> dict[str, Any]:
    """The same by Spark SQL over the entries and over the wide file; three runs, of which the first warms the JVM."""
    spark = common.session(spark__sql__debug__maxToStringFields="10", spark__sql__codegen__maxFields="100")
    long = [str(file) for file in (path / INDEX_DIR).glob("*-entries.zskip")]
    places = {field.name: i for i, field in enumerate(snapshot.fields)}
    numbers = ", ".join(str(places[name]) for name in names)
    listed = ", ".join(map(str, ten.tolist()))
    paths = ", ".join(f"'{snapshot.paths[i]}'" for i in ten.tolist())
    parts = [f"{name}{end}" for name in names for end in ("_min", "_max", "_nulls")]
    work = {
        "spark_full_s": lambda: spark.read.parquet(*long).write.format("noop").mode("overwrite").save(),
        "spark_ten_ms": lambda: (
            spark.read.parquet(*long).where(f"column = {places[names[0]]} AND file IN ({listed})").collect()
        ),
        "spark_range_ms": lambda: spark.read.parquet(*long).where(f"column IN ({numbers})").collect(),
        "spark_wide_ten_ms": lambda: (
            spark.read.parquet(str(wide)).where(f"path IN ({paths})").select("path", *parts[:3]).collect()
        ),
        "spark_wide_range_ms": lambda: spark.read.parquet(str(wide)).select("path", *parts).collect(),
    }
    return {key: value for name, call in work.items() for key, value in shown(name, cold(path, 3, call)).items()}


# A million files


def million(path: Path, options: Any) -> dict[str, Any]:
    """A predicate on three columns of ten: from nothing, and again; `mb` is what the process grows by."""
    snapshot = read_snapshot(path)
    pa.default_memory_pool().release_unused()
    before = common.resident()
    predicate = three_columns(snapshot, (0, 4, 2))
    held: list[BoundIndex] = []
    kept: list[int] = []

    def from_nothing() -> None:
        held[:] = [opened(snapshot)]
        kept[:] = [prune(predicate, held[0]).files]

    first = cold(path, 1, from_nothing)[0][0]
    grown = common.resident() - before
    warm = [timed(lambda: prune(predicate, held[0])) for _ in range(3 * options.rounds)]
    return {
        "files": len(snapshot),
        "files_kept": kept[0],
        "disk_mb": round(sum(f.stat().st_size for f in (path / INDEX_DIR).iterdir()) / 1e6, 1),
        "first_ms": round(1000 * first, 1),
        **shown("cold_ms", cold(path, options.rounds, from_nothing)),
        **shown("warm_ms", warm),
        "mb": round(grown, 1),
        "mb_with_libraries_and_snapshot": round(before + grown, 1),
    }


def three_columns(snapshot: Snapshot, places: tuple[int, int, int]) -> Predicate:
    """An integer above the middle, a timestamp below it, and a double below it."""
    bound = opened(snapshot)
    names = [snapshot.fields[i].name for i in places]
    middle = [np.median(bound.column((name,)).lower) for name in names]  # type: ignore[union-attr]
    moment = np.datetime64(int(middle[1]), "us")
    text = f"{names[0]} > {int(middle[0])} AND {names[1]} < TIMESTAMP '{moment}' AND {names[2]} < {float(middle[2])!r}D"
    return parse(text, Columns(snapshot.fields))


if __name__ == "__main__":
    main()
