"""Literals that Spark casts before it compares: what zskip reads is what Spark finds for each row."""

from __future__ import annotations

import pytest
from oracle import NoValue, truth
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zskip.predicate import Columns, Predicate, Unknown, nodes, parse
from zskip.records import Field
from zskip.types import DataType

DAY = 86_400 * 10**6
VALUES = {
    "dt": ("date", [-719_162, 18_627, 18_628, 18_629, 2_932_896]),
    "sh": ("short", [-(2**15), -1, 0, 1, 2, 2**15 - 1]),
    "i": ("integer", [-(2**31), 0, 1, 2, 2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1]),
    "l": ("long", [-(2**63), -1, 0, 1, 2**24 - 1, 2**24 + 1, 2**53 + 1, 2**63 - 1]),
    "ts": ("timestamp", [-1, 0, 18_628 * DAY, 18_628 * DAY + 8 * DAY // 24, 4 * 10**17, 2**63 - 2, 2**63 - 1]),
    "n": ("timestamp_ntz", [-1, 0, 18_628 * DAY, 4 * 10**17, 2**63 - 2, 2**63 - 1]),
}
ROWS = [{(name,): (values[k : k + 1] or [None])[0] for name, (_, values) in VALUES.items()} for k in range(9)]
COLUMNS = Columns([Field(name=name, type=DataType(kind)) for name, (kind, _) in VALUES.items()])
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "<=>")
DAYS = [
    "2021-01-01 18:00:00",
    "2021-01-01 00:00:00",
    "2021-01-01T18:00:00.123+01:00",
    "2021-01-01T",
    "2021-01-01 ",
    "2021-01-01 whatever it is",
    "2021-01-01\\t\\n",
    "2021-01-01x",
    "2021-01-01t18:00:00",
    "2021-01 18:00:00",
    "2021-13-01 18:00:00",
]
NUMBERS = ["1F", "1.5F", "-1F", "16777215F", "16777216F", "16777217F", "1e10F", "CAST('NaN' AS FLOAT)", "1e38F"]
TEXTS = ["'1'", "'+1'", "'-1'", "'01'", "' 1'", "'1.5'", "'99999999999'", "'9223372036854775807'", "''", "'x'"]
TIMES = [
    "294247-01-10 04:00:54.775806Z",
    "294247-01-10 04:00:54.775807Z",
    "294247-01-10 04:00:54.775808Z",
    "10000-02-29 00:00:00",
    "14645-12-06 09:46:40",
    "2021-01-01 00:00:00Z",
    "010000-02-29 00:00:00",
    "1000000-01-01 00:00:00Z",
]


def texts() -> list[str]:
    found = [f"dt {op} '{day}'" for op in OPERATORS for day in DAYS]
    found += [f"{form} '{day}'" for form in ("dt = DATE", "ts < DATE", "n >= DATE") for day in DAYS]
    found += [f"{side} < CAST('{day}' AS DATE)" for side in ("dt", "ts", "n", "CAST(ts AS DATE)") for day in DAYS]
    found += [f"dt {within} ('2021-01-01 18:00:00', '2021-01-02')" for within in ("IN", "NOT IN")]
    found += ["dt BETWEEN '2021-01-01 18:00:00' AND '2021-01-02T'", "dt NOT IN ('2021-01-01 18:00:00')"]
    found += [f"{name} {op} {number}" for name in ("sh", "i", "l") for op in OPERATORS for number in NUMBERS]
    found += [f"{name} {within} (16777217, 1F)" for name in ("sh", "i", "l") for within in ("IN", "NOT IN")]
    found += [
        f"{name} = CAST({text} AS {kind})"
        for name, kind in (("i", "INT"), ("l", "BIGINT"), ("sh", "TINYINT"))
        for text in TEXTS
    ]
    found += [f"ts {op} '{time}'" for op in OPERATORS for time in TIMES]
    found += [
        f"{name} <= CAST('{time}' AS {kind})"
        for name, kind in (("ts", "TIMESTAMP"), ("n", "TIMESTAMP_NTZ"))
        for time in TIMES
    ]
    found += [f"n > {prefix}'{time}'" for prefix in ("", "TIMESTAMP_NTZ ") for time in TIMES]
    conditions = ["i > 1", "i > 1 AND l < 5", "i > 1 OR dt = '2021-01-01'", "i IN (1, NULL)", "NOT (i > 1 OR NULL)"]
    tests = ["IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE", "<=> TRUE", "<=> NULL"]
    return found + [f"({condition}) {test}" for condition in conditions for test in tests]


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_as_spark_compares(spark: SparkSession, ansi: str, zone: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.session.timeZone", zone)
    session.sql(
        f"SELECT * FROM VALUES {', '.join(map(written, ROWS))} AS t({', '.join(VALUES)})"
    ).createOrReplaceTempView("t")
    understood = {}
    for text in texts():
        predicate = parse(text, COLUMNS, timezone=zone)
        if not any(isinstance(node, Unknown) for node in nodes(predicate)):
            understood[text] = [_truth(predicate, row) for row in ROWS]
    expected = {}
    for chunk in (list(understood)[k : k + 40] for k in range(0, len(understood), 40)):
        expected.update(asked(session, chunk))
    wrong = [
        f"{text}: {found}, to Spark {expected[text]}"
        for text, found in understood.items()
        if expected[text] == "fails"
        or any(one not in ("no value", other) for one, other in zip(found, expected[text], strict=True))
    ]
    assert not wrong, "\n".join(wrong)
    assert len(understood) > 250


def _truth(predicate: Predicate, row: dict[tuple[str, ...], int | None]) -> bool | str | None:
    try:
        return truth(predicate, row)
    except NoValue:
        return "no value"


def written(row: dict[tuple[str, ...], int | None]) -> str:
    """A row as SQL."""
    forms = {
        "date": "date_from_unix_date(CAST({} AS INT))",
        "timestamp": "timestamp_micros({})",
        "timestamp_ntz": "TIMESTAMP_NTZ '1970-01-01 00:00:00' + {}",
    }
    found = []
    for (name,), value in row.items():
        kind = VALUES[name][0]
        text = "NULL" if value is None else f"'{value}'"
        if kind == "timestamp_ntz" and value is not None:
            text = f"make_dt_interval({value // DAY}, 0, 0, {value % DAY / 10**6:.6f})"
        elif kind == "timestamp_ntz":
            text = "make_dt_interval(NULL)"
        else:
            text = f"CAST({text} AS {'BIGINT' if kind in forms else DataType(kind).name.upper().replace('EGER', '')})"
        found.append(forms.get(kind, "{}").format(text).replace("LONG", "BIGINT").replace("SHORT", "SMALLINT"))
    return f"({', '.join(found)})"


def asked(session: SparkSession, texts: list[str]) -> dict[str, object]:
    """What Spark says of each row; of a text that fails, that it does."""
    try:
        rows = session.sql(f"SELECT {', '.join(f'({text})' for text in texts)} FROM t").collect()
    except PySparkException:
        if len(texts) == 1:
            return {texts[0]: "fails"}
        return {key: value for text in texts for key, value in asked(session, [text]).items()}
    return {text: [row[k] for row in rows] for k, text in enumerate(texts)}
