"""A table that grows by tenths: `maintain` after each append, beside Delta's CLUSTER BY and one full optimize.

The tenths are files of another writer, or come through `zskip.write` and `Table.append`, with and without `maintain`.

python bench/maintain.py --scale 0.2 --files 64 --orders random

`written` counts the bytes of all files that maintenance added, over the bytes of the table at the end; `kept_pct` is
the mean share of rows in the files that 100 random queries keep, by the bounds of the files. Delta is left out without
its jars, which `python3 dev.py test-engines` fetches, or --jars names.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from shared import common

APPENDS = 10


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(
        __doc__ or "", scale=1.0, files=64, jars="", orders="random,shipdate", budget=0.1, queries=100
    )
    paths = options.jars.split(os.pathsep) if options.jars else common.engine_jars("delta")
    spark = common.session(**({"spark.jars": ",".join(paths)} | common.READERS["delta"] if paths else {}))
    source = common.lineitem(options.scale)
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "scale": options.scale}
    rows = plain(pa.concat_tables([pq.read_table(file) for file in sorted(source.glob("*.parquet"))]))
    queries = common.queries(source, common.CLUSTER_BY, options.queries, options.seed)
    for order in options.orders.split(","):
        parts = tenths(rows, order, options.seed)
        whole = grow(common.HOME / f"maintain-{order}-full", parts, lambda path: None)
        size = sum(file.stat().st_size for file in files_of(whole))
        target = size // options.files
        zskip.open(str(whole)).index()
        unordered = kept_pct(whole, queries)
        zskip.table(spark, str(whole)).optimize(common.CLUSTER_BY, files=options.files)
        best = kept_pct(whole, queries)
        ours = Ours(spark, target)
        path = grow(common.HOME / f"maintain-{order}-zskip", parts, ours)
        figures |= told(f"{order}_zskip", ours.written / size, kept_pct(path, queries), best, path)
        appender, ordered = Appends(spark, target), Ours(spark, target)
        path = grow(common.HOME / f"maintain-{order}-appends", parts, ordered, appender)
        figures |= told(f"{order}_appends_and_maintain", ordered.written / size, kept_pct(path, queries), best, path)
        path = grow(common.HOME / f"maintain-{order}-alone", parts, lambda path: None, appender)
        figures |= told(f"{order}_appends_alone", 0.0, kept_pct(path, queries), best, path)
        figures[f"{order}_appends_alone_kept_over_plain_appends"] = round(kept_pct(path, queries) / unordered, 3)
        capped = Ours(spark, target, budget=int(options.budget * size))
        grow(common.HOME / f"maintain-{order}-budget", parts, capped)
        figures[f"{order}_budget_most_over_files"] = round(capped.over, 2)
        figures[f"{order}_budget_share_falls"] = capped.falls
        drawn = np.random.default_rng(options.seed).choice(len(rows), max(len(rows) // 100, 1), replace=False)
        pq.write_table(rows.take(pa.array(drawn)), whole / "one-percent.parquet", compression="zstd")
        again = zskip.table(spark, str(whole)).maintain(target_file_size=target)
        figures[f"{order}_one_percent_written_pct"] = round(100 * again.bytes_written / size, 2)
        common.log(f"{order}: {figures}")
        if paths:
            peer = Delta(spark, target)
            path = grow(common.HOME / f"maintain-{order}-delta", parts, peer, peer.append)
            figures |= told(f"{order}_delta", peer.written / size, kept_pct(path, queries), best, path)
    common.emit(figures, options.json)


def plain(rows: pa.Table) -> pa.Table:
    """The same with texts of the type that can be taken apart."""
    views = pa.types.is_string_view
    return rows.cast(pa.schema([field.with_type(pa.string()) if views(field.type) else field for field in rows.schema]))


def tenths(rows: pa.Table, order: str, seed: int) -> list[pa.Table]:
    """The rows in ten parts, drawn at random or by l_shipdate."""
    keys = np.random.default_rng(seed).random(len(rows))
    if order == "shipdate":
        keys = rows["l_shipdate"].cast(pa.int32()).to_numpy() + keys
    places = np.array_split(np.argsort(keys), APPENDS)
    return [rows.take(pa.array(np.sort(part))) for part in places]


def grow(
    path: Path,
    parts: list[pa.Table],
    maintain: Callable[[Path], None],
    append: Callable[[Path, pa.Table, int], None] | None = None,
) -> Path:
    """Make a table of ten appends of two files each, with maintenance after each."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    for number, part in enumerate(parts):
        (append or write)(path, part, number)
        maintain(path)
    return path


def write(path: Path, part: pa.Table, number: int) -> None:
    """Two files of every other row."""
    half = np.arange(len(part)) % 2
    for i in (0, 1):
        rows = part.filter(pa.array(half == i))
        pq.write_table(rows, path / f"append-{number}-{i}.parquet", compression="zstd")


def files_of(path: Path) -> list[Path]:
    """The files that any reader of the directory sees."""
    return sorted(file for file in path.glob("*.parquet"))


def kept_pct(path: Path, queries: list[str]) -> float:
    """Mean share of the rows, in %, that lie in files which a query keeps."""
    table = zskip.open(str(path))
    found = [table.prune(where) for where in queries]
    return 100 * float(np.mean([(scan.rows or 0) / max(scan.rows_total or 1, 1) for scan in found]))


class Ours:
    """`maintain` after each append."""

    def __init__(self, spark: Any, target: int, budget: int | None = None) -> None:
        self._spark = spark
        self._target = target
        self._budget = None if budget is None else max(budget, target)
        self.written = 0
        self.over = 0.0
        """By how much of one file a call went over its budget, at most."""
        self.falls = True
        """Whether each call that did something lowered the share."""

    def __call__(self, path: Path) -> None:
        sizes = {file.name: file.stat().st_size for file in files_of(path)}
        found = zskip.table(self._spark, str(path)).maintain(
            by=common.CLUSTER_BY, target_file_size=self._target, budget=self._budget
        )
        self.written += found.bytes_written
        if self._budget is not None:
            gone = sum(sizes.values()) - sum(sizes[n] for n in sizes.keys() & {f.name for f in files_of(path)})
            self.over = max(self.over, (gone - self._budget) / max(sizes.values()))
        self.falls &= found.batches == 0 or found.kept_after < found.kept_before
        common.log(f"{path.name}: {found}")


class Appends:
    """The first tenth by `zskip.write`, the others by `Table.append`."""

    def __init__(self, spark: Any, target: int) -> None:
        self._spark = spark
        self._target = target

    def __call__(self, path: Path, part: pa.Table, number: int) -> None:
        new = path.with_name("maintain-new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        write(new, part, number)
        rows = self._spark.read.parquet(str(new))
        if number == 0:
            common.log(str(zskip.write(rows, path, by=common.CLUSTER_BY, target_file_size=self._target)))
        else:
            common.log(str(zskip.table(self._spark, str(path)).append(rows)))


class Delta:
    """OPTIMIZE of a CLUSTER BY table after each append."""

    def __init__(self, spark: Any, target: int) -> None:
        self._spark = spark
        self.written = 0
        for name in ("maxFileSize", "minFileSize"):
            spark.conf.set(f"spark.databricks.delta.optimize.{name}", str(target))

    def append(self, path: Path, part: pa.Table, number: int) -> None:
        """Two files, through Spark."""
        frame = self._spark.createDataFrame(part)
        if number == 0:
            ddl, by = frame._jdf.schema().toDDL(), ", ".join(common.CLUSTER_BY)
            self._spark.sql(f"CREATE TABLE delta.`{path}` ({ddl}) USING delta CLUSTER BY ({by})")
        frame.coalesce(2).write.format("delta").mode("append").save(str(path))

    def __call__(self, path: Path) -> None:
        (row,) = self._spark.sql(f"OPTIMIZE delta.`{path}`").collect()
        self.written += row["metrics"]["filesAdded"]["totalSize"] or 0


def told(name: str, written: float, kept: float, best: float, path: Path) -> dict[str, Any]:
    """The figures of one table."""
    return {
        f"{name}_written": round(written, 2),
        f"{name}_kept_pct": round(kept, 2),
        f"{name}_kept_over_full": round(kept / best, 3),
        f"{name}_files": len(zskip.open(str(path)).files()),
    }


if __name__ == "__main__":
    main()
