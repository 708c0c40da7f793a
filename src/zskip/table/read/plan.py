"""The plan of a scan: the files that a query has to read, and how other engines read their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from zskip.errors import public_methods
from zskip.index import BoundIndex
from zskip.predicate import Predicate, columns_of
from zskip.records import Ints, LeafReport, ScanReport, Snapshot
from zskip.table.handle import Handle
from zskip.table.read.kept_file import KeptFile

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from zskip.table.read.stored_columns import StoredRows


@public_methods
@dataclass(frozen=True, kw_only=True, eq=False)
class ScanPlan:
    """What a scan of one version of a table reads: `Table.plan` makes it.

    The rows of its files are a superset of the rows that match: filter them again.
    """

    where: str | pc.Expression | None
    condition: Predicate = field(repr=False)
    """What `where` is to the index."""
    report: ScanReport
    """Files, bytes, row groups and rows to read and in total, and what each part of the predicate skips, or why not."""
    handle: Handle = field(repr=False)
    bound: BoundIndex = field(repr=False)
    """The index, bound to all files of the version."""
    kept: Ints = field(repr=False)
    """The places in the snapshot of the files to read."""
    row_groups: Mapping[int, tuple[int, ...]] = field(repr=False)
    """The row groups to read by the place of the file; files that are not here are read whole."""

    @cached_property
    def files(self) -> tuple[KeptFile, ...]:
        """The absolute paths of the files to read, each with its row groups and with what deletes rows of it."""
        deletes = {} if (read := self.snapshot.reading.read_deletes) is None else read()
        paths = [(i, self.snapshot.paths[i]) for i in self.kept.tolist()]
        return tuple(
            KeptFile(self.handle.storage.uri(path), self.row_groups.get(i), deletes.get(path, ())) for i, path in paths
        )

    @property
    def snapshot(self) -> Snapshot:
        """All files of the version."""
        return self.bound.snapshot

    @property
    def path(self) -> str:
        """Absolute path or URI of the table."""
        return self.handle.storage.root

    @property
    def version(self) -> int:
        """zskip's count of commits to a plain Parquet table, or the version of the table format."""
        return self.snapshot.version

    @property
    def bytes(self) -> int:
        """The total size of the files to read."""
        return self.report.bytes

    @property
    def reasons(self) -> tuple[LeafReport, ...]:
        """How many files each part of the predicate skips, or why it skips none."""
        return self.report.leaves

    @cached_property
    def predicate(self) -> str:
        """`where`, and what is true of all rows of the files, in Spark's SQL: for engines that choose files themselves.

        An engine that reads `version` by this condition gets the rows of `where`, and skips by its own statistics what
        they let it: at most 32 boxes over up to four columns say where the files lie. Rows that are null or NaN in
        these columns are part of them. "TRUE" where there is no condition, or nothing is known of a file.

        ```python
        plan = zskip.open("events").plan("message LIKE '%timeout%'")
        sqlglot.transpile(plan.predicate, read="spark", write="trino")[0]
        ```
        """
        from zskip.table.read.induced import induced_predicate

        kept = np.isin(np.arange(len(self.snapshot)), self.kept)
        names = [column.path[0] for column in columns_of(self.condition)]
        boxes = induced_predicate(self.bound, kept, names)
        end = "\n" if "--" in str(self.where) else ""  # A comment ends with its line.
        where = f"({self.where}{end})" if isinstance(self.where, str) else None
        return " AND ".join(part for part in (where, boxes and f"({boxes})") if part) or "TRUE"

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The live rows of the files as a relation of DuckDB, under the table's names and types.

        Deleted rows are left out, and a plan without files gives a relation without rows. Partition columns come last.
        DuckDB reads the files when the relation is used, and skips row groups by the filters that it gets.

        Args:
            connection: Must outlive the relation.

        Raises:
            UnsupportedError: The table has equality deletes or log files, structs whose fields were renamed or differ
                from file to file, or a column whose type in some file DuckDB would read otherwise.

        ```python
        plan = zskip.open("events").plan("user_id = 7")
        connection = duckdb.connect()
        plan.to_duckdb(connection).filter("user_id = 7").aggregate("count(*)")
        ```
        """
        from zskip.table.read.duckdb_scan import to_relation

        return to_relation(self._stored_rows("to_duckdb"), connection)

    def to_polars(self) -> pl.LazyFrame:
        """The live rows of the files as a lazy frame of Polars, under the table's names and types.

        Everything else is as in `to_duckdb`.

        ```python
        plan = zskip.open("events").plan("user_id = 7")
        plan.to_polars().filter(pl.col("user_id") == 7).select(pl.len()).collect()
        ```
        """
        from zskip.table.read.polars_scan import to_lazy_frame

        return to_lazy_frame(self._stored_rows("to_polars"))

    def _stored_rows(self, reader: str) -> StoredRows:
        from zskip.table.read.stored_columns import stored_rows

        snapshot = self.snapshot.take(self.kept) if len(self.kept) else self.snapshot
        return stored_rows(self.handle, snapshot, self.files, reader)

    def __repr__(self) -> str:
        report = self.report
        return (
            f"ScanPlan({self.path!r}, version {self.version}: {report.files:,} of {report.files_total:,} files, "
            f"{report.bytes:,} of {report.bytes_total:,} bytes)"
        )
