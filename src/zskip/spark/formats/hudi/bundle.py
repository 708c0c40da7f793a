"""Hudi's bundle in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.spark.jvm.gateway import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HUDI = "org.apache.hudi"


def is_loaded(spark: SparkSession) -> bool:
    """Whether the session has Hudi's bundle loaded."""
    from py4j.protocol import Py4JError

    try:
        Jvm.of(spark).class_of(f"{HUDI}.HoodieVersion")
    except Py4JError:
        return False
    return True
