"""The order of a key's bits, found by search: greedily first, then by hill climbing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zskip.layout.curves import complete_pattern, spread
from zskip.layout.predict import boxes
from zskip.layout.ranks import needed_bits, rank, rank_codes
from zskip.layout.workload import Ranks, Touch, Workload
from zskip.records import Floats, Ints, Sample, Values

_EVALUATIONS = 250
_PATIENCE = 100
_MORE_BITS = 6
"""Bits of the pattern that are searched, beyond those that tell the files apart."""
_KEY_BITS = 63

Pattern = tuple[int, ...]


def search_pattern(
    sample: Sample,
    ranks: Sequence[Ranks],
    bounds: Sequence[Values],
    files: int,
    workload: Workload,
    *,
    seed: int = 0,
    evaluations: int = _EVALUATIONS,
) -> Pattern:
    """The columns of the first bits of a key, most significant first, under which the workload reads least.

    ranks: dense ranks of the sample; bounds: as a layout has them. Files are cut equally here: the cuts come later.
    """
    cost = _cost(sample, ranks, bounds, files, workload)
    columns = len(bounds)
    length = max(files - 1, 1).bit_length() + _MORE_BITS
    known: dict[Pattern, float] = {}

    def of(pattern: Pattern) -> float:
        if pattern not in known:
            known[pattern] = cost(pattern)
        return known[pattern]

    starts: list[Pattern] = [tuple(i % columns for i in range(length))]
    starts += [tuple([column] * length) for column in range(columns)]
    greedy: Pattern = ()
    for _ in range(length):
        greedy = min(((*greedy, column) for column in range(columns)), key=of)
    best = min([*starts, greedy], key=of)
    random = np.random.default_rng(seed)
    spent, idle = len(known), 0
    for _ in range(4 * evaluations):
        if spent >= evaluations or idle >= _PATIENCE or columns == 1:
            break
        tried = _mutated(best, columns, random)
        if tried in known:
            continue
        spent, idle = spent + 1, idle + 1
        if of(tried) < of(best) - 1e-9:
            best, idle = tried, 0
    return best


def _mutated(pattern: Pattern, columns: int, random: np.random.Generator) -> Pattern:
    found = list(pattern)
    kind = random.random()
    i, j = random.integers(len(found), size=2).tolist()
    if kind < 0.35:
        found[i] = int(random.integers(columns))
    elif kind < 0.7:
        found[i], found[j] = found[j], found[i]
    elif kind < 0.9:
        found.insert(j, found.pop(i))
    else:
        found.insert(i, int(random.integers(columns)))
        found.pop()
    return tuple(found)


def _cost(
    sample: Sample, ranks: Sequence[Ranks], bounds: Sequence[Values], files: int, workload: Workload
) -> Callable[[Pattern], float]:
    """Share of the rows that the workload reads from files of equal size along a pattern."""
    nulls = [bool(n.any()) for n in sample.nulls]
    most = [needed_bits(len(b), null) for b, null in zip(bounds, nulls, strict=True)]
    touch = Touch(workload)
    places = [rank(v, n, b) for v, n, b in zip(sample.columns, sample.nulls, bounds, strict=True)]
    rows = len(sample)
    starts: Ints = np.unique(np.arange(min(files, rows)) * rows // max(min(files, rows), 1))
    sizes: Floats = np.diff(np.append(starts, rows)).astype(np.float64)

    def cost(prefix: Pattern) -> float:
        pattern = complete_pattern(prefix, most, _KEY_BITS)
        used = np.bincount(np.array(pattern), minlength=len(bounds)).tolist()
        parts = zip(bounds, nulls, used, places, strict=True)
        codes = [rank_codes(len(b), null, width)[place] for b, null, width, place in parts]
        keys = np.zeros(rows, np.int64)
        for column, column_codes in enumerate(codes):
            keys |= spread(column_codes, pattern, column)
        order = np.argsort(keys, kind="stable")
        shares = touch.share(*touch.classes(*boxes(ranks, order, starts)))
        return float(np.average(shares, weights=sizes))

    return cost
