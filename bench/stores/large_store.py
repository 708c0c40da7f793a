"""A plain Parquet table of a million files on a store, made of metadata alone: open, query, look, and refresh.

python bench/stores/large_store.py --files 1000000

The listing is made up and takes no time; the index is as refreshes would have written it, on a local disk. Of the data
files only one footer is there, which the new files share. What is measured runs in a process of its own.
"""

from __future__ import annotations

import io
import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common
from shared.index_data import TYPES, make_index
from zskip.index import Index, bind_footers
from zskip.records import Snapshot
from zskip.storage import FileInfo, LocalStorage
from zskip.storage.wrapper import StorageWrapper
from zskip.table import Table
from zskip.table.handle import Handle
from zskip.table.snapshot import read_snapshot

COLUMNS = 10
NEW = 1_000
KEPT = 10
ROUNDS = 3
ARROW = {
    "long": pa.int64(), "double": pa.float64(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC"),
    "decimal(12,2)": pa.decimal128(12, 2), "date": pa.date32(), "integer": pa.int32(),
}  # fmt: skip


class Listed(StorageWrapper):
    """A directory whose data files are a listing alone, all with one footer."""

    def __init__(self, base: LocalStorage, files: list[FileInfo], data: bytes) -> None:
        super().__init__(base)
        self.files = files
        self._data = data

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        return list(self.files)

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        return self._base.open(path, size) if path.startswith("_") else io.BytesIO(self._data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


def main() -> None:
    options = common.arguments(__doc__ or "", files=1_000_000, only="", make="")
    path = common.HOME / "large-store"
    if options.make:
        keep(path, make_index(str(path), options.files, COLUMNS, options.seed).snapshot)
    elif options.only:
        print(json.dumps(measure(path)))
    else:
        shutil.rmtree(path, ignore_errors=True)
        me = [sys.executable, __file__, f"--files={options.files}", f"--seed={options.seed}"]
        common.log(f"making the index of {options.files} files")
        subprocess.run([*me, "--make=x"], check=True)
        done = subprocess.run([*me, "--only=x"], check=True, stdout=subprocess.PIPE, text=True)
        shutil.rmtree(path)
        common.emit({"machine": common.machine(), **json.loads(done.stdout.splitlines()[-1])}, options.json)


def keep(path: Path, snapshot: Snapshot) -> None:
    """Write the listing, and a predicate that keeps a few files, for the process that measures."""
    index = Index.load(LocalStorage(str(path)))
    assert index is not None
    stats = index.bind(snapshot).column(("column_0002",))
    assert stats is not None
    (path / "_where").write_text(f"column_0002 <= {np.sort(stats.lower)[KEPT - 1]!r}".replace("np.float64", ""))
    listed = {"path": snapshot.paths, "size": snapshot.sizes, "mtime_ms": snapshot.mtimes_ms}
    pq.write_table(pa.table(listed), path / "_listing")


def measure(path: Path) -> dict[str, Any]:
    """Seconds and memory of the calls."""
    listed = pq.read_table(path / "_listing").to_pydict()
    files = [FileInfo(*values) for values in zip(*listed.values(), strict=True)]
    storage = Listed(LocalStorage(str(path)), files, one_file())
    of_process = peak_mb()
    where = (path / "_where").read_text()
    kept: list[int] = []

    def query() -> None:
        kept.append(len(opened(storage).files(where)))

    figures: dict[str, float] = {"files": len(files)}
    figures |= timed("first", query)
    figures |= timed("warm", query, ROUNDS)
    assert set(kept) == {KEPT}, kept
    figures |= timed("info", lambda: opened(storage).info())
    figures["query_mb"] = peak_mb()
    size, start = len(one_file()), 1_800_000_000_000
    storage.files = files + [FileInfo(f"new-{i:05d}.parquet", size, start + i) for i in range(NEW)]
    snapshot = read_snapshot(opened(storage)._handle)
    new = snapshot.select(np.char.startswith(np.array(snapshot.paths), "new-"))
    figures |= timed("read_new", lambda: bind_footers(storage, new))
    figures |= timed("refresh", lambda: opened(storage).index())
    for unit in ("s", "cpu_s"):
        figures[f"refresh_beyond_reading_{unit}"] = figures[f"refresh_{unit}"] - figures[f"read_new_{unit}"]
    found = Index.load(storage)
    assert found is not None
    assert sum(segment.files for segment in found.manifest.segments) == len(storage.files)
    return {name: round(value, 2) for name, value in figures.items()} | {
        "mb": peak_mb(), "mb_before": of_process,
    }  # fmt: skip


def timed(name: str, work: Callable[[], Any], rounds: int = 1) -> dict[str, float]:
    """The median of some rounds by the clock, and of the processors' seconds."""
    clock, processors = [], []
    for _ in range(rounds):
        before = time.process_time()
        clock.append(common.seconds(work))
        processors.append(time.process_time() - before)
    return {f"{name}_s": statistics.median(clock), f"{name}_cpu_s": statistics.median(processors)}


def opened(storage: Listed) -> zskip.Table:
    return Table(Handle(storage, None))


def one_file() -> bytes:
    """A small file of the table's columns."""
    schema = pa.schema({f"column_{i:04d}": ARROW[TYPES[i % len(TYPES)]] for i in range(COLUMNS)})
    rows = [pa.array([1, 2], kind) if pa.types.is_integer(kind) else pa.nulls(2, kind) for kind in schema.types]
    stream = io.BytesIO()
    pq.write_table(pa.table(rows, schema=schema), stream)
    return stream.getvalue()


def peak_mb() -> int:
    """The most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    main()
