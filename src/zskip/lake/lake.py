"""`Lake`: many tables as one object; it has no state of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zskip.errors import public_methods

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from pyspark.sql import SparkSession

    from zskip.lake.find import FoundTable
    from zskip.lake.results import LakeMaintenance, LakeWorkload, Survey


@public_methods
class Lake:
    """Many tables; `zskip.lake` opens one.

    Each call finds the tables anew. What is known of them lies in the tables themselves: their logs, indexes, journals
    and recorded scans.
    """

    def __init__(
        self, spark: SparkSession | None, patterns: Sequence[str], exclude: Sequence[str], found: Sequence[FoundTable]
    ) -> None:
        """found: the tables, just now."""
        self._spark = spark
        self._patterns = tuple(patterns)
        self._exclude = tuple(exclude)
        self._found: Sequence[FoundTable] | None = found

    def _find(self) -> Sequence[FoundTable]:
        """Find the tables; the first call uses what opening the lake has found."""
        from zskip.lake.find import find_tables

        found, self._found = self._found, None
        return find_tables(self._spark, self._patterns, self._exclude) if found is None else found

    @property
    def tables(self) -> tuple[str, ...]:
        """The paths and names of the tables."""
        self._found = self._find()
        return tuple(table.name for table in self._found)

    def survey(self) -> Survey:
        """Tell of each table what queries read a day, what would be best for it, and after how many days that pays.

        It reads logs, listings, indexes and recorded scans, and writes nothing. A table that cannot be read is a line
        with its error.
        """
        from zskip.lake.survey import survey

        return survey(self._find())

    def import_workload(self, event_logs: str) -> LakeWorkload:
        """Add the scans in Spark's event logs to the recorded workloads of the tables, in one pass over the logs.

        event_logs: a log, or a directory of logs, as `Table.import_workload` takes it. Reading a log again changes
        nothing. Raises InputError where there is no log, or none with a scan of these tables.
        """
        from zskip.lake.workload import import_workload

        return import_workload(self._find(), event_logs)

    def record(self, on: bool = True) -> None:
        """Record the scans of all tables through zskip, including their literals, or stop recording.

        Warns with a ZskipWarning for each table where that fails. Raises InputError for anything but True and False,
        and StorageError where it fails for all.
        """
        from zskip.lake.workload import record

        record(self._find(), on)

    def maintain(
        self,
        budget: int | str | None = None,
        *,
        seconds: float | None = None,
        jobs: int = 1,
        dry_run: bool = False,
        min_gain: float = 1.0,
    ) -> LakeMaintenance:
        """Rewrite what saves most for each byte written, whichever table it belongs to; each batch is one commit.

        Tables of which `survey` says `index` are indexed first, by the footers of their files. Clustered tables are
        maintained by their own layouts; of the others small files are merged.

        budget: the most bytes to write, such as "1TB"; seconds: after which no batch starts; jobs: tables at the same
        time; dry_run: predict, and change nothing; min_gain: bytes that a batch must save queries in 30 days for each
        byte it writes.

        A failure ends the table's turn and is told in `failed`; what was committed stays. A call that is killed leaves
        all tables whole, and the next goes on.

        Raises InputError for arguments that cannot be right, without Spark, and for a budget that no batch fits.
        """
        from zskip.lake.maintain import check_request, maintain

        request = check_request(budget=budget, seconds=seconds, jobs=jobs, dry_run=dry_run, min_gain=min_gain)
        return maintain(self._spark, self._find(), request)

    def report(self, path: str | PathLike[str] | None = None) -> Path:
        """Write the survey as one HTML page, with what was done lately, and a page for each of the most read tables.

        path: of the page, "lake-report.html" by default; the tables' pages lie in a directory beside it. Nothing of the
        tables is read but metadata. Raises InputError for a path that cannot be written, and MissingDependencyError
        without `zskip[report]`.
        """
        from zskip.lake.report import report

        return report(self._find(), self._patterns, path)

    def __repr__(self) -> str:
        return f"zskip.Lake({', '.join(map(repr, self._patterns))})"
