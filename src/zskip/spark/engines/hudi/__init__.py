"""Hudi tables through the bundle that the session has loaded."""

from zskip.spark.engines.hudi.engine import HudiEngine, is_loaded, read_version
from zskip.spark.engines.hudi.statistics import add_statistics

__all__ = ["HudiEngine", "add_statistics", "is_loaded", "read_version"]
