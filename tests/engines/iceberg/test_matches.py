"""Facts of `matches` on Iceberg tables, whose scans take parts of filters to themselves."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import zskip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_conditions_of_which_scans_take_a_part(engine_spark: SparkSession) -> None:
    spark, name = engine_spark, f"local.db.matches_{uuid.uuid4().hex[:8]}"
    modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    columns = "id BIGINT, ts TIMESTAMP, s STRING"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg PARTITIONED BY (days(ts)) TBLPROPERTIES ({modes})")
    rows = "id, timestamp_seconds(1704067200 + id * 3600) AS ts, concat('n', id DIV 24) AS s"
    spark.sql(f"SELECT {rows} FROM range(240) ORDER BY id").writeTo(name).append()
    spark.udf.register("nearly", lambda text, key: key - len(text) > 230, "boolean")
    part, whole = "s RLIKE 'n[27]$'", "ts >= TIMESTAMP '2024-01-06' AND s RLIKE 'n[27]$'"
    zskip.table(spark, name).index(
        sketches=[f"matches:{whole}", "matches:id % 5 + length(s) = 6", "matches:nearly(s, id)"]
    )
    wheres = [part, whole, f"{whole} AND id > 0", "id % 5 + length(s) = 6", f"NOT ({whole})", "nearly(s, id)"]

    def answers() -> list[list[str]]:
        return [sorted(map(str, spark.table(name).where(where).collect())) for where in wheres]

    for change in ("", f"DELETE FROM {name} WHERE id % 3 = 1", f"UPDATE {name} SET s = 'n7' WHERE nearly(s, id + 30)"):
        if change:
            spark.sql(change)
        plain = answers()
        with zskip.enabled(spark):
            assert answers() == plain
        assert len(plain[0]) > len(plain[1]) > 0
    with zskip.enabled(spark):
        spark.table(name).where(f"{whole} AND id > 0").collect()
        assert sum(scan.files for scan in zskip.scans(spark)) < 6
        spark.table(name).where("nearly(s, id) AND id > 1").collect()
        assert sum(scan.files for scan in zskip.scans(spark)) == 2, "one, and that of the update"
