"""Write one event log beside this script: `python tests/data/spark/write_events.py`, once for each Spark.

Of what an application leaves that knows nothing of zskip (a rolling log, zstd) the events that tell of queries, with
`/home/table` in place of the table's path and `/home/app.py` in place of this script's.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

HERE = Path(__file__).parent
ROWS = (
    "id",
    "concat('b', id) AS s",
    "date_add(DATE '2024-01-01', CAST(id AS int)) AS d",
    "CAST(id AS decimal(10,2)) AS x",
    "timestamp_seconds(1704067200 + id * 3600) AS ts",
    "CAST(id % 4 AS int) AS p",
)
QUERIES = (
    "id = 5",
    "id BETWEEN 3 AND 9 AND s LIKE 'b%'",
    "d >= DATE '2024-02-01' AND d < DATE '2024-03-01'",
    "s IN ('a, b', 'it''s') OR x > 1.25",
    "p = 2 AND ts < TIMESTAMP '2024-01-05 12:00:00'",
    "id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)",
    "id % 3 = 1 AND x IS NULL",
)


def main() -> None:
    """Write the log of the Spark that is installed."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name).resolve()
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.eventLog.enabled", "true")
            .config("spark.eventLog.dir", home.as_uri())
            .config("spark.eventLog.compress", "true")
            .config("spark.eventLog.compression.codec", "zstd")
            .config("spark.eventLog.rolling.enabled", "true")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        table = str(home / "table")
        spark.range(100).selectExpr(*ROWS).write.partitionBy("p").parquet(table)
        for query in QUERIES:
            spark.read.parquet(table).where(query).select("id", "s").collect()
        version = spark.version
        spark.stop()
        (log,) = home.glob("eventlog_v2_*/events_1_*.zstd")
        keep(log, table, HERE / f"events-{version}.zstd")


def keep(log: Path, table: str, target: Path) -> None:
    """Write the part of a log that tells of queries."""
    lines = pa.CompressedInputStream(pa.OSFile(str(log)), "zstd").read().splitlines(keepends=True)
    told = [line for line in lines if b"ListenerLogStart" in line[:60] or b"SQLExecutionStart" in line[:120]]
    with pa.CompressedOutputStream(str(target), "zstd") as out:
        out.write(b"".join(told).replace(table.encode(), b"/home/table").replace(__file__.encode(), b"/home/app.py"))


if __name__ == "__main__":
    main()
