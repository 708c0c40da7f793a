"""The listing of a segment: data files or their row groups; the row number is their number within the segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zskip.records import Ints

FILES_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "mtime_ms": pa.int64(),
        "identity": pa.int64(),
        "rows": pa.int64(),
        "schema": pa.int32(),
        "table_version": pa.int64(),
    }
)
_FIELDS = {
    "path": "paths",
    "size": "sizes",
    "mtime_ms": "mtimes_ms",
    "identity": "identities",
    "rows": "rows",
    "schema": "schema",
    "table_version": "versions",
    "row_group": "row_groups",
}
"""The field of each column of a listing's table."""
ROW_GROUPS_SCHEMA = FILES_SCHEMA.append(pa.field("row_group", pa.int32()))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Listing:
    """The data files that a segment describes, or their row groups; arrays of (listed,)."""

    paths: pa.Array
    """Of the data files, like sizes, times and identities."""
    sizes: Ints
    mtimes_ms: Ints
    identities: Ints
    """As in `Snapshot.identities`, 0 where it has none."""
    rows: Ints
    """Of the files or row groups."""
    schema: npt.NDArray[np.int32]
    """Position in `Segment.schemas`."""
    versions: Ints | None = None
    """The table version that added each file, or that it was first indexed with; None if not read."""
    row_groups: npt.NDArray[np.int32] | None = None
    """The number of each row group within its file; None for listings of files."""

    @classmethod
    def of(cls, table: pa.Table) -> Listing:
        """Build a listing from its table, with the versions if it has them."""
        columns = {name: table[name] for name in table.column_names}
        paths = columns.pop("path")
        arrays = {_FIELDS[name]: column.to_numpy() for name, column in columns.items()}
        return cls(paths=paths.chunk(0) if paths.num_chunks == 1 else paths.combine_chunks(), **arrays)

    def table(self) -> pa.Table:
        """The listing as a table for writing."""
        assert self.versions is not None, "a list that is written was read whole"
        schema = FILES_SCHEMA if self.row_groups is None else ROW_GROUPS_SCHEMA
        return pa.table({name: getattr(self, _FIELDS[name]) for name in schema.names}, schema=schema)
