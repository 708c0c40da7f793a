"""A progress bar for the Spark jobs of one step, on a terminal."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zskip.terminal import bar

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)
_EVERY_SECONDS = 0.25


@contextmanager
def show_progress(context: SparkContext, group: str, text: str) -> Iterator[None]:
    """Follow the jobs of a group on stderr while the body runs; nothing where stderr is no terminal.

    Spark's own progress bar, where it is on, is left alone. No trouble with the bar ever reaches the job.
    """
    if not sys.stderr.isatty() or _spark_shows_its_own(context):
        yield
        return
    done = threading.Event()
    follower = threading.Thread(target=_follow, args=(context, group, text, done), name="zskip-progress", daemon=True)
    follower.start()
    try:
        yield
    finally:
        done.set()
        follower.join(2.0)


def _spark_shows_its_own(context: SparkContext) -> bool:
    try:
        return bool(context._jsc.sc().progressBar().isDefined())
    except Exception:  # the bar must never fail a job
        return False


def _follow(context: SparkContext, group: str, text: str, done: threading.Event) -> None:
    try:
        with bar(text, "tasks", ends=False) as progress:
            while not done.wait(_EVERY_SECONDS):
                progress.update(*count_tasks(context, group))
    except Exception:  # the bar must never fail a job
        _log.debug("the progress bar stopped", exc_info=True)


def count_tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Tasks completed and tasks in all of the stages of a job group that Spark knows so far."""
    tracker = context.statusTracker()
    completed = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        if info is None:
            continue
        for stage in info.stageIds:
            found = tracker.getStageInfo(stage)
            if found is not None:
                completed += found.numCompletedTasks
                # Of a finished job nothing is left to do, even where stages were skipped.
                total += found.numTasks if info.status == "RUNNING" else found.numCompletedTasks
    return completed, total
