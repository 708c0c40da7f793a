"""zskip's optimize of a Delta, Iceberg or Hudi table beside the engine's own, and what the engine then reads.

python bench/engines/engines.py --engine delta --scale 2 --files 64 --rounds 3

`--deleted 2` deletes so many percent of the rows first, by deletion vectors or position deletes, or by equality deletes
with `--equality 1`, as other engines write them. `--version 3` makes Iceberg's tables of that version, and `--mapping
name` or `id` maps the columns of Delta's.

Needs the jars that `python3 dev.py test-engines` fetches; Hudi's also the Python of .venv-spark35.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import data, measure, session
from shared.data import TABLES
from shared.engines import ENGINES, Engine, Iceberg
from shared.resources import Resources

RUNS = [
    {"name": "engines-delta", "title": "Beside Delta's Z-order", "case": "usual",
     "text": "zskip's whole optimize and the engine's own Z-order (`OPTIMIZE ... ZORDER BY` of Delta Lake 4.4.0, "
     "`rewrite_data_files` with `zorder` of Iceberg 1.11.0, clustering with `z-order` of Hudi 1.2.0 on Spark 3.5) "
     "take turns on fresh tables, into as many files (by bytes): TPC-H lineitem by l_partkey, l_suppkey, l_shipdate, "
     "or made-up connections of a network by src_ip, dst_ip, ts. `copy_s` is a copy of the live rows through the "
     "engine's own reader and writer. Then the first 40 of the random queries run through the engine's own reader; "
     "`rows_decoded` is the mean share of the rows that its scan decodes. The run fails where an answer differs.",
     "options": "--engine delta --scale 2 --files 64 --rounds 3",
     "goals": {"time_over_engine": ("<=", 0.3), "decoded_over_engine": ("<=", 0.22)}},
    {"name": "engines-iceberg", "title": "Beside Iceberg's Z-order",
     "options": "--engine iceberg --scale 2 --files 64 --rounds 3",
     "goals": {"time_over_engine": ("<=", 0.65), "decoded_over_engine": ("<=", 0.5)}},
    {"name": "engines-hudi", "title": "Beside Hudi's Z-order",
     "options": "--engine hudi --scale 2 --files 64 --rounds 3"},
    {"name": "engines-delta-connections", "title": "Beside Delta's Z-order: connections",
     "options": "--engine delta --data connections --scale 2 --files 64 --rounds 3",
     "goals": {"time_over_engine": ("<=", 0.3), "decoded_over_engine": ("<=", 0.5)}},
    {"name": "engines-delta-deletion-vectors", "title": "Beside Delta's Z-order: deletion vectors", "case": "hard",
     "options": "--engine delta --scale 1 --files 64 --rounds 2 --deleted 2",
     "goals": {"time_over_engine": ("<=", 0.4), "time_over_copy": ("<=", 1.4)}},
    {"name": "engines-delta-mapped-columns", "title": "Beside Delta's Z-order: deletion vectors and mapped columns",
     "options": "--engine delta --scale 1 --files 64 --rounds 2 --deleted 2 --mapping name"},
    {"name": "engines-iceberg-position-deletes", "title": "Beside Iceberg's Z-order: position deletes",
     "options": "--engine iceberg --scale 1 --files 64 --rounds 2 --deleted 2"},
    {"name": "engines-iceberg-equality-deletes", "title": "Beside Iceberg's Z-order: equality deletes",
     "options": "--engine iceberg --scale 1 --files 64 --rounds 1 --deleted 2 --equality 1"},
    {"name": "engines-iceberg-v3", "title": "Beside Iceberg's Z-order: version 3, row ids and deletion vectors",
     "options": "--engine iceberg --scale 1 --files 64 --rounds 2 --deleted 2 --version 3"},
]  # fmt: skip

HOME = data.HOME / "engines"


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(
        __doc__ or "", engine="delta", data="lineitem", scale=2.0, files=64, rounds=3, queries=40, deleted=0,
        version=2, mapping="none", equality=0,
    )  # fmt: skip
    table = TABLES[options.data]
    engine = ENGINES[options.engine](HOME, table)
    jars = session.engine_jars(options.engine)
    if not jars:
        raise SystemExit(f"no jar of {options.engine} in {session.JARS}: run python3 dev.py test-engines")
    shutil.rmtree(HOME, ignore_errors=True)
    source = table.make(options.scale)
    warehouse = {"spark.sql.catalog.local.warehouse": str(HOME)} if options.engine == "iceberg" else {}
    spark = session.start(**{"spark.jars": ",".join(jars), **engine.conf, **warehouse})
    if options.deleted:
        spark.conf.set("spark.databricks.delta.properties.defaults.enableDeletionVectors", "true")
    spark.conf.set("spark.databricks.delta.properties.defaults.columnMapping.mode", options.mapping)
    times: dict[str, list[float]] = {"copy": [], "engine": [], "zskip": []}
    figures: dict[str, Any] = {"rounds": options.rounds}
    for number in range(options.rounds):
        for who, seconds in times.items():
            name = f"{who}{number}"
            size = create(spark, engine, spark.read.parquet(str(source)), name, options)
            run = work(spark, engine, who, name, options, size)
            with Resources() as used:
                seconds.append(measure.seconds(run))
            figures |= used.figures(who)
            measure.log(f"{name}: {seconds[-1]:.1f} s")
    figures |= {f"{who}_s": measure.median(seconds) for who, seconds in times.items()}
    for who in ("engine", "copy"):
        ratios = [ours / theirs for ours, theirs in zip(times["zskip"], times[who], strict=True)]
        figures[f"time_over_{who}"] = measure.median(ratios)
    queries = data.random_queries(source, table.by, options.queries, options.seed)
    measure.emit({**figures, **compared(spark, engine, table.summed, options.rounds - 1, queries)}, options.json)


def create(spark: Any, engine: Engine, rows: Any, name: str, options: Any) -> int:
    """Make a table, with deletes where they are asked for; returns the bytes of its files."""
    engine.create(rows, name, options.version)
    if options.deleted and options.equality and isinstance(engine, Iceberg):
        engine.delete_keys(spark, name, options.deleted)
    elif options.deleted:
        which = f"pmod(xxhash64({engine.key}), 100) < {options.deleted}"
        spark.sql(f"DELETE FROM {engine.name_in_sql(name)} WHERE {which}")
    return sum(path.stat().st_size for path in HOME.rglob(f"*{name}/**/*.parquet"))


def work(spark: Any, engine: Engine, who: str, name: str, options: Any, size: int) -> Callable[[], Any]:
    """The call that clusters a table, or copies it."""
    if who == "copy":
        return lambda: engine.create(engine.read(spark, name), f"{name}_copied", options.version)
    if who == "engine":
        return lambda: engine.cluster(spark, name, int(size / options.files * 1.01))
    return lambda: zskip.table(spark, engine.address(name)).optimize(engine.by, files=options.files)


def compared(spark: Any, engine: Engine, summed: str, last: int, queries: list[str]) -> dict[str, Any]:
    """What the engine's scan reads of its own table and of zskip's."""
    figures: dict[str, Any] = {}
    readings = {who: reading(engine.read(spark, f"{who}{last}"), queries, summed) for who in ("engine", "zskip")}
    for who, (files, decoded, _) in readings.items():
        figures |= {f"{who}_files": files} if files else {}  # Spark does not know the files of Iceberg's scans.
        figures[f"{who}_rows_decoded_pct"] = round(100 * decoded, 2)
    theirs, ours = readings["engine"], readings["zskip"]
    if ours[2] != theirs[2]:
        raise SystemExit("the answers differ")
    kept = measure.kept_pct(zskip.table(spark, engine.address(f"zskip{last}")), queries)
    figures["decoded_over_engine"] = round(ours[1] / theirs[1], 3)
    return {
        **figures,
        "zskip_rows_in_kept_files_pct": kept,
        "zskip_decoded_over_kept": round(100 * ours[1] / kept, 3),
    }


def reading(frame: Any, queries: list[str], summed: str) -> tuple[int, float, list[Any]]:
    """Files of the table, the mean share of its rows that the engine's scan decodes for a query, and the answers."""
    rows = frame.count()
    decoded, answers = [], []
    for where in queries:
        query = frame.where(where).selectExpr("count(*)", f"sum({summed})")
        decoded.append(session.decoded_rows(query) / rows)
        answers.append(query.collect())
    return len(set(frame.inputFiles())), statistics.mean(decoded), answers


if __name__ == "__main__":
    main()
