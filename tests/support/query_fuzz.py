"""Random queries over random tables, answered by a session with zskip and without: `python3 dev.py fuzz --queries`.

Each seed stands for three tables of a few small files and some queries over them: joins of all kinds, subqueries,
top-k, limits, aggregates, unions. Columns may be structs, arrays, maps, JSON texts and variants; some tables are
clustered by expressions, and some have sketches of expressions and of elements. An answer must be the one that plain
Spark gives; where a LIMIT leaves a choice, one that it might give. Spark gives it soonest for tables of one file
without exchanges; it is asked again under the same settings, over the same files, where the answers differ. A failure
is cut down to the smallest query that still fails, and shown with the tables' rows; it is repeated by
`python3 dev.py fuzz --queries --seed SEED --tables 1`.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nested_values
import random_queries
import random_rows
from nested_values import NESTED, VARIANT
from random_queries import Query

import zskip
from zskip.errors import ZskipWarning

PER_TABLES = 100
"""Queries over the tables of one seed."""
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.parquet.columnarReaderBatchSize": "16",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ui.explainMode": "simple",
    # Spark 4.1 reads shredded variants with generated code only.
    "spark.sql.variant.writeShredding.enabled": "false",
}
"""Under which queries of a few rows take least."""
QUICKEST = QUICK | {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
"""Under which those of one file a table take least: a single task."""
CHOICES = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.autoBroadcastJoinThreshold": ("-1", "10485760"),
    "spark.zskip.joins": ("always", "always", "auto", "off"),
    "spark.sql.files.maxPartitionBytes": ("1000", "134217728", "134217728", "134217728"),
    "spark.sql.variant.pushVariantIntoScan": ("true", "false"),
}
"""What is drawn for each query."""
KEYS = {
    "string": ("lower({})", "length({})"),
    "timestamp": ("date({})", "hour({})"),
    "date": ("month({})",),
    "int": ("{} % 3", "hash({})", "pmod(hash({}), 4)"),
}
"""Expressions that rows may be clustered by, by the type of what they take."""
SKETCHES = ("values(9)", "ranges(2)")

Answer = list[tuple[Any, ...]]


class Sides:
    """A session that answers queries with zskip and without, and one that has the same rows in single files."""

    def __init__(self, spark: Any) -> None:
        self.spark, self.whole = spark, spark.newSession()
        self.kinds: Counter[str] = Counter()
        self.notes: dict[str, str] = {}
        """By the name of a table, what was done to it."""
        for session, settings in ((spark, QUICK), (self.whole, QUICKEST)):
            for name, value in settings.items():
                session.conf.set(name, value)
        logging.getLogger("SQLQueryContextLogger").disabled = True  # It shows each query that Spark refuses.
        zskip.enable(spark)

    def quickly(self, query: Query) -> Answer:
        """All rows of the answer, from tables of one file, which takes Spark a single task."""
        return rows_of(self.whole.sql(query.unlimited().sql()))

    def plain(self, sql: str) -> Answer:
        """The answer of Spark alone, from the same files under the same settings."""
        self.spark.conf.set("spark.zskip.enabled", "false")
        try:
            return rows_of(self.spark.sql(sql))
        finally:
            self.spark.conf.set("spark.zskip.enabled", "true")

    def pruned(self, sql: str) -> Answer:
        """The answer with zskip; it takes down what was skipped."""
        found = rows_of(self.spark.sql(sql))
        for scan in zskip.scans(self.spark):
            self.kinds.update(scans=1, files=scan.files_total, read=scan.files)
            self.kinds.update({leaf.kind: 1 for leaf in scan.leaves if leaf.skipped})
        return found


def rows_of(frame: Any) -> Answer:
    """The rows of a query in plain values, of which equal ones are equal in Python."""
    return [tuple(map(plain_value, row)) for row in frame.collect()]


def plain_value(value: Any) -> Any:
    """A value of which equal ones are equal in Python."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return nested_values.plain_value(value)


def wrong(query: Query, sides: Sides) -> str | None:
    """What is wrong with the answer through zskip; None where nothing is, and where Spark refuses the query."""
    try:
        whole = sides.quickly(query)
    except Exception:
        return None
    try:
        found = sides.pruned(query.sql())
    except Exception as error:
        raised = f"raises {type(error).__name__}: {str(error)[:500]}"
        return None if _plainly(query, sides) is None else raised
    if difference(query, found, whole) is None:
        return None
    plain = _plainly(query, sides)
    return None if plain is None else difference(query, found, plain)


def _plainly(query: Query, sides: Sides) -> Answer | None:
    """All rows of the answer that Spark gives by itself, hints and all; None where it refuses the query."""
    try:
        return sides.plain(query.sql(limited=False))
    except Exception:
        return None


def difference(query: Query, found: Answer, whole: Answer) -> str | None:
    """What makes rows no possible answer, given all rows of the query without its LIMIT; None where they are one."""
    expected = whole[query.offset :] if query.limit is None else whole[query.offset :][: query.limit]
    if len(found) != len(expected):
        return f"gives {len(found)} rows instead of {len(expected)}: {found[:5]} instead of {expected[:5]}"
    keys = [position for position, _ in query.order]
    if [[row[i] for i in keys] for row in found] != [[row[i] for i in keys] for row in expected]:
        return f"is not in order: {found[:5]} instead of {expected[:5]}"
    surplus = Counter(found) - Counter(whole)
    return f"gives rows that are not there: {list(surplus)[:5]}" if surplus else None


def smallest(query: Query, sides: Sides) -> Query:
    """A failing query cut down as far as it still fails."""
    for part in query.smaller():
        if wrong(part, sides) is not None:
            return smallest(part, sides)
    return query


def run(seed: int, sides: Sides, queries: int = PER_TABLES) -> Counter[str]:
    """Check the queries of one seed: how many. Raises AssertionError with the smallest one that fails."""
    rng = random.Random(seed)
    directory = Path(tempfile.mkdtemp(prefix="zskip-queries-"))
    try:
        kinds = nested_values.kinds_of(sides.spark.version)
        tables = [random_rows.table(rng, f"t{i}", kinds) for i in range(3)]
        for table in tables:
            path, keys = directory / table.name, _keys(rng, table)
            open_views(sides, table, path, indexed=rng.random() < 0.9, by=keys, sketches=_sketches(rng, table))
        for _ in range(queries):
            for name, values in CHOICES.items():
                sides.spark.conf.set(name, rng.choice(values))
            query = random_queries.query(rng, tables)
            if wrong(query, sides) is not None:
                raise AssertionError(failure(seed, smallest(query, sides), sides, tables))
        return Counter(queries=queries, tables=len(tables))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _keys(rng: random.Random, table: random_rows.Table) -> list[str]:
    """Fields and expressions to cluster some tables by."""
    if rng.random() < 0.75 or not any(table.files):
        return []
    own = [pair for pair in table.columns if pair[0] != random_rows.PARTITION]
    taken = [term for pair in own for term in nested_values.terms_of(*pair)]
    keys = [key.format(name) for name, kind in (*own, *taken) for key in KEYS.get(kind, ())]
    keys += [name for name, _ in taken]
    return rng.sample(keys, min(len(keys), rng.randint(1, 2)))


def _sketches(rng: random.Random, table: random_rows.Table) -> list[str]:
    """Sketches of fields, expressions and elements, which some tables have."""
    if rng.random() < 0.4:
        return []
    own = [pair for pair in table.columns if pair[0] != random_rows.PARTITION]
    specs = [spec.format(name) for name, kind in own if kind in NESTED for spec in NESTED[kind].sketches]
    flat = [f"{kind}:{key.format(name)}" for name, type_ in own for key in KEYS.get(type_, ()) for kind in SKETCHES]
    return rng.sample(specs, min(len(specs), 4)) + rng.sample(flat, min(len(flat), 1))


def open_views(
    sides: Sides,
    table: random_rows.Table,
    path: Path,
    *,
    indexed: bool,
    by: Sequence[str] = (),
    sketches: Sequence[str] = (),
) -> None:
    """Write a table, index it, and make a view of plain Spark over it, and one over the same rows in one file."""
    random_rows.write(table, path)
    sides.notes[table.name] = f"\n  clustered by {list(by)}, sketches {list(sketches)}"
    variants = [name for name, kind in table.columns if kind == VARIANT]
    if variants:
        _parse_variants(sides.whole, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)  # Keys may be null in all rows.
        if by:
            zskip.table(sides.spark, str(path)).optimize(by=list(by), files=3, curve="linear")
        if indexed or sketches:
            zskip.table(sides.spark, str(path)).index(sketches=list(sketches))
    sides.spark.read.schema(table.ddl).parquet(str(path)).createOrReplaceTempView(table.name)
    whole = path.with_name(f"{path.name}-whole")
    random_rows.write_whole(table, whole)
    if variants:
        _parse_variants(sides.whole, whole)
    # One partition lets Spark join and group without exchanges.
    sides.whole.read.schema(table.ddl).parquet(str(whole)).coalesce(1).createOrReplaceTempView(table.name)


def _parse_variants(spark: Any, path: Path) -> None:
    """Let Spark write each file again, with variants in place of their texts; PyArrow writes none."""
    name = NESTED[VARIANT].column
    for file in sorted(path.rglob("*.parquet")):
        parsed = path.with_name("parsed")
        frame = spark.read.parquet(str(file)).coalesce(1)
        columns = [f"parse_json({name}) AS {name}" if column == name else column for column in frame.columns]
        frame.selectExpr(*columns).write.mode("overwrite").parquet(str(parsed))
        (part,) = parsed.glob("*.parquet")
        part.replace(file)
        shutil.rmtree(parsed)


def failure(seed: int, query: Query, sides: Sides, tables: list[random_rows.Table]) -> str:
    """The query, its tables and the settings, to be run again by hand."""
    settings = {name: sides.spark.conf.get(name) for name in CHOICES}
    shown = "\n".join(f"{table}{sides.notes.get(table.name, '')}" for table in tables)
    return f"seed {seed}: {query.sql()}\n{wrong(query, sides)}\nunder {settings}\n{shown}"


def seeds(first: int, count: int) -> Iterator[int]:
    """The seeds of one run."""
    return iter(range(first, first + count))


def main(arguments: list[str]) -> int:
    """Run until the time or the number of tables is used up, or until an answer is wrong."""
    from zskip.spark.jvm.java import ensure_java

    parser = argparse.ArgumentParser(prog="dev.py fuzz --queries", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; each three tables take the next")
    parser.add_argument("--tables", type=int, default=100_000, help=f"how many seeds; {PER_TABLES} queries each")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--keep-going", action="store_true", help="show failures, and go on")
    options = parser.parse_args(arguments)
    ensure_java()
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # As the tests' JVMs.
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sides, total, started, failed = Sides(spark), Counter[str](), time.monotonic(), 0
    for i, seed in enumerate(seeds(options.seed, options.tables)):
        try:
            total.update(run(seed, sides))
        except AssertionError as error:
            if not options.keep_going:
                raise
            failed += 1
            print(error, file=sys.stderr, flush=True)
        if i % 5 == 4:
            print(summary(total, sides, time.monotonic() - started), file=sys.stderr, flush=True)
        if time.monotonic() - started > options.seconds:
            break
    print(summary(total, sides, time.monotonic() - started), f"{failed} failed", sep=", ")
    spark.stop()
    return 1 if failed else 0


def summary(total: Counter[str], sides: Sides, seconds: float) -> str:
    """One line on what was checked."""
    skipped = sides.kinds["files"] - sides.kinds["read"]
    share = 100 * skipped / max(sides.kinds["files"], 1)
    ways = {name: n for name, n in sides.kinds.items() if name not in ("scans", "files", "read")}
    return f"{total['queries']:,} queries, {share:.0f} % of files skipped, by {ways}, {seconds:.0f} s"
