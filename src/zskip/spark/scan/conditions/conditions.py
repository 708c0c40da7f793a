"""Conditions of `matches`: what a session makes of one, and the files that a filter with Python functions leaves.

Spark computes Python functions apart from the scan, and hands it no filter of them; a note of the query has it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from zskip.errors import InputError
from zskip.index import BoundIndex
from zskip.predicate import Unknown, conjuncts
from zskip.spark.jvm import compat
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.bridge.filters import Filters
from zskip.spark.scan.conditions.functions import UnknownFunctionError, name_functions
from zskip.spark.scan.listings.choice import Choice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOMENTARY = re.compile(r"'\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_OF_TIMES = re.compile("date|time|day", re.IGNORECASE)


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
            refusal = invoke(jvm, singleton(jvm, "Condition"), "refusal", query.analyzed())
            described = None
            if refusal is None:
                described = invoke(jvm, singleton(jvm, "Condition"), "describe", query.optimizedPlan())
    except PySparkException as error:
        raise InputError(f"{sql}: Spark cannot evaluate it ({str(error).splitlines()[0]})") from error
    if refusal is not None:
        raise InputError(
            f"{sql}: {refusal} may have no one value for a row; functions of yours can be called if they are in "
            "Python, take single rows, and neither take nor give a TIMESTAMP, which Python reads by its machine's clock"
        )
    if described is None:
        raise InputError(f"{sql}: it is the same for every row; take a condition on columns")
    try:
        return json.dumps(name_functions(json.loads(described), strict=True))
    except UnknownFunctionError as error:
        raise InputError(f"{sql}: zskip cannot tell whether the function will be the same: {error}") from error


def keep_matches(stats: BoundIndex, choice: Choice, note: str) -> Choice:
    """Keep the files that may have a match of a filter with Python functions; note: as `UserFilter.java` describes it.

    Functions may change while a session lives, so the answer is never taken for another query's.
    """
    filters = Filters(described=json.dumps(name_functions(json.loads(note))))
    fields = (*stats.snapshot.fields, *stats.snapshot.partition_fields)
    predicate = filters.predicate(fields, case_sensitive=stats.case_sensitive)
    result = stats.prune(predicate)
    calls = tuple(part for part in conjuncts(predicate) if isinstance(part, Unknown) and part.key)
    choice = replace(choice, keys=(*choice.keys, *calls))  # So that the workload has them.
    for leaf in result.leaves:
        if leaf.kind == "matches":
            choice = choice.narrow(result.kept, leaf)
    return replace(choice, is_repeatable=False)
