"""Three data sets and twelve workloads over them, for layouts that are fitted to what is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zskip.predicate import Column, Compare, Predicate, conjunction
from zskip.records import Field, Sample
from zskip.types import DataType

DAY = 86_400_000_000
SHARES = np.array([0.03, 0.01, 0.08, 0.12, 0.38, 0.02, 0.2, 0.04, 0.06, 0.01, 0.03, 0.02])


def uniform(rows: int) -> Sample:
    random = np.random.default_rng(1)
    integers = {"c0": random.integers(0, 10**9, rows), "c1": random.integers(0, 10**6, rows)}
    return sample_of({**integers, "c2": random.random(rows), "c3": random.integers(0, 1000, rows)})


def skewed(rows: int) -> Sample:
    """Users by Zipf's law with a favorite category each, growing traffic, an order number near time's order."""
    random = np.random.default_rng(2)
    users = 200_000
    drawn = random.zipf(1.25, 3 * rows)
    user = random.permutation(users)[drawn[drawn <= users][:rows] - 1]
    rows = len(user)
    ts = (random.beta(1.6, 1.0, rows) * 90 * DAY).astype(np.int64) + 1_700_000_000_000_000
    order = np.argsort(np.argsort(ts + random.normal(0, 6 * 3_600e6, rows).astype(np.int64))) + 10_000_000
    category = random.choice(12, rows, p=SHARES / SHARES.sum())
    loyal = random.random(rows) < 0.5
    category[loyal] = random.choice(12, users, p=SHARES / SHARES.sum())[user[loyal]]
    return sample_of({"user_id": user, "ts": ts, "order_id": order, "category": category})


def lineitem(paths: list[Path], rows: int) -> Sample:
    """Six columns of TPC-H lineitem, in no order."""
    names = ["l_shipdate", "l_receiptdate", "l_partkey", "l_quantity", "l_discount", "l_shipmode"]
    table = pa.concat_tables([pq.read_table(path, columns=names) for path in paths]).combine_chunks()
    dates = {name: table[name].cast(pa.int32()).to_numpy() for name in names[:2]}
    mode = np.unique(np.array(table["l_shipmode"].cast(pa.string()).to_pylist()), return_inverse=True)[1]
    floats = {name: table[name].cast(pa.float64()).to_numpy() for name in names[3:5]}
    columns = {**dates, "l_partkey": table["l_partkey"].to_numpy(), **floats, "l_shipmode": mode}
    chosen = np.random.default_rng(3).permutation(table.num_rows)[:rows]
    return sample_of({name: values[chosen] for name, values in columns.items()})


def sample_of(columns: dict[str, Any]) -> Sample:
    """A sample of numbers, without nulls or partitions."""
    kinds = ["double" if values.dtype == np.float64 else "long" for values in columns.values()]
    rows = len(next(iter(columns.values())))
    return Sample(
        fields=tuple(Field(name=name, type=DataType(kind)) for name, kind in zip(columns, kinds, strict=True)),
        columns=tuple(v.astype(np.float64 if v.dtype == np.float64 else np.int64) for v in columns.values()),
        nulls=tuple(np.zeros(rows, np.bool_) for _ in columns),
        partition=np.zeros(rows, np.int32),
        weights=np.ones(rows),
    )


class Asking:
    """Makes up predicates over the values of a data set."""

    def __init__(self, data: Sample, seed: int) -> None:
        self.r = np.random.default_rng(seed)
        self.data = data
        some = np.random.default_rng(123).integers(0, len(data), 200_000)
        self.sorted = [np.sort(values[some]) for values in data.columns]
        self.found: list[Predicate] = []

    def ask(self, **ranges: tuple[float, float]) -> None:
        parts: list[Predicate] = []
        for name, (low, high) in ranges.items():
            field = self.data.fields[int(name[1:])]
            column = Column((field.name,), field.type)
            make: Any = float if field.type.name == "double" else (lambda v: int(np.floor(v)))
            if low == high:
                parts.append(Compare("=", column, make(low)))
                continue
            parts += [Compare(">=", column, make(low))] if np.isfinite(low) else []
            parts += [Compare("<=", column, make(high))] if np.isfinite(high) else []
        self.found.append(conjunction(tuple(parts)))

    def range(self, d: int, share: float) -> tuple[float, float]:
        values = self.sorted[d]
        start = (1 - share) * self.r.random()
        last = len(values) - 1
        return values[int(start * last)], values[min(last, int((start + share) * last))]

    def point(self, d: int) -> tuple[float, float]:
        value = self.data.columns[d][self.r.integers(len(self.data))]
        return value, value


def of_uniform(data: Sample, kind: str, count: int, seed: int) -> list[Predicate]:
    w = Asking(data, seed)
    r = w.r
    for _ in range(count):
        u = r.random()
        if kind == "U1 ranges on two columns":
            a, b = r.choice(4, 2, replace=False)
            w.ask(**{f"c{a}": w.range(a, r.uniform(0.02, 0.2)), f"c{b}": w.range(b, r.uniform(0.02, 0.2))})
        elif kind == "U2 one hot column":
            d = 0 if u < 0.8 else r.integers(1, 4)
            w.ask(**{f"c{d}": w.range(d, r.uniform(0.002, 0.02) if d == 0 else 0.05)})
        elif kind == "U3 mixed templates":
            if u < 0.4:
                w.ask(c0=w.range(0, 0.1), c1=w.range(1, 0.1))
            elif u < 0.7:
                w.ask(c1=w.range(1, 0.001))
            elif u < 0.9:
                w.ask(c2=w.range(2, 0.2), c0=w.range(0, 0.02))
            else:
                w.ask(c3=w.point(3))
        else:
            d = r.integers(0, 4)
            w.ask(**{f"c{d}": w.point(d)})
    return w.found


def of_skewed(data: Sample, kind: str, count: int, seed: int) -> list[Predicate]:
    w = Asking(data, seed)
    r = w.r
    earliest, latest = data.columns[1].min(), data.columns[1].max()

    def days(count: float, recent: bool = True) -> tuple[float, float]:
        age = r.exponential(6) * DAY if recent else r.random() * 85 * DAY
        end = max(latest - age, earliest + count * DAY)
        return end - count * DAY, end

    for _ in range(count):
        u = r.random()
        if kind == "S1 recent dashboards":
            if u < 0.6:
                w.ask(c1=days(r.choice([0.04, 0.25, 1, 7])), c3=w.point(3))
            elif u < 0.8:
                w.ask(c1=days(r.choice([0.25, 1, 7])))
            else:
                w.ask(c0=w.point(0), c1=days(30))
        elif kind == "S2 look-ups":
            if u < 0.5:
                user = float(data.columns[0][r.integers(min(300_000, len(data)))])
                w.ask(c0=(user, user))
            elif u < 0.8:
                w.ask(c2=w.point(2))
            else:
                w.ask(c1=days(1, False), c3=w.point(3))
        elif kind == "S3 two columns":
            a, b = r.choice(4, 2, replace=False)
            both = {d: w.point(3) if d == 3 else w.range(d, r.uniform(0.01, 0.2)) for d in (a, b)}
            w.ask(**{f"c{d}": ends for d, ends in both.items()})
        elif u < 0.7:
            w.ask(c0=w.range(0, r.uniform(0.001, 0.01)), c1=days(r.choice([7, 30]), False))
        else:
            w.ask(c1=days(1), c3=w.point(3))
    return w.found


def of_lineitem(data: Sample, kind: str, count: int, seed: int) -> list[Predicate]:
    """Columns: 0 ship date, 1 receipt date, 2 part, 3 quantity, 4 discount, 5 ship mode."""
    w = Asking(data, seed)
    r = w.r
    first = data.columns[0].min()

    def year() -> tuple[float, float]:
        start = np.floor(r.integers(0, 6) * 365.25 + first)
        return start, start + 364

    def months(count: int = 1) -> tuple[float, float]:
        start = np.floor(first + r.integers(0, 80) * 30.4)
        return start, np.floor(start + 30.4 * count - 1)

    inf = float("inf")
    for _ in range(count):
        u = r.random()
        if kind == "L1 the filters of TPC-H":
            if u < 0.2:
                discount = np.round(r.integers(2, 9) / 100, 2)
                w.ask(c0=year(), c4=(discount - 0.011, discount + 0.011), c3=(-inf, float(r.integers(24, 26)) - 0.5))
            elif u < 0.35:
                w.ask(c0=months())
            elif u < 0.45:
                w.ask(c0=months(3))
            elif u < 0.6:
                w.ask(c1=year(), c5=w.point(5))
            elif u < 0.75:
                w.ask(c2=w.point(2))
            elif u < 0.85:
                quantity = float(r.integers(1, 31))
                w.ask(c3=(quantity, quantity + 10), c5=w.point(5), c2=w.range(2, 0.01))
            elif u < 0.95:
                w.ask(c2=w.range(2, 0.01), c0=year())
            else:
                w.ask(c0=(first + r.integers(1000, 1400), inf))
        elif kind == "L2 mostly parts":
            if u < 0.4:
                w.ask(c2=w.point(2))
            elif u < 0.7:
                w.ask(c2=w.range(2, 0.005), c0=year())
            else:
                w.ask(c0=months())
        elif kind == "L3 two columns":
            a, b = r.choice(6, 2, replace=False)
            both = {d: w.point(d) if d >= 3 else w.range(d, r.uniform(0.01, 0.15)) for d in (a, b)}
            w.ask(**{f"c{d}": ends for d, ends in both.items()})
        elif u < 0.5:
            w.ask(c0=months(int(r.integers(1, 4))), c5=w.point(5))
        elif u < 0.8:
            w.ask(c0=year(), c5=w.point(5), c3=(float(r.integers(40, 46)), inf))
        else:
            w.ask(c1=months())
    return w.found


WORKLOADS = {
    "uniform": (of_uniform, ["U1 ranges on two columns", "U2 one hot column", "U3 mixed templates", "U4 points"]),
    "skewed": (of_skewed, ["S1 recent dashboards", "S2 look-ups", "S3 two columns", "S4 user and time"]),
    "lineitem": (
        of_lineitem,
        ["L1 the filters of TPC-H", "L2 mostly parts", "L3 two columns", "L4 date, mode and quantity"],
    ),
}
