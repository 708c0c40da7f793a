"""What Spark's monotone functions are of one value: written from Spark's and java.time's rules, without zskip's bounds.

Times in zones follow `java.time` over the data of `zoneinfo`.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import zoneinfo
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from zskip.predicate import Call
from zskip.types import DataType, decode_decimal, encode_decimal, value_range

SECOND, MINUTE, HOUR = 10**6, 60 * 10**6, 3600 * 10**6
DAY = 24 * HOUR
EPOCH = dt.datetime(1970, 1, 1)
INTS, LONGS = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
UNITS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": SECOND, "MINUTE": MINUTE, "HOUR": HOUR, "DAY": DAY}
FIRST, LAST = -62_135_596_800 * SECOND + 3 * DAY, 253_402_300_800 * SECOND - 3 * DAY
"""Microseconds between which Python knows the years."""


def value_of(call: Call, value: Any) -> Any:
    """The value of a call in the form of its type; None where Spark fails, gives null, or wraps around."""
    if value is None:
        return None
    return _FUNCTIONS[call.function](call, value)


# Numbers.


def _number(value: Any, data_type: DataType) -> Fraction:
    return Fraction(decode_decimal(value, data_type), 10**data_type.scale) if data_type.is_decimal else Fraction(value)


def _encoded(number: Fraction, data_type: DataType) -> Any:
    unscaled = number * 10**data_type.scale if data_type.is_decimal else number
    assert unscaled.denominator == 1
    least, most = value_range(data_type)
    if not least <= unscaled <= most:
        return None
    return encode_decimal(int(unscaled), data_type) if data_type.is_decimal else int(unscaled)


def _is_float(data_type: DataType) -> bool:
    return data_type.name in ("float", "double")


def _cast(call: Call, value: Any) -> Any:
    source, target = call.term.type, call.type
    zone = str(call.arguments[-1])
    if "timestamp" in source.name and target.name == "date":
        local = value if source.name == "timestamp_ntz" else _local(value, zone)
        return None if local is None else local // DAY
    if source.name == "date" and "timestamp" in target.name:
        return value * DAY if target.name == "timestamp_ntz" else _start_of_day(value, zone)
    return float(value) if _is_float(target) else _encoded(_number(value, source), target)


def _add(call: Call, value: Any) -> Any:
    data_type, amount = call.term.type, call.arguments[0]
    if data_type.name == "float":
        with np.errstate(over="ignore"):
            return float(np.float32(value) + np.float32(float(amount)))
    if data_type.name == "double":
        return value + float(amount)
    return _encoded(_number(value, data_type) + _number_of_units(int(amount), call.type), call.type)


def _number_of_units(units: int, data_type: DataType) -> Fraction:
    return Fraction(units, 10**data_type.scale if data_type.is_decimal else 1)


def _multiply(call: Call, value: Any) -> Any:
    return _encoded(Fraction(value * int(call.arguments[0])), call.type)


def _negative(call: Call, value: Any) -> Any:
    return -value if _is_float(call.type) else _encoded(-_number(value, call.type), call.type)


def _round(call: Call, value: Any) -> Any:
    round_number: Callable[[Any], int] = math.ceil if call.function == "ceil" else math.floor
    if not _is_float(call.term.type):
        return _encoded(Fraction(round_number(_number(value, call.term.type))), call.type)
    if not math.isfinite(value):
        return 0 if math.isnan(value) else LONGS[value > 0]
    return min(max(round_number(value), LONGS[0]), LONGS[1])


# Texts.


def _substring(call: Call, value: bytes) -> bytes:
    return value.decode()[: int(call.arguments[0])].encode()


# Days.


def _date(days: int) -> dt.date | None:
    """The day; None for those that Python does not know."""
    try:
        return dt.date(1970, 1, 1) + dt.timedelta(days)
    except OverflowError:
        return None


def _cut(date: dt.date, unit: str) -> int:
    if unit == "WEEK":
        date -= dt.timedelta(date.weekday())
    else:
        month = {"YEAR": 1, "QUARTER": (date.month - 1) // 3 * 3 + 1, "MONTH": date.month}[unit]
        date = date.replace(month=month, day=1)
    return (date - dt.date(1970, 1, 1)).days


def _trunc(call: Call, value: int) -> int | None:
    date = _date(value)
    return None if date is None else _cut(date, str(call.arguments[0]))


def _year(_: Call, value: int) -> int | None:
    date = _date(value)
    return None if date is None else date.year


def _date_add(call: Call, value: int) -> int | None:
    days = value + int(call.arguments[0])
    return days if INTS[0] <= days <= INTS[1] else None


# Instants.


@functools.cache
def _zone(name: str) -> dt.tzinfo:
    if "/" in name:
        return zoneinfo.ZoneInfo(name)
    sign, hours, minutes = (1, "0", "0") if name == "UTC" else (-1 if name[0] == "-" else 1, *name[1:].split(":"))
    return dt.timezone(sign * dt.timedelta(hours=int(hours), minutes=int(minutes)))


def _offset(instant: int, zone: str) -> int:
    moment = (EPOCH + dt.timedelta(microseconds=instant)).replace(tzinfo=dt.timezone.utc)
    return (moment.astimezone(_zone(zone)).utcoffset() or dt.timedelta()) // dt.timedelta(microseconds=1)


def _local(instant: int, zone: str) -> int | None:
    if zone == "UTC":  # Also where Python knows no years.
        return instant
    return instant + _offset(instant, zone) if FIRST <= instant <= LAST else None


def _instants(local: int, zone: str) -> list[int]:
    """The instants of a local time, the earlier one first; none for one that the clock skips."""
    moment = (EPOCH + dt.timedelta(microseconds=local)).replace(tzinfo=_zone(zone))
    offsets = {moment.replace(fold=fold).utcoffset() or dt.timedelta() for fold in (0, 1)}
    instants = sorted(local - offset // dt.timedelta(microseconds=1) for offset in offsets)
    return [instant for instant in instants if instant + _offset(instant, zone) == local]


def _of_local(local: int, zone: str, preferred: int) -> int:
    """`ZonedDateTime.ofLocal`: a skipped time moves forward by the length of the gap."""
    instants = _instants(local, zone)
    if local - preferred in instants:
        return local - preferred
    return instants[0] if instants else local - _offset_before(local, zone)


def _offset_before(local: int, zone: str) -> int:
    """The offset before the gap in which a local time lies."""
    moment = (EPOCH + dt.timedelta(microseconds=local)).replace(tzinfo=_zone(zone), fold=0)
    return (moment.utcoffset() or dt.timedelta()) // dt.timedelta(microseconds=1)


def _start_of_day(day: int, zone: str) -> int | None:
    """`LocalDate.atStartOfDay`: the first instant of the day, where midnight is skipped that after the gap."""
    local = day * DAY
    if zone == "UTC":
        return local
    if not FIRST <= local <= LAST:
        return None
    instants = _instants(local, zone)
    if instants:
        return instants[0]
    high = local - _offset_before(local, zone)
    low = high - 2 * DAY
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle + _offset(middle, zone) >= local else (middle, high)
    return high


def _date_trunc(call: Call, instant: int) -> int | None:
    unit, zone = str(call.arguments[0]), str(call.arguments[-1])
    local = _local(instant, zone)
    if unit in ("MICROSECOND", "MILLISECOND", "SECOND"):
        return instant - instant % UNITS[unit]
    if local is None:
        return None
    if unit in UNITS:
        return _of_local(local - local % UNITS[unit], zone, local - instant)
    date = _date(local // DAY)
    return None if date is None else _start_of_day(_cut(date, unit), zone)


def _shift(call: Call, instant: int) -> int | None:
    days, micros = int(call.arguments[0]), int(call.arguments[1])
    if not days or call.type.name == "timestamp_ntz":
        shifted = instant + days * DAY + micros
        return shifted if LONGS[0] <= shifted <= LONGS[1] else None
    zone = str(call.arguments[-1])
    local = _local(instant, zone)
    if local is None or not FIRST <= local + days * DAY <= LAST:
        return None
    return _of_local(local + days * DAY, zone, local - instant) + micros


_FUNCTIONS: dict[str, Callable[[Call, Any], Any]] = {
    "cast": _cast,
    "add": _add,
    "multiply": _multiply,
    "negative": _negative,
    "floor": _round,
    "ceil": _round,
    "substring": _substring,
    "trunc": _trunc,
    "year": _year,
    "date_add": _date_add,
    "unix_date": lambda _, days: days,
    "unix_seconds": lambda _, micros: micros // SECOND,
    "unix_millis": lambda _, micros: micros // 1000,
    "unix_micros": lambda _, micros: micros,
    "date_trunc": _date_trunc,
    "shift": _shift,
}
