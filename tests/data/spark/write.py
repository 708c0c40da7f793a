"""Write the Parquet files beside this script with Spark: `python tests/data/spark/write.py`, seldom needed.

Each file has the same few rows of one kind; the tests read the values back with pyarrow, except where they name them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

HERE = Path(__file__).parent

ROWS = """
SELECT * FROM VALUES
  (1Y, 10S, 100, 1000L, 1.5F, 2.5D, 'alpha', X'00FF', true, DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05.678901',
   TIMESTAMP_NTZ '2021-05-06 07:08:09', 12.34BD, CAST(123456789012.5 AS DECIMAL(18,4)), CAST(-1.25 AS DECIMAL(38,2)),
   named_struct('x', 7, 'y.z', 'deep', 'in', named_struct('k', 5L)), array(1, 2), map('a', 1)),
  (-3Y, -30S, -300, -3000L, CAST('NaN' AS FLOAT), CAST('NaN' AS DOUBLE), 'zülü', X'FF', false, DATE '1950-06-07',
   TIMESTAMP '1950-06-07 08:09:10', TIMESTAMP_NTZ '1950-06-07 08:09:10', -99.99BD, CAST(-5 AS DECIMAL(18,4)),
   CAST(99999999999999999999999999.99 AS DECIMAL(38,2)), named_struct('x', NULL, 'y.z', 'b', 'in', NULL),
   array(), map()),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
AS t(b, s, i, l, f, d, str, bin, flag, day, ts, ntz, d4, d18, d38, st, arr, m)
"""
ANCIENT = "SELECT DATE '1500-03-01' AS day, TIMESTAMP '1500-03-01 00:00:00' AS ts, 1 AS i"


def main() -> None:
    """Write every file."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.warehouse.dir", "/tmp/zskip-fixture-warehouse")
        .getOrCreate()
    )
    rows = spark.sql(ROWS)
    ancient = spark.sql(ANCIENT)
    write(spark, rows, "types", {})
    write(spark, rows, "int96", {"outputTimestampType": "INT96"})
    write(spark, rows, "millis", {"outputTimestampType": "TIMESTAMP_MILLIS"})
    write(spark, rows, "legacy_format", {"writeLegacyFormat": "true"})
    write(spark, ancient, "ancient", {"datetimeRebaseModeInWrite": "CORRECTED"})
    write(spark, ancient, "ancient_legacy", {"datetimeRebaseModeInWrite": "LEGACY"})
    write(spark, rows.select("day", "ts", "i"), "recent_legacy", {"datetimeRebaseModeInWrite": "LEGACY"})
    intervals = spark.sql("SELECT INTERVAL '1-2' YEAR TO MONTH AS ym, INTERVAL '1 02:03:04' DAY TO SECOND AS ds")
    write(spark, intervals, "intervals", {})
    if int(spark.version.split(".")[0]) >= 4:
        collated = spark.sql(
            "SELECT 'B' COLLATE UTF8_LCASE AS c, 'B' AS plain, named_struct('c', 'B' COLLATE UNICODE_CI) AS st"
        )
        write(spark, collated, "collated", {})
    spark.sql("CREATE TABLE zskip_defaults (a INT) USING parquet")
    spark.sql("INSERT INTO zskip_defaults VALUES (1)")
    spark.sql("ALTER TABLE zskip_defaults ADD COLUMN b INT DEFAULT 5")
    spark.sql("INSERT INTO zskip_defaults VALUES (2, 2)")
    write(spark, spark.table("zskip_defaults").where("a = 2"), "defaults", {})
    spark.stop()


def write(spark: SparkSession, frame: object, name: str, options: dict[str, str]) -> None:
    """Write one file under one set of `spark.sql.parquet` options."""
    before = {f"spark.sql.parquet.{key}": spark.conf.get(f"spark.sql.parquet.{key}") for key in options}
    for key, value in options.items():
        spark.conf.set(f"spark.sql.parquet.{key}", value)
    target = HERE / name
    frame.coalesce(1).write.mode("overwrite").option("compression", "zstd").parquet(str(target))
    for key, value in before.items():
        spark.conf.set(key, value)
    [part] = target.glob("*.parquet")
    part.rename(HERE / f"{name}.parquet")
    shutil.rmtree(target)


if __name__ == "__main__":
    main()
