"""The arguments of a maintain, checked before anything is read or written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zskip.errors import InputError
from zskip.layout.fit import check_curve
from zskip.table.optimize_request import Given, check_unseen, make_repeatable
from zskip.units import read_size


@dataclass(frozen=True, kw_only=True, slots=True)
class MaintenanceRequest:
    """The arguments of `Table.maintain`, each checked by itself."""

    budget: int | None
    """Bytes."""
    seconds: float | None
    target_file_size: int | None
    """Bytes; None for the size of the last time."""
    by: tuple[str, ...] | None
    workload: Given
    """The workload that chooses batches; None for the recorded one."""
    unseen: float
    refit: bool
    dry_run: bool


def check_maintenance(
    *,
    budget: int | str | None,
    seconds: float | None,
    target_file_size: int | str | None,
    by: Sequence[str] | str | None,
    workload: Given,
    unseen: float,
    refit: bool,
    dry_run: bool,
) -> MaintenanceRequest:
    """Check what needs no look at the table; raises InputError."""
    names = None if by is None else (by,) if isinstance(by, str) else tuple(by)
    if names is not None:
        check_curve(names, default_curve(names), "sample")
    if seconds is not None and (isinstance(seconds, bool) or not (math.isfinite(seconds) and seconds > 0)):
        raise InputError(f"seconds={seconds!r} is no time to work; give a number above 0, or leave it out")
    return MaintenanceRequest(
        budget=None if budget is None else read_size("budget", budget),
        seconds=seconds,
        target_file_size=None if target_file_size is None else read_size("target_file_size", target_file_size),
        by=names,
        workload=make_repeatable(workload),
        unseen=check_unseen(unseen),
        refit=refit,
        dry_run=dry_run,
    )


def default_curve(by: Sequence[str]) -> str:
    """The curve of a new layout."""
    return "zorder" if len(by) > 1 else "linear"
