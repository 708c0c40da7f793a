"""Local times of zones: gaps, overlaps, offsets, and zones that nobody knows."""

import bisect
import datetime as dt

import numpy as np
import pytest

from zskip.predicate import Column, Columns, Compare, Unknown, parse, zones
from zskip.predicate.functions import cast, function_of
from zskip.predicate.functions.clocks import clock_of, has_changes, has_offsets, probes
from zskip.predicate.literals import timestamp_micros
from zskip.predicate.zones import micros_of, zone_of
from zskip.records import Field
from zskip.types import DataType

COLUMNS = Columns([Field(name=name, type=DataType(name)) for name in ("timestamp", "timestamp_ntz", "date")])
HOUR = 3_600_000_000
NOON = 12 * HOUR


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Europe/Berlin", "2024-03-31 02:00:00"),
        ("Europe/Berlin", "2024-03-31 02:59:59.999999"),
        ("Europe/Berlin", "2024-10-27 02:00:00"),
        ("Europe/Berlin", "2024-10-27 02:59:59"),
        ("America/New_York", "2024-03-10 02:30:00"),
        ("America/New_York", "2024-11-03 01:30:00"),
        ("Australia/Lord_Howe", "2024-04-07 01:45:00"),
        ("Pacific/Apia", "2011-12-30 12:00:00"),
        ("America/Sao_Paulo", "2018-11-04"),
        ("Asia/Kolkata", "1850-01-01 00:00:00"),
        ("Europe/Berlin", "1969-12-31 23:59:59"),
        ("Nowhere/Land", "2024-01-01 00:00:00"),
        ("", "2024-01-01 00:00:00"),
        ("../etc/passwd", "2024-01-01 00:00:00"),
        ("+19:00", "2024-01-01 00:00:00"),
        ("IST", "2024-01-01 00:00:00"),
        ("UTC", "2024-02-30 00:00:00"),
        ("UTC", "2024-01-01 25:00:00"),
        ("UTC", "2024-01-01 00:00:60"),
        ("UTC", "0000-01-01 00:00:00"),
        ("UTC", "２０２４-01-01 00:00:00"),
    ],
)
def test_doubtful_times_are_unknown(zone, text):
    assert timestamp_micros(text, zone) is None
    assert isinstance(parse(f"timestamp = TIMESTAMP '{text}'", COLUMNS, timezone=zone), Unknown)
    assert isinstance(parse(f"timestamp > '{text}'", COLUMNS, timezone=zone), Unknown)


@pytest.mark.parametrize(
    ("zone", "text", "micros"),
    [
        ("UTC", "1970-01-01 12:00:00", NOON),
        ("Z", "1970-01-01 12:00:00", NOON),
        ("GMT", "1970-01-01 12:00:00", NOON),
        ("+01:00", "1970-01-01 12:00:00", NOON - HOUR),
        ("-01:30", "1970-01-01 12:00:00", NOON + HOUR * 3 // 2),
        ("GMT+1", "1970-01-01 12:00:00", NOON - HOUR),
        ("UTC-2", "1970-01-01 12:00:00", NOON + 2 * HOUR),
        ("+5", "1970-01-01 12:00:00", NOON - 5 * HOUR),
        ("-18:00", "1970-01-01 12:00:00", NOON + 18 * HOUR),
        ("+00:00:30", "1970-01-01 12:00:00", NOON - 30_000_000),
        ("MST", "1967-06-01 00:00:00", -81622800000000),
        ("Europe/Berlin", "1970-01-01 12:00:00", NOON - HOUR),
        ("Europe/Berlin", "2024-03-31 01:59:59", 1711846799000000),
        ("Europe/Berlin", "2024-03-31 03:00:00", 1711846800000000),
        ("+01:00", "1850-01-01 00:00:00", -3786829200000000),
        ("UTC", "0001-01-01 00:00:00", -62135596800000000),
        ("UTC", "9999-12-31 23:59:59.999999", 253402300799999999),
    ],
)
def test_sure_times(zone, text, micros):
    assert timestamp_micros(text, zone) == micros
    predicate = parse(f"timestamp = TIMESTAMP '{text}'", COLUMNS, timezone=zone)
    assert predicate == Compare("=", Column(("timestamp",), DataType("timestamp")), micros)


def test_a_zone_in_the_text_wins():
    for written in ("1970-01-01 12:00:00Z", "1970-01-01 13:00:00+01:00", "1970-01-01 13:00:00 Europe/Berlin"):
        assert timestamp_micros(written, "Asia/Tokyo") == NOON
        dropped = written.endswith("Z")  # As Spark does with every zone.
        assert timestamp_micros(written, None) == (NOON if dropped else None)


def test_years_that_python_does_not_know():
    assert timestamp_micros("294247-01-10 04:00:54.775807Z", "Asia/Tokyo") == 2**63 - 1
    assert timestamp_micros("294247-01-10 04:00:54.775808", "UTC") is None
    last = timestamp_micros("9999-12-31 23:59:59", "+01:00")
    assert last is not None
    assert timestamp_micros("10000-01-01", "+01:00") == last + 1_000_000
    assert timestamp_micros("10000-01-01", "Europe/Berlin") is None
    assert timestamp_micros("12000-02-29", None) == timestamp_micros("2000-02-29", None) + 25 * 146_097 * 24 * HOUR
    for odd in ("10001-02-29", "010000-01-01", "1000000-01-01"):
        assert timestamp_micros(odd, None) is None


def test_times_without_a_zone_know_no_gaps():
    for zone in ("Europe/Berlin", "Nowhere/Land"):
        predicate = parse("timestamp_ntz = TIMESTAMP_NTZ '2024-03-31 02:30:00'", COLUMNS, timezone=zone)
        assert isinstance(predicate, Compare)
        assert isinstance(parse("date = DATE '2024-03-31'", COLUMNS, timezone=zone), Compare)


def test_the_year_has_as_many_hours_as_it_has():
    start = dt.datetime(2024, 1, 1)
    hours = [micros_of(start + dt.timedelta(hours=i), "Europe/Berlin") for i in range(366 * 24)]
    assert hours.count(None) == 2
    known = [hour for hour in hours if hour is not None]
    assert known == sorted(set(known))
    assert known[-1] - known[0] == (366 * 24 - 1) * HOUR


def test_places_of_which_a_session_has_other_data_have_no_zone():
    """Not even where a text names them; bounds of local times hold for any offset."""
    date = cast(Column(("timestamp",), DataType("timestamp")), DataType("date"), "Asia/Tokyo")
    instants = np.array([1_700_000_000 * 10**6])
    exact = function_of(date).bounds(date, instants, instants)
    zones.compare_places("test", lambda name: name != "Asia/Tokyo")
    try:
        assert zone_of("Asia/Tokyo") is None
        assert zone_of("Europe/Berlin") is not None
        assert clock_of("Asia/Tokyo") is None
        assert timestamp_micros("2024-01-01 00:00:00", "Asia/Tokyo") is None
        assert timestamp_micros("2024-01-01 00:00:00 Asia/Tokyo", "UTC") is None
        assert timestamp_micros("2024-01-01 00:00:00+09:00", "Asia/Tokyo") is not None
        low, high, known = function_of(date).bounds(date, instants, instants)
        assert known.all()
        assert (low <= exact[0]).all()
        assert (high >= exact[1]).all()
        assert (high > low).all()
    finally:
        del zones._comparisons["test"]
    assert zone_of("Asia/Tokyo") is not None


@pytest.mark.parametrize("name", ["Europe/Berlin", "Asia/Tokyo", "Africa/Casablanca"])
def test_a_change_more_or_less_is_other_data(name):
    place = zones.place_of(name)
    starts, offsets = map(list, changes_until_2100(place))
    assert has_changes(place, starts, offsets)
    assert not has_changes(place, [*starts, 4_000_000_000 * 10**6], [*offsets, offsets[-1] + HOUR])
    seconds = probes(place)
    own = [offsets[bisect.bisect(starts, second * 10**6)] // 10**6 for second in seconds]
    assert has_offsets(place, seconds, own)
    assert not has_offsets(place, seconds, [*own[:-1], own[-1] + 3600])
    if starts:
        assert not has_changes(place, starts[:-1], offsets[:-1])
        assert not has_changes(place, [starts[0] + HOUR, *starts[1:]], offsets)
        assert not has_changes(place, starts, [offsets[0], offsets[1] + HOUR, *offsets[2:]])


def changes_until_2100(place):
    """Found hour by hour on the days that have one."""

    def offset(second):
        return dt.datetime.fromtimestamp(second, place).utcoffset() // dt.timedelta(microseconds=1)

    days = range(-2 * 24 * 3600, 4_102_444_800, 24 * 3600)
    hours = [h for day in days if offset(day) != offset(day + 24 * 3600) for h in range(day + 3600, day + 90_000, 3600)]
    found = [second for second in hours if offset(second) != offset(second - 3600)]
    return [second * 10**6 for second in found], [offset(days[0]), *map(offset, found)]


def test_zones():
    assert zone_of("UTC") is dt.timezone.utc
    assert zone_of("+18:00") == dt.timezone(dt.timedelta(hours=18))
    assert zone_of("+010030") == zone_of("GMT+01:00:30") == dt.timezone(dt.timedelta(seconds=3630))
    assert zone_of("EST") == dt.timezone(dt.timedelta(hours=-5))
    assert zone_of("not a zone") is None


@pytest.mark.parametrize(
    "name",
    [
        *("utc", "z", "gmt", "utc+1", "europe/berlin", "posix/Europe/Berlin", "right/Europe/Berlin"),
        *("localtime", "posixrules", "Factory", "WET", "EET", "ROC", "IST"),
        *("+18:01", "+17:60", "+01:75", "+123", "-123", "+1:0", "+ 1", "+1:30:60"),
    ],
)
def test_names_that_mean_nothing_or_something_else_to_spark(name):
    assert zone_of(name) is None
    assert timestamp_micros(f"2024-01-02 03:04:05 {name}", "UTC") is None
    assert timestamp_micros("2024-01-02 03:04:05", name) is None
