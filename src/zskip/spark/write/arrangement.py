"""Which rows of a rewrite each new file holds, and in which order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from zskip.layout.layout import Layout
from zskip.records import Ints, Snapshot
from zskip.spark.jvm.compat import private_session
from zskip.spark.write.arrow.job import ArrowRewrite, ArrowRows, RowsWritten
from zskip.spark.write.rewrite import routed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ONE_PARTITION = {
    # All files of a scan fit into one of its partitions, each of them whole: a file's rows stay together, in order.
    "spark.sql.files.maxPartitionBytes": str((1 << 63) - 1),
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
    # Partitions of the same number would be joined to one where Spark believes that they belong together.
    "spark.sql.unionOutputPartitioning": "false",
}


class LiveRows(Protocol):
    """The rows of some files, as readers give them."""

    @property
    def snapshot(self) -> Snapshot:
        """The files."""

    def select(self, files: Snapshot) -> LiveRows:
        """The rows of some of them."""

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows, without deleted ones, with the number of each row's partition in the last column."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ClusteredRows:
    """Rows in the order of a layout."""

    layout: Layout

    @property
    def partition_of_file(self) -> npt.NDArray[np.integer[Any]]:
        """(files,) the number of each new file's partition in the snapshot."""
        return self.layout.partition_of_file

    @property
    def needs_spark(self) -> bool:
        """Whether Spark has to compute something of the rows, so that files are not enough: a key is an expression."""
        return any(field.computed for field in self.layout.fields)

    def write_files(self, job: ArrowRewrite) -> RowsWritten:
        """Write what files hold through Arrow; raises NotArrow where only Spark can."""
        return job.write_by_layout(self.layout)

    def live_rows(self, session: SparkSession, rows: LiveRows) -> DataFrame:
        """The rows of the files to rewrite, as `Reader.live_rows` gives them."""
        return rows.live_rows(session)

    def write_rows(self, job: ArrowRows, rows: int) -> RowsWritten:
        """Write `live_rows`, as many as given, through Arrow; raises NotArrow where only Spark can."""
        return job.write_by_layout(self.layout, rows)

    def routed(self, live: DataFrame, ordinal: str) -> DataFrame:
        """The same rows without the column with the number of the partition; Spark's partition i is file i."""
        return routed(live, ordinal, self.layout)

    def file_rows(self, live: Ints) -> Ints | None:
        """(new files,) the rows of each, where the files to rewrite say so; live: (files,) their live rows."""
        return None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MergedFiles:
    """The rows of some files one after another, unchanged; its members mean what those of `ClusteredRows` do."""

    bins: Sequence[Ints]
    """The numbers of the files that each new file replaces, all in one partition."""
    partition_of_file: npt.NDArray[np.integer[Any]]
    needs_spark: ClassVar[bool] = False

    def write_files(self, job: ArrowRewrite) -> RowsWritten:
        """Write each bin in one task."""
        return job.write_merged(self.bins)

    def live_rows(self, session: SparkSession, rows: LiveRows) -> DataFrame:
        """Read the files of each bin in one task."""
        one = private_session(session, _ONE_PARTITION)
        frames = [_select(rows, numbers).live_rows(one) for numbers in self.bins]
        # Pairs of pairs, so that no plan is as deep as there are frames.
        while len(frames) > 1:
            pairs = [one.union(other) for one, other in zip(frames[::2], frames[1::2], strict=False)]
            frames = pairs + frames[2 * len(pairs) :]
        return frames[0]

    def write_rows(self, job: ArrowRows, rows: int) -> RowsWritten:
        """Write what each task reads."""
        return job.write_in_order()

    def routed(self, live: DataFrame, ordinal: str) -> DataFrame:
        """Leave them in the tasks that read them."""
        return live.drop(ordinal)

    def file_rows(self, live: Ints) -> Ints | None:
        """Those of the files of each bin."""
        return np.array([live[numbers].sum() for numbers in self.bins], np.int64)


Arrangement = ClusteredRows | MergedFiles
"""Which rows each new file holds, and in which order."""


def _select(rows: LiveRows, numbers: Ints) -> LiveRows:
    """Select some files of one partition, as a table with that partition only."""
    files = rows.snapshot.take(numbers)
    partition = files.partitions[int(files.partition_of[0])]
    return rows.select(
        dataclasses.replace(files, partitions=(partition,), partition_of=np.zeros(len(numbers), np.int32))
    )
