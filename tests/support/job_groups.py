"""A thread's job group for some lines of a test, and none of its traces for the test after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@contextmanager
def job_group(context: Any, group: str, description: str = "test") -> Iterator[None]:
    """Run the jobs of this thread in a group."""
    context.setJobGroup(group, description)
    try:
        yield
    finally:
        for name in _PROPERTIES:
            context.setLocalProperty(name, None)


def jobs_without_group(context: Any) -> set[int]:
    """The latest jobs of no group, once Spark's listeners have heard of all."""
    context._jsc.sc().listenerBus().waitUntilEmpty()
    return set(context.statusTracker().getJobIdsForGroup())
