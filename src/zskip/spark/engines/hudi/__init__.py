"""Hudi tables through the bundle that the session has loaded."""

from zskip.spark.engines.hudi.engine import HudiEngine, is_loaded, read_version
from zskip.spark.engines.hudi.statistics import with_statistics

__all__ = ["HudiEngine", "is_loaded", "read_version", "with_statistics"]
