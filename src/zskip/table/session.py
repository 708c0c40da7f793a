"""The settings of a table's session that decide how columns and predicates are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from zskip.errors import InputError
from zskip.predicate import opaque
from zskip.predicate.functions.clocks import has_offsets, probes
from zskip.predicate.zones import compare_places, place_of
from zskip.records import Field, Snapshot
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.index import Versions
    from zskip.predicate import Term

_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_OF_SPARK = "org.apache.spark.sql.catalyst.expressions."
_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
ESCAPES = "spark.sql.parser.escapedStringLiterals"


def is_case_sensitive(handle: Handle) -> bool:
    """Whether the session tells column names apart by case."""
    spark = handle.session
    return spark is not None and is_session_case_sensitive(spark)


def is_session_case_sensitive(spark: SparkSession) -> bool:
    """Whether a session tells column names apart by case."""
    return str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"


def merges_schemas(handle: Handle, snapshot: Snapshot) -> bool:
    """Whether the columns of all files count: the table declares them, or the session unifies the files' schemas."""
    if snapshot.reading.declared is not None:
        return True
    spark = handle.spark
    return spark is not None and str(spark.conf.get("spark.sql.parquet.mergeSchema")).lower() == "true"


def time_zone(handle: Handle) -> str:
    """The session's time zone, UTC without a session."""
    spark = handle.session
    return "UTC" if spark is None else session_time_zone(spark)


def session_time_zone(spark: SparkSession) -> str:
    """The time zone of a session, with whose data of time zones Python's are compared from now on."""
    from zskip.spark.jvm.compat import is_connected

    if is_connected(spark):
        answers: dict[str, bool] = {}
        compare_places("Spark Connect", lambda name: answers.setdefault(name, _agrees(spark, name)))
    else:
        from zskip.spark.jvm.gateway import Jvm
        from zskip.spark.jvm.versions import compare_zones

        compare_zones(Jvm.of(spark))
    return str(spark.conf.get("spark.sql.session.timeZone"))


def session_versions(handle: Handle) -> Versions | None:
    """The versions of the session's data by which it computes expressions; None without a session."""
    if handle.spark is None:
        return None if handle.connected is None else _UnknownVersions()
    from zskip.spark.jvm.versions import SessionVersions

    return SessionVersions(handle.spark)


class _UnknownVersions:
    """Those of a server, which does not tell them."""

    def letters(self) -> str:
        return "a server"

    def zone(self, name: str) -> str:
        return "a server"


def _agrees(spark: SparkSession, name: str) -> bool:
    """Whether a server has Python's data of a place."""
    place = place_of(name)
    if place is None:
        return False
    seconds = probes(place)
    listed = f"from_json('{seconds}', 'array<bigint>')"
    local = f"unix_seconds(from_utc_timestamp(timestamp_seconds(s), '{name}'))"
    (row,) = spark.sql(f"SELECT transform({listed}, s -> {local} - s) AS offsets").collect()
    return has_offsets(place, seconds, row.offsets)


def find_misread(frame: DataFrame, meanings: Mapping[str, Term | None], fields: Sequence[Field] = ()) -> list[str]:
    """The texts that a frame's session reads otherwise than zskip.

    meanings: the term of each text; None for one that only has to consist of Spark's own functions. fields: the columns
    that the terms are about. A connected session shows its settings and functions, not what it makes of a text.
    """
    from zskip.spark.jvm.compat import is_connected
    from zskip.spark.scan.bridge import terms

    spark = frame.sparkSession
    if is_connected(spark):
        return [text for text in meanings if any(_differences(spark, text))]
    return terms.find_misread(frame, meanings, fields)


def describe_condition(frame: DataFrame, sql: str) -> str:
    """What a frame's session makes of a condition on its rows, as `FilterText.java` describes it.

    Raises InputError for what the session cannot evaluate, what has no one value for each row, and what it reads
    otherwise than zskip. Empty in a connected session, which does not tell.
    """
    from zskip.spark.jvm.compat import is_connected
    from zskip.spark.scan.conditions import conditions

    connected = is_connected(frame.sparkSession)
    difference = next(_differences(frame.sparkSession, sql, built_in=not connected), None)
    if difference is not None:
        raise InputError(f"{sql}: {difference}; take Spark's own functions")
    if connected:
        return ""
    return conditions.describe_condition(frame, sql)


def differences(handle: Handle, where: str) -> Iterator[str]:
    """Why the session reads the text of a predicate otherwise than zskip; nothing where it does not."""
    return iter(()) if handle.session is None else _differences(handle.session, where)


def _differences(spark: SparkSession, where: str, *, built_in: bool = False) -> Iterator[str]:
    """built_in: ask only for functions that take the names of Spark's."""
    for setting, character in ((_QUOTED_NAMES, '"'), (ESCAPES, "\\")):
        if character in where and str(spark.conf.get(setting, "false")).lower() == "true":
            yield f"the session has {setting}=true"
    for name in dict.fromkeys(match[1].lower() for match in _CALLED.finditer(where)):
        if built_in and not opaque.is_in_sql(name):
            continue
        if opaque.evaluator(name) is None and is_replaced(spark, name):
            yield f"the session has a function {name} of its own"


def is_replaced(spark: SparkSession, name: str) -> bool:
    """Whether a session has a function of its own under the name of one of Spark's."""
    from pyspark.errors import AnalysisException

    try:
        return not spark.catalog.getFunction(name).className.startswith(_OF_SPARK)
    except AnalysisException:  # Syntax, such as `CAST(`, or no function.
        return False
