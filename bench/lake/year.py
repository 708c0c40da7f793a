"""A year of a lake: what queries read under five ways to spend a nightly budget.

    PYTHONPATH=src .venv/bin/python bench/lake/year.py [--seed 1 --tables 200 --days 365]

No Spark, no files: a table is runs of bytes that were clustered together, of each of which a query reads a share and at
least a file; the bytes that are in no order, which every query reads; their files; and deleted bytes. Most tables have
a backlog on the first day. Sizes, appends, deletes
and queries are skewed, and a tenth of the tables changes its use each month. All ways have the same rewrites to choose
from, for each table its tail with those of its smallest runs that save most for their bytes; they differ in the order:

- ours: bytes saved for each byte written, by `zskip.lake.ranking.Rewrite`, at the rate of recorded queries; what does
  not pay in 30 days is left. What a rewrite saves is known with an error (--noise), as predictions have it.
- round robin: one table after the other, where it stopped the night before.
- largest first: the tables with the most bytes.
- AutoComp (arXiv 2504.04186): 0.7 of the normalized number of small files that go, minus 0.3 of the normalized cost;
  the weights are the defaults of LinkedIn's OpenHouse (SimpleWeightedSumDataLayoutStrategyScorer).
- oracle: the real queries of the coming weeks, and exact savings.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from zskip.advisor.maintenance.planner import Batch
from zskip.advisor.workload.reservoir import LIFE_MS
from zskip.lake.ranking import Rewrite
from zskip.lake.results import OPEN_COST

FILE = 256_000_000
"""Bytes of a file as a rewrite writes it."""
LIFE_DAYS = LIFE_MS / 86_400_000
INTAKE = 0.02
"""Of the first day's bytes, that come in a day."""
AHEAD = 28
"""Days that the oracle knows."""
WAYS = ("ours", "round robin", "largest first", "AutoComp", "oracle")


@dataclass
class Lake:
    """(tables,) what is fixed, and (days, tables) what happens."""

    clustered: np.ndarray
    backlog: np.ndarray
    """Bytes of it that were never put in order, on the first day."""
    file: np.ndarray
    """Bytes of a file as it comes."""
    reads: np.ndarray
    """The share of clustered bytes that a query reads."""
    error: np.ndarray
    """The factor by which predicted savings are off."""
    appended: np.ndarray
    files: np.ndarray
    """Of the appended bytes."""
    deleted: np.ndarray
    queries: np.ndarray


def make(seed: int, tables: int, days: int, noise: float) -> Lake:
    rng = np.random.default_rng(seed)
    clustered = np.exp(rng.normal(np.log(50e9), 1.8, tables))
    daily = rng.random(tables) < 0.5
    share = np.exp(rng.normal(np.log(0.004), 0.9, tables))
    often = np.where(daily, 1.0, rng.uniform(0.03, 0.3, tables))
    came = rng.random((days, tables)) < often
    appended = came * (clustered * share / np.maximum(often, 0.05)) * rng.lognormal(0, 0.3, (days, tables))
    appended *= INTAKE * clustered.sum() * days / appended.sum()
    file = np.exp(rng.normal(np.log(32e6), 1.8, tables))
    deletes = (rng.random(tables) < 0.3) * rng.uniform(0.0005, 0.004, tables)
    rate = 1 / (1 + rng.permutation(tables)) ** 0.9 * 2_000
    rates = np.empty((days, tables))
    for day in range(days):
        if day % 30 == 0 and day:
            moved = rng.permutation(tables)[: tables // 10]
            rate[moved] = rate[rng.permutation(moved)]
        week = 0.4 if day % 7 >= 5 else 1.0
        rates[day] = rate * week
    return Lake(
        clustered=clustered,
        backlog=clustered * (rng.random(tables) < 0.6) * rng.uniform(0.2, 1.0, tables),
        file=file,
        reads=np.exp(rng.uniform(np.log(0.005), np.log(0.3), tables)),
        error=rng.lognormal(0, noise, tables),
        appended=appended,
        files=np.ceil(appended / file),
        deleted=np.tile(deletes, (days, 1)) * rng.lognormal(0, 0.3, (days, tables)),
        queries=rng.poisson(rates).astype(np.float64),
    )


class Year:
    """The state of the tables under one way."""

    def __init__(self, lake: Lake, way: str, budget: float) -> None:
        self.lake, self.way, self.budget = lake, way, budget
        self.runs = [np.array([size]) for size in (lake.clustered - lake.backlog).tolist()]
        """Of each table, bytes that were clustered together, ascending."""
        self.dead = np.zeros_like(lake.clustered)
        self.tail = lake.backlog.copy()
        self.tail_files = np.ceil(lake.backlog / lake.file)
        self.recorded = np.zeros_like(lake.clustered)
        self.read = self.written = 0.0
        self.next = 0
        self.candidates: dict[int, tuple[int, int, float, float]] = {}
        self.costs = np.zeros_like(lake.clustered)
        for i in range(len(self.runs)):
            self.changed(i)

    def run(self) -> float:
        """Play all days; the bytes that queries read, those counted for opening files included."""
        for day in range(len(self.lake.queries)):
            queries = self.lake.queries[day]
            self.read += float(queries @ self.costs)
            self.recorded = self.recorded * np.exp(-1 / LIFE_DAYS) + queries
            self.tail += self.lake.appended[day]
            self.tail_files += self.lake.files[day]
            live = np.array([runs.sum() for runs in self.runs])
            self.dead = np.minimum(self.dead + self.lake.deleted[day] * live, 0.5 * live)
            for i in np.flatnonzero(self.lake.appended[day] + self.lake.deleted[day]).tolist():
                self.changed(i)
            if self.way != "none":
                self.spend(day)
        return self.read

    def changed(self, i: int) -> None:
        """Compute anew what a query reads of a table, and its best rewrite: its tail with its k smallest runs."""
        share, runs, tail = self.lake.reads[i], self.runs[i], self.tail[i]
        grown = runs * (1 + self.dead[i] / max(runs.sum(), 1))
        of_run = _cost(share, grown)
        self.costs[i] = of_run.sum() + tail + OPEN_COST * self.tail_files[i]
        sizes = tail + np.concatenate([[0.0], np.cumsum(runs)])
        before = tail + OPEN_COST * self.tail_files[i] + np.concatenate([[0.0], np.cumsum(of_run)])
        saved = before - _cost(share, sizes)
        k = int(np.argmax(saved / np.maximum(sizes, 1)))
        if saved[k] > 0 and sizes[k] > 0:
            self.candidates[i] = i, k, float(sizes[k]), float(saved[k])
        else:
            self.candidates.pop(i, None)

    def spend(self, day: int) -> None:
        left = self.budget * (self.tail.sum() + sum(runs.sum() for runs in self.runs))
        for i, k, size, *_ in self.order(day):
            part = 1.0
            if size > left:
                if k or left < 0.05 * size:
                    continue
                part = left / size
            left -= part * size
            self.written += part * size
            new = part * self.tail[i] + self.runs[i][:k].sum()
            self.dead[i] *= self.runs[i][k:].sum() / max(self.runs[i].sum(), 1)
            self.runs[i] = np.sort(np.append(self.runs[i][k:], new))
            self.tail[i] *= 1 - part
            self.tail_files[i] = np.floor(self.tail_files[i] * (1 - part))
            self.changed(i)
            self.next = (i + 1) % len(self.tail)

    def order(self, day: int) -> list[tuple[int, int, float, float]]:
        """The rewrites in the order of the way: table, runs, bytes, bytes that a query is spared."""
        found = list(self.candidates.values())
        if self.way == "round robin":
            return sorted(found, key=lambda r: (r[0] - self.next) % len(self.tail))
        if self.way == "largest first":
            return sorted(found, key=lambda r: -(self.runs[r[0]].sum() + self.tail[r[0]]))
        if self.way == "AutoComp":
            gone = np.array([self.tail_files[i] + k for i, k, *_ in found])
            cost = np.array([size for _, _, size, _ in found])
            score = 0.7 * _normalize(gone) - 0.3 * _normalize(cost)
            return [found[k] for k in np.argsort(-score, kind="stable").tolist()]
        if self.way == "oracle":
            ahead = self.lake.queries[day + 1 : day + 1 + AHEAD].sum(axis=0)
            worth = [spared * ahead[i] / size for i, _, size, spared in found]
            return [found[k] for k in np.argsort([-w for w in worth], kind="stable").tolist() if worth[k] > 0]
        age = LIFE_DAYS * -np.expm1(-(day + 1) / LIFE_DAYS)
        batch = (Batch(positions=np.zeros(1, np.int64), files=1, bytes=1, saves=0.0),)
        ranked = []
        for rewrite in found:
            i, _, size, spared = rewrite
            a_day = self.recorded[i] / age * self.lake.error[i]
            value = Rewrite(batches=batch, bytes=int(size) + 1, saved_bytes=spared * a_day, saved_files=0.0)
            if value.pays(1.0):
                ranked.append((value.gain, rewrite))
        return [rewrite for _, rewrite in sorted(ranked, key=lambda pair: -pair[0])]


def _cost(share: float, sizes: np.ndarray) -> np.ndarray:
    """The bytes that a query reads of runs, each at least a file, with what opening the files costs."""
    files = np.where(sizes > 0, np.maximum(np.ceil(share * sizes / FILE), 1), 0)
    return np.minimum(np.maximum(share * sizes, FILE), sizes) + OPEN_COST * files


def _normalize(values: np.ndarray) -> np.ndarray:
    """Min-max normalization, as in the paper."""
    if not len(values):
        return values
    spread = values.max() - values.min()
    return (values - values.min()) / (spread if spread > 0 else 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--noise", type=float, default=0.3)
    arguments = parser.parse_args()
    started = time.process_time()
    lake = make(arguments.seed, arguments.tables, arguments.days, arguments.noise)
    total = lake.clustered.sum()
    nothing = Year(lake, "none", 0.0).run()
    print(f"seed {arguments.seed}, {arguments.tables} tables, {total / 1e12:.1f} TB, {arguments.days} days; without ")
    print(
        f"maintenance queries read {nothing / 1e15:.2f} PB. Shares of what the oracle saves (read, written in lakes):"
    )
    for budget in (0.01, 0.03, 0.10):
        years = {way: Year(lake, way, budget) for way in WAYS}
        saved = {way: nothing - year.run() for way, year in years.items()}
        cells = [
            f"{way} {saved[way] / saved['oracle']:.3f} ({year.read / total:,.0f}, {year.written / total:.1f})"
            for way, year in years.items()
        ]
        print(f"{budget:4.0%}: " + "  ".join(cells))
    print(f"{time.process_time() - started:.0f} processor seconds")


if __name__ == "__main__":
    main()
