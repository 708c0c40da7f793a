"""A table that grows by tenths: `maintain` after each append, beside Delta's CLUSTER BY and one full optimize.

python bench/maintain.py --scale 0.2 --files 64 --orders random

The tenths are files of another writer, or come through `zskip.write` and `Table.append`, with and without `maintain`.
Delta is left out without its jars, which `python3 dev.py test-engines` fetches, or --jars names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "growing-random", "title": "A table that grows by tenths in random order", "case": "hard",
     "text": "Ten appends of two files each, with `maintain` after each. `written` are the bytes of all files that "
     "maintenance wrote, over those of the table at the end. `kept_pct` is the mean share of rows in the files that "
     "100 queries keep, `kept_over_full` the same over that of one full optimize into 64 files. `budget`: by how "
     "much of a file a call exceeded a budget of a tenth of the table, and whether each call lowered the predicted "
     "share. `one_percent`: what `maintain` writes, in % of the table, after an append of 1 % to the optimized "
     "table. `delta` is Delta's OPTIMIZE of a CLUSTER BY table. `appends`: the same rows through `zskip.write` and "
     "`Table.append`, with `maintain` after each and without (`alone`).",
     "options": "--scale 1 --files 64 --orders random",
     "goals": {"random_zskip_written": ("<=", 2.5), "random_zskip_kept_over_full": ("<=", 1.3),
     "random_zskip_files": ("<=", 128), "random_appends_and_maintain_written": ("<=", 2.0),
     "random_appends_and_maintain_kept_over_full": ("<=", 1.25),
     "random_appends_alone_kept_over_plain_appends": ("<=", 1), "random_budget_most_over_files": ("<=", 1),
     "random_budget_share_falls": ("=", True), "random_one_percent_written_pct": ("<=", 5)}},
    {"name": "growing-by-date", "title": "A table that grows by tenths in the order of l_shipdate", "case": "usual",
     "options": "--scale 1 --files 64 --orders shipdate",
     "goals": {"shipdate_zskip_written": ("<=", 1.6), "shipdate_zskip_kept_over_full": ("<=", 1.1),
     "shipdate_zskip_files": ("<=", 128), "shipdate_appends_and_maintain_written": ("<=", 1.3),
     "shipdate_appends_and_maintain_kept_over_full": ("<=", 1.15),
     "shipdate_appends_alone_kept_over_plain_appends": ("<=", 1), "shipdate_budget_most_over_files": ("<=", 1),
     "shipdate_budget_share_falls": ("=", True), "shipdate_one_percent_written_pct": ("<=", 5)}},
]  # fmt: skip

APPENDS = 10
Append = Callable[[Path, pa.Table, int], None]


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(
        __doc__ or "", scale=1.0, files=64, jars="", orders="random,shipdate", budget=0.1, queries=100
    )
    jars = options.jars.split(os.pathsep) if options.jars else session.engine_jars("delta")
    spark = session.start(**({"spark.jars": ",".join(jars)} | session.READERS["delta"] if jars else {}))
    source = data.lineitem(options.scale)
    rows = data.read_whole(sorted(source.glob("*.parquet")))
    queries = data.random_queries(source, data.CLUSTER_BY, options.queries, options.seed)
    figures: dict[str, Any] = {"scale": options.scale}
    for order in options.orders.split(","):
        parts = tenths(rows, order, options.seed)
        figures |= {
            f"{order}_{name}": value for name, value in growing(spark, parts, queries, bool(jars), options).items()
        }
    measure.emit(figures, options.json)


def growing(spark: Any, parts: list[pa.Table], queries: list[str], has_delta: bool, options: Any) -> dict[str, Any]:
    """The figures of one order of the rows."""
    whole = grow("full", parts, write)
    size = sum(file.stat().st_size for file in whole.glob("*.parquet"))
    target = size // options.files
    zskip.open(str(whole)).index()
    unordered = kept(whole, queries)
    zskip.table(spark, str(whole)).optimize(data.CLUSTER_BY, files=options.files)
    best = kept(whole, queries)
    figures: dict[str, Any] = {}

    def note(name: str, path: Path, written: int) -> None:
        share = kept(path, queries)
        figures[f"{name}_written"] = round(written / size, 2)
        figures[f"{name}_kept_pct"] = share
        figures[f"{name}_kept_over_full"] = round(share / best, 3)
        figures[f"{name}_files"] = len(zskip.open(str(path)).files())

    ours, beside, capped = (Maintenance(spark, target, budget) for budget in (None, None, int(options.budget * size)))
    append = appending(spark, target)
    note("zskip", grow("zskip", parts, write, ours), ours.written)
    note("appends_and_maintain", grow("appends", parts, append, beside), beside.written)
    alone = grow("alone", parts, append)
    note("appends_alone", alone, 0)
    figures["appends_alone_kept_over_plain_appends"] = round(kept(alone, queries) / unordered, 3)
    grow("budget", parts, write, capped)
    figures |= {"budget_most_over_files": round(capped.over, 2), "budget_share_falls": capped.falls}
    figures["one_percent_written_pct"] = round(100 * one_percent(spark, whole, parts, target, options.seed) / size, 2)
    if has_delta:
        delta = Delta(spark, target)
        path = grow("delta", parts, delta.append, delta)
        note("delta", path, delta.written)
    return figures


def kept(path: Path, queries: list[str]) -> float:
    """The mean share of rows in the files that queries keep."""
    return measure.kept_pct(zskip.open(str(path)), queries)


def one_percent(spark: Any, whole: Path, parts: list[pa.Table], target: int, seed: int) -> int:
    """The bytes that maintenance writes after an append of 1 % to an optimized table."""
    rows = pa.concat_tables(parts)
    drawn = np.random.default_rng(seed).choice(len(rows), max(len(rows) // 100, 1), replace=False)
    pq.write_table(rows.take(pa.array(drawn)), whole / "one-percent.parquet", compression="zstd")
    return int(zskip.table(spark, str(whole)).maintain(target_file_size=target).bytes_written)


def tenths(rows: pa.Table, order: str, seed: int) -> list[pa.Table]:
    """The rows in ten parts, drawn at random or by l_shipdate."""
    keys = np.random.default_rng(seed).random(len(rows))
    if order == "shipdate":
        keys = rows["l_shipdate"].cast(pa.int32()).to_numpy() + keys
    places = np.array_split(np.argsort(keys), APPENDS)
    return [rows.take(pa.array(np.sort(part))) for part in places]


def grow(name: str, parts: list[pa.Table], append: Append, maintain: Callable[[Path], None] | None = None) -> Path:
    """Make a table of ten appends, with maintenance after each."""
    path = data.emptied(data.HOME / f"maintain-{name}")
    for number, part in enumerate(parts):
        append(path, part, number)
        if maintain is not None:
            maintain(path)
    return path


def write(path: Path, part: pa.Table, number: int) -> None:
    """Two files of every other row."""
    half = np.arange(len(part)) % 2
    for i in (0, 1):
        rows = part.filter(pa.array(half == i))
        pq.write_table(rows, path / f"append-{number}-{i}.parquet", compression="zstd")


def appending(spark: Any, target: int) -> Append:
    """The first tenth by `zskip.write`, the others by `Table.append`."""

    def append(path: Path, part: pa.Table, number: int) -> None:
        new = data.emptied(path.with_name("maintain-new"))
        write(new, part, number)
        rows = spark.read.parquet(str(new))
        if number:
            zskip.table(spark, str(path)).append(rows)
        else:
            zskip.write(rows, path, by=data.CLUSTER_BY, target_file_size=target)

    return append


class Maintenance:
    """`maintain` after each append."""

    def __init__(self, spark: Any, target: int, budget: int | None) -> None:
        self._spark, self._target = spark, target
        self._budget = None if budget is None else max(budget, target)
        self.written = 0
        self.over = 0.0
        """By how much of one file a call went over its budget, at most."""
        self.falls = True
        """Whether each call that did something lowered the share."""

    def __call__(self, path: Path) -> None:
        sizes = {file.name: file.stat().st_size for file in path.glob("*.parquet")}
        result = zskip.table(self._spark, str(path)).maintain(
            by=data.CLUSTER_BY, target_file_size=self._target, budget=self._budget
        )
        self.written += result.bytes_written
        if self._budget is not None:
            left = {file.name for file in path.glob("*.parquet")}
            rewritten = sum(size for name, size in sizes.items() if name not in left)
            self.over = max(self.over, (rewritten - self._budget) / max(sizes.values()))
        self.falls &= result.batches == 0 or result.kept_after < result.kept_before
        measure.log(f"{path.name}: {result}")


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
            ddl, by = frame._jdf.schema().toDDL(), ", ".join(data.CLUSTER_BY)
            self._spark.sql(f"CREATE TABLE delta.`{path}` ({ddl}) USING delta CLUSTER BY ({by})")
        frame.coalesce(2).write.format("delta").mode("append").save(str(path))

    def __call__(self, path: Path) -> None:
        (row,) = self._spark.sql(f"OPTIMIZE delta.`{path}`").collect()
        self.written += row["metrics"]["filesAdded"]["totalSize"] or 0


if __name__ == "__main__":
    main()
