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
    from zskip.lake.results import LakeMaintenance, Survey


@public_methods
class Lake:
    """Many tables; `zskip.lake` opens one.

    Each call finds the tables anew. A lake has no state of its own: what zskip knows of a table lies in the table's
    log, index, journal and recorded scans.
    """

    def __init__(
        self, spark: SparkSession | None, patterns: Sequence[str], exclude: Sequence[str], tables: Sequence[FoundTable]
    ) -> None:
        """tables: those that match now, for the first call."""
        self._spark = spark
        self._patterns = tuple(patterns)
        self._exclude = tuple(exclude)
        self._fresh: Sequence[FoundTable] | None = tables

    def _find(self) -> Sequence[FoundTable]:
        """Find the tables, unless opening the lake has just done so."""
        from zskip.lake.find import find_tables

        tables, self._fresh = self._fresh, None
        return find_tables(self._spark, self._patterns, self._exclude) if tables is None else tables

    @property
    def tables(self) -> tuple[str, ...]:
        """The paths and names of the tables."""
        self._fresh = self._find()
        return tuple(table.name for table in self._fresh)

    def survey(self) -> Survey:
        """Say of each table what queries read of it each day, which action suits it best, and after how many days that
        pays.

        It reads logs, listings, indexes and recorded scans, and writes nothing. A table that cannot be read is a line
        with its error.
        """
        from zskip.lake.examine import survey

        return survey(self._find())

    def record(self, on: bool = True) -> None:
        """Record the scans of all tables through zskip, including their literals, or stop recording.

        Tables where that fails get a ZskipWarning.

        Args:
            on: Whether to record.

        Raises:
            InputError: `on` is neither True nor False.
            StorageError: It fails for every table.
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
        sketches: str | None = None,
    ) -> LakeMaintenance:
        """Rewrite what saves most for each byte written, whichever table it belongs to; each batch is one commit.

        zskip first indexes the tables whose action in `survey` is `index`, from the footers of their files. It
        maintains clustered tables by their own layouts, and merges the small files of the others.

        An error ends the table's turn and is listed in `failed`; earlier commits stay. After a call that was killed,
        all tables are whole, and the next call does the rest.

        Args:
            budget: Most bytes to write, such as "1TB".
            seconds: Start no batch after this many seconds.
            jobs: Number of tables to maintain at the same time.
            dry_run: Predict what a run would do, and change nothing.
            min_gain: Bytes that a batch must save queries within 30 days for each byte that it writes.
            sketches: "auto" lets the recorded queries of each table choose the sketches of its index afterwards. Tables
                without recorded queries keep theirs.

        Raises:
            InputError: An argument is invalid, there is no Spark session, or no batch fits the budget.
        """
        from zskip.lake.maintain import LakeRequest, maintain
        from zskip.table.optimize_request import check_arguments

        request = check_arguments(
            LakeRequest,
            budget=budget,
            seconds=seconds,
            jobs=jobs,
            dry_run=dry_run,
            min_gain=min_gain,
            sketches=sketches,
        )
        return maintain(self._spark, self._find(), request)

    def report(self, path: str | PathLike[str] | None = None) -> Path:
        """Write the survey as one HTML page, with recent operations, and a page for each of the most read tables beside
        it.

        Only metadata of the tables is read.

        Args:
            path: Where to write the page, "lake-report.html" by default. The pages of tables lie in a directory beside
                it.

        Raises:
            InputError: The path cannot be written.
            MissingDependencyError: The extra `report` is not installed.
        """
        from zskip.lake.report import report

        return report(self._find(), self._patterns, path)

    def __repr__(self) -> str:
        return f"zskip.Lake({', '.join(map(repr, self._patterns))})"
