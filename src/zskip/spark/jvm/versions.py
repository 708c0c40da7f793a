"""The versions of data in a JVM on which the values of expressions depend: time zones, and cases of letters."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, NamedTuple

from zskip.predicate.functions.clocks import has_changes
from zskip.predicate.zones import compare_places, place_of
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.gateway import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip")
_FIRST = -2 * 86_400
"""1969-12-30, in seconds since 1970."""
_END_YEAR = 2100
_LETTERS = "spark.sql.icu.caseMappings.enabled"


class _Zone(NamedTuple):
    """The data of a zone; see `Clock`."""

    version: str
    starts: list[int]
    offsets: list[int]


class SessionVersions:
    """The versions of a session's data, as `values_type` names them beside the states of sketches."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def letters(self) -> str:
        """The versions that decide which letter is the lower or upper case of another."""
        jvm = Jvm.of(self._spark)
        return f"{jvm.once('letters', lambda: _letters(jvm, self._spark.version))}, {_case_mappings(self._spark)}"

    def zone(self, name: str) -> str:
        """The version of a time zone's data: a digest of all its changes."""
        return zone_data(Jvm.of(self._spark), name).version


def compare_zones(jvm: Jvm) -> None:
    """Take the time zones of places from Python's data only where the JVM has the same; looks when one is needed."""
    jvm.once("zones are compared", lambda: compare_places("jvm", lambda name: _agrees(jvm, name)))


def _agrees(jvm: Jvm, name: str) -> bool:
    return jvm.once(f"agrees on {name}", lambda: _compare(jvm, name))


def _compare(jvm: Jvm, name: str) -> bool:
    place = place_of(name)
    try:
        data = zone_data(jvm, name)
        agrees = place is not None and has_changes(place, data.starts, data.offsets)
    except Exception:
        _log.info("the JVM does not tell its data of %s", name, exc_info=True)
        return False
    if not agrees:
        _log.info("Java and Python have different data of %s: filters on local times there skip fewer files", name)
    return agrees


def zone_data(jvm: Jvm, name: str) -> _Zone:
    """The JVM's data of a zone; raises Py4JJavaError where it knows none of this name."""
    return jvm.once(f"zone {name}", lambda: _read_zone(jvm, name))


def _read_zone(jvm: Jvm, name: str) -> _Zone:
    rules = jvm.module("org.apache.spark.sql.catalyst.util.DateTimeUtils").getZoneId(name).getRules()
    changes, yearly = str(rules.getTransitions().toString()), rules.getTransitionRules()
    standard = rules.getStandardOffset(jvm.find("java.time.Instant").EPOCH).getTotalSeconds()
    version = hashlib.md5(f"{standard} {changes} {yearly.toString()}".encode(), usedforsecurity=False).hexdigest()
    seconds = jvm.read(invoke(jvm, singleton(jvm, "ZoneChanges"), "of", rules, _FIRST, _END_YEAR))
    micros = [second * 10**6 for second in seconds]
    return _Zone(version, micros[1::2], micros[::2])


def _letters(jvm: Jvm, spark_version: str) -> str:
    java = jvm.call("java.lang.System", "getProperty")("java.specification.version")
    locale = jvm.call("java.util.Locale", "getDefault")().toString()
    try:
        icu = jvm.find("com.ibm.icu.util.VersionInfo").ICU_VERSION.toString()
    except Exception:  # Spark 3.5 has none.
        icu = "none"
    return f"Spark {spark_version}, Java {java}, ICU {icu}, {locale}"


def _case_mappings(spark: SparkSession) -> str:
    return str(spark.conf.get(_LETTERS, None))
