"""A bounded, decaying sample of a stream of predicates, which processes can merge.

Each scan gets the priority t / T + g, where t is its time, T the mean life and g a draw from the standard Gumbel
distribution; the highest priorities stay. That is weighted sampling without replacement (Efraimidis and Spirakis 2006)
with weights that halve with age, and the union of two samples, cut again, is a sample of both streams.
"""

from __future__ import annotations

import json
import math
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from zskip.advisor.workload.workload import Query, merge
from zskip.errors import IndexFormatError

FORMAT = 1
MOST_ENTRIES = 10_000
MOST_BYTES = 1_000_000
MOST_TEXT = 4_000
"""Characters of one predicate; longer ones are counted but not kept."""
LIFE_MS = 30 * 86_400_000 / math.log(2)
"""Mean life of a scan's weight: it halves in 30 days."""
_DROP = 0.9


class Entry(NamedTuple):
    """One scan."""

    priority: float
    time_ms: int
    where: str
    rows: int
    """In the files that it read, -1 if unknown."""
    files: int
    rows_total: int = -1
    """Of the table."""


class DamagedReservoirError(IndexFormatError):
    """The bytes are not a reservoir of this version, or are cut short."""


def priority(time_ms: int, uniform: float) -> float:
    """The priority of a scan; uniform: a random number in (0, 1)."""
    return time_ms / LIFE_MS - math.log(-math.log(uniform))


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservoir:
    """The sample, and the size of the sampled stream."""

    entries: tuple[Entry, ...] = ()
    """The highest priorities first."""
    threshold: float = -math.inf
    """Scans of a lower priority were left out."""
    scans: int = 0
    """Number of scans in the stream."""
    since_ms: int | None = None
    """Time of the first."""

    def add(self, entries: Iterable[Entry], scans: int, threshold: float = -math.inf) -> Reservoir:
        """The sample of this stream and of `scans` more, of which `entries` may stay; threshold: theirs."""
        new = [entry for entry in entries if entry.priority > self.threshold]
        times = [entry.time_ms for entry in new] + ([] if self.since_ms is None else [self.since_ms])
        # A set, because reading a log twice gives the same scans with the same priorities.
        candidates = sorted({*self.entries, *(e for e in new if len(e.where) <= MOST_TEXT)}, reverse=True)
        since = min(times) if times else None
        threshold = max(threshold, self.threshold)
        kept = tuple(entry for entry in candidates if entry.priority > threshold)
        larger = replace(self, entries=kept, threshold=threshold, scans=self.scans + scans, since_ms=since)
        return larger._cut(MOST_ENTRIES)

    def _cut(self, count: int) -> Reservoir:
        if len(self.entries) <= count:
            return self
        threshold = max(self.threshold, self.entries[count].priority)
        return replace(self, entries=self.entries[:count], threshold=threshold)

    def queries(self, now_ms: int) -> tuple[Query, ...]:
        """The sample as weighted predicates that stand for the whole stream, decayed to this moment.

        A scan of weight w stays with the probability p = 1 - exp(-exp(t / T - threshold)), and so counts w / p
        (Horvitz and Thompson 1952).
        """

        def weight(entry: Entry) -> float:
            return math.exp(min((entry.time_ms - now_ms) / LIFE_MS, 0.0)) * self._counts(entry)

        return merge(Query(where=entry.where, weight=weight(entry)) for entry in self.entries)

    def since(self, moment: int) -> tuple[Query, ...]:
        """The scans since a moment in milliseconds, none of them decayed."""
        return merge(Query(where=e.where, weight=self._counts(e)) for e in self.entries if e.time_ms >= moment)

    def shares_since(self, moments: Sequence[int]) -> list[tuple[float | None, int]]:
        """The mean share (0 to 1) of the table's rows that scans read, None without scans, and the number of scans.

        moments: ascending, in milliseconds; each starts a period that ends at the next.
        """
        sums = [(0.0, 0.0, 0)] * (len(moments) + 1)
        for entry in self.entries:
            if entry.rows >= 0 and entry.rows_total > 0:
                period, weight = bisect_right(moments, entry.time_ms), self._counts(entry)
                read, weights, count = sums[period]
                sums[period] = read + weight * entry.rows / entry.rows_total, weights + weight, count + 1
        return [(read / weights if count else None, count) for read, weights, count in sums[1:]]

    def _counts(self, entry: Entry) -> float:
        """The number of scans of its time that an entry stands for."""
        odds = entry.time_ms / LIFE_MS - self.threshold
        return 1 / max(-math.expm1(-math.exp(min(odds, 50.0))), 1e-12)

    def to_bytes(self) -> bytes:
        """A line of JSON with the format and a checksum of the rest, then zlib-compressed JSON; at most 1 MB."""
        reservoir = self
        while True:
            parts = zip(*reservoir.entries, strict=True) if reservoir.entries else iter([[]] * len(Entry._fields))
            document = {
                "threshold": None if math.isinf(reservoir.threshold) else reservoir.threshold,
                "scans": reservoir.scans,
                "since_ms": reservoir.since_ms,
                **dict(zip(Entry._fields, map(list, parts), strict=True)),
            }
            body = zlib.compress(json.dumps(document, separators=(",", ":"), allow_nan=False).encode(), 6)
            if len(body) < MOST_BYTES - 100:
                return b'{"zskip_workload": %d, "crc": "%08x"}\n%s' % (FORMAT, zlib.crc32(body), body)
            reservoir = reservoir._cut(int(len(reservoir.entries) * _DROP))

    @classmethod
    def from_bytes(cls, data: bytes) -> Reservoir:
        """Read what `to_bytes` wrote.

        Raises DamagedReservoirError for anything else, IndexFormatError for another version's bytes.
        """
        try:
            head, _, body = data.partition(b"\n")
            header = json.loads(head)
            if header["zskip_workload"] != FORMAT:
                raise IndexFormatError(
                    f"the recorded workload has format {header['zskip_workload']}, this zskip reads {FORMAT}: update "
                    "zskip, or start anew with Table.workload(clear=True)"
                )
            if header["crc"] != f"{zlib.crc32(body):08x}":
                raise ValueError("its checksum is wrong")
            return _from_document(json.loads(zlib.decompress(body)))
        except (ValueError, LookupError, TypeError, AttributeError, zlib.error, RecursionError) as error:
            raise DamagedReservoirError(f"the recorded workload is damaged ({error})") from error


def _from_document(document: dict[str, Any]) -> Reservoir:
    entries = []
    # Earlier versions did not write the table's number of rows.
    document.setdefault("rows_total", [-1] * len(document["files"]))
    for row in zip(*(document[name] for name in Entry._fields), strict=True):
        entry = Entry._make(row)
        numbers = (entry.time_ms, entry.rows, entry.files, entry.rows_total)
        if not isinstance(entry.where, str) or any(type(n) is not int for n in numbers):
            raise ValueError("its entries are not scans")
        entries.append(entry._replace(priority=float(entry.priority)))
    threshold, scans, since = (document[name] for name in ("threshold", "scans", "since_ms"))
    if type(scans) is not int or type(since) not in (int, type(None)):
        raise ValueError("its counts are not numbers")
    return Reservoir(
        entries=tuple(sorted(entries, reverse=True)),
        threshold=-math.inf if threshold is None else float(threshold),
        scans=scans,
        since_ms=since,
    )
