"""Calls of monotone functions over all types and arguments, and values at which they are worth a look."""

import datetime as dt
import math

import numpy as np

from zskip.predicate import Call, Column
from zskip.predicate.functions import call, cast
from zskip.predicate.functions.clocks import DAY, clock_of
from zskip.predicate.functions.times import DATE_UNITS, UNITS
from zskip.types import INTEGERS, DataType, encode_decimal

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "+05:30",
)
DECIMALS = ("decimal(5,2)", "decimal(18,0)", "decimal(20,5)", "decimal(38,6)")
HOUR = DAY // 24


def column(name):
    return Column((f"c {name}",), DataType(name))


def calls_of(name, zone):
    """Calls whose term is a column of a type."""
    term = column(name)
    found = [
        cast(term, DataType(target), zone)
        for target in (*INTEGERS, "float", "double", *DECIMALS, "date", "timestamp", "timestamp_ntz")
        if target != name
    ]
    found += [call(function, term) for function in ("negative", "floor", "ceil")]
    if name in INTEGERS:
        found += [call("add", term, k) for k in (1, -1, 100, -(2 ** (INTEGERS[name] - 1)), 2**63)]
        found += [call("multiply", term, k) for k in (2, 100, 2 ** (INTEGERS[name] - 1) - 1, 2**63, 0, -2)]
    if name in ("float", "double"):
        kind = np.float32 if name == "float" else float
        found += [call("add", term, repr(float(kind(k)))) for k in (1.5, -0.1, 1e30)]
    if name.startswith("decimal"):
        data_type = DataType(name)
        whole = min(data_type.precision - data_type.scale + 1, 38 - data_type.scale)
        wanted = f"decimal({whole + data_type.scale},{data_type.scale})"
        found += [call("add", term, k, wanted) for k in (1, -150, 10 ** (data_type.scale + 2))]
    found += [call(function, term) for function in ("year", "unix_date", "unix_seconds", "unix_millis", "unix_micros")]
    found += [call("trunc", term, unit) for unit in DATE_UNITS]
    found += [call("date_trunc", term, unit, zone) for unit in UNITS]
    found += [call("date_add", term, days) for days in (0, 3, -3, 2**31 - 1)]
    found += [call("shift", term, *amount, zone) for amount in ((0, 90 * 60 * 10**6), (2, 0), (-1, 0), (0, -1))]
    found += [call("substring", term, n) for n in (0, 1, 3)]
    return [found_call for found_call in found if isinstance(found_call, Call)]


def days_of(*moments):
    return [(dt.date(*moment) - dt.date(1970, 1, 1)).days for moment in moments]


DAYS = [
    *range(-800, 800, 7),
    *range(-5, 5),
    *days_of((1, 1, 1), (1582, 10, 4), (1582, 10, 15), (1900, 2, 28), (1969, 12, 31), (1972, 2, 29), (1999, 12, 31)),
    *days_of((2000, 1, 1), (2011, 12, 29), (2011, 12, 31), (2023, 1, 1), (2024, 2, 29), (2037, 12, 31), (9999, 12, 31)),
    *range(19_700, 19_800, 3),
]


def instants(zone):
    """Instants around some changes of the clock, some others, and some far ones."""
    clock = clock_of(zone)
    near = [0, 1, -1, 999, 1000, 10**6, 59 * 10**6, HOUR - 1, HOUR, 90 * HOUR, DAY - 1, DAY, 7 * DAY]
    changes = clock.starts.tolist()
    changes = changes[:4] + changes[len(changes) // 2 : len(changes) // 2 + 4] + changes[-4:]
    offsets = [-DAY, -HOUR - 1, -HOUR, -(HOUR // 2), -61 * 10**6, -1, 0, 1, 61 * 10**6, HOUR // 2, HOUR, 25 * HOUR]
    found = near + [start + offset for start in changes for offset in offsets]
    found += [day * DAY + part for day in DAYS[::5] for part in (0, 12 * HOUR + 1, DAY - 1)]
    return sorted({one for one in found if abs(one) < 2 * 10**17})


def values(name, zone="UTC"):
    """Values of a type in its form, edges first of all."""
    data_type = DataType(name)
    if data_type.is_integer:
        bits = INTEGERS[name]
        powers = [2**b + d for b in range(bits - 1) for d in (-1, 0, 1) if b % 3 == 0 or b > 22]
        ends = [2 ** (bits - 1) - 1 - d for d in range(3)]
        return sorted({s * n for n in [0, 1, *powers, *ends] for s in (1, -1)} | {-(2 ** (bits - 1))})
    if name in ("float", "double"):
        powers = [
            s * (2.0**e + d) for e in (0, 1, 20, 24, 52, 53, 62, 63, 64) for d in (-0.5, 0, 0.5, 1) for s in (1, -1)
        ]
        tiny = [0.0, -0.0, 0.1, -0.1, 5e-324, 1e300, -1e300, math.inf, -math.inf, math.nan, 2.0**63 - 1024, -(2.0**63)]
        numbers = powers + tiny
        return (
            [float(np.float32(n)) for n in numbers if abs(n) < 1e38 or not math.isfinite(n)]
            if name == "float"
            else numbers
        )
    if data_type.is_decimal:
        most = 10**data_type.precision - 1
        numbers = {0, 1, 5, 99, 100, 101, most, most - 1, most // 10, most - 10**data_type.scale, 10**data_type.scale}
        return [encode_decimal(s * n, data_type) for n in sorted(numbers) if n <= most for s in (1, -1)]
    if name == "date":
        return sorted(set(DAYS))
    if name in ("timestamp", "timestamp_ntz"):
        return instants(zone)
    if name == "boolean":
        return [0, 1]
    texts = ["", "a", "ab", "abc", "abcd", "é", "éé", "ééé😀", "😀😀", "a\x00b", "\U0010ffff" * 5, "\uffffab", "zz\x7f"]
    return sorted(text.encode() for text in texts)


NAMES = (*INTEGERS, "float", "double", *DECIMALS, "date", "timestamp", "timestamp_ntz", "string")
