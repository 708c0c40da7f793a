"""Hudi's own reader, which merges the log files of file groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zskip.records import Snapshot
from zskip.spark.jvm.compat import frame_of_rows
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HUDI = "org.apache.hudi"
_DIRECTORY = "_hoodie_partition_path"


def is_loaded(spark: SparkSession) -> bool:
    """Whether the session has Hudi's bundle loaded."""
    from py4j.protocol import Py4JError

    try:
        Jvm.of(spark).class_of(f"{HUDI}.HoodieVersion")
    except Py4JError:
        return False
    return True


def read_version(spark: SparkSession, root: str, version: int) -> DataFrame:
    """All rows of a table as of an instant, read and pruned by Hudi itself."""
    return spark.read.format("hudi").option("as.of.instant", str(version)).load(root)


def read_latest(spark: SparkSession, root: str) -> JavaObject:
    """The `HadoopFsRelation` of a table as it is now."""
    plan = spark.read.format("hudi").load(root)._jdf.queryExecution().analyzed()
    return plan.collectLeaves().apply(0).relation()


def add_partition_numbers(frame: DataFrame, snapshot: Snapshot, name: str) -> DataFrame:
    """Add a column with the number of each row's partition."""
    import pyspark.sql.functions as F

    partitions = np.unique(snapshot.partition_of).tolist()
    if len(partitions) == 1:
        return frame.withColumn(name, F.lit(partitions[0]))
    rows = [(i, snapshot.partitions[i].directory) for i in partitions]
    numbers = frame_of_rows(frame.sparkSession, rows, f"{name} int, {name}_directory string")
    condition = frame[_DIRECTORY] == numbers[f"{name}_directory"]
    return frame.join(F.broadcast(numbers), condition).drop(f"{name}_directory")
