"""Small files into larger ones: no shuffle, no sort, one task for each new file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zskip.spark.jvm.compat import private_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ONE_PARTITION = {
    # All files of a scan fit into one of its partitions, each of them whole.
    "spark.sql.files.maxPartitionBytes": str((1 << 63) - 1),
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
    # Partitions of the same number would be joined to one where Spark believes that they belong together.
    "spark.sql.unionOutputPartitioning": "false",
}


def as_one_partition(spark: SparkSession) -> SparkSession:
    """A session like this one, in which each scan of files is one partition: a file's rows stay together, in order."""
    return private_session(spark, _ONE_PARTITION)


def side_by_side(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of some frames of the same columns: each partition of each frame, in order, is one of the result.

    frames: at least one.
    """
    # Pairs of pairs, so that no plan is as deep as there are frames.
    while len(frames) > 1:
        pairs = [one.union(other) for one, other in zip(frames[::2], frames[1::2], strict=False)]
        frames = pairs + list(frames[2 * len(pairs) :])
    return frames[0]
