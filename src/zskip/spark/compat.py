"""Where Spark sessions differ: classic or Connect, Spark 3.5 or 4, pinned threads or not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zskip.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
