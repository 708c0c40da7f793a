"""Where Spark sessions differ: classic or Connect, Spark 3.5 or 4, pinned threads or not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zskip.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_OLDEST = (3, 5)


def check_session(spark: SparkSession) -> None:
    """Refuse what is no running classic Spark session of a version that zskip knows.

    Raises UnsupportedError for Spark Connect and for versions before 3.5, InputError for anything else.
    """
    module = type(spark).__module__
    if module.startswith("pyspark.sql.connect"):
        raise UnsupportedError(
            "this is a Spark Connect session: it gives no access to the JVM in which Spark plans its scans; "
            "use a classic session (SparkSession.builder.master(...)), or read the files that "
            "zskip.open(path).files(where) names"
        )
    if not hasattr(spark, "_jsparkSession"):
        raise InputError(f"{spark!r} is not a SparkSession; pass the session itself, such as `spark` in a notebook")
    if spark.sparkContext._jsc is None:
        raise InputError("this Spark session has been stopped; pass a running one")
    if version(spark) < _OLDEST:
        raise UnsupportedError(f"Spark {spark.version} is too old for zskip; use Spark 3.5 or later")


def version(spark: SparkSession) -> tuple[int, int]:
    """Major and minor version of the session's Spark."""
    match = re.match(r"(\d+)\.(\d+)", spark.version)
    if match is None:
        raise UnsupportedError(f"cannot read the Spark version {spark.version!r}")
    return int(match[1]), int(match[2])


def set_active(spark: SparkSession) -> None:
    """Make a session the active one of the calling thread's twin in the JVM: settings are read from it."""
    from zskip.spark.jvm import Jvm

    package = "org.apache.spark.sql" if version(spark) < (4, 0) else "org.apache.spark.sql.classic"
    Jvm.of(spark).call(f"{package}.SparkSession", "setActiveSession")(spark._jsparkSession)


def parse_partitions(spark: SparkSession, utils: Any, paths: Any, base_paths: Any, none: Any) -> Any:
    """Call Spark's own `PartitioningUtils.parsePartitions` with the settings of the session.

    Spark 4.1 has one more argument, whether to skip paths that do not parse.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    conf = spark._jsparkSession.sessionState().conf()
    arguments = (
        paths,
        conf.partitionColumnTypeInferenceEnabled(),
        base_paths,
        none,
        conf.caseSensitiveAnalysis(),
        conf.validatePartitionColumns(),
        conf.sessionLocalTimeZone(),
    )
    if version(spark) < (4, 0):
        return utils.parsePartitions(*arguments)
    try:
        return utils.parsePartitions(*arguments, conf.ignoreInvalidPartitionPaths())
    except Py4JJavaError:
        raise
    except Py4JError:
        return utils.parsePartitions(*arguments)


def has_binary_search(spark: SparkSession) -> bool:
    """Whether `array_binary_search` is among Spark's internal functions (since 4.0)."""
    return version(spark) >= (4, 0)


def binary_search(array: Column, value: Column) -> Column:
    """The place of a value in a sorted array, or -(insertion place) - 1; only where `has_binary_search`."""
    from pyspark.sql.internal import InternalFunction

    return InternalFunction.array_binary_search(array, value)


def collect_arrow(frame: DataFrame) -> pa.Table:
    """Bring a small DataFrame to the driver, its partitions in order."""
    internal: Any = frame
    if version(frame.sparkSession) >= (4, 0):
        return internal.toArrow()
    batches = internal._collect_as_arrow()
    return pa.Table.from_batches(batches, None if batches else pa.schema([]))


def private_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A copy of a session with its own settings, temporary views included; the caller's session is left alone."""
    from pyspark.sql import SparkSession

    java = spark._jsparkSession.cloneSession()
    for name, value in settings.items():
        java.conf().set(name, value)
    return SparkSession(spark.sparkContext, java)
