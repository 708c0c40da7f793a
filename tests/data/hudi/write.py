"""Write the tables of this directory again: `python tests/data/hudi/write.py` with Spark 3.5 and Hudi's bundle in it.

Each becomes one zip. `rows.json` holds, by table, what Hudi's own reader makes of it: columns, rows, and live files.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

HERE = Path(__file__).parent
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.metadata.enable": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.write.complex.keygen.validation.enable": "false",
}
DAYS = ["2024-01-01", "2024-01-02", None]


def rows(spark: SparkSession, start: int, count: int, ts: int) -> DataFrame:
    """Rows of which the partition goes with the id; `region` holds what has to be escaped."""
    regions = F.array(*(F.lit(v) for v in ("a/b", "ö =%", "c", None)))
    return spark.range(start, start + count, 1, 1).select(
        "id",
        F.lit(ts).cast("long").alias("ts"),
        (F.col("id") * 7 % 100).cast("int").alias("v"),
        F.concat(F.lit("n"), F.col("id").cast("string")).alias("name"),
        F.timestamp_micros(F.col("id") * 1_000_003).alias("at"),
        F.when(F.col("id") % 5 != 0, F.col("id").cast("decimal(9,2)")).alias("d"),
        F.array("id").alias("many"),
        F.element_at(regions, (F.col("id") % 4 + 1).cast("int")).alias("region"),
    )


def save(frame: DataFrame, path: str, **options: str) -> None:
    """Commit to a table; names of options have `__` for `.`."""
    given = {"hoodie." + name.replace("__", "."): value for name, value in options.items()}
    frame.write.format("hudi").options(**{**OPTIONS, **given}).mode("append").save(path)


def history(spark: SparkSession, path: str, **options: str) -> None:
    """Two inserts, an update, a delete, so that dead files lie around."""
    save(rows(spark, 0, 12, 1), path, **options)
    save(rows(spark, 12, 8, 2), path, **options)
    save(rows(spark, 2, 4, 3).withColumn("v", F.lit(-1)), path, **options)
    save(rows(spark, 13, 2, 4), path, **{**options, "datasource__write__operation": "delete"})


def flat(spark: SparkSession, path: str) -> None:
    """Unpartitioned, with the metadata table."""
    history(spark, path, metadata__enable="true")


def hive(spark: SparkSession, path: str) -> None:
    """Partitioned in Hive's style, one partition overwritten."""
    style = {
        "datasource__write__partitionpath__field": "region",
        "datasource__write__hive_style_partitioning": "true",
        "datasource__write__partitionpath__urlencode": "true",
    }
    history(spark, path, **style)
    few = rows(spark, 100, 12, 5).where("region = 'c'")
    save(few, path, **{**style, "datasource__write__operation": "insert_overwrite"})


def plain(spark: SparkSession, path: str) -> None:
    """Partitioned by a number and a text without Hive's style, in the layout of Hudi 0.x."""
    frame = rows(spark, 0, 12, 1).withColumn("region", F.lit("x")).withColumn("p", (F.col("id") % 2).cast("int"))
    style = {
        "datasource__write__partitionpath__field": "p,region",
        "datasource__write__keygenerator__class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "write__table__version": "6",
        "write__auto__upgrade": "false",
    }
    save(frame, path, **style)
    save(frame.where("id < 3").withColumn("ts", F.lit(9).cast("long")), path, **style)


def virtual(spark: SparkSession, path: str) -> None:
    """Without the meta columns, its rows inserted twice."""
    options = {"populate__meta__fields": "false", "datasource__write__operation": "bulk_insert"}
    save(rows(spark, 0, 5, 1), path, **options)
    save(rows(spark, 5, 5, 1), path, **options)


def mor(spark: SparkSession, path: str) -> None:
    """Merge-on-read, with log files beside some of the base files."""
    style = {"datasource__write__table__type": "MERGE_ON_READ", "datasource__write__partitionpath__field": "v"}
    frame = rows(spark, 0, 12, 1).withColumn("v", (F.col("id") % 3).cast("int"))
    save(frame, path, **style)
    save(frame.where("id % 3 = 1").withColumn("name", F.lit("logged")), path, **style)


def dropped(spark: SparkSession, path: str) -> None:
    """Partition columns only in the names of directories."""
    style = {
        "datasource__write__partitionpath__field": "v",
        "datasource__write__drop__partition__columns": "true",
        "datasource__write__hive_style_partitioning": "true",
    }
    save(rows(spark, 0, 6, 1).withColumn("v", (F.col("id") % 2).cast("int")), path, **style)


TABLES: tuple[Callable[[SparkSession, str], None], ...] = (flat, hive, plain, virtual, mor, dropped)


def said_by_hudi(spark: SparkSession, path: str) -> dict[str, object]:
    """Columns, rows and files as Hudi's own reader has them."""
    frame = spark.read.format("hudi").load(path)
    found = [json.loads(row) for row in frame.toJSON().collect()]
    files = frame.select(F.input_file_name()).distinct().collect()
    return {
        "columns": json.loads(frame.schema.json())["fields"],
        "rows": sorted(found, key=lambda row: row["id"]),
        "files": sorted(row[0].rpartition("/")[2] for row in files),
    }


def main() -> None:
    """Write all tables, or those that are named."""
    spark = SparkSession.builder.getOrCreate()
    target = HERE / "rows.json"
    said = json.loads(target.read_text()) if target.exists() else {}
    for make in TABLES:
        if sys.argv[1:] and make.__name__ not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, make.__name__)
            make(spark, f"file://{path}")
            said[make.__name__] = said_by_hudi(spark, f"file://{path}")
            for crc in path.rglob("*.crc"):
                crc.unlink()
            shutil.rmtree(path / ".hoodie" / ".heartbeat", ignore_errors=True)
            with zipfile.ZipFile(HERE / f"{make.__name__}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
                for file in sorted(path.rglob("*")):
                    packed.write(file, file.relative_to(path))
        target.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
