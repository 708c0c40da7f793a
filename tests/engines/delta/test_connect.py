"""Delta Lake and Iceberg in a session of Spark Connect: their own readers skip what the plan's predicate leaves out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from connect_server import connect_server

SCRIPT = """
import sys
from pyspark.sql import SparkSession
import zskip

path = sys.argv[1]
spark = SparkSession.builder.remote(sys.argv[2]).getOrCreate()
rows = spark.range(0, 600, 1, 6).selectExpr(
    "id", "if(id % 50 = 0, null, id % 97) v", "if(id > 500, double('NaN'), id / 3) x", "timestamp_seconds(id * 3600) ts"
)
MAPPED = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
rows.write.format("delta").options(**MAPPED).save(path + "/delta")
spark.sql(f"ALTER TABLE delta.`{path}/delta` RENAME COLUMN v TO w")
spark.sql(f"DELETE FROM delta.`{path}/delta` WHERE id % 10 = 3")
iceberg = rows.withColumnRenamed("v", "w").writeTo("ice.db.t").using("iceberg")
iceberg = iceberg.tableProperty("write.delete.mode", "merge-on-read")
iceberg.tableProperty("write.distribution-mode", "none").create()
spark.sql("DELETE FROM ice.db.t WHERE id % 10 = 3")
# Files of a table are read, and rewritten, beside Delta Lake.
rows.write.format("delta").save(path + "/files")
files = zskip.table(spark, path + "/files")
assert files.index(sketches=["bloom:v"], collect="scan").sketches[0].files == 6
assert not files.files("v = 98")
assert files.optimize(by=["v"], curve="linear", files=3).rows == 600
as_written = sorted(map(str, rows.collect()))
assert sorted(map(str, spark.read.format("delta").load(path + "/files").collect())) == as_written
def files_read(frame):
    frame.collect()
    metrics = [m for plan in frame.executionInfo.metrics._metrics for m in plan.metrics]
    return sum(int(m.value) for m in metrics if m.name in ("numFiles", "resultDataFiles"))


WHERE = [
    "id + 5 BETWEEN 125 AND 185", "2 * id = 1190", "x * 1 > 190", "w * 1 = 11 AND id < 99", "w IS NULL AND id > 430",
    "ts = TIMESTAMP '1970-01-05 00:00:00'", "id < 0", "id % 2 = 0",
]
for name, location in (("delta", path + "/delta"), ("iceberg", path + "/db/t")):
    table = zskip.table(spark, location)
    table.index()
    for where in WHERE:
        frame, expected = table.df(where), spark.read.format(name).load(location).where(where)
        assert frame.schema == expected.schema
        assert sorted(map(str, frame.collect())) == sorted(map(str, expected.collect())), (name, where)
        skips = {"id + 5 BETWEEN 125 AND 185": 1, "2 * id = 1190": 1}.get(where)
        assert skips is None or table.last_scan.files == skips, (name, where, table.last_scan)
        if skips:
            assert files_read(frame) == skips < files_read(expected), (name, where)
    # Queries as they are, and a frame that is told nothing beforehand.
    zskip.enable(spark)
    spark.read.format(name).load(location).createOrReplaceTempView("v")
    whole = table.df()
    for where in WHERE[:2]:
        rows = sorted(map(str, spark.read.format(name).load(location).where(where).collect()))
        assert zskip.scans(spark)[0].files == 1, (name, where)
        assert files_read(spark.read.format(name).load(location).where(where)) == 1, (name, where)
        assert files_read(whole.where(where)) == table.last_scan.files == 1, (name, where)
        assert sorted(map(str, whole.where(where).collect())) == rows == sorted(map(str, table.df(where).collect()))
        for source in ("v", "delta.`" + location + "`")[: 2 if name == "delta" else 1]:
            assert sorted(map(str, spark.sql(f"SELECT * FROM {source} WHERE {where}").collect())) == rows, source
            assert zskip.scans(spark)[0].files == 1, (source, where)
    for verb in (lambda: table.optimize(by=["id", "x"]), lambda: table.index(sketches=["bloom:w"])):
        try:
            verb()
        except zskip.errors.UnsupportedError as error:
            assert "Nothing was written" in str(error), error
        else:
            raise AssertionError(name)
    zskip.disable(spark)
    # What is written later belongs to the next frame.
    before, where = table.df("id + 0 >= 590"), "id + 0 >= 590"
    count = before.count()
    new = "SELECT 1000L id, 1L w, 2D x, timestamp_seconds(1) ts"
    if name == "delta":
        spark.sql(new).write.format(name).mode("append").save(location)
    else:
        spark.sql(new).writeTo("ice.db.t").append()
    assert (before.count(), table.df(where).count()) == (count, count + 1)
# The snapshot by its number would not have the new column.
spark.sql("ALTER TABLE ice.db.t ADD COLUMN z INT")
widened = zskip.table(spark, path + "/db/t").df("2 * id = 1190")
assert [(row.id, row.z) for row in widened.collect()] == [(595, None)], widened.collect()
spark.stop()
print("done")
"""


@pytest.mark.slow  # A server in a JVM of its own.
def test_the_formats_own_readers_read_the_rows_of_a_version(tmp_path: Path) -> None:
    jars = os.environ["ZSKIP_ENGINE_JARS"].split(os.pathsep)
    if not any("iceberg" in jar for jar in jars):
        pytest.skip("it takes both formats' jars")
    settings = {
        "spark.jars": ",".join(jars),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(tmp_path),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    with connect_server(tmp_path / "server", settings) as server:
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), server.url()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr[-4000:]
