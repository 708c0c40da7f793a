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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import data, measure, session
from shared.index_data import keep, make_index, random_rows, read_snapshot
from zskip.formats.parquet.format import ParquetFormat
from zskip.index import BoundIndex, Index, refresh
from zskip.index.store.segment import INDEX_DIR, SegmentReader
from zskip.predicate import Columns, Predicate, parse
from zskip.prune import prune
from zskip.records import Snapshot
from zskip.storage import LocalStorage

RUNS = [
    {"name": "index", "title": "The index by itself", "case": "hard",
     "text": "`rfc27`: a table of RFC-27's shape, 1,288 files of 2,078 columns, 2.7 million entries with random low "
     "digits (bench/shared/index_data.py says how they are made), every figure cold from disk and from the manifest "
     "on: all entries (`full`), one column of ten files (`ten`), four columns of all files (`range`), and the same "
     "as a query does it, which matches the list of files with the live ones (`by_a_query`); beside them one row a "
     "file in Parquet (`wide`), and Spark SQL over both. `million`: a predicate on 3 columns of 10 over the index of "
     "1,000,000 files, from the manifest on and then again; `mb` is by what the process grows once it holds the list "
     "of live files. Medians; `cpu` is the time of the processors.",
     "options": "--files 1288 --columns 2078 --million 1000000",
     "goals": {"rfc27_mb": ("<=", 36), "rfc27_full_s": ("<=", 0.5), "rfc27_ten_ms": ("<=", 5),
     "rfc27_range_ms": ("<=", 10), "million_cold_ms": ("<=", 500), "million_warm_ms": ("<=", 50),
     "million_mb": ("<=", 250)}},
    {"name": "index-build", "title": "Building an index", "case": "usual",
     "text": "The min/max index of 10,000 files of 100 columns, from footers that are in memory. A core's files a "
     "second are those by the processors' time, of which two fifths are Arrow's for parsing the footers, and a "
     "quarter its for handing over the statistics of a million columns. The files are hard links to 500 of 20 rows.",
     "options": "--parts build --files 10000 --columns 100 --rounds 3",
     "goals": {"build_files_a_second_a_core": (">=", 2000)}},
]  # fmt: skip

TEN, DISTINCT = 10, 500


def main() -> None:
    """Run the parts one after another, and print the figures."""
    options = measure.arguments(
        __doc__ or "", files=1288, columns=2078, million=1_000_000, rounds=9, parts="rfc27,million", only="", make=""
    )
    if options.make:
        keep(Path(options.make), make_index(options.make, options.files, options.columns, options.seed))
    elif options.only:
        part = {"rfc27": rfc27, "million": million, "build": build}[options.only]
        print(json.dumps(part(data.HOME / f"index-{options.only}", options)))
    else:
        figures: dict[str, Any] = {}
        sizes = {"rfc27": (options.files, options.columns), "million": (options.million, 10)}
        sizes["build"] = (options.files, options.columns)
        for name in options.parts.split(","):
            files, columns = sizes[name]
            path = data.HOME / f"index-{name}"
            given = [f"--seed={options.seed}", f"--files={files}", f"--columns={columns}"]
            given.append(f"--rounds={options.rounds}")
            figures[name] = measure.in_a_process(__file__, name, given, None if name == "build" else path)
            shutil.rmtree(path)
        measure.emit(figures, options.json)


def opened(snapshot: Snapshot) -> BoundIndex:
    """The index as a query opens it: the manifest, the list of files, and their places in the snapshot."""
    index = Index.load(LocalStorage(snapshot.root))
    assert index is not None
    return index.bind(snapshot)


Took = list[tuple[float, float]]
"""Seconds of some calls: by the clock, and of the processors."""


def cold(path: Path, rounds: int, work: Callable[[], Any]) -> Took:
    """Call with none of the files below a directory in memory."""
    return [(evict(path), *measure.timed(work))[1:] for _ in range(rounds)]


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
    return {**figures, **by_spark(path, wide, snapshot, names, ten)}


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
        parts = {"min": stats.lower, "max": stats.upper, "nulls": stats.nulls}
        columns |= {f"{field.name}_{part}": values for part, values in parts.items()}
    return pa.table(columns)


def by_spark(path: Path, wide: Path, snapshot: Snapshot, names: list[str], ten: Any) -> dict[str, Any]:
    """The same by Spark SQL over the entries and over the wide file; three runs, of which the first warms the JVM."""
    spark = session.start(spark__sql__debug__maxToStringFields="10", spark__sql__codegen__maxFields="100")
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


def million(path: Path, options: Any) -> dict[str, Any]:
    """A predicate on three columns of ten: from nothing, and again; `mb` is what the process grows by."""
    snapshot = read_snapshot(path)
    pa.default_memory_pool().release_unused()
    before = measure.resident()
    predicate = three_columns(snapshot, (0, 4, 2))
    held: list[BoundIndex] = []
    kept: list[int] = []

    def from_nothing() -> None:
        held[:] = [opened(snapshot)]
        kept[:] = [prune(predicate, held[0]).files]

    first = cold(path, 1, from_nothing)[0][0]
    grown = measure.resident() - before
    warm = [measure.timed(lambda: prune(predicate, held[0])) for _ in range(3 * options.rounds)]
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


def build(path: Path, options: Any) -> dict[str, Any]:
    """The min/max index of a table, from footers in memory: files a second, of the round that took least."""
    storage, rng = LocalStorage(str(path)), np.random.default_rng(options.seed)
    (data.emptied(path) / "_distinct").mkdir()
    distinct = [path / "_distinct" / f"{i}.parquet" for i in range(DISTINCT)]
    for file in distinct:
        pq.write_table(random_rows(rng, options.columns, 20), file, compression="zstd", store_schema=False)
    for i in range(options.files):
        os.link(distinct[i % DISTINCT], path / f"part-{i:07d}.parquet")
    snapshot = ParquetFormat(storage).snapshot()
    took = []
    for _ in range(options.rounds):
        shutil.rmtree(path / "_zskip", ignore_errors=True)
        took.append(measure.timed(lambda: refresh(storage, snapshot)))
    clock, processors = min(took, key=lambda seconds: seconds[1])
    covered = zskip.open(str(path)).info().index
    assert covered is not None and (covered.files, covered.columns) == (options.files, options.columns)  # noqa: PT018
    figures = {"files": options.files, "columns": options.columns, "s": round(clock, 2), "cpu_s": round(processors, 2)}
    return {**figures, "files_a_second_a_core": round(options.files / processors)}


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
