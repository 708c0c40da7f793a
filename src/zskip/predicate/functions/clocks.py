"""Local time in a zone for arrays of instants, with gaps and repeated hours as in java.time."""

from __future__ import annotations

import bisect
import datetime as dt
import functools
from collections.abc import Callable, Sequence
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
"""Microseconds since 1970 between which clocks are certain, first days of years included."""
_LATEST_CHANGE = (_LAST // DAY + 2) * DAY
_END = (dt.datetime(2100, 1, 1, tzinfo=dt.timezone.utc) - _EPOCH) // _MICROSECOND
_ODD = 15 * 60 * SECOND
"""Offsets since the first years after 1970 are whole multiples of this."""
_FARTHEST = 18 * HOUR
"""No offset of java.time is larger."""
FAR = 2**61
"""Nothing overflows within so many microseconds of 1970; Spark fails for times farther away."""
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
    """Instants between which the offsets are certain."""

    def offset(self, instants: Ints) -> Ints:
        """Return local time minus UTC at some instants."""
        return self.offsets[np.searchsorted(self.starts, instants, "right")]

    def local(self, instants: Ints) -> Ints:
        """Convert instants to local times."""
        return instants + self.offset(instants)

    def instant(self, local: Ints, preferred: Ints | None = None) -> Ints:
        """Convert local times to instants.

        A repeated time is the later one if `preferred` is its offset, else the earlier one; a skipped time moves
        forward by the length of the gap.
        """
        before, valid, later = self._locate(local)
        instants = local - self.offsets[before]
        if preferred is None or not len(self.starts):
            return instants
        after = self.offsets[np.minimum(before + 1, len(self.starts))]
        repeated = valid & later & (preferred == after)
        return np.where(repeated, local - after, instants)

    def start_of_day(self, days: Ints) -> Ints:
        """Return the first instants of days."""
        local = days * DAY
        before, valid, _ = self._locate(local)
        instants = local - self.offsets[before]
        return (
            np.where(valid, instants, self.starts[np.minimum(before, len(self.starts) - 1)])
            if len(self.starts)
            else instants
        )

    def _locate(self, local: Ints) -> tuple[npt.NDArray[np.intp], Bools, Bools]:
        """For each local time: the index of its offset (or of the one before its gap), whether the time exists, and
        whether the next offset applies, too."""
        ends = self.starts + self.offsets[:-1]
        begins = self.starts + self.offsets[1:]
        index = np.searchsorted(ends, local, "right")
        if not len(self.starts):
            return index, np.ones(len(local), np.bool_), np.zeros(len(local), np.bool_)
        begin = begins[np.maximum(index - 1, 0)]
        skipped = (index > 0) & (local < begin)
        following = begins[np.minimum(index, len(begins) - 1)]
        repeated = (index < len(begins)) & (local >= following)
        return index - skipped, ~skipped, repeated

    def bounds(self, function: _Local, lower: Ints, upper: Ints, unit: int = 1) -> tuple[Ints, Ints]:
        """Bound a function for instants between bounds.

        unit: in microseconds, to which the function cuts local times. Between two changes of the clock it falls at most
        once: a time in a gap moves forward by the gap's length, past the first whole unit after the gap.
        """
        low, high = function(lower), function(upper)
        falls = np.union1d(self.starts, self.starts + -(self.starts + self.offsets[1:]) % unit)
        first = np.searchsorted(falls, lower, "right")
        stop = np.searchsorted(falls, upper, "right")
        changed = np.flatnonzero(stop > first)
        if len(changed):
            least = np.minimum.accumulate(function(falls)[::-1])[::-1]
            most = np.maximum.accumulate(function(falls - 1))
            low[changed] = np.minimum(low[changed], least[first[changed]])
            high[changed] = np.maximum(high[changed], most[stop[changed] - 1])
        return low, high

    def sure(self, lower: Ints, upper: Ints) -> Bools:
        """Whether the offsets of all instants between bounds are certain."""
        return (lower >= self.first) & (upper <= self.last)


def clock_of(name: str) -> Clock | None:
    """Return the clock of a zone that Spark knows by this name; None if it is uncertain."""
    zone = zone_of(name)
    return None if zone is None else _clock(zone)


@functools.lru_cache(maxsize=64)
def _clock(zone: dt.tzinfo) -> Clock | None:
    starts, offsets = _changes(zone) if not isinstance(zone, dt.timezone) else ((), (_offset(zone, _EPOCH),))
    first, last = (_FIRST, _LAST) if not isinstance(zone, dt.timezone) else (-FAR, FAR)
    odd = [i for i, offset in enumerate(offsets) if offset % _ODD and i < len(starts)]
    if odd:
        first = max(first, starts[odd[-1]] + 2 * DAY)
    clock = Clock(np.array(starts, np.int64), np.array(offsets, np.int64), first, last)
    ends = clock.starts + clock.offsets[:-1]
    return clock if (np.diff(ends) > 0).all() and (np.diff(clock.starts) > 2 * DAY).all() else None


def probes(zone: dt.tzinfo) -> list[int]:
    """Seconds since 1970 at which another zone has another offset if it differs from this one at all until 2099."""
    starts = [start // SECOND for start in _changes(zone)[0]]
    days = range(-2 * DAY // SECOND, _LATEST_CHANGE // SECOND, DAY // SECOND)
    weeks = range(_LATEST_CHANGE // SECOND, _END // SECOND, 7 * DAY // SECOND)
    return [*days, *weeks, *starts, *(start - 1 for start in starts)]


def has_offsets(zone: dt.tzinfo, seconds: Sequence[int], offsets: Sequence[int]) -> bool:
    """Whether a zone has these offsets, in seconds, at these seconds since 1970."""
    own = (_offset(zone, _EPOCH + dt.timedelta(seconds=second)) // SECOND for second in seconds)
    return list(own) == list(offsets)


def has_changes(zone: dt.tzinfo, starts: Sequence[int], offsets: Sequence[int]) -> bool:
    """Whether a zone has these changes of its offset, and no others, from 1970 to 2099; see `Clock`."""
    own_starts, own_offsets = _changes(zone)
    count = bisect.bisect(starts, _LATEST_CHANGE)
    if tuple(starts[:count]) != own_starts or tuple(offsets[: count + 1]) != own_offsets:
        return False
    later = [*range(_LATEST_CHANGE, _END, 7 * DAY), *(start - back for start in starts[count:] for back in (0, SECOND))]
    return all(_offset(zone, _EPOCH + t * _MICROSECOND) == offsets[bisect.bisect(starts, t)] for t in later)


@functools.lru_cache(maxsize=64)
def _changes(zone: dt.tzinfo) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Find all changes of the offset until 2037: first the days around them, then by bisection."""
    moments = _days()
    utc_offsets = [zone.utcoffset(moment) for moment in moments]
    starts, offsets = [], [_offset(zone, moments[0])]
    for index in [i for i in range(1, len(utc_offsets)) if utc_offsets[i] != utc_offsets[i - 1]]:
        for low in moments[max(index - 3, 0) : index + 2]:
            now = _offset(zone, low + _DAY)
            if now != offsets[-1] and _offset(zone, low) == offsets[-1]:
                starts.append(_change(zone, low, low + _DAY, offsets[-1]))
                offsets.append(now)
    return tuple(starts), tuple(offsets)


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
    offset = moment.astimezone(zone).utcoffset()
    return (offset or dt.timedelta()) // _MICROSECOND


def widest(clock: Clock) -> int:
    """Return the largest difference of two offsets of a zone."""
    return int(clock.offsets.max() - clock.offsets.min())


def below(instants: Any) -> Any:
    """Return a lower bound of the local times of these instants in any zone."""
    return instants - _FARTHEST


def above(instants: Any) -> Any:
    """Return an upper bound of the local times of these instants in any zone."""
    return instants + _FARTHEST
