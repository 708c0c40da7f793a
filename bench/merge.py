"""What a MERGE into tables of Delta and Iceberg reads and takes, under `zskip.enable` and without.

python bench/merge.py --scale 1 --files 64 --rounds 3

Tables are made once and restored after each MERGE. Needs the jars that `python3 dev.py test-engines` fetches.
"""

from __future__ import annotations

import statistics
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

import zskip
from shared import data, measure, session
from shared.data import TABLES
from shared.engines import ENGINES, Engine

RUNS = [
    {"name": "merge", "title": "MERGE into tables of Delta and Iceberg", "case": "usual",
     "text": "TPC-H lineitem in 64 files. A MERGE of 1,000 and of 100,000 rows of orders that follow each other, of "
     "one day's rows (by key and `l_shipdate`), and of 1 % of all rows (`spread`); nine rows in ten match, of the "
     "others the key is new. `zskip`: under `zskip.enable`, on a table clustered by `l_orderkey`, for the day by "
     "`l_shipdate`. `plain`: the same table without zskip. `unsorted`: under `zskip.enable`, on an indexed table whose "
     "rows lie in random order, once. The others in turns; the tables are compared. `rows_pct`, and of Delta "
     "`bytes_pct`: what all tasks of the statement read, the source included, in % of the table; files that a MERGE "
     "rewrites are read twice, with deletion vectors (`delta_vectors`) three times. `iceberg` is merge-on-read, "
     "`iceberg_copy` copy-on-write.",
     "options": "--scale 1 --files 64 --rounds 3",
     "goals": {"*_1000_zskip_bytes_pct": ("<=", 2), "iceberg_1000_zskip_rows_pct": ("<=", 2),
               "delta_1000_time_over_plain": ("<=", 0.25), "delta_vectors_1000_time_over_plain": ("<=", 0.25),
               "*_spread_time_over_plain": ("<=", 1.03), "*_same_rows": ("=", True)}},
    {"name": "merge-scale-10", "title": "MERGE into a table of Delta of 60 million rows", "case": "hard", "hours": True,
     "text": "As above: 512 files, 1,000 rows.",
     "options": "--scale 10 --files 512 --formats delta --cases 1000 --sides plain,zskip --rounds 3",
     "goals": {"delta_1000_zskip_bytes_pct": ("<=", 2), "delta_1000_time_over_plain": ("<=", 0.25),
               "delta_1000_same_rows": ("=", True)}},
    {"name": "merge-large-files", "title": "MERGE into a table of Delta of a few large files", "case": "usual",
     "hours": True,
     "text": "As above, with deletion vectors: 60 million rows in 12 files, so that most of what is read is the file "
     "with the matches, which Delta reads three times.",
     "options": "--scale 10 --files 12 --formats delta_vectors --cases 1000 --sides plain,zskip --rounds 2",
     "goals": {"delta_vectors_1000_zskip_bytes_pct": ("<=", 2), "delta_vectors_1000_time_over_plain": ("<=", 0.25),
               "delta_vectors_1000_same_rows": ("=", True)}},
]  # fmt: skip

HOME = data.HOME / "merge"
EVENTS = HOME / "events"
KEY = "t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber"
DAY = "1995-06-17"
FORMATS = {
    "delta": "('delta.enableDeletionVectors' = 'false')",
    "delta_vectors": "('delta.enableDeletionVectors' = 'true')",
    "iceberg": "('write.merge.mode' = 'merge-on-read')",
    "iceberg_copy": "('write.merge.mode' = 'copy-on-write')",
}


@dataclass(frozen=True)
class Case:
    """A MERGE."""

    name: str
    by: str
    """What the table is clustered by."""
    condition: str
    rows: str
    """The rows of lineitem that it changes; `{order}` is in the middle of all orders."""
    limit: int | None = None


CASES = [
    Case("1000", "l_orderkey", KEY, "l_orderkey >= {order} ORDER BY l_orderkey, l_linenumber", 1_000),
    Case("100000", "l_orderkey", KEY, "l_orderkey >= {order} ORDER BY l_orderkey, l_linenumber", 100_000),
    Case("day", "l_shipdate", f"{KEY} AND t.l_shipdate = s.l_shipdate", f"l_shipdate = DATE '{DAY}'"),
    Case("spread", "l_orderkey", KEY, "pmod(xxhash64(l_orderkey, l_linenumber), 100) = 0"),
]


@dataclass(frozen=True)
class Target:
    """A table that MERGEs change and that is restored after each."""

    spark: Any
    engine: Engine
    name: str

    @property
    def sql(self) -> str:
        return self.engine.name_in_sql(self.name)

    def version(self) -> Any:
        """What `restore` takes."""
        if self.is_delta:
            return self.spark.sql(f"DESCRIBE HISTORY {self.sql} LIMIT 1").collect()[0].version
        branch = self.spark.sql(f"SELECT snapshot_id FROM {self.sql}.refs WHERE name = 'main'")
        return branch.collect()[0].snapshot_id

    def restore(self, version: Any) -> None:
        """Go back to a version."""
        if self.is_delta:
            self.spark.sql(f"RESTORE TABLE {self.sql} TO VERSION AS OF {version}").collect()
        else:
            self.spark.sql(f"CALL local.system.rollback_to_snapshot('db.{self.name}', {version})").collect()

    @property
    def is_delta(self) -> bool:
        return type(self.engine).__name__ == "Delta"

    def size(self) -> tuple[int, int]:
        """Bytes and rows."""
        scan = zskip.table(self.spark, self.engine.address(self.name)).prune()
        return scan.bytes_total, scan.rows_total or 0

    def rows(self) -> tuple[Any, ...]:
        """A sum that differs where a row does."""
        columns = "l_orderkey, l_linenumber, l_quantity, l_shipdate, l_comment"
        sums = f"SELECT count(*), sum(l_quantity), sum(CAST(xxhash64({columns}) AS decimal(38, 0))) FROM {self.sql}"
        return tuple(self.spark.sql(sums).collect()[0])


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(
        __doc__ or "", scale=1.0, files=64, rounds=3, formats=",".join(FORMATS), cases="1000,100000,day,spread",
        joins="auto", sides="plain,zskip,unsorted",
    )  # fmt: skip
    data.emptied(EVENTS)
    conf = session.readers_conf(("delta", "iceberg"), HOME)
    # Hadoop does not count the bytes of vectored reads on a local disk.
    conf |= {"spark.hadoop.parquet.hadoop.vectored.io.enabled": "false"}
    spark = session.start(EVENTS, **conf, **{"spark.zskip.joins": options.joins, "spark.sql.shuffle.partitions": "8"})
    source = data.lineitem(options.scale)
    zskip.enable(spark)
    zskip.disable(spark)
    figures: dict[str, Any] = {}
    for case in [case for case in CASES if case.name in options.cases.split(",")]:
        changes = changes_of(spark, source, case)
        for name in options.formats.split(","):
            order = {side: "" if side == "unsorted" else case.by for side in options.sides.split(",")}
            sides = {
                side: (table(spark, name, source, options.files, by), side != "plain") for side, by in order.items()
            }
            measured = compared(sides, case, changes, options.rounds)
            figures |= {f"{name}_{case.name}_{key}": value for key, value in measured.items()}
            measure.log(f"{name} {case.name}: {measured}")
    measure.emit(figures, options.json)


def changes_of(spark: Any, source: Path, case: Case) -> str:
    """The rows of a MERGE as a directory of Parquet, made once."""

    def make(path: Path) -> None:
        orders = ds.dataset(source, format="parquet").to_table(columns=["l_orderkey"])["l_orderkey"]
        where = case.rows.format(order=int(pc.max(orders).as_py()) // 2)
        rows = spark.read.parquet(str(source)).where(where.partition(" ORDER BY ")[0])
        if case.limit is not None:
            rows = rows.orderBy(*where.partition(" ORDER BY ")[2].split(", ")).limit(case.limit)
        is_new = "pmod(xxhash64(l_linenumber, l_orderkey), 10) = 0"
        rows = rows.withColumns({"l_linenumber": _column(f"IF({is_new}, l_linenumber + 10, l_linenumber)")})
        rows.withColumns({"l_comment": _column("concat('changed ', l_comment)")}).coalesce(1).write.parquet(str(path))

    return str(data.once(HOME / f"{source.name}-{case.name}", lambda staging: make(staging / "rows")) / "rows")


def _column(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)


def table(spark: Any, name: str, source: Path, files: int, by: str) -> Target:
    """A table of a format, clustered by a column or (without one) in random order, and indexed; made once."""
    label = f"{source.name}_{files}_{name}_{by or 'unsorted'}".replace("-", "_").replace(".", "_")
    engine = ENGINES[name.partition("_")[0]](HOME, TABLES["lineitem"])
    target = Target(spark, engine, label)
    if not engine.path(label).exists():
        measure.log(f"making {label}")
        rows = spark.read.parquet(str(source))
        engine.create(rows if by else rows.repartition(files), label)
        spark.sql(f"ALTER TABLE {target.sql} SET TBLPROPERTIES {FORMATS[name]}")
        handle = zskip.table(spark, engine.address(label))
        if by:
            handle.optimize(by=[by], files=files, curve="linear")
        handle.index()
    return target


def compared(sides: dict[str, tuple[Target, bool]], case: Case, changes: str, rounds: int) -> dict[str, Any]:
    """The figures of one MERGE; sides: `plain`, `zskip` and maybe others, each a table and whether zskip is enabled."""
    took: dict[str, list[float]] = {side: [] for side in sides}
    read: dict[str, tuple[int, int]] = {}
    rows = set()
    versions = {side: target.version() for side, (target, _) in sides.items()}
    clustered = sides["plain"][0]
    size = clustered.size()
    for number in range(rounds + 1):
        for side, (target, is_enabled) in sides.items():
            if side == "unsorted" and number < rounds:
                continue  # It rewrites all files.
            try:
                with zskip.enabled(target.spark) if is_enabled else nullcontext():
                    seconds, read[side] = measured_merge(target, case, changes)
                if number:  # The first round warms the JVM.
                    took[side].append(seconds)
                if number == rounds:
                    rows.add(target.rows())
            finally:
                target.restore(versions[side])
    figures: dict[str, Any] = {"same_rows": len(rows) == 1}
    for side, seconds_of_side in took.items():
        figures[f"{side}_s"] = measure.median(seconds_of_side)
        (read_bytes, read_rows), (all_bytes, all_rows) = read[side], size
        if clustered.is_delta:  # Of what Iceberg reads on a local disk, Spark counts only a part.
            figures[f"{side}_bytes_pct"] = round(100 * read_bytes / all_bytes, 2)
        figures[f"{side}_rows_pct"] = round(100 * read_rows / max(all_rows, 1), 2)
    figures["time_over_plain"] = round(statistics.median(took["zskip"]) / statistics.median(took["plain"]), 3)
    return figures


def measured_merge(target: Target, case: Case, changes: str) -> tuple[float, tuple[int, int]]:
    """Seconds of a MERGE, and the bytes and rows that its tasks read."""
    merge = f"MERGE INTO {target.sql} t USING parquet.`{changes}` s ON {case.condition} "
    merge += "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    begun = time.time()
    seconds = measure.seconds(lambda: target.spark.sql(merge).collect())
    target.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return seconds, session.tasks_read(EVENTS, int(1000 * begun), int(1000 * time.time()) + 1)


if __name__ == "__main__":
    main()
