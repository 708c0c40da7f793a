"""Whether a session takes SQL text as zskip means it: it may have functions of the same names, or other settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zskip.errors import InputError
from zskip.predicate import Attributes, Term
from zskip.predicate.sql.catalyst import term_from_catalyst
from zskip.records import Field
from zskip.spark.jvm import compat
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.bridge.filters import describe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOMENTARY = re.compile(r"'\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_OF_TIMES = re.compile("date|time|day", re.IGNORECASE)
_REPLACE = "org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions"


def find_misread(frame: DataFrame, meanings: Mapping[str, Term | None], fields: Sequence[Field] = ()) -> list[str]:
    """The texts that a frame's session reads otherwise: what it makes of them is read back.

    meanings: the term of each text; None for one that only has to consist of Spark's own functions. fields: the columns
    that the terms are about.
    """
    if not meanings:
        return []
    jvm = Jvm.of(frame.sparkSession)
    with compat.active_session(frame.sparkSession):
        selected = frame.selectExpr(*(f"{text} AS zskip_{i}" for i, text in enumerate(meanings)))
        plan = jvm.module(_REPLACE).apply(selected._jdf.queryExecution().analyzed())
        described = describe(jvm, jvm.seq_of(*(named.child() for named in jvm.items(plan.expressions()))))
    attributes = Attributes(fields, described["columns"], case_sensitive=True)
    return [
        text
        for i, ((text, term), tree) in enumerate(zip(meanings.items(), described["trees"], strict=True))
        if i in described["foreign"]
        or (term is not None and term_from_catalyst(tree, attributes, timezone=described["zone"]) != term)
    ]


def describe_condition(frame: DataFrame, sql: str) -> str:
    """Describe a condition on the rows of a frame, as `FilterText.java` does the filters of scans.

    Raises InputError for what has no one value for each row, and for what the session cannot evaluate.
    """
    from pyspark.errors import PySparkException

    moment = _MOMENTARY.search(sql)
    if moment is not None and any(_OF_TIMES.search(text) for text in (sql, *(kind for _, kind in frame.dtypes))):
        raise InputError(f"{sql}: {moment[1]} is another day each time it is read; write the day")
    spark, java = frame.sparkSession, frame.sparkSession._jsparkSession
    jvm = Jvm.of(spark)
    # A source might take a part of the condition to itself.
    rows = java.createDataFrame(spark.sparkContext._jsc.emptyRDD(), frame._jdf.schema())
    try:
        with compat.active_session(spark):
            query = rows.where(f"({sql})").queryExecution()
            refusal = invoke(jvm, singleton(jvm, "Condition"), "refusal", query.analyzed().condition())
            described = None
            if refusal is None:
                described = invoke(jvm, singleton(jvm, "Condition"), "describe", query.optimizedPlan())
    except PySparkException as error:
        raise InputError(f"{sql}: Spark cannot evaluate it ({str(error).splitlines()[0]})") from error
    if refusal is not None:
        raise InputError(f"{sql}: {refusal} has no one value for a row, or is a function of yours; take Spark's own")
    if described is None:
        raise InputError(f"{sql}: it is the same for every row; take a condition on columns")
    return str(described)
