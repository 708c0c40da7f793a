"""Hudi tables through the bundle that the session has loaded."""

from zskip.spark.engines.hudi.engine import HudiEngine
from zskip.spark.engines.hudi.reader import add_partition_numbers, is_loaded, read_latest, read_version
from zskip.spark.engines.hudi.statistics import add_statistics

__all__ = ["HudiEngine", "add_partition_numbers", "add_statistics", "is_loaded", "read_latest", "read_version"]
