"""Random histories of Iceberg tables: the same answers with zskip and without, no row lost, ids of rows kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import histories
import pytest
from histories import MOST_ROWS
from iceberg_rows import delete_equal, load
from random_rows import POOLS

from zskip.spark.jvm.gateway import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG = "org.apache.iceberg"
FIELDS = "p", "bucket(2, id)", "truncate(10, id)"
OPERATIONS = "delete", "update", "merge"
MODES = "copy-on-write", "merge-on-read"


class IcebergHistory(histories.History):
    """A table of version 2 or 3 in the session's own catalog."""

    def __init__(self, spark: SparkSession, version: int, seed: int) -> None:
        self.format_version, name = version, f"local.db.history{version}"
        self.of_other_tables: set[Any] = set()
        """Versions from before the table was replaced."""
        spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")
        super().__init__(spark, name, seed)
        self.was_partitioned = bool(self.fields)
        self.steps += [
            *self.changes_of_columns, *self.changes_of_columns, *3 * [self.append], self.append_aside,
            self.delete_by_values, self.add_with_default, self.tag, self.go_back,
            self.replace_table, self.choose_modes, self.rewrite_by_iceberg, self.change_partitions,
        ]  # fmt: skip

    def create(self) -> str:
        self.fields = {self.rng.choice(FIELDS)} if self.rng.random() < 0.6 else set[str]()
        properties = {
            "format-version": str(self.format_version),
            "write.delete.granularity": self.rng.choice(["file", "partition"]),
            "write.distribution-mode": self.rng.choice(["none", "hash"]),
        } | {f"write.{operation}.mode": "merge-on-read" for operation in OPERATIONS}
        settings = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        by = f"PARTITIONED BY ({', '.join(self.fields)})" if self.fields else ""
        return f"CREATE OR REPLACE TABLE {self.name} ({self.ddl}) USING iceberg {by} TBLPROPERTIES ({settings})"

    def version(self) -> Any:
        return self.sides.plain(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'")[0][0]

    def lineage(self) -> dict[int, tuple[Any, ...]]:
        if self.format_version < 3:
            return {}
        rows = self.sides.plain(f"SELECT id, _row_id, _last_updated_sequence_number FROM {self.name}")
        assert len({row[1] for row in rows} - {None}) == len(self.now.rows), "ids of rows are not unique"
        return {row[0]: row[1:] for row in rows}

    def check(self) -> None:
        super().check()
        self.lineage()

    # Steps that only Iceberg has.

    def delete_by_values(self) -> None:
        """Delete rows by an equality delete, which Spark never writes."""
        keys = self.rng.sample(sorted(self.now.rows), min(3, len(self.now.rows)))
        if self.was_partitioned or not keys:
            return
        self.log.append(f"delete_equal(spark, {self.name!r}, 'id', {keys})")
        delete_equal(self.spark, self.name, "id", keys)
        self._set_rows({key: row for key, row in self.now.rows.items() if key not in keys})

    def add_with_default(self) -> None:
        """Add a column with a default value, which Spark's SQL cannot."""
        name = self._free_name()
        if self.format_version < 3 or not name:
            return
        column, jvm = replace(self._column(name, "int"), default=self.rng.choice(POOLS["int"])), Jvm.of(self.spark)
        self.log.append(f"updateSchema().addColumn({column})")
        default = jvm.call(f"{ICEBERG}.expressions.Expressions", "lit")(column.default)
        kind = jvm.call(f"{ICEBERG}.types.Types$IntegerType", "get")()
        load(self.spark, self.name).updateSchema().addColumn(column.plain_name, kind, default).commit()
        self.spark.sql(f"REFRESH TABLE {self.name}")
        self._add_column(column)

    def tag(self) -> None:
        """Give the current snapshot a name."""
        name = f"tag{len(self.past)}"
        self.run(f"ALTER TABLE {self.name} CREATE OR REPLACE TAG {name}")
        self.past[f"'{name}'"] = self.past[self.version()]

    def go_back(self) -> None:
        """Make an older snapshot the current one, which keeps the columns as they are."""
        versions = [version for version in self.past if isinstance(version, int)]
        old = self.rng.choice([version for version in versions if version not in self.of_other_tables])
        name = self.name.partition(".")[2]
        self.run(f"CALL local.system.set_current_snapshot('{name}', {old})")
        self._set_rows(self.past[old].rows)

    def replace_table(self) -> None:
        """Make another table of the same name; columns of old names get the old ids."""
        self.of_other_tables.update(self.past)
        kept = [column for column in self.now.columns if column.name in self.fixed]
        names = self.rng.sample(self.names, self.rng.randint(2, 4))
        columns = kept + [self._column(name, self.rng.choice(self.kinds)) for name in names]
        self.now = replace(self.now, columns=tuple(columns), rows={})
        self.run(self.create())
        self.insert()
        self.insert()

    def append_aside(self) -> None:
        """Add rows to a branch through zskip, and at times go on from there."""
        if len(self.now.rows) > MOST_ROWS:
            return self.delete()
        rows, name = self._new_rows(4), self.name.partition(".")[2]
        self.run(f"ALTER TABLE {self.name} CREATE OR REPLACE BRANCH aside")
        if self._append(rows, branch="aside") < len(rows):
            return
        on_branch = self.sides.plain(f"SELECT id FROM {self.name} VERSION AS OF 'aside'")
        assert sorted(row[0] for row in on_branch) == sorted({**self.now.rows, **rows})
        if self.rng.random() < 0.6:
            self.run(f"CALL local.system.fast_forward('{name}', 'main', 'aside')")
            self._set_rows({**self.now.rows, **rows})

    def choose_modes(self) -> None:
        """Write deletes and changes beside files, or new files."""
        modes = [
            f"'write.{operation}.mode' = '{self.rng.choice(MODES)}'" for operation in ("delete", "update", "merge")
        ]
        self.run(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({', '.join(modes)})")

    def rewrite_by_iceberg(self) -> None:
        """Let Iceberg itself merge files."""
        name = self.name.partition(".")[2]
        what = self.rng.choice(["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests"])
        options = "" if what == "rewrite_manifests" else ", options => map('rewrite-all', 'true')"
        self.run(f"CALL local.system.{what}(table => '{name}'{options})")

    def change_partitions(self) -> None:
        """Partition new files otherwise."""
        field = self.rng.choice(FIELDS)
        verb = "DROP" if field in self.fields else "ADD"
        self.run(f"ALTER TABLE {self.name} {verb} PARTITION FIELD {field}")
        self.fields ^= {field}


@pytest.mark.slow
@pytest.mark.parametrize("seed", histories.SEEDS)
@pytest.mark.parametrize("version", [3, 2])
@pytest.mark.nightly
def test_a_random_history_has_the_same_answers(version: int, seed: int, engine_spark: SparkSession) -> None:
    pytest.importorskip("sqlalchemy")
    IcebergHistory(engine_spark.newSession(), version, seed).play(histories.STEPS)


def test_a_row_that_is_lost_is_found(engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    history = IcebergHistory(engine_spark.newSession(), 3, 1)
    pruned = history.sides.pruned
    monkeypatch.setattr(history.sides, "pruned", lambda sql: pruned(sql)[1:])
    with pytest.raises(AssertionError, match=r"after 0 steps .* has 23 rows, 24 are expected(.|\n)*INSERT INTO"):
        history.play(0)
