"""The arguments of a lake's maintain, checked before anything is read or written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zskip.errors import InputError
from zskip.lake.examine import Terms
from zskip.units import read_size

_CLUSTER = ("keep", "auto")


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeRequest:
    """The arguments of `Lake.maintain`."""

    budget: int | None
    """Bytes."""
    seconds: float | None
    jobs: int
    dry_run: bool
    min_gain: float
    cluster: str

    def terms(self, budget: int | None) -> Terms:
        """What is worth a rewrite with so much of the budget left."""
        return Terms(min_gain=self.min_gain, budget=budget, reads_footers=self.cluster == "auto")


def check_request(
    *,
    budget: int | str | None,
    seconds: float | None,
    jobs: int,
    dry_run: bool,
    min_gain: float,
    cluster: str,
) -> LakeRequest:
    """Check the arguments; raises InputError."""
    if cluster not in _CLUSTER:
        raise InputError(f"cluster={cluster!r} is none of {', '.join(_CLUSTER)}")
    if not isinstance(dry_run, bool):
        raise InputError(f"dry_run={dry_run!r}: say True or False")
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= 100:
        raise InputError(f"jobs={jobs!r} is no number of batches at the same time; give 1 to 100")
    if not _is_number(min_gain) or min_gain < 0:
        raise InputError(f"min_gain={min_gain!r} is no ratio of bytes; give a number of at least 0, such as 1.0")
    if seconds is not None and not (_is_number(seconds) and seconds > 0):
        raise InputError(f"seconds={seconds!r} is no time to work; give a number above 0, or leave it out")
    return LakeRequest(
        budget=None if budget is None else read_size("budget", budget),
        seconds=seconds,
        jobs=jobs,
        dry_run=dry_run,
        min_gain=float(min_gain),
        cluster=cluster,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
