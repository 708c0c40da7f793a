"""The order of a key's bits, found by search: greedily first, then by hill climbing."""

from __future__ import annotations

import itertools
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
_PAIRED, _LEADING = 6, (1, 2, 3, 5, 8)
_LEAST_ROWS, _ROWS_PER_FILE = 20_000, 60
"""Of the sample, that patterns are tried on."""

Pattern = tuple[int, ...]


class PatternSearch:
    """Searches patterns for a workload, of whose queries some part may be replaced by others."""

    def __init__(
        self,
        sample: Sample,
        ranks: Sequence[Ranks],
        bounds: Sequence[Values],
        files: int,
        workload: Workload,
        others: Workload,
        *,
        seed: int = 0,
    ) -> None:
        """ranks: dense ranks of the sample; bounds: as a layout has them.

        Files are cut equally here: the cuts come later.
        """
        self._share = _share(sample, ranks, bounds, files, (workload, others), seed)
        self._columns = len(bounds)
        self._length = max(files - 1, 1).bit_length() + _MORE_BITS
        self._seed = seed
        self._known: dict[Pattern, list[float]] = {}

    def cost(self, pattern: Pattern, weight: float) -> float:
        """Share of the rows that is read; weight: of the others."""
        if pattern not in self._known:
            self._known[pattern] = self._share(pattern)
        asked, others = self._known[pattern]
        return (1 - weight) * asked + weight * others

    def best(self, weight: float, evaluations: int = _EVALUATIONS) -> set[Pattern]:
        """The columns of the first bits of a key, most significant first, under which queries read little.

        They are found from two sides, since files are cut equally here, and which of them is better once cuts are
        fitted only a fit can tell. weight: of the others; evaluations: patterns that each climb looks at, at most.
        """
        columns, length = self._columns, self._length

        def cost(pattern: Pattern) -> float:
            return self.cost(pattern, weight)

        greedy: Pattern = ()
        for _ in range(length):
            greedy = min(((*greedy, column) for column in range(columns)), key=cost)
        zorder = tuple(i % columns for i in range(length))
        first = min([zorder, greedy], key=cost)
        second = min(_blocks(columns, length) or [zorder], key=cost)
        return {self._climbed(first, cost, evaluations), self._climbed(second, cost, evaluations)}

    def _climbed(self, best: Pattern, cost: Callable[[Pattern], float], evaluations: int) -> Pattern:
        random = np.random.default_rng(self._seed)
        already, idle = len(self._known), 0
        for _ in range(4 * evaluations):
            if len(self._known) - already >= evaluations or idle >= _PATIENCE or self._columns == 1:
                break
            tried = _mutated(best, self._columns, random)
            idle += 1
            if cost(tried) < cost(best) - 1e-9:
                best, idle = tried, 0
        return best


def _blocks(columns: int, length: int) -> list[Pattern]:
    """Each column by itself, and of few columns some bits of each before those of each other.

    >>> _blocks(2, 3)
    [(0, 0, 0), (1, 1, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1), (1, 1, 0)]
    """
    found = [(column,) * length for column in range(columns)]
    pairs = list(itertools.permutations(range(columns), 2)) if columns <= _PAIRED else []
    leading = [bits for bits in _LEADING if bits < length]
    return found + [(one,) * bits + (other,) * (length - bits) for bits in leading for one, other in pairs]


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


def _share(
    sample: Sample,
    ranks: Sequence[Ranks],
    bounds: Sequence[Values],
    files: int,
    workloads: Sequence[Workload],
    seed: int,
) -> Callable[[Pattern], list[float]]:
    """Share of the rows that each workload reads from files of equal size along a pattern."""
    nulls = [bool(n.any()) for n in sample.nulls]
    most = [needed_bits(len(b), null) for b, null in zip(bounds, nulls, strict=True)]
    touches = [Touch(workload) for workload in workloads]
    rows = min(len(sample), max(_LEAST_ROWS, _ROWS_PER_FILE * files))
    some = np.random.default_rng(seed).permutation(len(sample))[:rows]
    parts = zip(sample.columns, sample.nulls, bounds, strict=True)
    places = [rank(values[some], nulls_of[some], b) for values, nulls_of, b in parts]
    ranks = [of[some] for of in ranks]
    starts: Ints = np.unique(np.arange(min(files, rows)) * rows // max(min(files, rows), 1))
    sizes: Floats = np.diff(np.append(starts, rows)).astype(np.float64)

    def share(prefix: Pattern) -> list[float]:
        pattern = complete_pattern(prefix, most, _KEY_BITS)
        used = np.bincount(np.array(pattern), minlength=len(bounds)).tolist()
        parts = zip(bounds, nulls, used, places, strict=True)
        codes = [rank_codes(len(b), null, width)[place] for b, null, width, place in parts]
        keys = np.zeros(rows, np.int64)
        for column, column_codes in enumerate(codes):
            keys |= spread(column_codes, pattern, column)
        order = np.argsort(keys, kind="stable")
        ends = boxes(ranks, order, starts)
        return [float(np.average(touch.share(*touch.classes(*ends)), weights=sizes)) for touch in touches]

    return share
