"""How a new table of each format is made of its first rows; `format=` of `zskip.write` names one of `CREATIONS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zskip.errors import UnsupportedError
from zskip.formats.base import StagedFile
from zskip.formats.delta import create as delta
from zskip.formats.parquet import ParquetFormat
from zskip.records import Snapshot
from zskip.storage import Storage


class Creation:
    """Makes tables in directories of plain Parquet; subclasses say what other formats do otherwise."""

    name = "parquet"
    in_catalog = False
    """Whether a catalog makes the table, by its name."""
    own_reader = ""
    """What a session must have loaded, if anything, to read tables of the format by their names in its catalog."""

    def check(self, target: str) -> None:
        """Raise UnsupportedError where zskip makes no tables of the format."""

    def check_columns(self, schema_json: str) -> None:
        """Check the columns of a new table, in Spark's JSON; raises ColumnError and UnsupportedError."""

    def create(
        self,
        storage: Storage,
        schema_json: str,
        partition_names: Sequence[str],
        base: Snapshot,
        added: Sequence[StagedFile],
        info: Mapping[str, Any],
    ) -> int | None:
        """Commit staged files as the first rows of a table; base: the table without rows; returns its version."""
        return ParquetFormat(storage).append(base, added, info)


class DeltaCreation(Creation):
    """Makes Delta tables with `deltalake`, without the session's Delta Lake."""

    name = "delta"
    own_reader = "Delta Lake"

    def check_columns(self, schema_json: str) -> None:
        """Refuse columns that a Delta table cannot have."""
        delta.check_new_columns(schema_json)

    def create(
        self,
        storage: Storage,
        schema_json: str,
        partition_names: Sequence[str],
        base: Snapshot,
        added: Sequence[StagedFile],
        info: Mapping[str, Any],
    ) -> int | None:
        """Write the first version of the log."""
        return delta.create_table(storage, schema_json, partition_names, base, added, info)


class IcebergCreation(Creation):
    """Lets a catalog make Iceberg tables."""

    name = "iceberg"
    in_catalog = True


class HudiCreation(Creation):
    """Makes no tables: only Hudi computes the keys of records."""

    name = "hudi"

    def check(self, target: str) -> None:
        """Raise UnsupportedError, with the way out."""
        raise UnsupportedError(
            "zskip does not write new Hudi tables, whose record keys only Hudi computes; write with "
            f'df.write.format("hudi"), then put the rows in order with zskip.table(spark, "{target}").optimize(by). '
            "Nothing was written"
        )


CREATIONS = {creation.name: creation for creation in (Creation(), DeltaCreation(), IcebergCreation(), HudiCreation())}
CATALOG_FORMAT = next(name for name, creation in CREATIONS.items() if creation.in_catalog)
"""The format whose tables have names in catalogs of their own."""
