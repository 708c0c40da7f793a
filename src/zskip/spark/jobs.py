"""The Spark jobs of one step: named, shown, cancelled on Ctrl-C, and their failures put into one sentence."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from zskip.spark.jvm.failures import to_zskip_error
from zskip.spark.progress import show_progress

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_CANCEL_SECONDS = 20.0
_TICK_SECONDS = 0.1
_log = logging.getLogger(__name__)


@contextmanager
def describe_jobs(spark: SparkSession, text: str) -> Iterator[None]:
    """Name the jobs of a step `zskip: <text>` in the Spark UI and show their progress on a terminal.

    The names that the caller's thread had are put back afterwards. Ctrl-C cancels the jobs and goes on. An error of
    Spark becomes a ZskipError with its root cause.
    """
    context = spark.sparkContext
    before = [context.getLocalProperty(name) for name in _PROPERTIES]
    group = f"zskip-{uuid.uuid4()}"
    context.setJobGroup(group, f"zskip: {text}")
    try:
        with interruptible(context, group), show_progress(context, group, text):
            yield
    except Exception as error:
        reason = to_zskip_error(text, error)
        if reason is error:
            raise
        raise reason from error
    finally:
        for name, value in zip(_PROPERTIES, before, strict=True):
            _set(context, name, value)


@contextmanager
def interruptible(context: SparkContext, group: str) -> Iterator[None]:
    """Let Ctrl-C cancel the jobs of a group, and raise KeyboardInterrupt once none of their tasks runs any more.

    PySpark's own handler breaks into the call that waits for the job, which leaves the job running and the connection
    to the JVM out of step. Here the call goes on until Spark, told from another thread, has given up the job. A second
    Ctrl-C is left to the handler that was there before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked, done = threading.Event(), threading.Event()
    before = signal.getsignal(signal.SIGINT)
    canceller = threading.Thread(target=_cancel, args=(context, group, asked, done), name="zskip-cancel", daemon=True)

    def ask(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        asked.set()

    signal.signal(signal.SIGINT, ask)
    canceller.start()
    try:
        yield
    except Exception as error:
        if asked.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        done.set()
        canceller.join(_CANCEL_SECONDS)
    if asked.is_set():
        raise KeyboardInterrupt


def run_concurrently(spark: SparkSession, works: Sequence[Callable[[], None]], most: int) -> None:
    """Do some pieces of work in their order, at most so many at a time, each in a thread of its own.

    Where one fails, no other is begun; those that run are finished, and then its error is raised. Ctrl-C cancels the
    jobs of those that run.
    """
    if most == 1 or len(works) < 2:
        for work in works:
            work()
        return
    from pyspark import InheritableThread

    context, tag = spark.sparkContext, f"zskip-{uuid.uuid4()}"
    todo, failed, stop = deque(works), deque[BaseException](), threading.Event()

    def run() -> None:
        context.addJobTag(tag)
        while not stop.is_set():
            try:
                work = todo.popleft()
            except IndexError:
                return
            try:
                work()
            except BaseException as error:
                failed.append(error)
                stop.set()

    threads = [InheritableThread(target=run, name=f"zskip-batch-{i}") for i in range(min(most, len(works)))]
    for thread in threads:
        thread.start()
    try:
        _join(threads)
    except KeyboardInterrupt:
        stop.set()
        while any(thread.is_alive() for thread in threads):
            context.cancelJobsWithTag(tag)
            _join(threads, _TICK_SECONDS)
        raise
    if failed:
        raise failed[0]


def _join(threads: Sequence[threading.Thread], seconds: float = math.inf) -> None:
    """Wait for threads in short steps, so that a signal is seen at once."""
    until = time.monotonic() + seconds
    while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
        for thread in threads:
            thread.join(_TICK_SECONDS / len(threads))


def forget_shuffles(spark: SparkSession) -> None:
    """Let Spark delete the shuffles of jobs that are done: it does so when the driver's JVM collects its garbage."""
    spark._jvm.System.gc()  # type: ignore[union-attr]


def _cancel(context: SparkContext, group: str, asked: threading.Event, done: threading.Event) -> None:
    """Wait for a wish to cancel; then cancel whatever jobs the group has or gets, until its tasks have ended."""
    while not asked.wait(_TICK_SECONDS):
        if done.is_set():
            return
    try:
        until = time.monotonic() + _CANCEL_SECONDS
        while not done.is_set() or (time.monotonic() < until and _active_tasks(context, group)):
            context.cancelJobGroup(group)
            time.sleep(_TICK_SECONDS)
    except Exception:  # the SparkContext may be gone, and with it the jobs
        _log.debug("could not cancel the jobs of %s", group, exc_info=True)


def _active_tasks(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def _set(context: SparkContext, name: str, value: Any) -> None:
    """Set a local property, or remove it where the value is None."""
    context.setLocalProperty(name, value)
