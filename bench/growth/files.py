"""What the driver does for tables of more and more files: seconds, memory, and bytes that travel with a task.

python bench/growth/files.py --sizes 1000,10000,100000

No Spark: a table is a made-up listing with an index of ten columns, as footers of such files would give it. Each size
is measured in a process of its own. `query` opens the table and keeps ten files, `append` is one new file of a thousand
rows from commit to index, `maintain` and `survey` plan; `fit` makes a layout of as many files from a sample, `tasks`
divides a rewrite, and the bytes are those that Spark sends with each task: the closure, and the task's own files.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import common, growth
from shared.index_data import make_index
from stores.large_store import Listed, keep, one_file
from zskip.lake.examine import Terms, examine
from zskip.layout.fit import fit
from zskip.layout.sampling import LARGEST_SAMPLE, ROWS_PER_FILE, SMALLEST_SAMPLE
from zskip.records import Field, ReadableFiles, Sample, Snapshot
from zskip.spark.shipping import by_value
from zskip.spark.write.arrow.access import DiskAccess
from zskip.spark.write.arrow.job import group_files, split_into_tasks
from zskip.spark.write.arrow.placing import Placement, describe_tasks, placer
from zskip.storage import FileInfo, LocalStorage
from zskip.table import Table
from zskip.table.handle import Handle
from zskip.table.snapshot import read_snapshot
from zskip.types import DataType

COLUMNS, BY, CORES = 10, ("column_0000", "column_0006"), 100


def main() -> None:
    """Measure, and keep the figures."""
    options = common.arguments(__doc__ or "", sizes="1000,3000,10000,30000,100000", only="", make="")
    if options.make:
        path = Path(options.make)
        keep(path, make_index(str(path), int(path.name.rpartition("-")[2]), COLUMNS, options.seed).snapshot)
        return
    if options.only:
        print(json.dumps(measure(common.HOME / options.only)))
        return
    rows = []
    for size in map(int, options.sizes.split(",")):
        path = common.HOME / f"growth-files-{size}"
        rows.append({"files": size, **common.in_a_process(__file__, path.name, [f"--seed={options.seed}"], path)})
        shutil.rmtree(path)
        common.log(str(rows[-1]))
    result = growth.keep("files", "files", rows, options.seed)
    common.emit({"machine": result["machine"], **rows[-1]}, options.json)


def measure(path: Path) -> growth.Row:
    """The figures of one table, in the order of their demands."""
    listed = pq.read_table(path / "_listing").to_pydict()
    files = [FileInfo(*values) for values in zip(*listed.values(), strict=True)]
    storage = Listed(LocalStorage(str(path)), files, one_file())
    where, before = (path / "_where").read_text(), common.peak()

    def opened() -> Table:
        return Table(Handle(storage, None))

    figures = timed("query", lambda: opened().files(where))
    figures |= timed("info", lambda: opened().info())
    figures |= timed("maintain_plan", lambda: opened().maintain(by=BY, dry_run=True, target_file_size="128MB"))
    figures |= timed("survey", lambda: examine("t", Handle(storage, None), Terms()))
    snapshot = read_snapshot(Handle(storage, None))

    def append() -> None:
        storage.files = [*files, FileInfo("new.parquet", len(one_file()), 1_800_000_000_000)]
        opened().index()

    figures |= timed("append_index", append)
    figures |= rewrite(snapshot)
    return growth.rounded({**figures, "driver_mb": common.peak() - before})


def rewrite(snapshot: Snapshot) -> dict[str, float]:
    """What a rewrite into as many files costs the driver, and what a task gets."""
    from pyspark import cloudpickle

    count = len(snapshot)
    rows = min(max(ROWS_PER_FILE * count, SMALLEST_SAMPLE), LARGEST_SAMPLE)
    random = np.random.default_rng(1)
    sample = Sample(
        fields=tuple(Field(name=name, type=DataType("long")) for name in BY),
        columns=tuple(random.integers(0, 10**12, rows) for _ in BY),
        nulls=tuple(np.zeros(rows, np.bool_) for _ in BY),
        partition=np.zeros(rows, np.int32),
        weights=np.ones(rows),
    )
    layouts: list[Any] = []
    figures = timed(
        "fit", lambda: layouts.append(fit(sample, np.array([count]), partition_rows=np.array([count * 10**6])))
    )
    layout, texts = layouts[0], list[list[str]]()
    figures |= timed(
        "tasks", lambda: texts.append(describe_tasks(split_into_tasks(snapshot, ReadableFiles(columns=""), 4 * CORES)))
    )
    schema = pa.schema([(name, pa.int64()) for name in BY])
    groups = group_files(layout.file_count, snapshot.bytes, CORES)
    placement = Placement(schema=schema, layout=layout, files=layout.file_count, files_a_group=groups, sort=True)
    with by_value():
        closure = len(cloudpickle.dumps(placer(placement, lambda: DiskAccess("/t"), corrected=True)))
    figures |= timed("layout_in_a_task", lambda: type(layout).from_json(placement.layout))
    sizes = [len(text) for text in texts[0]]
    bytes_of = {"closure_kb": closure / 1e3, "task_kb": max(sizes) / 1e3, "all_tasks_mb": sum(sizes) / 1e6}
    return {**figures, "layout_kb": len(placement.layout or "") / 1e3, **bytes_of, "tasks": len(sizes)}


def timed(name: str, work: Callable[[], Any]) -> dict[str, float]:
    """The processor seconds of a call."""
    start = time.process_time()
    work()
    return {f"{name}_s": time.process_time() - start}


if __name__ == "__main__":
    main()
