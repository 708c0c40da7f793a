"""The Spark jobs of one step: named, shown, cancelled on Ctrl-C, and their failures put into one sentence."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zskip.spark.failures import explained
from zskip.spark.progress import shown

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_CANCEL_SECONDS = 20.0


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Name the jobs of a step `zskip: <text>` in the Spark UI and show their progress on a terminal.

    The names that the caller's thread had are put back afterwards. Where anything else than an error of Spark ends
    the step, Ctrl-C above all, its jobs are cancelled. An error of Spark becomes a ZskipError with its root cause.
    """
    context = spark.sparkContext
    before = [context.getLocalProperty(name) for name in _PROPERTIES]
    group = f"zskip-{uuid.uuid4()}"
    context.setJobGroup(group, f"zskip: {text}")
    try:
        with shown(context, group, text):
            yield
    except Exception as error:
        reason = explained(text, error)
        if reason is error:
            raise
        raise reason from error
    except BaseException:
        _cancel(context, group)
        raise
    finally:
        for name, value in zip(_PROPERTIES, before, strict=True):
            _set(context, name, value)


def _set(context: SparkContext, name: str, value: Any) -> None:
    """Set a local property, or remove it where the value is None."""
    context.setLocalProperty(name, value)


def _cancel(context: SparkContext, group: str) -> None:
    """Cancel the jobs of a group and wait until none is left that could still write files."""
    context.cancelJobGroup(group)
    tracker = context.statusTracker()
    until = time.monotonic() + _CANCEL_SECONDS
    while time.monotonic() < until:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        if all(job is None or job.status != "RUNNING" for job in jobs):
            return
        time.sleep(0.05)
