"""How a new table of each format is made of its first rows; `format=` of `zskip.write` names one of `CREATIONS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from zskip.errors import UnsupportedError
from zskip.formats.base import StagedFile
from zskip.formats.delta import create as delta
from zskip.formats.parquet import ParquetFormat
from zskip.records import Snapshot
from zskip.storage import Storage

Create: TypeAlias = (
    "Callable[[Storage, str, Sequence[str], Snapshot, Sequence[StagedFile], Mapping[str, Any]], int | None]"
)
"""Commits staged files as a table's first rows; takes the storage, the columns in Spark's JSON, the partition columns,
the table without rows, the files, and a description; returns the version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Creation:
    """How zskip makes tables of a format."""

    name: str
    create: Create = lambda storage, columns, partitions, base, added, info: ParquetFormat(storage).append(
        base, added, info
    )
    check_columns: Callable[[str], None] = lambda schema_json: None
    """Raises ColumnError and UnsupportedError for columns, in Spark's JSON, that no such table can have."""
    in_catalog: bool = False
    """Whether a catalog makes the table, by its name."""
    own_reader: str = ""
    """What a session must have loaded, if anything, to read tables of the format by their names in its catalog."""
    refusal: str = ""
    """Why zskip makes no such table, and the way out, in which {target} is the table."""

    def check(self, target: str) -> None:
        """Raise UnsupportedError where zskip makes no tables of the format."""
        if self.refusal:
            raise UnsupportedError(self.refusal.format(target=target))


_NO_HUDI = (
    "zskip does not write new Hudi tables, whose record keys only Hudi computes; write with "
    'df.write.format("hudi"), then put the rows in order with zskip.table(spark, "{target}").optimize(by). '
    "Nothing was written"
)
CREATIONS = {
    creation.name: creation
    for creation in (
        Creation(name="parquet"),
        Creation(
            name="delta", create=delta.create_table, check_columns=delta.check_new_columns, own_reader="Delta Lake"
        ),
        Creation(name="iceberg", in_catalog=True),
        Creation(name="hudi", refusal=_NO_HUDI),
    )
}
CATALOG_FORMAT = next(name for name, creation in CREATIONS.items() if creation.in_catalog)
"""The format whose tables have names in catalogs of their own."""
