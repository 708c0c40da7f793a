"""Fields and expressions as clustering columns of Hudi tables, and sketches of elements, read by Hudi itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tiers

import zskip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.bulkinsert.shuffle.parallelism": "4",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "false",
}
ROWS = (
    "id",
    "1L AS ts",
    "concat('User', pmod(hash(id), 500)) AS email",
    "map('k', pmod(hash(id, 1), 300)) AS m",
    "array(concat('tag', left(CAST(pmod(hash(id), 500) AS STRING), 1)), NULL) AS tags",
    "IF(id % 17 = 0, NULL, named_struct('a', CAST(pmod(hash(id, 1), 1000) AS INT))) AS st",
)


def write(frame: DataFrame, path: Path, **options: str) -> None:
    frame.write.format("hudi").options(**{**OPTIONS, **options}).mode("append").save(str(path))


def content(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.drop("_hoodie_file_name").collect()))


@pytest.mark.parametrize("kind", tiers.nightly(["COPY_ON_WRITE", "MERGE_ON_READ"]))
def test_rows_are_placed_by_expressions(engine_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    table_type = {"hoodie.datasource.write.table.type": kind}
    write(engine_spark.range(0, 3000, 1, 4).selectExpr(*ROWS), path, **table_type)
    own = engine_spark.read.format("hudi").load(str(path))
    filters = (
        "lower(email) = 'user77'",
        "st.a BETWEEN 100 AND 110",
        "array_contains(tags, 'tag7')",
        "exists(tags, x -> x LIKE '%ag9')",
        "map_contains_key(m, 'k') AND m['k'] = 7",
    )
    before = {where: content(own.where(where)) for where in ("true", *filters)}
    table = zskip.table(engine_spark, str(path))
    assert table.optimize(by=["LOWER(email)", "st.a"], files=8).by == ("lower(email)", "st.a")
    table.index(sketches=["values(64):explode(tags)", "values(300):element_at(m, 'k')"])
    with zskip.enabled(engine_spark):
        for frame in (engine_spark.read.format("hudi").load(str(path)), table.df()):
            assert {where: content(frame.where(where)) for where in before} == before
    files = {where: len(table.files(where)) for where in filters}
    assert max(files[where] for where in filters[:4]) < 8, files
    write(engine_spark.range(3000, 3200).selectExpr(*ROWS), path, **table_type)
    assert table.maintain().by == ("lower(email)", "st.a")
    with zskip.enabled(engine_spark):
        own = engine_spark.read.format("hudi").load(str(path))
        assert len(content(own.where("array_contains(tags, 'tag7')"))) >= len(before["array_contains(tags, 'tag7')"])
        assert own.count() == 3200
