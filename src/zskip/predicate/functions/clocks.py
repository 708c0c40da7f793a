"""Local time in a zone for arrays of instants, with its gaps and repeated hours, as java.time reckons it."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from zskip.predicate.zones import zone_of
from zskip.records import Bools, Ints

SECOND = 10**6
HOUR = 3600 * SECOND
DAY = 24 * HOUR
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)
_DAY = dt.timedelta(days=1)
_FIRST = (dt.datetime(1971, 1, 5, tzinfo=dt.timezone.utc) - _EPOCH) // _MICROSECOND
_LAST = (dt.datetime(2037, 12, 30, tzinfo=dt.timezone.utc) - _EPOCH) // _MICROSECOND
"""Microseconds since 1970 between which the zone data of Java and of Python agree, first days of years included."""
_ODD = 15 * 60 * SECOND
"""Offsets since the first years after 1970 are whole multiples of this."""
_FARTHEST = 18 * HOUR
"""No offset of java.time is larger."""
FAR = 2**61
"""Microseconds from 1970 within which nothing overflows; Spark fails for times that are farther away."""
_Local = Callable[[Ints], Ints]


@dataclass(frozen=True, slots=True)
class Clock:
    """The offsets of one zone."""

    starts: npt.NDArray[np.int64]
    """(transitions,) instants from which a new offset holds."""
    offsets: npt.NDArray[np.int64]
    """(transitions + 1,) local time minus UTC, in microseconds."""
    first: int
    last: int
    """Instants between which the offsets are sure."""

    def offset(self, instants: Ints) -> Ints:
        """Local time minus UTC at some instants."""
        return self.offsets[np.searchsorted(self.starts, instants, "right")]

    def local(self, instants: Ints) -> Ints:
        """Local times of instants."""
        return instants + self.offset(instants)

    def instant(self, local: Ints, preferred: Ints | None = None) -> Ints:
        """Instants of local times.

        A repeated time is the later one if `preferred` is its offset, else the earlier; a skipped one is moved on by
        the length of the gap.
        """
        before, valid, later = self._place(local)
        found = local - self.offsets[before]
        if preferred is None or not len(self.starts):
            return found
        after = self.offsets[np.minimum(before + 1, len(self.starts))]
        repeated = valid & later & (preferred == after)
        return np.where(repeated, local - after, found)

    def start_of_day(self, days: Ints) -> Ints:
        """Instants of the first moments of days."""
        local = days * DAY
        before, valid, _ = self._place(local)
        found = local - self.offsets[before]
        return (
            np.where(valid, found, self.starts[np.minimum(before, len(self.starts) - 1)]) if len(self.starts) else found
        )

    def _place(self, local: Ints) -> tuple[npt.NDArray[np.intp], Bools, Bools]:
        """The offset that holds for local times, or held before the gap they are in; whether there is none; whether
        the next one holds, too."""
        ends = self.starts + self.offsets[:-1]
        begins = self.starts + self.offsets[1:]
        place = np.searchsorted(ends, local, "right")
        if not len(self.starts):
            return place, np.ones(len(local), np.bool_), np.zeros(len(local), np.bool_)
        own = begins[np.maximum(place - 1, 0)]
        skipped = (place > 0) & (local < own)
        following = begins[np.minimum(place, len(begins) - 1)]
        repeated = (place < len(begins)) & (local >= following)
        return place - skipped, ~skipped, repeated

    def bounds(self, function: _Local, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
        """Bounds of a function that never falls but where the clock is changed, for instants between bounds."""
        low, high = function(lower), function(upper)
        first = np.searchsorted(self.starts, lower, "right")
        behind = np.searchsorted(self.starts, upper, "right")
        changed = np.flatnonzero(behind > first)
        if len(changed):
            least = np.minimum.accumulate(function(self.starts)[::-1])[::-1]
            most = np.maximum.accumulate(function(self.starts - 1))
            low[changed] = np.minimum(low[changed], least[first[changed]])
            high[changed] = np.maximum(high[changed], most[behind[changed] - 1])
        return low, high

    def sure(self, lower: Ints, upper: Ints) -> Bools:
        """Where the offsets of all instants between bounds are sure."""
        return (lower >= self.first) & (upper <= self.last)


@functools.lru_cache(maxsize=64)
def clock_of(zone: str) -> Clock | None:
    """The clock of a zone that Spark knows by this name; None where it is not known for sure."""
    found = zone_of(zone)
    if found is None:
        return None
    starts, offsets = _transitions(found) if not isinstance(found, dt.timezone) else ([], [_offset(found, _EPOCH)])
    first, last = (_FIRST, _LAST) if not isinstance(found, dt.timezone) else (-FAR, FAR)
    odd = [i for i, offset in enumerate(offsets) if offset % _ODD and i < len(starts)]
    if odd:
        first = max(first, starts[odd[-1]] + 2 * DAY)
    clock = Clock(np.array(starts, np.int64), np.array(offsets, np.int64), first, last)
    ends = clock.starts + clock.offsets[:-1]
    return clock if (np.diff(ends) > 0).all() and (np.diff(clock.starts) > 2 * DAY).all() else None


def _transitions(zone: dt.tzinfo) -> tuple[list[int], list[int]]:
    """All changes of the offset: first the days around which local time has another one, then by halves."""
    moments = _days()
    seen = [zone.utcoffset(moment) for moment in moments]
    starts, offsets = [], [_offset(zone, moments[0])]
    for place in [i for i in range(1, len(seen)) if seen[i] != seen[i - 1]]:
        for low in moments[max(place - 3, 0) : place + 2]:
            now = _offset(zone, low + _DAY)
            if now != offsets[-1] and _offset(zone, low) == offsets[-1]:
                starts.append(_change(zone, low, low + _DAY, offsets[-1]))
                offsets.append(now)
    return starts, offsets


@functools.cache
def _days() -> list[dt.datetime]:
    return [_EPOCH + day * _DAY for day in range(-2, _LAST // DAY + 3)]


def _change(zone: dt.tzinfo, low: dt.datetime, high: dt.datetime, before: int) -> int:
    first, last = 0, int((high - low).total_seconds())
    while last - first > 1:
        middle = (first + last) // 2
        if _offset(zone, low + dt.timedelta(seconds=middle)) == before:
            first = middle
        else:
            last = middle
    return (low - _EPOCH) // _MICROSECOND + last * SECOND


def _offset(zone: dt.tzinfo, moment: dt.datetime) -> int:
    found = moment.astimezone(zone).utcoffset()
    return (found or dt.timedelta()) // _MICROSECOND


def widest(clock: Clock) -> int:
    """How far two offsets of a zone may be apart."""
    return int(clock.offsets.max() - clock.offsets.min())


def below(instants: Any) -> Any:
    """No local time of these instants is less, whatever the zone."""
    return instants - _FARTHEST


def above(instants: Any) -> Any:
    """No local time of these instants is more."""
    return instants + _FARTHEST
