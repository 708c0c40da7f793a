"""What more and more columns cost: the index, a query, and the two sides of a rewrite.

python bench/growth/columns.py --sizes 10,50,200,1000,5000

No Spark: a table has four files of 500 rows, whose columns take turns in six types. `index` reads the footers,
`refresh` finds that there is nothing to do, `query` opens the table and asks for two columns, `place` is what a task
does that reads all four files, and `write` what the one does that gets their rows and writes four files. The seconds
are of this process's processors, `kb` what Spark sends with each task.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from growth.files import timed
from shared import common, growth
from zskip.layout.fit import fit
from zskip.records import Field, Sample
from zskip.spark.shipping import by_value
from zskip.spark.write.arrow.access import DiskAccess
from zskip.spark.write.arrow.dividing import writer
from zskip.spark.write.arrow.placing import Placement, describe_tasks, placer
from zskip.spark.write.arrow.reading import Source
from zskip.spark.write.arrow.writing import FileOptions
from zskip.types import DataType

FILES, ROWS, BY = 4, 500, ("c0000", "c0001")


def main() -> None:
    """Measure, and keep the figures."""
    options = common.arguments(__doc__ or "", sizes="10,30,100,300,1000")
    rows = []
    for size in map(int, options.sizes.split(",")):
        path = made(size, options.seed)
        measure(path)  # What is imported or compiled once is not counted.
        rows.append({"columns": size, **measure(path)})
        shutil.rmtree(path)
        common.log(str(rows[-1]))
    result = growth.keep("columns", "columns", rows, options.seed)
    common.emit({"machine": result["machine"], **rows[-1]}, options.json)


def made(columns: int, seed: int) -> Path:
    """A table of so many columns."""
    path = common.HOME / "growth-columns"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for file in range(FILES):
        values = random.integers(0, 10**9, (columns, ROWS))
        whole = {f"c{i:04d}": typed(i, values[i]) for i in range(columns)}
        pq.write_table(pa.table(whole), path / f"part-{file}.parquet", compression="zstd")
    return path


def typed(number: int, values: Any) -> pa.Array:
    """Values in the type of a column; the first two are integers."""
    array = pa.array(values)
    kinds = [pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.timestamp("us", "UTC"), pa.decimal128(20, 0)]
    return array.cast(kinds[number % len(kinds)])


def measure(path: Path) -> growth.Row:
    """The figures of one table."""
    shutil.rmtree(path / "_zskip", ignore_errors=True)
    figures = timed("index", lambda: zskip.open(str(path)).index())
    figures |= timed("refresh", lambda: zskip.open(str(path)).index())
    figures |= timed("query", lambda: zskip.open(str(path)).files("c0000 < 5000 AND c0001 > 7"))
    figures |= timed("info", lambda: zskip.open(str(path)).info())
    figures["index_kb"] = sum(file.stat().st_size for file in (path / "_zskip").rglob("*") if file.is_file()) / 1e3
    return growth.rounded({**figures, **rewrite(path)})


def rewrite(path: Path) -> dict[str, float]:
    """Both sides of the shuffle of a rewrite."""
    from pyspark import cloudpickle

    paths, root = sorted(path.glob("*.parquet")), str(path)
    rows = pa.concat_tables([pq.read_table(file, columns=list(BY)) for file in paths])
    schema = pq.read_schema(paths[0])
    sample = Sample(
        fields=tuple(Field(name=name, type=DataType("long")) for name in BY),
        columns=tuple(rows[name].to_numpy() for name in BY),
        nulls=tuple(np.zeros(len(rows), np.bool_) for _ in BY),
        partition=np.zeros(len(rows), np.int32),
        weights=np.ones(len(rows)),
    )
    layout = fit(sample, np.array([FILES]), partition_rows=np.array([len(rows)]))
    reach = lambda: DiskAccess(root)  # noqa: E731
    placement = Placement(schema=schema, layout=layout, files=FILES, files_a_group=FILES, sort=True)
    place, shipped = placer(placement, reach, corrected=True), list[pa.RecordBatch]()
    texts = describe_tasks([[Source(file.name, file.stat().st_size, 0) for file in paths]])
    figures = timed("place", lambda: shipped.extend(place(iter([pa.record_batch({"value": texts})]))))
    (path / "out").mkdir(exist_ok=True)
    size = sum(file.stat().st_size for file in paths)
    new = FileOptions(
        reach=reach, directory="out", schema=schema, codec="zstd", level=None, page_rows=20_000,
        row_bytes=size / len(rows), metadata={}, page_order=layout.page_order,
    )  # fmt: skip
    write, reports = writer(new, FILES), list[pa.RecordBatch]()
    figures |= timed("write", lambda: reports.extend(write(iter(shipped))))
    assert sum(sum(report.column("rows").to_pylist()) for report in reports) == len(rows)
    shutil.rmtree(path / "out")
    with by_value():
        kb = {name: len(cloudpickle.dumps(task)) / 1e3 for name, task in (("place", place), ("write", write))}
    return {**figures, **{f"{name}_kb": value for name, value in kb.items()}}


if __name__ == "__main__":
    main()
