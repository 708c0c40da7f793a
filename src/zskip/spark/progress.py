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
_INTERVAL_SECONDS = 0.25


@contextmanager
def show_progress(context: SparkContext, group: str, text: str) -> Iterator[None]:
    """Show the progress of a group's jobs on stderr while the body runs, if stderr is a terminal.

    Spark's own progress bar, if enabled, is used instead. A failure of the bar never reaches the job.
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
            while not done.wait(_INTERVAL_SECONDS):
                progress.update(*count_tasks(context, group))
    except Exception:  # the bar must never fail a job
        _log.debug("the progress bar stopped", exc_info=True)


def count_tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Number of completed tasks and of all tasks, in the stages of a job group that Spark has created so far."""
    tracker = context.statusTracker()
    completed = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        if info is None:
            continue
        for stage in info.stageIds:
            stage_info = tracker.getStageInfo(stage)
            if stage_info is not None:
                completed += stage_info.numCompletedTasks
                # A finished job has nothing left to do, even where it skipped stages.
                total += stage_info.numTasks if info.status == "RUNNING" else stage_info.numCompletedTasks
    return completed, total
