"""Local times of a time zone as Spark writes its name, to microseconds since 1970 UTC."""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo

_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?)?|(\d\d)([0-5]\d)([0-5]\d)?)", re.ASCII
)
_LARGEST = dt.timedelta(hours=18)
_FIXED = {"EST": -5, "MST": -7, "HST": -10}
"""Hours; to Java these names are offsets, to newer time zone data they are places."""
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def zone_of(name: str) -> dt.tzinfo | None:
    """A zone by a name that Spark knows, such as `Europe/Berlin`, `+01:00`, `GMT+1` or `Z`; None for others.

    Java tells `UTC` from `utc`, which it does not know. Of the names of zone data only those of places are taken: what
    `WET`, `ROC` or `posixrules` mean differs between Java and Python.
    """
    if name in ("Z", "UTC", "GMT", "UT"):
        return dt.timezone.utc
    if name in _FIXED:
        return dt.timezone(dt.timedelta(hours=_FIXED[name]))
    match = _OFFSET.fullmatch(name)
    if match:
        hours, minutes, seconds = (int(match[i] or match[i + 3] or 0) for i in (2, 3, 4))
        offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return dt.timezone(-offset if match[1] == "-" else offset) if offset <= _LARGEST else None
    return zoneinfo.ZoneInfo(name) if "/" in name and name in _names() else None


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def micros_of(local: dt.datetime, zone: str) -> int | None:
    """Microseconds since 1970 UTC of a local time; None where it is skipped, repeated, or the zone is not known.

    >>> micros_of(dt.datetime(1970, 1, 1, 1), "+01:00")
    0
    >>> micros_of(dt.datetime(2024, 3, 31, 2, 30), "Europe/Berlin") is None
    True
    """
    found = zone_of(zone)
    if found is None:
        return None
    offsets = {local.replace(tzinfo=found, fold=fold).utcoffset() for fold in (0, 1)}
    if len(offsets) != 1 or None in offsets:
        return None
    offset = offsets.pop() or dt.timedelta()
    return (local - offset - _EPOCH) // _MICROSECOND
