"""A table of thousands of appends, with `maintain` after each hundred: what an append, a query and the rest cost then.

python bench/growth/history.py --format parquet --appends 10000

No Spark: an append is what the driver does for `Table.append` once Spark has written the rows. `maintain` is its plan,
and the commit of the files of the hundred as one.
"""

from __future__ import annotations

import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import data, measure
from shared.workload_data import sample_of
from zskip.formats import BatchId, StagedFile
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.records import Operation
from zskip.table.journal import read_clustering, read_journal, record_operation
from zskip.table.refresh_index import refresh_index
from zskip.table.version import open_version, read_snapshot
from zskip.table.write.append import read_batch

RUNS = [
    {"name": "growth-history-parquet", "title": "Thousands of appends: plain Parquet", "case": "usual",
     "text": "Thousands of appends to one table, with `maintain` after each hundred. Without Spark: the driver's "
     "part of an append, in processor seconds of the medians of a hundred; `append_index_s` of it indexes the file. "
     "`home_files` are the files in the table's `_zskip`. What grows on Iceberg is its metadata, which lists all "
     "snapshots until they expire and is parsed for each call.",
     "options": "--format parquet --appends 10000", "hours": True,
     "goals": {"append_s_slope": ("<=", 0.2), "query_s_slope": ("<=", 0.2)},
     "shown": ["append_s", "append_index_s", "query_s", "home_files"]},
    {"name": "growth-history-delta", "title": "Thousands of appends: Delta",
     "options": "--format delta --appends 2000"},
    {"name": "growth-history-iceberg", "title": "Thousands of appends: Iceberg", "case": "hard",
     "options": "--format iceberg --appends 2000"},
]  # fmt: skip

ROWS, EACH, BY, SMALL = 200, 100, ("a", "b"), 50_000
WHERE = "a BETWEEN 5000000 AND 5010000 AND b < 1000000"
STEPS = ("plan", "commit", "record", "index")


class Grown:
    """The table of one format, which has a layout from the start."""

    def __init__(self, format_name: str, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._path = data.emptied(data.HOME / f"growth-history-{format_name}")
        self._catalog: Any = None
        self.seconds: dict[str, list[float]] = {step: [] for step in STEPS}
        first = self._rows(10_000)
        if format_name == "iceberg":
            from pyiceberg.catalog.sql import SqlCatalog

            place = {"uri": f"sqlite:///{self._path}/c.db", "warehouse": self._path.as_uri()}
            self._catalog = SqlCatalog("growth", **place)
            self._catalog.create_namespace("db")
            self._catalog.create_table("db.t", first.schema).append(first)
        elif format_name == "delta":
            import deltalake

            deltalake.write_deltalake(str(self._path / "t"), first)
        else:
            (self._path / "t").mkdir()
            pq.write_table(first, self._path / "t" / "first.parquet")
        sample = sample_of({name: first[name].to_numpy() for name in BY})
        self._layout = fit(sample, np.array([64]), partition_rows=np.array([len(first)]))
        self.replace("optimize")

    @property
    def address(self) -> Any:
        """What zskip calls the table."""
        return str(self._path / "t") if self._catalog is None else self._catalog.load_table("db.t")

    def open(self) -> zskip.Table:
        """The table without a session."""
        return zskip.open(self.address)

    def append(self, number: int) -> None:
        """One batch of a writer."""
        handle = self.open()._handle
        with timed(self.seconds["plan"]):
            snapshot = read_snapshot(handle)
            clustering = read_clustering(read_journal(handle.home), snapshot)
            assert clustering is not None
            assert clustering.largest_run.layout() is not None
            batch = read_batch(("growth", number))
            assert isinstance(batch, BatchId)
            assert (handle.format.last_batch("growth") or -1) < number
        (file,) = self._stage(handle, self._rows())
        with timed(self.seconds["commit"]):
            version = handle.format.append(snapshot, [file], {"operation": "append", "rows": ROWS}, batch)
            assert version is not None
        with timed(self.seconds["record"]):
            record(handle, "append", version, [file])
        with timed(self.seconds["index"]):
            refresh_index(open_version(handle), new_only=True)

    def replace(self, name: str) -> None:
        """Commit the rows of all small files as one file, like a merge of `maintain`, or of all files."""
        handle = self.open()._handle
        snapshot = read_snapshot(handle)
        old = np.ones(len(snapshot), np.bool_) if name == "optimize" else snapshot.sizes < SMALL
        paths = [local(handle) / path for path in snapshot.select(old).paths]
        rows = pa.concat_tables([pq.read_table(path).select(["a", "b", "c"]) for path in paths])
        added = self._stage(handle, rows)
        version = handle.format.replace(snapshot, old, added, {"operation": name, "by": list(BY), "curve": "zorder"})
        record(handle, name, version, added, self._layout)
        refresh_index(open_version(handle), new_only=True)

    def _stage(self, handle: Any, rows: pa.Table) -> list[StagedFile]:
        staging = handle.format.stage()
        path = local(handle) / staging / f"{uuid.uuid4().hex}.parquet"
        if self._catalog is not None:
            fields = [f.with_metadata({"PARQUET:field_id": str(i + 1)}) for i, f in enumerate(rows.schema)]
            rows = rows.cast(pa.schema(fields))
        pq.write_table(rows, path)
        return [StagedFile(path=f"{staging}/{path.name}", directory="", size=path.stat().st_size)]

    def _rows(self, count: int = ROWS) -> pa.Table:
        values = self._random.integers(0, 10_000_000, (3, count))
        return pa.table({name: np.sort(values[i]) if i == 0 else values[i] for i, name in enumerate("abc")})


@contextmanager
def timed(values: list[float]) -> Iterator[None]:
    """Add the processor seconds of a block to a list."""
    start = time.process_time()
    yield
    values.append(time.process_time() - start)


def local(handle: Any) -> Path:
    """The directory of a table."""
    return Path(handle.storage.root.removeprefix("file://"))


def record(handle: Any, name: str, version: int, files: list[StagedFile], layout: Layout | None = None) -> None:
    """Note an operation in the journal, without a layout one that follows the table's."""
    size = sum(file.size for file in files)
    operation = Operation(
        version=version, time_ms=int(1000 * time.time()), operation=name, by=BY, curve="zorder", build="sample",
        rows=ROWS, files_removed=0, files_added=len(files), bytes_removed=0, bytes_added=size, seconds=0.1,
    )  # fmt: skip
    names = [file.path.rpartition("/")[2] for file in files]
    follows = layout is None
    record_operation(
        open_version(handle), operation, names=names, layout=layout, follows=follows, target_file_size=1_000_000
    )


def cost(work: Callable[[], Any], rounds: int = 3) -> float:
    """The median of the processor seconds of a call."""
    return statistics.median(measure.timed(work)[1] for _ in range(rounds))


def figures_of(table: Grown) -> dict[str, Any]:
    """The costs after a hundred appends."""
    steps = {f"append_{step}_s": statistics.median(values) for step, values in table.seconds.items()}
    table.seconds = {step: [] for step in STEPS}
    figures = {"append_s": sum(steps.values()), **steps}
    figures["maintain_plan_s"] = cost(lambda: table.open().maintain(by=BY, dry_run=True, target_file_size="1 MB"))
    figures["maintain_commit_s"] = cost(lambda: table.replace("maintain"), 1)
    handle = table.open()._handle
    home = [path for path in (local(handle) / handle.format.home).rglob("*") if path.is_file()]
    return {
        **figures,
        "open_s": cost(lambda: table.open().info()),
        "query_s": cost(lambda: table.open().files(WHERE)),
        "history_s": cost(lambda: table.open().history()),
        "table_files": len(table.open().files()),
        "home_files": len(home),
        "home_mb": sum(path.stat().st_size for path in home) / 1e6,
    }


def main() -> None:
    """Measure, and keep the figures."""
    options = measure.arguments(__doc__ or "", format="parquet", appends=10_000)
    table, rows = Grown(options.format, options.seed), []
    for number in range(options.appends):
        table.append(number)
        if (number + 1) % EACH == 0:
            rows.append({"appends": number + 1, **figures_of(table)})
            measure.log(str(rows[-1]))
    measure.emit_series(rows, options.json)


if __name__ == "__main__":
    main()
