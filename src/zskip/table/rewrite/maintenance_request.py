"""The arguments of a maintain, checked before anything is read or written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from zskip.errors import InputError
from zskip.layout.curves import default_curve
from zskip.layout.fit import check_curve
from zskip.layout.workload import UNSEEN
from zskip.table.optimize_request import Given, make_repeatable, one_of, read_share
from zskip.units import read_size


def _read_names(_: str, by: Sequence[str] | str) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else tuple(by)
    check_curve(names, default_curve(len(names)), "sample")
    return names


def read_seconds(_: str, seconds: float) -> float:
    """Read a number of seconds; raises InputError unless it is above 0."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InputError(f"seconds={seconds!r} is not a number of seconds; give a number above 0, or leave it out")
    return seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class MaintenanceRequest:
    """The arguments of `Table.maintain`, each checked by itself."""

    budget: int | None = field(default=None, metadata={"check": read_size})
    """Bytes."""
    any_budget: bool = False
    """Whether the budget may be less than one new file."""
    seconds: float | None = field(default=None, metadata={"check": read_seconds})
    target_file_size: int | None = field(default=None, metadata={"check": read_size})
    """Bytes; None for the size of the last time."""
    by: tuple[str, ...] | None = field(default=None, metadata={"check": _read_names})
    workload: Given = field(default=None, metadata={"check": make_repeatable})
    """The workload that chooses batches; None for the recorded one."""
    unseen: float = field(default=UNSEEN, metadata={"check": read_share})
    refit: bool = False
    sketches: str | None = field(default=None, metadata={"check": one_of("auto")})
    dry_run: bool = False
