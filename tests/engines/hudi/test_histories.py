"""Random histories of Hudi tables: the same answers with zskip and without, and no row lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from histories import SEEDS, STEPS, History
from table_versions import Column

import zskip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
}


class HudiHistory(History):
    """A table of the session's catalog; zskip opens it by its path."""

    # Hudi 1.2 itself loses updates whose log files have a null struct inside a struct, and inserts no null elements.
    columns = tuple(pair for pair in History.columns if not pair[1].startswith(("struct", "array")))
    kinds = tuple(kind for kind in History.kinds if not kind.startswith(("struct", "array")))
    names = tuple(name for name in History.names if "`" not in name)
    matches = (" AND t.p = s.p",)
    choices: ClassVar = dict(History.choices)
    # Its files hold Bloom filters of 0.4 MB, so parts of 1 kB would be hundreds of tasks.
    del choices["spark.sql.files.maxPartitionBytes"]
    # It would ignore the DELETE of a MERGE that updates, too.
    merge_deletes = by_source = False

    def __init__(self, spark: SparkSession, kind: str, seed: int) -> None:
        self.kind = kind
        super().__init__(spark, f"history_{kind}", seed)
        self.steps += 2 * [self.add]
        if kind == "mor":
            self.steps.append(self.compact_by_hudi)

    def create(self) -> str:
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name}")
        properties = {"type": self.kind, "primaryKey": "id"}
        if self.rng.random() < 0.5:
            properties["preCombineField"] = "id"  # Which is the same in all versions of a row, so that the last stays.
        settings = ", ".join(f"{name} = '{value}'" for name, value in properties.items())
        return f"CREATE TABLE {self.name} ({self.ddl}) USING hudi PARTITIONED BY (p) TBLPROPERTIES ({settings})"

    def open(self) -> zskip.Table:
        described = self.spark.sql(f"DESCRIBE EXTENDED {self.name}")
        location = described.where("col_name = 'Location'").collect()[0]["data_type"]
        return zskip.table(self.spark, location.removeprefix("file:"))

    def version(self) -> Any:
        return self.table.info().version

    def as_of(self, version: Any) -> str:
        # Hudi's SQL knows TIMESTAMP AS OF, but not beside an OFFSET.
        frame = self.spark.read.format("hudi").option("as.of.instant", version).load(self.table.path)
        frame.createOrReplaceTempView("past")
        return "past"

    def remember(self) -> None:
        super().remember()
        # Hudi cleans the files of earlier ones.
        self.past = dict(list(self.past.items())[-5:])

    def _add_column(self, column: Column) -> None:
        super()._add_column(column)
        # Those of partitions stay last.
        self.now = replace(self.now, columns=tuple(sorted(self.now.columns, key=lambda other: other.name == "p")))

    def compact_by_hudi(self) -> None:
        """Let Hudi merge the log files with their base files."""
        self.run(f"CALL run_compaction(op => 'scheduleandexecute', table => '{self.name}')").collect()


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_a_random_history_has_the_same_answers(kind: str, seed: int, engine_spark: SparkSession) -> None:
    spark = engine_spark.newSession()
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    history = HudiHistory(spark, kind, seed)
    history.table.index()
    try:
        history.play(STEPS)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {history.name}")
