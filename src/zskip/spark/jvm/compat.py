"""Where Spark sessions differ: classic or Connect, Spark 3.5 or 4; and private sessions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from zskip.errors import InputError, UnsupportedError
from zskip.records import Ints
from zskip.spark.jvm import connect
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

SHORT_SHUFFLES = {"spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true"}
"""Settings under which, since Spark 4.1, a shuffle leaves the disks of executors when its job has ended."""
_OLDEST, _LIMITS_BYTES = (3, 5), (4, 1)


def is_connected(spark: object) -> bool:
    """Whether a session is one of Spark Connect, which gives no access to its JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def check_session(spark: SparkSession) -> None:
    """Refuse anything but a running classic Spark session of a supported version.

    Raises UnsupportedError for Spark Connect and for versions before 3.5, InputError for anything else.
    """
    if is_connected(spark):
        raise UnsupportedError(
            "this is a Spark Connect session: it gives no access to the JVM that plans Spark's scans; "
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
    if is_connected(spark):
        return connect.version(spark)
    major, minor = Jvm.of(spark).once("version", lambda: spark.version).split(".")[:2]
    return int(major), int(minor)


def cores(spark: SparkSession) -> int:
    """How many tasks run at once; of a connected session, into how many Spark divides what has no other number."""
    return connect.cores(spark) if is_connected(spark) else spark.sparkContext.defaultParallelism


def codec_name(spark: SparkSession, codec: str) -> str:
    """A Parquet codec as this version of Spark names it."""
    return "lz4raw" if codec == "lz4_raw" and version(spark) < (4, 0) else codec


def iceberg_runtime(spark: SparkSession) -> str:
    """Iceberg's runtime for the session's Spark, as Maven names it."""
    major, minor = version(spark)
    scala = "2.12" if (major, minor) < (4, 0) else "2.13"
    return f"org.apache.iceberg:iceberg-spark-runtime-{major}.{minor}_{scala}:1.11.0"


def set_active(spark: SparkSession) -> None:
    """Make a session the active one of the calling thread's counterpart in the JVM, which reads settings from it."""
    _session_method(spark, "setActiveSession")(spark._jsparkSession)


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one within a block, for the JVM; afterward Python's is the one it was, too."""
    if is_connected(spark):  # Each of its frames names its own session.
        yield
        return
    from pyspark.sql import SparkSession

    in_python = SparkSession._activeSession
    before = _session_method(spark, "getActiveSession")()
    set_active(spark)
    try:
        yield
    finally:
        SparkSession._activeSession = in_python
        if before.isDefined():
            _session_method(spark, "setActiveSession")(before.get())
        else:
            _session_method(spark, "clearActiveSession")()


def frame_of_rows(session: SparkSession, rows: Sequence[Any], schema: str | StructType) -> DataFrame:
    """A DataFrame of rows; `createDataFrame` alone would leave a private session active in place of the caller's."""
    with active_session(session):
        return session.createDataFrame(rows, schema)


def _session_method(spark: SparkSession, method: str) -> Any:
    """A static method of the JVM's session class."""
    return Jvm.of(spark).call(f"{_package(spark)}.SparkSession", method)


def _package(spark: SparkSession) -> str:
    """Where the classes of a session are that is not a Spark Connect session."""
    return "org.apache.spark.sql" if version(spark) < (4, 0) else "org.apache.spark.sql.classic"


def parse_partitions(spark: SparkSession, utils: Any, paths: Any, base_paths: Any, none: Any) -> Any:
    """Call Spark's own `PartitioningUtils.parsePartitions` with the session's settings.

    Spark 4.1 has one more parameter: whether to skip paths that do not parse.
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


def column_of(spark: SparkSession, expression: JavaObject) -> Column:
    """A column for a Catalyst expression."""
    from pyspark.sql import Column

    jvm = Jvm.of(spark)
    if version(spark) < (4, 0):
        return Column(jvm.find("org.apache.spark.sql.Column")(expression))
    return Column(jvm.call("org.apache.spark.sql.classic.ExpressionUtils", "column")(expression))


def expression_of(spark: SparkSession, column: Column) -> JavaObject:
    """The Catalyst expression of a column."""
    java: Any = column._jc
    if version(spark) < (4, 0):
        return java.expr()
    return Jvm.of(spark).call("org.apache.spark.sql.classic.ExpressionUtils", "expression")(java)


def call_java(spark: SparkSession, owner: str, method: str, *arguments: Column | JavaObject) -> Column:
    """Call a static Java method that returns an int for each row; null where an argument is null.

    arguments: columns or Catalyst expressions. Uses Catalyst's `StaticInvoke`, which has one more parameter since 4.0.
    """
    from pyspark.sql import Column

    jvm = Jvm.of(spark)
    expressions = [expression_of(spark, a) if isinstance(a, Column) else a for a in arguments]
    integer = jvm.call("org.apache.spark.sql.types.DataType", "fromJson")('"integer"')
    invoke = jvm.find("org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke")
    call = (jvm.class_of(owner), integer, method, jvm.seq_of(*expressions), jvm.seq_of(), True, True, True)
    return column_of(spark, invoke(*call) if version(spark) < (4, 0) else invoke(*call, jvm.none))


def collation_key(spark: SparkSession, text: Column) -> Column:
    """The bytes by whose order texts with a collation compare, as Spark 4 computes them to group and join."""
    key = Jvm.of(spark).find("org.apache.spark.sql.catalyst.expressions.CollationKey")
    return column_of(spark, key(expression_of(spark, text)))


def parquet_settings(spark: Any) -> set[str]:
    """The settings of Parquet's writer that a session has, without their prefix."""
    if is_connected(spark):
        return {name.removeprefix("parquet.") for name in connect.settings_of(spark) if name.startswith("parquet.")}
    return set(spark._jsparkSession.sessionState().newHadoopConf().getPropsWithPrefix("parquet."))


def collect_arrow(frame: DataFrame) -> pa.Table:
    """Collect a small DataFrame on the driver, partitions in order."""
    internal: Any = frame
    if version(frame.sparkSession) >= (4, 0):
        return internal.toArrow()
    if is_connected(frame.sparkSession):
        return internal._session.client.to_table(internal._plan.to_proto(internal._session.client))[0]
    batches = internal._collect_as_arrow()
    return pa.Table.from_batches(batches, None if batches else pa.schema([]))


def private_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A copy of a session, temporary views included, with settings of its own; the caller's session stays as it is."""
    if is_connected(spark):
        return connect.copy_session(spark, settings)
    from pyspark.sql import SparkSession

    java = spark._jsparkSession.cloneSession()
    for name, value in settings.items():
        java.conf().set(name, value)
    return SparkSession(spark.sparkContext, java)


def session_for_files(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A private session for a job over files, which needs the settings of a session, but none of its views.

    A connected session has one for all such jobs, one after another.
    """
    return connect.session_for_files(spark, settings) if is_connected(spark) else private_session(spark, settings)


def next_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session for the next job over the rows of a private one; a connected one stays."""
    return spark if is_connected(spark) else private_session(spark, settings)


def check_limits(spark: SparkSession) -> None:
    """Raise UnsupportedError where a connected session does not limit the bytes of a batch for Python."""
    if is_connected(spark) and version(spark) < _LIMITS_BYTES:
        raise UnsupportedError(
            f"zskip would hold too many rows in memory on a server of Spark {spark.version}, which does not limit the "
            "bytes of its batches; write the rows of DataFrames with 4.1 or later, or in a classic session. Nothing "
            "was written"
        )


def run_stages(frame: DataFrame, spark: SparkSession, divide: Callable[[Ints], Ints] | None = None) -> DataFrame:
    """Run all of a DataFrame's stages but the last, with the settings of its session, and go on in another session.

    Python workers get batches of as many rows as the settings of the job say. Adaptive execution, which must be on in
    the DataFrame's session, runs each shuffle as a job of its own. divide: for a DataFrame that ends in a shuffle, from
    the bytes of its partitions, none without rows, to the first one of each partition to come, and their number.
    A connected session runs all stages as one job: its server limits the bytes of batches.
    """
    from pyspark.sql import DataFrame

    if is_connected(spark):
        return frame
    session, context = frame.sparkSession, frame.sparkSession.sparkContext
    jvm, java = Jvm.of(session), frame._jdf
    confs = [
        (pair._1(), pair._2())
        for pair in jvm.to_list(session._jsparkSession.sessionState().conf().getAllConfs().toSeq())
    ]
    before = {name: context.getLocalProperty(name) for name, _ in confs if name.startswith("spark")}
    try:
        # As in Spark's SQLExecution.withSQLConfPropagated: tasks read them.
        for name, value in confs:
            if name in before:
                context.setLocalProperty(name, value)
        with active_session(session):
            rdd = java.queryExecution().toRdd()
            if divide is not None:
                rdd = _divided(jvm, java.queryExecution().executedPlan(), divide) or rdd
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rdd, java.schema(), False), spark)


def _divided(jvm: Jvm, plan: JavaObject, divide: Callable[[Ints], Ints]) -> JavaObject | None:
    """Read the last shuffle of a plan, which has run, in other partitions; as Spark's AQEShuffleReadExec.

    None where adaptive execution has left the shuffle out, since no row came.
    """
    while (kind := plan.getClass().getSimpleName()) != "ShuffleQueryStageExec":
        inner = {"AdaptiveSparkPlanExec": "executedPlan", "ResultQueryStageExec": "plan"}.get(kind)
        if inner is None and plan.children().isEmpty():
            return None
        plan = plan.children().head() if inner is None else getattr(plan, inner)()
    statistics, package = plan.mapStats(), "org.apache.spark.sql.execution"
    if statistics.isEmpty():
        return None
    firsts = divide(np.array(jvm.read(statistics.get().bytesByPartitionId()), np.int64)).tolist()
    spec = jvm.find(f"{package}.CoalescedPartitionSpec")
    specs = [spec(first, last, jvm.none) for first, last in itertools.pairwise(firsts)]
    return plan.shuffle().getShuffleRDD(jvm.array(f"{package}.ShufflePartitionSpec", specs))


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The same rows, under the settings of another session; connected ones stay where their views are."""
    return frame if is_connected(spark) else frame_of(spark, frame._jdf.queryExecution().analyzed())


def frame_of(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """A DataFrame of a plan."""
    from pyspark.sql import DataFrame

    return DataFrame(Jvm.of(spark).module(f"{_package(spark)}.Dataset").ofRows(spark._jsparkSession, plan), spark)
