"""The versions of data in a JVM on which the values of expressions depend: time zones, and cases of letters."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from zskip.predicate.functions.clocks import has_changes
from zskip.predicate.zones import compare_places, place_of
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip")
_CHANGE = re.compile(r"Transition\[\w+ at ([-+]?\d+-\d\d-\d\dT[\d:.]+)(Z|[-+][\d:]+) to (Z|[-+][\d:]+)\]")
_EPOCH = dt.datetime(1970, 1, 1)
_FIRST = dt.datetime(1969, 12, 30)
_YEARS = (1970, 2100)
_MICROSECOND = dt.timedelta(microseconds=1)
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
    listed = _read_changes(changes)
    last = listed[-1][0] if listed else 0
    for i in range(yearly.size()):
        listed += [change for change in _read_changes(_changes_of_years(jvm, yearly.get(i))) if change[0] > last]
    listed.sort()
    first = (_FIRST - _EPOCH) // _MICROSECOND
    before = [after for start, _, after in listed if start < first]
    recent = [change for change in listed if change[0] >= first]
    initial = before[-1] if before else recent[0][1] if recent else standard * 10**6
    assert all(after == before for (_, _, after), (_, before, _) in pairwise(listed)), "changes follow each other"
    return _Zone(version, [start for start, _, _ in recent], [initial, *(after for _, _, after in recent)])


def _changes_of_years(jvm: Jvm, rule: JavaObject) -> str:
    package, handles = "java.time.zone.ZoneOffsetTransition", jvm.handles
    create = handles.bind(handles.virtual(f"{package}Rule", "createTransition", package, "int"), 0, rule)
    years = jvm.call("java.util.stream.IntStream", "range")(*_YEARS)
    return str(jvm.collect(years.mapToObj(handles.int_function(create))).toString())


def _read_changes(text: str) -> list[tuple[int, int, int]]:
    """The instant of each change, and the offsets before and after it."""
    changes = []
    for match in _CHANGE.finditer(text):
        before, after = _read_offset(match[2]), _read_offset(match[3])
        local = (dt.datetime.fromisoformat(match[1]) - _EPOCH) // _MICROSECOND
        changes.append((local - before, before, after))
    return changes


def _read_offset(text: str) -> int:
    """
    >>> _read_offset("-01:30:15"), _read_offset("Z")
    (-5415000000, 0)
    """
    sign, parts = -1 if text[0] == "-" else 1, [] if text == "Z" else list(map(int, text[1:].split(":")))
    return sign * sum(part * unit * 10**6 for part, unit in zip(parts, (3600, 60, 1), strict=False))


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
