"""Memory of one Python worker of a rewrite, without Spark: to place the rows of 128 MB, and to write files of 128 MB.

python bench/rewrite_memory.py --files 2
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shared import common
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.records import Field, Sample
from zskip.spark.write.arrow.access import DiskAccess
from zskip.spark.write.arrow.dividing import writer
from zskip.spark.write.arrow.placing import Placement, describe_tasks, placer
from zskip.spark.write.arrow.reading import Source
from zskip.spark.write.arrow.writing import FileOptions
from zskip.types import DataType

FILE_BYTES = 128 << 20
TEXT_BYTES = {"narrow": 20, "wide": 10_000}
BY = ("a", "b")


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=2, only="")
    if options.only:
        print(json.dumps(measure(options.only, options.files)))
        return
    figures: dict[str, Any] = {"machine": common.machine()}
    for rows in TEXT_BYTES:
        command = [sys.executable, __file__, f"--only={rows}", f"--files={options.files}"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures |= json.loads(done.stdout)
    common.emit(figures, options.json)


def measure(rows: str, files: int) -> dict[str, float]:
    """Megabytes and processor seconds of a task that places rows and of one that writes a file."""
    home = common.HOME / f"memory-{rows}"
    schema = make(home, TEXT_BYTES[rows], files)
    (home / "out").mkdir(exist_ok=True)
    for file in (home / "out").iterdir():
        file.unlink()
    root, paths = str(home), sorted(home.glob("*.parquet"))
    reach = lambda: DiskAccess(root)  # noqa: E731
    sources = [Source(path.name, path.stat().st_size, 0) for path in paths]
    counts = [pq.read_metadata(path).num_rows for path in paths]
    layout = fitted(files)
    tasks = [[source] for source in sources]
    placement = Placement(schema=schema, layout=layout, files=files, files_a_group=files, sort=True)
    stream = home / "shuffle.arrow"
    with Peak() as place, pa.OSFile(str(stream), "wb") as sink:
        shuffle: pa.RecordBatchStreamWriter | None = None
        for batch in placer(placement, reach, corrected=True)(
            iter([pa.record_batch({"value": describe_tasks(tasks)})])
        ):
            shuffle = shuffle or pa.ipc.new_stream(sink, batch.schema)
            shuffle.write_batch(batch)
        assert shuffle is not None
        shuffle.close()
    row_bytes = sum(source.size for source in sources) / sum(counts)
    new = FileOptions(
        reach=reach, directory="out", schema=schema, codec="zstd", level=None, page_rows=20_000, row_bytes=row_bytes,
        metadata={},
    )  # fmt: skip
    with Peak() as write:
        reports = list(writer(new, files)(arriving(stream)))
    if sum(report.column("rows")[0].as_py() for report in reports) != sum(counts):
        raise SystemExit("rows are lost")
    figures = {"place_mb": place.mb, "place_cpu_s": place.seconds, "write_mb": write.mb, "write_cpu_s": write.seconds}
    return {f"{rows}_{name}": round(value, 1) for name, value in figures.items()}


def make(home: Path, text_bytes: int, files: int) -> pa.Schema:
    """Files of 128 MB, made once, of three numbers and a text of which half is chance."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.float64()), ("text", pa.string())])
    if home.exists():
        return schema
    home.mkdir(parents=True)
    random = np.random.default_rng(1)
    rows = max(1, (4 << 20) // text_bytes)
    for number in range(files):
        path = home / f"{number}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd") as stream:
            while not path.exists() or path.stat().st_size < FILE_BYTES:
                letters = random.integers(97, 113, rows * text_bytes).astype(np.uint8)
                ends = pa.py_buffer((np.arange(rows + 1) * text_bytes).astype(np.int32))
                text = pa.Array.from_buffers(pa.string(), rows, [None, ends, pa.py_buffer(letters)])
                numbers = [pa.array(random.integers(0, 1 << 40, rows)) for _ in BY]
                stream.write_table(pa.table([*numbers, pa.array(random.random(rows)), text], schema=schema))
    return schema


def fitted(files: int) -> Layout:
    """A layout by numbers of chance."""
    random = np.random.default_rng(2)
    fields = tuple(Field(name=name, type=DataType("long")) for name in BY)
    sample = Sample(
        fields=fields,
        columns=tuple(random.integers(0, 1 << 40, 10_000) for _ in BY),
        nulls=tuple(np.zeros(10_000, np.bool_) for _ in BY),
        partition=np.zeros(10_000, np.int32),
        weights=np.ones(10_000),
    )
    return fit(sample, np.array([files]), partition_rows=np.array([10_000]), curve="zorder", build="sample")


def arriving(stream: Path) -> Iterator[pa.RecordBatch]:
    """What Spark's shuffle gives to the task of the only group."""
    return iter(pa.ipc.open_stream(pa.memory_map(str(stream))))


class Peak:
    """The memory that a block adds to this process, without the pages of mapped files, and its processor seconds."""

    def __enter__(self) -> Peak:
        self.mb = self.seconds = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._began = time.process_time()
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            lines = Path("/proc/self/status").read_text().splitlines()
            self.mb = max(self.mb, sum(int(x.split()[1]) for x in lines if x.startswith("RssAnon")) * 1024 / 1e6)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.seconds = time.process_time() - self._began


if __name__ == "__main__":
    main()
