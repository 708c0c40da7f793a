"""A workload: the predicates of a table's queries, each with its weight."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zskip.errors import InputError
from zskip.rows import Block, Grid, Share, shows, to_text

_LITERAL = re.compile(
    r"(`(?:[^`]|``)*`)"  # a quoted name stays
    r"|\b(?:DATE|TIME|TIMESTAMP_NTZ|TIMESTAMP|X)\s*'(?:[^'\\]|\\.|'')*'"
    r"|'(?:[^'\\]|\\.|'')*'"
    r"|(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[a-zA-Z]{0,2}\b",
    re.IGNORECASE | re.DOTALL,
)
_LIST = re.compile(r"\(\?(?:, \?)+(?:, \.\.\.)?\)")
_SHOWN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """One predicate of a workload."""

    where: str
    """SQL; timestamps without a zone are in UTC where zskip recorded it."""
    weight: float = 1.0
    """Its frequency relative to the others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """An entry of a workload that cannot be used."""

    number: int
    """Counted from 1."""
    text: str
    reason: str

    def __str__(self) -> str:
        return f"query {self.number} ({_short(self.text)}): {self.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """The queries that a table serves."""

    queries: tuple[Query, ...]
    """Each text once."""
    scans: int = 0
    """Number of scans since recording began, including those that the sample left out."""
    since: dt.datetime | None = None
    """Time of the first scan, in UTC; None if unknown."""
    rows_read: float | None = None
    """Mean number of rows in the files that the scans read; None if unknown."""
    files_read: float | None = None
    problems: tuple[Problem, ...] = ()
    """Entries that cannot be used."""
    recording: bool = False
    """Whether scans of the table are being recorded."""
    source: str = "given"
    """`recorded` or `given`."""

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def weight(self) -> float:
        """Of all queries together."""
        return math.fsum(query.weight for query in self.queries)

    def shapes(self) -> dict[str, float]:
        """Share of the weight (0 to 1) of each predicate, its literals left out, the largest first.

        >>> workload = Workload.of(["a = 1", "a = 2", ("b IN (1, 2)", 2)])
        >>> workload.shapes()
        {'a = ?': 0.5, 'b IN (?)': 0.5}
        """
        shares: Counter[str] = Counter()
        for query in self.queries:
            shares[shape(query.where)] += query.weight / self.weight  # type: ignore[assignment]
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))

    @classmethod
    def of(cls, entries: Iterable[str | tuple[str, float] | Mapping[str, object] | Query]) -> Workload:
        """Make a workload of predicates, each as text, as (text, weight), or as {"where": ..., "weight": ...}.

        Raises InputError for anything else.
        """
        if isinstance(entries, str):
            raise InputError(f"workload={entries!r} is one text; give a list of predicates, or the path of a file")
        return cls(queries=merge([_read(entry, i) for i, entry in enumerate(entries, 1)]))

    def __str__(self) -> str:
        return to_text(_blocks(self))


def shape(where: str) -> str:
    """Replace each literal of a predicate by a question mark.

    >>> shape("l_partkey = 155190L AND `7` IN ('a', 'b''c') AND d >= DATE '1994-01-01'")
    'l_partkey = ? AND `7` IN (?) AND d >= ?'
    """
    return _LIST.sub("(?)", _LITERAL.sub(lambda match: match[1] or "?", where))


def merge(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Merge queries of the same text, adding up their weights."""
    weights: dict[str, float] = {}
    for query in queries:
        weights[query.where] = weights.get(query.where, 0.0) + query.weight
    return tuple(Query(where=where, weight=weight) for where, weight in weights.items())


def draw(queries: tuple[Query, ...], most: int, seed: int) -> tuple[Query, ...]:
    """Draw at most `most` queries by weight, all draws weighing the same; take all if they are few."""
    if len(queries) <= most:
        return queries
    times = Counter(random.Random(seed).choices(range(len(queries)), [query.weight for query in queries], k=most))
    total = math.fsum(query.weight for query in queries)
    return tuple(Query(where=queries[i].where, weight=total * n / most) for i, n in sorted(times.items()))


def _read(entry: object, number: int) -> Query:
    weight: object = 1.0
    where = entry
    if isinstance(entry, Query):
        where, weight = entry.where, entry.weight
    elif isinstance(entry, Mapping):
        where, weight = entry.get("where", entry.get("sql")), entry.get("weight", 1.0)
    elif isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 2:
        where, weight = entry
    if not isinstance(where, str):
        raise InputError(f"query {number} of the workload is {entry!r}; write SQL text, or (text, weight)")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise InputError(f"query {number} of the workload has the weight {weight!r}; write a number above 0")
    return Query(where=where, weight=float(weight))


def _short(text: str, limit: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 4] + " ..."


@shows(Workload)
def _blocks(workload: Workload) -> list[Block]:
    if not workload.queries:
        state = "is being recorded, and no scan has been seen yet" if workload.recording else "is not recorded"
        return [f"the workload {state}"]
    since = "" if workload.since is None else f" since {workload.since:%Y-%m-%d %H:%M} UTC"
    many = f"{workload.scans:,} scans{since}, " if workload.scans else ""
    shapes = list(workload.shapes().items())
    rows = tuple((_short(text), Share(share, f"{100 * share:.0f} %")) for text, share in shapes[:_SHOWN])
    more = [f"and {len(shapes) - _SHOWN:,} other shapes"] if len(shapes) > _SHOWN else []
    return [
        f"{many}{len(workload.queries):,} different predicates ({workload.source})",
        Grid(("shape", "share"), rows),
        *more,
        *map(str, workload.problems),
    ]
