"""Random histories of Delta tables: the same answers with zskip and without, and no row lost."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from histories import SEEDS, STEPS, History

from zskip.errors import ZskipWarning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROPERTIES = {
    "all": {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "id", "delta.enableRowTracking": "true"},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "name": {"delta.columnMapping.mode": "name"},
}
"""Besides type widening. The tables of `all` have what the others have."""


class DeltaHistory(History):
    """A table of the session's catalog."""

    def __init__(self, spark: SparkSession, kind: str, seed: int) -> None:
        self.properties = PROPERTIES[kind] | {"delta.enableTypeWidening": "true"}
        is_mapped = "delta.columnMapping.mode" in self.properties
        if not is_mapped:
            self.names = tuple(name for name in History.names if " " not in name)
        super().__init__(spark, f"default.history_{kind}", seed)
        self.steps += 2 * self.changes_of_columns if is_mapped else [self.add, self.widen, self.move]
        self.steps += 3 * [self.append]

    def create(self) -> str:
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name}")
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        return f"CREATE TABLE {self.name} ({self.ddl}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({properties})"

    def version(self) -> Any:
        return self.table.info().version

    def lineage(self) -> dict[int, tuple[Any, ...]]:
        if "delta.enableRowTracking" not in self.properties:
            return {}
        rows = self.sides.plain(f"SELECT id, _metadata.row_id, _metadata.row_commit_version FROM {self.name}")
        assert len({row[1] for row in rows}) == len(self.now.rows), "ids of rows are not unique"
        return {row[0]: row[1:] for row in rows}

    def frame(self) -> DataFrame:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZskipWarning)
            return super().frame()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", PROPERTIES)
@pytest.mark.nightly
def test_a_random_history_has_the_same_answers(kind: str, seed: int, engine_spark: SparkSession) -> None:
    spark = engine_spark.newSession()
    history = DeltaHistory(spark, kind, seed)
    history.table.index()
    try:
        history.play(STEPS)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {history.name}")
