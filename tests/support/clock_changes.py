"""Functions of time around all changes of the clock in all zones, and whether their bounds hold there."""

import zoneinfo

import numpy as np
import pytest
import tiers
from calls import column

from zskip.predicate.functions import call, cast, function_of
from zskip.predicate.functions.clocks import HOUR, clock_of
from zskip.predicate.functions.times import UNITS
from zskip.types import DataType

NEAR = sorted(
    {
        hours * HOUR + part
        for hours in (-49, -25, -24, -3, -2, -1, 0, 1, 2, 3, 23, 24, 25, 49)
        for part in (-1, 0, HOUR // 2)
        if not tiers.QUICK or abs(hours) in (0, 1, 3, 25)
    }
    | {61 * 10**6, 59 * 60 * 10**6}
)
"""Distances from a change of the clock."""
SKIPPING = ("Antarctica/Casey", "America/St_Johns", "America/Goose_Bay", "Asia/Tokyo", "America/Phoenix")
"""Zones whose clocks skip hours at odd times, or that have changed none since 1970."""


def changes_of_zones():
    """The changes of the clock since 1900 of each zone, of one name of each data."""
    pure = pytest.importorskip("zoneinfo._zoneinfo")
    names = sorted(name for name in zoneinfo.available_timezones() if "/" in name)
    changes = {}
    for name in dict.fromkeys((*SKIPPING, *names[:: len(names) // tiers.count(len(names), quick=3)])):
        if clock_of(name) is not None:
            listed = pure.ZoneInfo.no_cache(name)._trans_utc
            starts = {s * 10**6 for s in listed if s >= -2_208_988_800} | {*clock_of(name).starts.tolist(), 0}
            changes.setdefault((tuple(sorted(starts)), clock_of(name).offsets.tobytes()), name)
    return {name: np.array(starts)[:: tiers.count(1, quick=3)] for (starts, _), name in changes.items()}


def calls_of_times(zone):
    """The functions of instants and days that depend on a zone."""
    instant, day = column("timestamp"), column("date")
    return [
        *(call("date_trunc", instant, unit, zone) for unit in UNITS[3:]),
        *(call("shift", instant, days, days * 90 * 60 * 10**6 // 28, zone) for days in (1, -1, 28, -365)),
        call("shift", instant, 0, 5 * HOUR, zone),
        cast(instant, DataType("date"), zone),
        cast(day, DataType("timestamp"), zone),
    ]


def check_bounds(function_call, points, computed):
    """Bound each range of points in a row, and compare with the values of its points; returns the number of ranges.

    points: (rows, points), ascending; computed: the value of each.
    """
    results = np.array([[computed[one] for one in row] for row in points.tolist()], np.int64)
    first, last = np.triu_indices(points.shape[1])
    least, most = (
        np.concatenate([end.accumulate(results[:, i:], axis=1) for i in range(points.shape[1])], axis=1)
        for end in (np.minimum, np.maximum)
    )
    lower, upper = points[:, first].ravel(), points[:, last].ravel()
    low, high, known = function_of(function_call).bounds(function_call, lower, upper)
    assert known.all()
    wrong = (low > least.ravel()) | (high < most.ravel())
    assert not wrong.any(), (function_call, lower[wrong][0], upper[wrong][0])
    return len(known)
