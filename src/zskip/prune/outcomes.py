"""The truth values of SQL that a predicate may have among the rows of each file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zskip.records import Bools


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """For each file, whether some row may be true, false, or null; a mask may be set needlessly, never unset wrongly.

    Three masks instead of one make NOT exact. A file is kept where `may_true` is set; all its rows match where neither
    of the others is.
    """

    may_true: Bools
    may_false: Bools
    may_null: Bools

    @classmethod
    def unknown(cls, occupied: Bools) -> Outcomes:
        """Any truth value, in files that hold rows."""
        return cls(occupied, occupied, occupied)

    @classmethod
    def constant(cls, value: bool | None, occupied: Bools) -> Outcomes:
        """One value for every row."""
        none = np.zeros_like(occupied)
        return cls(*(occupied if value is truth else none for truth in (True, False, None)))

    def __invert__(self) -> Outcomes:
        return Outcomes(self.may_false, self.may_true, self.may_null)

    def __and__(self, other: Outcomes) -> Outcomes:
        """Kleene's AND, as if the rows of a file could be paired in any way."""
        return Outcomes(
            self.may_true & other.may_true,
            self.may_false | other.may_false,
            (self.may_null & (other.may_null | other.may_true)) | (other.may_null & self.may_true),
        )

    def __or__(self, other: Outcomes) -> Outcomes:
        return ~(~self & ~other)

    def without_null(self) -> Outcomes:
        """Rule out null."""
        return Outcomes(self.may_true, self.may_false, np.zeros_like(self.may_null))

    @property
    def full(self) -> Bools:
        """(files,) whether every row is true."""
        return ~self.may_false & ~self.may_null
