"""Exact routing: a shuffle that brings the rows of file i to partition i, with no sampling of ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zskip.records import Ints
from zskip.spark.jvm.arrays import lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEED = 42
_U32 = npt.NDArray[np.uint32]
MISROUTED = "zskip: a row came to the wrong file"


def spark_hash(values: Ints) -> npt.NDArray[np.int32]:
    """Spark's `hash` of bigints: Murmur3 (Austin Appleby) of the low, then the high half, with seed 42.

    >>> spark_hash(np.array([0, 1])).tolist()
    [-1670924195, -1712319331]
    """
    words = values.astype(np.int64).view(np.uint64)
    mixed = np.full(len(words), _SEED, np.uint32)
    for half in (words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)):
        mixed ^= _rotate(half.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        mixed = _rotate(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(8)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return (mixed ^ (mixed >> np.uint32(16))).view(np.int32)


def _rotate(words: _U32, bits: int) -> _U32:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def routes(files: int) -> Ints:
    """Find for each file id a long that Spark's hash partitioning into `files` partitions sends to that partition.

    >>> keys = routes(5)
    >>> (spark_hash(keys) % 5).tolist()
    [0, 1, 2, 3, 4]
    """
    keys = np.full(files, -1, np.int64)
    start, step = 0, max(64, 4 * files)
    while (keys < 0).any():
        candidates = np.arange(start, start + step, dtype=np.int64)
        targets, first = np.unique(spark_hash(candidates).astype(np.int64) % files, return_index=True)
        is_new = keys[targets] < 0
        keys[targets[is_new]] = candidates[first[is_new]]
        start += step
    return keys


def route(frame: DataFrame, file_id: str, files: int) -> DataFrame:
    """Shuffle each row to the partition whose number is its file id, and prove it there row by row.

    file_id: name of an integer column in [0, files). A row in another partition fails the job, whatever brought it
    there: a coalesced or split partition, or a hash that is not the one we know.
    """
    import pyspark.sql.functions as F

    target = lookup(frame.sparkSession, routes(files), F.col(file_id))
    at_home = F.col(file_id) == F.spark_partition_id()
    return frame.repartition(files, target).where(
        F.when(at_home, F.lit(True)).otherwise(F.raise_error(F.lit(MISROUTED)).cast("boolean"))
    )
