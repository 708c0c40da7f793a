"""The files that a scan reads, and why: what each kind of pruning takes and gives."""

from __future__ import annotations

from dataclasses import dataclass

from zskip.records import Bools, LeafReport


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Choice:
    """The files that a scan reads, and why."""

    kept: Bools
    """(files,)"""
    full: Bools
    """(files,) files all of whose rows pass the filters that Spark handed over; it keeps some to itself."""
    leaves: tuple[LeafReport, ...]
    seconds: float
