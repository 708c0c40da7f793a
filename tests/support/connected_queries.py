"""Random queries as DataFrames of a Spark Connect session; the same seed gives the same query in any session."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES, ROWS = 12, 40
Literals = Mapping[str, Sequence[Any]]
DAY = dt.date(2024, 1, 1)
START = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
NUMBERS = [3, 0, -1, 77, 200, 2**31, 5.5, float("nan"), decimal.Decimal("41.50"), None]
OF_TYPE: Literals = {
    "bigint": NUMBERS,
    "int": NUMBERS,
    "double": [1.5, 0.0, -0.0, float("nan"), float("inf"), 100, None],
    "float": [1.5, 0.1, float("nan"), 7, None],
    "decimal(12,2)": [decimal.Decimal("41.50"), decimal.Decimal("3.005"), 7, 120.25, None],
    "string": ["n007", "n1", "", "it's", "N007", "7", None],
    "date": [DAY, DAY + dt.timedelta(days=20), "2024-01-09", START, None],
    "timestamp": [START, START + dt.timedelta(days=9, hours=5), DAY, "2024-01-05 10:00:00", None],
    "boolean": [True, False, None],
}


def write_table(root: Path, seed: int, *, partitioned: bool) -> None:
    """Write a table of files that are narrow in `id`, with nulls and NaN."""
    draw = np.random.default_rng(seed)
    for i in range(FILES):
        ids = np.arange(i * ROWS, (i + 1) * ROWS)
        nulls = draw.random(ROWS) < (0.0, 0.2, 1.0)[int(draw.integers(3))]
        x = np.where(draw.random(ROWS) < 0.1, np.nan, ids / 3)
        days = [DAY + dt.timedelta(days=int(n) // 10) for n in ids]
        times = [START + dt.timedelta(hours=int(n)) for n in ids]
        columns = {
            "id": pa.array(ids),
            "v": pa.array((ids // 7).astype(np.int32), mask=nulls),
            "x": pa.array(x, mask=draw.random(ROWS) < 0.1),
            "f": pa.array((ids / 10).astype(np.float32)),
            "d": pa.array([decimal.Decimal(int(n)) / 4 for n in ids], pa.decimal128(12, 2)),
            "s": pa.array([f"n{n:03d}" for n in ids], mask=draw.random(ROWS) < 0.1),
            "dt": pa.array(days),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "bo": pa.array(ids % 97 > 40, mask=nulls),
            "st": pa.array([{"q": int(n), "r": f"r{n:03d}"} for n in ids]),
        }
        place = root / f"p={i % 3}" if partitioned else root
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), place / f"part-{i:02d}.parquet")


class RandomFrames:
    """Draws frames over what `open_table` opens."""

    def __init__(self, seed: int, open_table: Callable[[str], Any], tables: Sequence[str]) -> None:
        from pyspark.sql.connect import functions

        self.random = random.Random(seed)
        self.functions = functions
        self.open_table = open_table
        self.tables = tables
        self.aliases = 0

    def frame(self, depth: int = 0) -> Any:
        """A frame of some steps."""
        frame = self.open_table(self.random.choice(self.tables))
        for _ in range(self.random.randint(1, 4)):
            step = self.random.choice(STEPS if depth < 2 else STEPS[:-2])
            frame = getattr(self, step)(frame, depth)
        return frame

    def where(self, frame: Any, _: int) -> Any:
        return frame.where(self.condition(frame))

    def select(self, frame: Any, _: int) -> Any:
        names = self.random.sample(frame.columns, min(len(frame.columns), self.random.randint(3, 6)))
        columns = []
        for i, name in enumerate(names):
            column = self.functions.col(f"`{name}`")
            kind = self.random.random()
            others = [n for n, t in frame.dtypes if t in ("bigint", "int")]
            if kind < 0.2:
                column = column.alias(self.random.choice([f"{name}_{i}", *frame.columns]))
            elif kind < 0.3 and others:
                column = (self.functions.col(f"`{others[0]}`") + i).alias(name)
            columns.append(column)
        renamed = frame.select(*columns)
        return renamed if len({n.lower() for n in renamed.columns}) == len(renamed.columns) else frame

    def compute(self, frame: Any, _: int) -> Any:
        numbers = [n for n, t in frame.dtypes if t in ("bigint", "int")]
        name = self.random.choice([*frame.columns, "new"])
        if not numbers:
            return frame
        choice = self.random.random()
        if choice < 0.4:
            return frame.withColumn(name, self.functions.col(self.random.choice(numbers)) + 1)
        if choice < 0.7 and "new" not in frame.columns:
            return frame.withColumnRenamed(self.random.choice(numbers), "new")
        return frame.drop(name) if len(frame.columns) > 3 else frame

    def alias(self, frame: Any, _: int) -> Any:
        self.aliases += 1
        return frame.alias(f"t{self.aliases}").where(self.condition(frame, f"t{self.aliases}."))

    def group(self, frame: Any, _: int) -> Any:
        keys = [n for n, t in frame.dtypes if not t.startswith("struct")][:2]
        if not keys:
            return frame
        keys = self.random.sample(keys, self.random.randint(1, len(keys)))
        grouped = frame.groupBy(*keys).agg(self.functions.count("*").alias("n"), self.functions.min(keys[0]).alias("m"))
        return grouped.where(self.condition(grouped))

    def distinct(self, frame: Any, _: int) -> Any:
        return frame.distinct()

    def top(self, frame: Any, _: int) -> Any:
        plain = [n for n, t in frame.dtypes if not t.startswith("struct")]
        rows = frame.select(*plain) if plain else frame
        return rows.orderBy(*rows.columns).limit(self.random.randint(1, 30))

    def union(self, frame: Any, depth: int) -> Any:
        plain = [n for n, t in frame.dtypes if not t.startswith("struct")]
        other = self.frame(depth + 1)
        shared = [
            n for n in plain if dict(other.dtypes).get(n) is not None and not dict(other.dtypes)[n].startswith("st")
        ]
        if not shared:
            return frame
        one, two = frame.select(*shared), other.select(*shared)
        if self.random.random() < 0.2 and one.dtypes == two.dtypes:
            return self.random.choice([one.intersect(two), one.exceptAll(two), one.unionByName(two)])
        return one.union(two)

    def join(self, frame: Any, depth: int) -> Any:
        kind = self.random.choice(["inner", "left", "right", "full", "left_semi", "left_anti"])
        other, f = self.frame(depth + 1), self.functions
        numbers = [[n for n, t in side.dtypes if t in ("bigint", "int")] for side in (frame, other)]
        shared = [n for n in numbers[0] if n in numbers[1]]
        if shared and self.random.random() < 0.5:
            key = self.random.choice(shared)
            mine = [key, *(n for n in frame.columns if n not in other.columns)]
            joined = frame.select(*mine).join(other, key, kind)
        elif all(numbers):
            self.aliases += 2
            one, two = f"t{self.aliases - 1}", f"t{self.aliases}"
            left = frame.select(*(n for n in frame.columns if n not in other.columns or n == numbers[0][0]))
            left, right = left.withColumnRenamed(numbers[0][0], "lk").alias(one), other.alias(two)
            on = f.col(f"{one}.lk") == f.col(f"{two}.{self.random.choice(numbers[1])}")
            joined = left.join(right, on & self.condition(right, f"{two}.") & self.condition(left, f"{one}."), kind)
        else:
            return frame
        names = [n.lower() for n in joined.columns]
        return joined.where(self.condition(joined)) if len(set(names)) == len(names) else frame

    def condition(self, frame: Any, prefix: str = "", depth: int = 0) -> Any:
        """A condition on columns of a frame."""
        f = self.functions
        if depth < 2 and self.random.random() < 0.4:
            one, two = self.condition(frame, prefix, depth + 1), self.condition(frame, prefix, depth + 1)
            return self.random.choice([one & two, one & two, one | two, ~one])
        typed = [(n, t) for n, t in frame.dtypes if t in OF_TYPE] or [("nothing", "int")]
        name, kind = self.random.choice(typed)
        if "st" in frame.columns and self.random.random() < 0.1:
            return f.col(f"{prefix}st.q") < self.random.choice([30, 100, 300])
        column = f.col(f"{prefix}{name}")
        if not prefix and self.random.random() < 0.3:
            column = frame[name]
        values = OF_TYPE[kind]
        value = self.random.choice([*values, *values, f"{prefix}{self.random.choice(typed)[0]}"][: 2 * len(values)])
        forms = [
            lambda: column == value, lambda: column < value, lambda: column >= value, lambda: column != value,
            lambda: column.eqNullSafe(value), lambda: column.isNull(), lambda: column.isNotNull(),
            lambda: column.between(value, self.random.choice(values)),
            lambda: column.isin([v for v in values[:3] if type(v) is type(values[0])]),
        ]  # fmt: skip
        if kind == "string":
            forms += [lambda: column.startswith("n01"), lambda: column.like("n0%7"), lambda: f.upper(column) == "N007"]
            forms += [lambda: f.expr(f"{prefix}{name} LIKE '%7' OR {prefix}{name} IN ('n001', \"n002\")")]
        if kind in ("bigint", "int"):
            forms += [lambda: f.expr(f"{prefix}{name} BETWEEN 5 AND 60 -- {name}"), lambda: column + 1 > 400]
            forms += [lambda: column % 7 == 3, lambda: column.cast("string") == "7"]
        if kind in ("date", "timestamp"):
            forms += [lambda: f.year(column) == 2024, lambda: f.expr(f"{prefix}{name} > DATE '2024-01-10'")]
            forms += [lambda: f.date_trunc("day", column) <= START, lambda: f.to_date(column) == f.lit(DAY)]
        return self.random.choice(forms)()


STEPS = ("where", "where", "where", "select", "compute", "alias", "group", "distinct", "top", "union", "join")


def rows_of(frame: Any) -> list[str] | str:
    """The rows in a comparable form; the kind of error where there is one."""
    try:
        return sorted(map(str, frame.collect()))
    except Exception as error:
        return f"{type(error).__name__} {getattr(error, 'getErrorClass', lambda: '')()}"
