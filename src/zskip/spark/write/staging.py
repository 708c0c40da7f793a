"""New files in a staging directory: through Arrow, or by Spark's own writer where Arrow does not hold the types."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zskip.errors import UnsupportedError
from zskip.formats import TableFormat, list_data_files, rename_as_staged
from zskip.spark.jvm.compat import is_connected
from zskip.storage import FileInfo, Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.write.arrow.job import RowsWritten

_log = logging.getLogger("zskip")
_MOST_RUNS = 3
"""How often a job that lost an executor is run, the first time included."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StagedFiles:
    """Files in a staging directory."""

    directory: str
    files: list[tuple[int, FileInfo]]
    """With the number of each."""
    rows: int
    """Rows that Spark has read."""
    spark_reason: str
    """Why Spark has written them; empty if they came through Arrow."""


def stage_files(
    spark: SparkSession,
    table: TableFormat,
    storage: Storage,
    through_arrow: Sequence[Callable[[str], RowsWritten]],
    by_spark: Callable[[str, str], int],
    *,
    source: str,
) -> StagedFiles:
    """Write files into a staging directory, which is gone after a failure.

    through_arrow: each writes into a directory, and raises NotReadable where the next one may do better, and NotArrow
    where only Spark can, which a connected session cannot: UnsupportedError. by_spark: takes the directory and the
    reason, and returns the number of rows. source: what the rows are of, for messages.
    """
    from zskip.spark.write.arrow.schema import NotArrow, NotReadable

    reason = ""
    for write in through_arrow:
        try:
            return stage_through_arrow(table, storage, write)
        except NotArrow as error:
            reason = error.reason
            if isinstance(error, NotReadable):
                _log.info("%s: Spark reads the files: %s", source, reason)
                continue
            break
    if is_connected(spark):
        raise UnsupportedError(
            f'only the JVM of a classic session writes "{source}", since {reason}, and Spark Connect gives no access '
            "to it. Nothing was committed"
        )
    _log.info("%s: Spark writes the new files: %s", source, reason)
    return _stage_by_spark(table, storage, by_spark, reason)


def stage_through_arrow(table: TableFormat, storage: Storage, write: Callable[[str], RowsWritten]) -> StagedFiles:
    """Write files into a staging directory, which is gone after a failure; raises what `write` raises, as NotArrow.

    write: takes the directory; where it raises Recomputed, it is called again, with another one.
    """
    from zskip.spark.write.arrow.job import Recomputed

    runs_left = _MOST_RUNS
    while True:
        # Tasks that go on after a failure have no directory to leave files in.
        staging = table.stage()
        try:
            written = write(staging)
            names = {file.name: file.file for file in written.files}
            # What other attempts have left there is not among them.
            listed = ((file.path.rpartition("/")[2], file) for file in list_data_files(storage, staging))
            files = [(names[name], file) for name, file in listed if name in names]
            return StagedFiles(directory=staging, files=files, rows=written.rows, spark_reason="")
        except BaseException as error:
            table.abort(staging)
            runs_left -= 1
            if not isinstance(error, Recomputed) or not runs_left:
                raise


def _stage_by_spark(
    table: TableFormat, storage: Storage, by_spark: Callable[[str, str], int], reason: str
) -> StagedFiles:
    from zskip.spark.write.rewrite import file_of

    staging = table.stage()
    try:
        rows = by_spark(staging, reason)
        rename_as_staged(storage, staging)
        listed = list_data_files(storage, staging)
        files = [(file_of(file.path.rpartition("/")[2]), file) for file in listed]
    except BaseException:
        table.abort(staging)
        raise
    return StagedFiles(directory=staging, files=files, rows=rows, spark_reason=reason)


def check_spark_writes(root: str, stored: str | None, reason: str) -> None:
    """Raise UnsupportedError for a column that Spark would write otherwise than a table asks.

    stored: the columns of files in Spark's JSON, if the table says; reason: why Arrow does not write.
    """
    from zskip.spark.write.arrow.schema import find_arrow_only_column

    column = None if stored is None else find_arrow_only_column(stored)
    if column is not None:
        raise UnsupportedError(
            f'Arrow has to write "{root}", and does not ({reason}): Spark would write column "{column}" as another '
            "type, or its parts without ids; change that, or write with another engine"
        )
