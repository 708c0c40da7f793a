"""Monotone functions of dates and timestamps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zskip.predicate.functions.base import Arguments, Function, Range, everywhere, increasing
from zskip.predicate.functions.clocks import DAY, FAR, HOUR, SECOND, Clock, above, below, clock_of, widest
from zskip.predicate.tree import Call, Opaque, Term
from zskip.records import Bools, Ints, Values
from zskip.types import DataType

_INT = (-(2**31), 2**31 - 1)
_FIXED_UNITS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": SECOND}
_CLOCK_UNITS = {"MINUTE": 60 * SECOND, "HOUR": HOUR, "DAY": DAY}
DATE_UNITS = ("WEEK", "MONTH", "QUARTER", "YEAR")
"""Units of `trunc`."""
ADDED_UNITS = {"HOUR": HOUR, "MINUTE": 60 * SECOND, "SECOND": SECOND, "MILLISECOND": 1000, "MICROSECOND": 1}
"""Units of `timestampadd` that have one length, the longest first."""
UNITS = (*_FIXED_UNITS, *_CLOCK_UNITS, *DATE_UNITS)
"""Units of `date_trunc`."""
_Step = Callable[[Ints], Ints]


def _years(days: Ints) -> Ints:
    return days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970


def truncate_days(days: Ints, unit: str) -> Ints:
    """Truncate days since 1970 to the first day of the week (Monday), month, quarter, or year."""
    if unit == "WEEK":
        return days - (days + 3) % 7
    if unit == "YEAR":
        return (_years(days) - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    if unit == "QUARTER":
        months = months - months % 3
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


# Functions of instants in a zone.


def _clock(call: Call) -> Clock | None:
    """Return the clock of the session's zone, the last argument; plain timestamps have none."""
    plain = "timestamp_ntz" in (call.term.type.name, call.type.name)
    return clock_of("UTC" if plain or call.arguments[0] in _FIXED_UNITS else str(call.arguments[-1]))


def zone_name(term: Term) -> str:
    """The time zone in which a call or an opaque term reads times; empty if it reads none."""
    if isinstance(term, Call) and term.function in ("cast", "date_trunc", "shift"):
        plain = "timestamp_ntz" in (term.term.type.name, term.type.name)
        is_zoned = not plain and (term.function != "cast" or cast_result(term.term.type, term.type))
        return str(term.arguments[-1]) if is_zoned else ""
    return term.timezone if isinstance(term, Opaque) else ""


def _is_in_range(*arrays: Ints) -> Bools:
    near = np.ones(len(arrays[0]), np.bool_)
    for values in arrays:
        near &= (values > -FAR) & (values < FAR)
    return near


def _zoned(
    exact: Callable[[Call, Clock], _Step], low: Callable[[Call, Ints], Ints], high: Callable[[Call, Ints], Ints]
) -> Callable[[Call, Values, Values], Range]:
    """Return the bounds of a function of local time; where offsets are uncertain, bounds that hold for any offset."""

    def bounds(call: Call, lower: Any, upper: Any) -> Range:
        clock = _clock(call)
        known = _is_in_range(lower, upper)
        lower, upper = np.where(known, lower, 0), np.where(known, upper, 0)
        if clock is None:
            return low(call, lower), high(call, upper), known
        sure = clock.sure(lower, upper)
        unit = _CLOCK_UNITS.get(str(call.arguments[0]), 1)
        exact_low, exact_high = clock.bounds(
            exact(call, clock), np.where(sure, lower, clock.first), np.where(sure, upper, clock.first), unit
        )
        return np.where(sure, exact_low, low(call, lower)), np.where(sure, exact_high, high(call, upper)), known

    return bounds


def _date_of(call: Call, clock: Clock) -> _Step:
    return lambda instants: clock.local(instants) // DAY


def _truncate(call: Call, clock: Clock) -> _Step:
    unit = str(call.arguments[0])

    def step(instants: Ints) -> Ints:
        if unit in _FIXED_UNITS:
            return instants - instants % _FIXED_UNITS[unit]
        local = clock.local(instants)
        if unit in _CLOCK_UNITS:
            return clock.instant(local - local % _CLOCK_UNITS[unit], clock.offset(instants))
        return clock.start_of_day(truncate_days(local // DAY, unit))

    return step


def _local_unit(call: Call, local: Ints) -> Ints:
    unit = str(call.arguments[0])
    if unit in DATE_UNITS:
        return truncate_days(local // DAY, unit) * DAY
    return local - local % {**_FIXED_UNITS, **_CLOCK_UNITS}[unit]


def _shift_arguments(call: Call) -> tuple[int, int]:
    return int(call.arguments[0]), int(call.arguments[1])


def _shift_bounds(call: Call, lower: Any, upper: Any) -> Range:
    """Bound a sum with an interval: days are added to local time, so a clock change in between moves the result."""
    days, micros = _shift_arguments(call)
    total = days * DAY + micros
    if abs(total) >= FAR:
        return lower, upper, np.zeros(len(lower), np.bool_)
    known = _is_in_range(lower, upper)
    lower, upper = np.where(known, lower, 0), np.where(known, upper, 0)
    clock, slack = _clock(call), 2 * DAY if days else 0
    if slack and clock is not None and len(lower):
        reach = abs(total) + 2 * DAY
        if clock.sure(np.array([lower.min() - reach]), np.array([upper.max() + reach]))[0]:
            slack = widest(clock)
    return lower + (total - slack), upper + (total + slack), known


# Functions of dates.


def _date_step(
    function: Callable[[Call, Ints], Ints], least: int = _INT[0], most: int = _INT[1]
) -> Callable[[Call, Values], tuple[Values, Bools]]:
    def image(call: Call, values: Any) -> tuple[Values, Bools]:
        known = (values >= _INT[0]) & (values <= _INT[1])
        results = function(call, np.where(known, values, 0))
        return results, known & (results >= least) & (results <= most)

    return image


def _date_function(
    function: Callable[[Call, Ints], Ints],
    result: Callable[[DataType, Arguments], DataType | None],
    sql: Callable[[str, Call], str],
    total: bool = True,
) -> Function:
    image = _date_step(function)
    return Function(result=result, bounds=increasing(image), sql=sql, total=total)


def _takes_only(takes: str, gives: str) -> Callable[[DataType, Arguments], DataType | None]:
    return lambda data_type, arguments: DataType(gives) if data_type.name == takes else None


# Casts between dates and timestamps.


def cast_result(source: DataType, target: DataType) -> bool:
    """Whether this is a cast between dates and timestamps."""
    return (source.name, target.name) in (
        ("timestamp", "date"),
        ("timestamp_ntz", "date"),
        ("date", "timestamp"),
        ("date", "timestamp_ntz"),
    )


def cast_bounds(call: Call, lower: Any, upper: Any) -> Range:
    """Bound the results of such a cast."""
    if call.type.name == "date":
        return _zoned(_date_of, lambda call, v: below(v) // DAY, lambda call, v: above(v) // DAY)(call, lower, upper)
    limit = FAR // DAY - 2
    known = (lower > -limit) & (upper < limit)
    lower, upper = np.where(known, lower, 0), np.where(known, upper, 0)
    clock = _clock(call)
    low, high = below(lower * DAY), above(upper * DAY)
    if clock is None:
        return low, high, known
    sure = clock.sure((lower - 1) * DAY, (upper + 2) * DAY)
    exact_low, exact_high = clock.start_of_day(np.where(sure, lower, 0)), clock.start_of_day(np.where(sure, upper, 0))
    return np.where(sure, exact_low, low), np.where(sure, exact_high, high), known


def _trunc_result(data_type: DataType, arguments: Arguments) -> DataType | None:
    return DataType("date") if data_type.name == "date" and arguments[0] in DATE_UNITS else None


def _date_trunc_result(data_type: DataType, arguments: Arguments) -> DataType | None:
    return DataType("timestamp") if data_type.name == "timestamp" and arguments[0] in UNITS else None


def _shift_result(data_type: DataType, arguments: Arguments) -> DataType | None:
    return data_type if data_type.name in ("timestamp", "timestamp_ntz") else None


def _shift_sql(inner: str, call: Call) -> str:
    days, micros = _shift_arguments(call)
    if days:
        inner = f"timestampadd(DAY, {days}, {inner})"
    unit = next(unit for unit in ADDED_UNITS if micros % ADDED_UNITS[unit] == 0)
    return f"timestampadd({unit}, {micros // ADDED_UNITS[unit]}, {inner})" if micros or not days else inner


def _unix(per: int) -> Function:
    def image(call: Call, values: Any) -> tuple[Values, Bools]:
        return values // per, everywhere(values)

    return Function(
        result=_takes_only("timestamp", "long"),
        bounds=increasing(image),
        sql=lambda inner, call: f"{call.function}({inner})",
    )


FUNCTIONS: dict[str, Function] = {
    "date_trunc": Function(
        result=_date_trunc_result,
        bounds=_zoned(
            _truncate,
            lambda call, v: below(_local_unit(call, below(v))),
            lambda call, v: above(_local_unit(call, above(v))),
        ),
        sql=lambda inner, call: f"date_trunc('{call.arguments[0]}', {inner})",
    ),
    "shift": Function(result=_shift_result, bounds=_shift_bounds, sql=_shift_sql, total=False),
    "unix_seconds": _unix(SECOND),
    "unix_millis": _unix(1000),
    "unix_micros": _unix(1),
    "unix_date": _date_function(
        lambda call, days: days, _takes_only("date", "integer"), lambda inner, call: f"unix_date({inner})"
    ),
    "year": _date_function(
        lambda call, days: _years(days), _takes_only("date", "integer"), lambda inner, call: f"year({inner})"
    ),
    "trunc": _date_function(
        lambda call, days: truncate_days(days, str(call.arguments[0])),
        _trunc_result,
        lambda inner, call: f"trunc({inner}, '{call.arguments[0]}')",
        total=False,
    ),
    "date_add": _date_function(
        lambda call, days: days + int(call.arguments[0]),
        _takes_only("date", "date"),
        lambda inner, call: f"date_add({inner}, {call.arguments[0]})",
        total=False,
    ),
}
