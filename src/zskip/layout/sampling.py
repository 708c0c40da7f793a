"""The number of rows to draw for a layout, and the weight of each drawn row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zskip.layout.ranks import BOUNDS
from zskip.records import Bools, Floats, Ints

ROWS_PER_FILE = 200
SMALLEST_SAMPLE, LARGEST_SAMPLE = 50_000, 1_000_000


def bernoulli_fraction(rows: int, files: int) -> float:
    """The share of rows to draw from a known number: 200 rows per file, at least 50,000, at most 1e6.

    >>> bernoulli_fraction(12_000_000, 64) == 50_000 / 12_000_000
    True
    """
    sample_size = min(max(ROWS_PER_FILE * files, SMALLEST_SAMPLE), LARGEST_SAMPLE)
    return min(1.0, sample_size / max(rows, 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservoirPlan:
    """Draw from an unknown number of rows, by a reservoir in each of Spark's partitions.

    The process of Spark's `RangePartitioner`, which Delta and Hudi use for their curves.
    """

    sample_size: int
    """Rows to draw in total."""
    rows_per_partition: int
    """Size of each reservoir."""

    @classmethod
    def of(cls, partitions: int, bounds: int = BOUNDS) -> ReservoirPlan:
        """Plan for a number of partitions: min(20 x bounds, 1e6) rows, each reservoir three times its equal part.

        >>> ReservoirPlan.of(8)
        ReservoirPlan(sample_size=81920, rows_per_partition=30720)
        """
        size = min(20 * bounds, LARGEST_SAMPLE)
        return cls(sample_size=size, rows_per_partition=math.ceil(3.0 * size / max(partitions, 1)))

    def fraction(self, counts: Ints) -> float:
        """The plain share of rows, once the number of rows in each partition is known."""
        return min(1.0, self.sample_size / max(int(counts.sum()), 1))

    def imbalanced(self, counts: Ints) -> Bools:
        """Whether a partition has too many rows for its reservoir: draw from it again, at `fraction`.

        counts: (partitions,) rows.
        """
        return self.fraction(counts) * counts > self.rows_per_partition

    def weights(self, counts: Ints) -> Floats:
        """The rows that each drawn row stands for, in each partition: rows drawn again weigh 1 / fraction.

        counts: (partitions,) rows.
        """
        drawn_rows = np.minimum(counts, self.rows_per_partition)
        weights = counts / np.maximum(drawn_rows, 1)
        return np.where(self.imbalanced(counts), 1.0 / self.fraction(counts), weights)
