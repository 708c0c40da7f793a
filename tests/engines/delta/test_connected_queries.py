"""The same random queries in a classic session, through Spark Connect, and without zskip, over tables of three formats.

`ZSKIP_CONNECT_QUERIES=1000` asks more of them, and `ZSKIP_CONNECT_FIRST` names the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from connect_server import connect_server
from connected_queries import FILES, RandomFrames, rows_of, write_table

import zskip

FIRST = int(os.environ.get("ZSKIP_CONNECT_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("ZSKIP_CONNECT_QUERIES", "40")))
JARS = os.environ.get("ZSKIP_ENGINE_JARS", "").split(os.pathsep)
MAPPED = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
KINDS = {"parquet": "parquet", "delta": "delta", "iceberg": "iceberg", "deletes": "iceberg"}
"""Tables and their formats; `iceberg` is of version 3, `deletes` of 2, and all but plain Parquet have deletes."""
CHOICES = {
    "spark.sql.session.timeZone": ("UTC", "UTC", "America/New_York"),
    "spark.sql.ansi.enabled": ("true", "true", "true", "false"),
    "spark.sql.caseSensitive": ("false", "false", "false", "false", "true"),
}
"""Settings, of which each query takes one each in turn."""


class Sides:
    """Three sessions that answer the same queries."""

    def __init__(self, classic: Any, connected: Any, plain: Any, root: Path) -> None:
        self.sessions = {"classic": classic, "connected": connected, "plain": plain}
        self.root = root

    def answers(self, seed: int, kind: str) -> dict[str, list[str] | str]:
        """The rows of a query on each side, or its error."""
        from pyspark.sql import functions

        answers = {}
        for side, spark in self.sessions.items():
            for name, values in CHOICES.items():
                spark.conf.set(name, values[seed % len(values)])
            draw = RandomFrames(seed, self.opener(spark, kind), "tu")
            if side == "classic":
                draw.functions = functions
            try:
                answers[side] = rows_of(draw.frame())
            except Exception as error:  # A frame may be refused before its rows are asked for.
                answers[side] = f"refused: {type(error).__name__}"
        return answers

    def opener(self, spark: Any, kind: str) -> Callable[[str], Any]:
        """Opens a table by its name."""
        return lambda table: spark.read.format(KINDS[kind]).load(str(self.root / "db" / f"{kind}_{table}"))


@pytest.fixture(scope="module")
def sides(engine_spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    if not any("iceberg" in Path(jar).name for jar in JARS):
        pytest.skip("it takes both formats' jars")
    root = Path(engine_spark.conf.get("spark.sql.catalog.local.warehouse"))
    settings = {
        "spark.jars": ",".join(JARS),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    with connect_server(tmp_path_factory.mktemp("server"), settings) as server:
        connected, plain = server.session(), server.session()
        for number, table in enumerate("tu"):
            make_tables(engine_spark, root / "db", number, table)
        zskip.enable(connected)
        with zskip.enabled(engine_spark):
            yield Sides(engine_spark, connected, plain, root)
        for name in CHOICES:
            engine_spark.conf.unset(name)
        engine_spark.conf.set("spark.sql.session.timeZone", "UTC")


def make_tables(spark: Any, root: Path, number: int, table: str) -> None:
    """The same rows in each format, with deletes where it has them, each indexed."""
    path = root / f"parquet_{table}"
    write_table(path, number, partitioned=number == 0)
    rows = spark.read.option("basePath", str(path)).parquet(*map(str, sorted(path.rglob("*.parquet"))))
    rows, delta = rows.repartitionByRange(FILES, "id"), root / f"delta_{table}"
    rows.withColumnRenamed("v", "w").write.format("delta").options(**MAPPED).save(str(delta))
    spark.sql(f"ALTER TABLE delta.`{delta}` RENAME COLUMN w TO v")
    spark.sql(f"DELETE FROM delta.`{delta}` WHERE id % 10 = 3")
    for kind, version in (("iceberg", 3), ("deletes", 2)):
        name = f"local.db.{kind}_{table}"
        writer = rows.writeTo(name).using("iceberg").tableProperty("format-version", str(version))
        writer = writer.tableProperty("write.distribution-mode", "none")
        writer.tableProperty("write.delete.mode", "merge-on-read").create()
        spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
        zskip.table(spark, name).index()
    for indexed in (path, delta):
        zskip.open(str(indexed)).index()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_random_queries(sides: Sides, kind: str) -> None:
    files = wrong = 0
    for seed in SEEDS:
        answers = sides.answers(seed, kind)
        if isinstance(answers["plain"], str):
            assert isinstance(answers["connected"], str), (seed, answers)
            continue
        for side in ("classic", "connected"):
            if answers[side] != answers["plain"]:
                wrong += 1
                print(f"seed {seed}, {kind}, {side}: {answers[side][:5]} instead of {answers['plain'][:5]}")
        scans = zskip.scans(sides.sessions["connected"])
        files += sum(scan.files_total - scan.files for scan in scans)
    assert wrong == 0
    assert files > 0
    print(f"{len(SEEDS)} queries over {kind}: {files} files skipped, 0 differ")
