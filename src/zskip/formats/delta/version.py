"""What one version of a Delta log says of a table beside its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zskip.formats.base import RowRules
from zskip.formats.delta.columns import Path, paths_in_new_files
from zskip.formats.delta.protocol import mapping_mode, read_by_delta
from zskip.formats.delta.rules import read_row_rules
from zskip.records import Bools

if TYPE_CHECKING:
    from deltalake import DeltaTable

_TRACKED = ("RowId", "RowCommitVersion")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LogVersion:
    """The protocol, the properties and the columns of a version."""

    number: int
    protocol: Any
    configuration: Mapping[str, str]
    schema_json: str
    """All columns, in Spark's JSON."""
    partition_columns: Sequence[str]
    deleted: Bools | None = None
    """(live files,) those of which rows are deleted, if they were read; None where no rows are."""

    @classmethod
    def of(cls, table: DeltaTable, deleted: Bools | None = None) -> LogVersion:
        """The version in which a table is open."""
        metadata = table.metadata()
        return cls(
            number=table.version(),
            protocol=table.protocol(),
            configuration=metadata.configuration,
            schema_json=table.schema().to_json(),
            partition_columns=metadata.partition_columns,
            deleted=deleted,
        )

    @property
    def rules(self) -> RowRules:
        """What new rows have to keep."""
        return read_row_rules(self.schema_json, self.partition_columns, self.configuration)

    @property
    def read_by_delta(self) -> str | None:
        """The feature for which only Delta reads the rows, if any."""
        feature = read_by_delta(self.protocol, self.configuration)
        if feature is not None or self.deleted is None:
            return feature
        return f"deletionVectors ({int(self.deleted.sum()):,} live files have rows that are deleted)"

    @property
    def paths_in_new_files(self) -> Mapping[Path, Path] | None:
        """The paths of columns in new files, by those in the table; None where they are the same."""
        return None if self.mapping_mode == "none" else paths_in_new_files(self.schema_json)

    @property
    def mapping_mode(self) -> str:
        """How columns are found in files: "none" for their names, "name" or "id"."""
        return mapping_mode(self.configuration)

    @property
    def tracks_rows(self) -> bool:
        """Whether rows may have ids that a rewrite has to keep."""
        return "rowTracking" in (self.protocol.writer_features or ())

    @property
    def tracking_columns(self) -> list[str | None]:
        """The columns of files with the ids of rows and the versions that changed them; empty where they have none.

        None for one that the table does not name.
        """
        is_on = str(self.configuration.get("delta.enableRowTracking", "false")).lower() == "true"
        names = [f"delta.rowTracking.materialized{name}ColumnName" for name in _TRACKED if is_on]
        return [self.configuration.get(name) for name in names]
