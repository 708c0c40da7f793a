"""What one task of a rewrite through Arrow costs as the table grows: the same rows, shipped to more and more files.

python bench/layout/shipping.py --scale 1

Without Spark. `near_cpu_s`: to read lineitem, place its rows, divide them by groups of files, and compress;
`far_cpu_s`: to read the batches back, divide them by files, and sort each file; no Parquet is written. `over`: both,
over those of the fewest files. `peak_mb`: the memory that the larger side adds to a worker; `closure_kb`: what Spark
broadcasts for all tasks. The layout is fitted to the rows themselves, of which 32,000 files have less than 200 each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rewrite_memory import Peak
from shared import common
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.records import Field, Sample
from zskip.spark.shipping import by_value
from zskip.spark.write.arrow.access import DiskAccess
from zskip.spark.write.arrow.columns import column_values
from zskip.spark.write.arrow.dividing import Group, arriving
from zskip.spark.write.arrow.placing import Placement, describe_tasks, placer
from zskip.spark.write.arrow.reading import Source
from zskip.spark.write.arrow.tasks import group_files
from zskip.types import DataType

TYPES = {"l_partkey": "long", "l_suppkey": "long", "l_shipdate": "date"}
TABLE_FILE_BYTES = 128 << 20
"""Of the table of which this is one task."""
CORES = 16


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", scale=1.0, files="64,512,2000,8000,32000", only="")
    common.lineitem(options.scale)
    if options.only:
        print(json.dumps(measure(options.scale, int(options.only))))
        return
    figures: dict[str, Any] = {"machine": common.machine()}
    first = 0.0
    for files in options.files.split(","):
        new = common.in_a_process(__file__, files, [f"--scale={options.scale}"])
        seconds = new["near_cpu_s"] + new["far_cpu_s"]
        first = first or seconds
        figures |= {f"{files}_{name}": value for name, value in {**new, "over": round(seconds / first, 2)}.items()}
        common.log(f"{files} files: {new}")
    common.emit(figures, options.json)


def measure(scale: float, files: int) -> dict[str, float]:
    """Both sides of one task, for a number of files."""
    from pyspark import cloudpickle

    home = common.lineitem(scale)
    paths, root = sorted(home.glob("*.parquet")), str(home)
    schema, layout = arrow_schema(pq.read_schema(paths[0])), fitted(home, files)
    files_a_group = group_files(layout.file_count, files * TABLE_FILE_BYTES, CORES)
    placement = Placement(schema=schema, layout=layout, files=layout.file_count, files_a_group=files_a_group, sort=True)
    tasks = [[Source(path.name, path.stat().st_size, 0) for path in paths]]
    place = placer(placement, lambda: DiskAccess(root), corrected=True)
    with by_value():
        closure = len(cloudpickle.dumps(place))
    stream, batches, size = str(common.HOME / "shipping.arrow"), 0, 0
    with Peak() as near, pa.OSFile(stream, "wb") as sink:
        shuffle: pa.RecordBatchStreamWriter | None = None
        for sent in place(iter([pa.record_batch({"value": describe_tasks(tasks)})])):
            shuffle = shuffle or pa.ipc.new_stream(sink, sent.schema)
            shuffle.write_batch(sent)
            batches, size = batches + sent.num_rows, size + sent.column("batch").nbytes
        assert shuffle is not None
        shuffle.close()
    rows, divided, order = 0, 0, layout.page_order
    assert order is not None
    with Peak() as far:
        for shipped in by_group(stream):
            with Group(schema, files_a_group) as group:
                for part in arriving(shipped):
                    group.add(part)
                for _, table in group.tables(lambda keys: order.sort(keys, 20_000)):
                    rows, divided = rows + table.num_rows, divided + 1
    if rows != sum(pq.read_metadata(path).num_rows for path in paths):
        raise SystemExit("rows are lost")
    figures = {
        "near_cpu_s": near.seconds,
        "far_cpu_s": far.seconds,
        "batch_kb": size / batches / 1024,
        "shipped_mb": size / 1e6,
        "files": float(divided),
        "peak_mb": max(near.mb, far.mb),
        "closure_kb": closure / 1024,
    }
    return {name: round(value, 1) for name, value in figures.items()}


def arrow_schema(stored: pa.Schema) -> pa.Schema:
    """The columns as a rewrite reads them."""
    kinds = {pa.types.is_decimal128: lambda kind: pa.decimal64(kind.precision, kind.scale)}
    kinds |= dict.fromkeys((pa.types.is_string_view, pa.types.is_large_string), lambda _: pa.string())
    types = [next((to(f.type) for of, to in kinds.items() if of(f.type)), f.type) for f in stored]
    return pa.schema(list(zip(stored.names, types, strict=True)))


def fitted(home: Path, files: int) -> Layout:
    """A layout of that many files, fitted to a sample of some rows a file."""
    content = ds.dataset(home, format="parquet").to_table(columns=list(TYPES)).combine_chunks()
    fields = tuple(Field(name=name, type=DataType(kind)) for name, kind in TYPES.items())
    pick = np.random.default_rng(1).choice(len(content), min(len(content), max(100_000, 50 * files)), replace=False)
    forms = [column_values(content[field.name].combine_chunks(), field.type) for field in fields]
    sample = Sample(
        fields=fields,
        columns=tuple(values[pick] for values, _ in forms),
        nulls=tuple(nulls[pick] for _, nulls in forms),
        partition=np.zeros(len(pick), np.int32),
        weights=np.full(len(pick), len(content) / len(pick)),
    )
    return fit(sample, np.array([files]), partition_rows=np.array([len(content)]))


def by_group(stream: str) -> Iterator[list[pa.RecordBatch]]:
    """What Spark's shuffle gives to each task: the batches of its group."""
    shuffle = pa.ipc.open_stream(pa.memory_map(stream)).read_all()
    groups = shuffle["group"].to_numpy()
    for group in np.unique(groups).tolist():
        yield [
            batch for row in np.flatnonzero(groups == group).tolist() for batch in shuffle.slice(row, 1).to_batches()
        ]


if __name__ == "__main__":
    main()
