"""Laws of monotone functions: bounds hold for all values between, and never say more than what is."""

import datetime as dt
import zoneinfo

import numpy as np
import pytest
import tiers
from call_values import value_of
from calls import NAMES, ZONES, calls_of, column, instants, values
from clock_changes import NEAR, calls_of_times, changes_of_zones, check_bounds
from hypothesis import given
from hypothesis import strategies as st

from zskip.predicate.functions import Nan, call, cast, function_of
from zskip.predicate.functions.clocks import DAY, HOUR, clock_of
from zskip.predicate.functions.times import UNITS
from zskip.prune import monotone
from zskip.records import ColumnStats
from zskip.types import INTEGERS, DataType, Form

DTYPES = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: object}


def array(values, data_type):
    result = np.empty(len(values), DTYPES[data_type.form])
    result[:] = values
    return result


def stats_of(name, files, nulls=0):
    data_type = DataType(name)
    finite = [[v for v in file if v == v] for file in files]
    return ColumnStats(
        type=data_type,
        lower=array([min(file, default=0) for file in finite], data_type),
        upper=array([max(file, default=0) for file in finite], data_type),
        bounded=np.array([bool(file) for file in finite]),
        nulls=np.full(len(files), nulls, np.int64),
        may_nan=np.array([any(v != v for v in file) for file in files]),
    )


CASES = [
    pytest.param(c, z, id=f"{c.function} {c.term.type} {c.arguments} {z}")
    for n in NAMES
    for z in (ZONES if "time" in n or n == "date" else ZONES[:1])
    for c in calls_of(n, z)
]


@pytest.mark.parametrize(("function_call", "zone"), CASES)
def test_bounds_hold(function_call, zone):
    name = function_call.term.type.name
    some = values(name, zone)
    function, clock = function_of(function_call), clock_of(zone)
    files = [some[i : i + n] for n in (1, 2, 7) for i in range(0, len(some), n)] + [some]
    stats = monotone.apply(function_call, stats_of(name, files))
    computed = {v: value_of(function_call, v) for v in some}
    exact = 0
    for i, file in enumerate(files):
        results = [computed[v] for v in file]
        sure = None not in results
        assert stats.bounded[i] or function.nan is Nan.VALUE or not sure or all(v != v for v in file)
        if not stats.bounded[i]:
            assert function.total or stats.nulls[i] == -1
            continue
        assert sure or function.total or function_call.function == "shift"
        for one, result in zip(file, results, strict=True):
            if result is not None and result != result:
                assert stats.may_nan[i]
            elif result is not None:
                assert stats.lower[i] <= result <= stats.upper[i], (one, result)
        is_certain = "/" not in zone or (
            clock.first + DAY <= file[0] * (DAY if name == "date" else 1) <= clock.last - 3 * DAY
        )
        if len(file) == 1 and sure and is_certain and file[0] == file[0]:
            exact += 1
            assert stats.lower[i] == stats.upper[i] == results[0] or "shift" in function_call.function
    assert exact or function_call.arguments[0] == 2**31 - 1


def test_what_overflows_is_not_bounded():
    for name, bits in INTEGERS.items():
        most = 2 ** (bits - 1) - 1
        files = [[most], [most - 1], [-most - 1, 0], [-most, 5]]
        plus = monotone.apply(call("add", column(name), 1), stats_of(name, files))
        assert plus.bounded.tolist() == [False, True, True, True]
        assert plus.nulls.tolist() == [-1, 0, 0, 0]
        opposite = monotone.apply(call("negative", column(name)), stats_of(name, files))
        assert opposite.bounded.tolist() == [True, True, False, True]
        assert (opposite.lower[3], opposite.upper[3]) == (-5, most)
    long_dates = monotone.apply(call("date_add", column("date"), 1), stats_of("date", [[2**31 - 1], [0]]))
    assert long_dates.bounded.tolist() == [False, True]


def test_floor_of_nan_is_some_value():
    stats = monotone.apply(call("floor", column("double")), stats_of("double", [[1.5, float("nan")], [1.5]]))
    assert stats.bounded.tolist() == [False, True]
    assert not stats.may_nan.any()


def test_unknown_functions_and_types_are_not_bounded():
    good = call("year", column("date"))
    assert monotone.apply(good, stats_of("long", [[1]])) is None
    for changed in ({"function": "sinus"}, {"type": DataType("long")}, {"term": column("string")}):
        parts = {"function": good.function, "term": good.term, "arguments": (), "type": good.type, **changed}
        assert monotone.apply(type(good)(**parts), stats_of("date", [[1]])) is None


# Clocks.


def java_offsets(zone, local):
    """The offsets that are valid for a local time, the earlier instant first."""
    zone_info = zoneinfo.ZoneInfo(zone)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=local)
    offsets = []
    for fold in (0, 1):
        offset = moment.replace(tzinfo=zone_info, fold=fold).utcoffset()
        back = (moment - offset).replace(tzinfo=dt.timezone.utc).astimezone(zone_info).replace(tzinfo=None)
        if back == moment and offset not in offsets:
            offsets.append(offset)
    return [offset // dt.timedelta(microseconds=1) for offset in offsets]


@tiers.examples(300, quick=50)
@given(st.sampled_from([z for z in ZONES if "/" in z]), st.data())
def test_clocks_agree_with_zoneinfo(zone, data):
    clock = clock_of(zone)
    near = st.sampled_from(clock.starts.tolist()) if len(clock.starts) else st.just(10**15)
    instant = data.draw(
        near.flatmap(lambda t: st.integers(t - 2 * DAY, t + 2 * DAY)) | st.integers(clock.first, clock.last)
    )
    expected = dt.datetime.fromtimestamp(0, dt.timezone.utc) + dt.timedelta(microseconds=instant)
    offset = expected.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset() // dt.timedelta(microseconds=1)
    one = np.array([instant])
    assert clock.offset(one)[0] == offset
    assert clock.instant(clock.local(one), clock.offset(one))[0] == instant
    valid = java_offsets(zone, instant)
    if valid:
        assert clock.instant(one)[0] == instant - valid[0]
        assert clock.instant(one, np.array([valid[-1]]))[0] == instant - valid[-1]
    else:
        moved = clock.instant(one)
        assert clock.local(moved)[0] > instant
        assert moved[0] - 2 * DAY < instant - offset


@pytest.mark.slow
def test_all_changes_of_all_zones_are_found():
    """No change that a zone's data list is missed, nor one of those that follow from its last rule."""
    pure = pytest.importorskip("zoneinfo._zoneinfo")
    draw = np.random.default_rng(0)
    clocks = 0
    for name in sorted(zoneinfo.available_timezones()):
        clock = clock_of(name) if "/" in name else None
        if clock is None:
            continue
        listed = np.array(pure.ZoneInfo.no_cache(name)._trans_utc, np.int64) * 10**6
        listed = listed[(clock.first < listed) & (listed < clock.last)]
        points = np.concatenate([listed, listed - 1, clock.starts, clock.starts - 1])
        points = np.concatenate([points, draw.integers(clock.first, clock.last, 40)])
        zone = zoneinfo.ZoneInfo(name)
        moments = [dt.datetime.fromtimestamp(int(p) // 10**6, dt.timezone.utc).astimezone(zone) for p in points]
        expected = [moment.utcoffset() // dt.timedelta(microseconds=1) for moment in moments]
        assert clock.offset(points).tolist() == expected, name
        clocks += 1
    assert clocks > 300


@tiers.examples(400, quick=50)
@given(st.sampled_from(ZONES), st.data())
def test_bounds_hold_near_changes_of_the_clock(zone, data):
    some = instants(zone)
    term = column("timestamp")
    unit = data.draw(st.sampled_from(UNITS))
    function_call = data.draw(
        st.sampled_from(
            [call("date_trunc", term, unit, zone), cast(term, DataType("date"), zone), call("shift", term, 1, 5, zone)]
        )
    )
    point = data.draw(st.sampled_from(some))
    width = data.draw(st.sampled_from([HOUR, 3 * HOUR, 30 * HOUR, 400 * DAY]))
    low = point - data.draw(st.integers(0, width))
    file = [low, *(data.draw(st.integers(low, low + 2 * width)) for _ in range(3)), point]
    file += [int(t) + d for t in clock_of(zone).starts for d in (-1, 0, 1) if min(file) <= t + d <= max(file)]
    stats = monotone.apply(function_call, stats_of("timestamp", [file]))
    assert stats.bounded[0]
    for one in file:
        result = value_of(function_call, one)
        assert result is None or stats.lower[0] <= result <= stats.upper[0], (file, one, result)


def test_repeated_midnights_go_back_a_day():
    """In St. John's clocks went back at one minute past midnight until 2011: the date fell."""
    zone = "America/St_Johns"
    change = int(dt.datetime(2010, 11, 7, 2, 31, tzinfo=dt.timezone.utc).timestamp()) * 10**6
    date = cast(column("timestamp"), DataType("date"), zone)
    before, after = (value_of(date, t) for t in (change - 1, change))
    assert after == before - 1
    stats = monotone.apply(
        date, stats_of("timestamp", [[change - 1, change + 1], [change, change + 1], [change - 2, change - 1]])
    )
    assert stats.lower.tolist() == [after, after, before]
    assert stats.upper.tolist() == [before, after, before]


@pytest.mark.scaled
@pytest.mark.timeout(3600)
def test_bounds_hold_around_all_changes_of_the_clock():
    """Each function of each zone, between any two of some instants around each change since 1900."""
    checks = 0
    for zone, changes in changes_of_zones().items():
        points = changes[:, np.newaxis] + np.array(NEAR)
        days = np.unique(points // DAY)
        for function_call in calls_of_times(zone):
            of_days = function_call.term.type.name == "date"
            ranges = np.stack([days[:-1], days[1:]], 1) if of_days else points
            computed = {one: value_of(function_call, one) for one in np.unique(ranges).tolist()}
            checks += check_bounds(function_call, ranges, computed)
    assert checks > 10_000
    print(f"{checks:,} bounds")


# Strings.


@tiers.examples(500, quick=50)
@given(st.lists(st.binary(max_size=8) | st.text(max_size=6).map(str.encode), min_size=1, max_size=4), st.data())
def test_bounds_of_prefixes_hold_for_any_bytes(strings, data):
    """Bounds may be cut anywhere; Spark tells the length of a character from its first byte."""
    characters = data.draw(st.integers(0, 4))
    low, high = min(strings), max(strings)
    low = low[: data.draw(st.integers(0, len(low)))]
    cut = data.draw(st.integers(0, len(high)))
    if cut < len(high) and high[:cut].rstrip(b"\xff"):
        head = high[:cut].rstrip(b"\xff")
        high = head[:-1] + bytes([head[-1] + 1])
    stats = monotone.apply(call("substring", column("string"), characters), stats_of("string", [[low, high]]))
    for string in strings:
        for lengths in (spark_length, python_like_length):
            assert stats.lower[0] <= prefix(string, characters, lengths) <= stats.upper[0], (string, low, high)


def spark_length(first):
    return 1 if first < 0xC2 or first > 0xF4 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def python_like_length(first):
    """The table of older versions, which knows characters of five and six bytes."""
    return (
        1
        if first < 0xC0
        else 2
        if first < 0xE0
        else 3
        if first < 0xF0
        else 4
        if first < 0xF8
        else 5
        if first < 0xFC
        else 6
    )


def prefix(string, characters, length):
    offset = 0
    for _ in range(characters):
        if offset >= len(string):
            break
        offset += length(string[offset])
    return string[:offset]
