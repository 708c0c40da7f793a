"""Converts local times in a time zone, named as in Spark, to microseconds since 1970 UTC."""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo
from collections.abc import Callable

_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?)?|(\d\d)([0-5]\d)([0-5]\d)?)", re.ASCII
)
_LARGEST = dt.timedelta(hours=18)
_FIXED = {"EST": -5, "MST": -7, "HST": -10}
"""Hours; Java takes these names for offsets, newer time zone data for places."""
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


_comparisons: dict[str, Callable[[str], bool]] = {}
"""By the name of a session; see `compare_places`."""


def compare_places(session: str, agrees: Callable[[str], bool]) -> None:
    """Take the zones of places from Python's data only where a session has the same data.

    agrees: whether it has for a place; called each time, so it must remember.
    """
    _comparisons[session] = agrees


def zone_of(name: str) -> dt.tzinfo | None:
    """Return the zone of a name that Spark knows, such as `Europe/Berlin`, `+01:00`, `GMT+1` or `Z`; None for others.

    Java knows `UTC` but not `utc`. Only the names of places are taken from the zone data, since the meanings of `WET`,
    `ROC` and `posixrules` differ between Java and Python. None, too, for a place of which a session has other data.
    """
    fixed = fixed_zone(name)
    if fixed is not None:
        return fixed
    place = place_of(name)
    return place if place is None or all(agrees(name) for agrees in list(_comparisons.values())) else None


def fixed_zone(name: str) -> dt.timezone | None:
    """Return the zone of a name for one offset; None for other names."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return dt.timezone.utc
    if name in _FIXED:
        return dt.timezone(dt.timedelta(hours=_FIXED[name]))
    match = _OFFSET.fullmatch(name)
    if match is None:
        return None
    hours, minutes, seconds = (int(match[i] or match[i + 3] or 0) for i in (2, 3, 4))
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-offset if match[1] == "-" else offset) if offset <= _LARGEST else None


def place_of(name: str) -> zoneinfo.ZoneInfo | None:
    """Return the zone of a place by Python's data; None if there is none."""
    return zoneinfo.ZoneInfo(name) if "/" in name and name in _names() else None


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def micros_of(local: dt.datetime, zone_name: str) -> int | None:
    """Convert a local time to microseconds since 1970 UTC; None if it is skipped or repeated, or the zone unknown.

    >>> micros_of(dt.datetime(1970, 1, 1, 1), "+01:00")
    0
    >>> micros_of(dt.datetime(2024, 3, 31, 2, 30), "Europe/Berlin") is None
    True
    """
    zone = zone_of(zone_name)
    if zone is None:
        return None
    offsets = {local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
    if len(offsets) != 1 or None in offsets:
        return None
    offset = offsets.pop() or dt.timedelta()
    return (local - offset - _EPOCH) // _MICROSECOND
