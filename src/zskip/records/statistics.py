"""What is known of the columns of each file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from zskip.records.arrays import Bools, Ints, Values
from zskip.types import DataType

ALL_NULL = int(np.iinfo(np.int64).max)
"""Stands for a number of nulls: every row is null, however many rows there are."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ColumnStats:
    """What is known of one column in each file; arrays of (files,)."""

    type: DataType
    lower: Values
    """No value is below it, nulls and NaN aside; meaningful where `bounded`. In a file of nulls and NaN alone it may be
    above `upper`."""
    upper: Values
    bounded: Bools
    """Whether `lower` and `upper` are known."""
    nulls: Ints
    """Number of nulls, -1 where unknown; `ALL_NULL` where all rows are null, even if their number is unknown."""
    may_nan: Bools
    """Whether the file may hold NaN (false for all types but float and double)."""

    def take(self, indices: npt.NDArray[np.integer[Any]]) -> ColumnStats:
        """The statistics of the files at some indices."""
        return ColumnStats(
            type=self.type,
            lower=self.lower[indices],
            upper=self.upper[indices],
            bounded=self.bounded[indices],
            nulls=self.nulls[indices],
            may_nan=self.may_nan[indices],
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Known:
    """What a table format's own metadata says about the files of a snapshot; true, but not always exact."""

    rows: Ints
    """(files,) -1 where unknown."""
    column: Callable[[str], ColumnStats | None]
    """Bounds and nulls of a top-level column by name, arrays of (files,); None where nothing is known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", cache(self.column))  # It is decoded when it is asked for.

    def take(self, indices: Ints) -> Known:
        """What the metadata says about the files at some indices."""

        def column(name: str) -> ColumnStats | None:
            stats = self.column(name)
            return None if stats is None else stats.take(indices)

        return Known(rows=self.rows[indices], column=column)
