"""What the driver does for tables of more and more files: seconds, memory, and bytes that travel with a task.

python bench/growth/files.py --sizes 1000,10000,100000

No Spark: a table is a made-up listing with an index, as footers of such files would give it.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import data, measure
from shared.index_data import keep, make_index, random_rows
from shared.workload_data import sample_of
from zskip.index import Index
from zskip.layout.fit import fit
from zskip.layout.sampling import LARGEST_SAMPLE, ROWS_PER_FILE, SMALLEST_SAMPLE
from zskip.records import ReadableFiles, Snapshot
from zskip.spark.shipping import by_value
from zskip.spark.write.arrow.access import DiskAccess
from zskip.spark.write.arrow.job import group_files, split_into_tasks
from zskip.spark.write.arrow.placing import Placement, placer
from zskip.spark.write.arrow.reading import describe_tasks
from zskip.storage import FileInfo, LocalStorage
from zskip.storage.wrapper import StorageWrapper
from zskip.table import Table
from zskip.table.handle import Handle
from zskip.table.version import read_snapshot

RUNS = [
    {"name": "growth-files", "title": "More and more files", "case": "hard",
     "text": "What the driver does for a table of ten indexed columns, in processor seconds, and what Spark sends "
     "with each task of a rewrite on 100 cores. `query_s` opens the table and keeps ten files, `append_index_s` "
     "indexes one new file, `fit_s` makes a layout of as many files, `layout_in_a_task_s` is what each task takes to "
     "read it.",
     "options": "--sizes 1000,3000,10000,30000,100000",
     "goals": {"query_s_slope": ("<=", 0.5), "append_index_s_slope": ("<=", 0.5), "fit_s_slope": ("<=", 1),
     "task_kb_slope": ("<=", 0.1)},
     "shown": ["query_s", "maintain_plan_s", "append_index_s", "fit_s", "closure_kb", "task_kb", "driver_mb"]},
]  # fmt: skip

COLUMNS, BY, CORES, KEPT = 10, ("column_0000", "column_0006"), 100, 10


class Tail(io.BytesIO):
    """A file of a size of which only the end is there."""

    def __init__(self, content: bytes, size: int) -> None:
        super().__init__(content)
        self._missing = size - len(content)

    def seek(self, offset: int, whence: int = 0) -> int:
        return super().seek(offset if whence else offset - self._missing, whence) + self._missing


class Listed(StorageWrapper):
    """A directory whose data files are a listing alone, all with one footer."""

    def __init__(self, base: LocalStorage, files: list[FileInfo], content: bytes) -> None:
        super().__init__(base)
        self.files, self._content = files, content

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        return list(self.files)

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        return self._base.open(path, size) if path.startswith("_") else Tail(self._content, size or len(self._content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", sizes="1000,3000,10000,30000,100000", only="", make="")
    if options.make:
        path = Path(options.make)
        make(path, int(path.name.rpartition("-")[2]), options.seed)
    elif options.only:
        print(json.dumps(costs(data.HOME / options.only)))
    else:
        rows = []
        for size in map(int, options.sizes.split(",")):
            path = data.HOME / f"growth-files-{size}"
            rows.append({"files": size, **measure.in_a_process(__file__, path.name, [f"--seed={options.seed}"], path)})
            shutil.rmtree(path)
            measure.log(str(rows[-1]))
        measure.emit_series(rows, options.json)


def make(path: Path, files: int, seed: int) -> None:
    """Write the index, the listing, and a predicate that keeps a few files."""
    index = make_index(str(path), files, COLUMNS, seed)
    keep(path, index)
    stats = Index.load(index.storage).bind(index.snapshot).column(("column_0002",))  # type: ignore[union-attr]
    assert stats is not None
    (path / "_where").write_text(f"column_0002 <= {float(np.sort(stats.lower)[KEPT - 1])!r}")


def costs(path: Path) -> dict[str, Any]:
    """The figures of one table, in the order of their demands."""
    listing = pq.read_table(path / "_snapshot.parquet").to_pydict()
    files = [FileInfo(*values) for values in zip(*listing.values(), strict=True)]
    content = one_file()
    storage = Listed(LocalStorage(str(path)), files, content)
    where, before = (path / "_where").read_text(), measure.peak()

    def opened() -> Table:
        return Table(Handle(storage, None))

    def append() -> None:
        storage.files = [*files, FileInfo("new.parquet", len(content), 1_800_000_000_000)]
        opened().index()

    figures = cpu("query", lambda: opened().files(where))
    figures |= cpu("info", lambda: opened().info())
    figures |= cpu("maintain_plan", lambda: opened().maintain(by=BY, dry_run=True, target_file_size="128MB"))
    snapshot = read_snapshot(Handle(storage, None))
    figures |= cpu("append_index", append)
    figures |= rewrite(snapshot)
    return {**figures, "driver_mb": measure.peak() - before}


def rewrite(snapshot: Snapshot) -> dict[str, float]:
    """What a rewrite into as many files costs the driver, and what a task gets."""
    from pyspark import cloudpickle

    count, random = len(snapshot), np.random.default_rng(1)
    rows = min(max(ROWS_PER_FILE * count, SMALLEST_SAMPLE), LARGEST_SAMPLE)
    sample = sample_of({name: random.integers(0, 10**12, rows) for name in BY})
    layouts: list[Any] = []
    texts: list[str] = []
    figures = cpu(
        "fit", lambda: layouts.append(fit(sample, np.array([count]), partition_rows=np.array([count * 10**6])))
    )
    figures |= cpu(
        "tasks", lambda: texts.extend(describe_tasks(split_into_tasks(snapshot, ReadableFiles(columns=""), 4 * CORES)))
    )
    layout = layouts[0]
    schema = pa.schema([(name, pa.int64()) for name in BY])
    groups = group_files(layout.file_count, snapshot.bytes, CORES)
    placement = Placement(schema=schema, layout=layout, files=layout.file_count, files_a_group=groups, sort=True)
    with by_value():
        closure = len(cloudpickle.dumps(placer(placement, lambda: DiskAccess("/t"), corrected=True)))
    figures |= cpu("layout_in_a_task", lambda: type(layout).from_json(placement.layout))
    sizes = [len(text) for text in texts]
    figures |= {"layout_kb": len(placement.layout or "") / 1e3, "closure_kb": closure / 1e3}
    return {**figures, "task_kb": max(sizes) / 1e3, "all_tasks_mb": sum(sizes) / 1e6, "tasks": len(sizes)}


def one_file() -> bytes:
    """The end of a file of the table's columns, as long as what is read at once."""
    stream = io.BytesIO()
    pq.write_table(random_rows(np.random.default_rng(1), COLUMNS, 2), stream)
    return bytes(1 << 17) + stream.getvalue()


def cpu(name: str, work: Callable[[], Any]) -> dict[str, float]:
    """The processor seconds of a call."""
    return {f"{name}_s": measure.timed(work)[1]}


if __name__ == "__main__":
    main()
