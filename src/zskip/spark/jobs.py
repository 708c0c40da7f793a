"""The Spark jobs of one step: their names, progress, cancellation on Ctrl-C, and failures in one sentence."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

from zskip.spark.jvm.compat import is_connected, version
from zskip.spark.jvm.connect import copies_of
from zskip.spark.jvm.failures import translated
from zskip.spark.progress import show_progress

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_counted_groups: ContextVar[list[str] | None] = ContextVar("counted_groups", default=None)
_CANCEL_SECONDS = 20.0
_TICK_SECONDS = 0.1
_log = logging.getLogger(__name__)


@contextmanager
def describe_jobs(spark: SparkSession, text: str) -> Iterator[None]:
    """Name the jobs of a step `zskip: <text>` in the Spark UI and show their progress on a terminal.

    Restores the names of the caller's thread afterwards. Ctrl-C cancels the jobs and raises KeyboardInterrupt. An error
    of Spark becomes a ZskipError with its root cause. A connected session neither names jobs nor tells their progress.
    """
    if is_connected(spark):
        with translated(text), _interrupted(spark):
            yield
        return
    context = spark.sparkContext
    before = [context.getLocalProperty(name) for name in _PROPERTIES]
    group = f"zskip-{uuid.uuid4()}"
    counted = _counted_groups.get()
    if counted is not None:
        counted.append(group)
    context.setJobGroup(group, f"zskip: {text}")
    try:
        with translated(text), interruptible(context, group), show_progress(context, group, text):
            yield
    finally:
        for name, value in zip(_PROPERTIES, before, strict=True):
            _set(context, name, value)


@contextmanager
def _interrupted(spark: SparkSession) -> Iterator[None]:
    """Let Ctrl-C stop what a connected session and its copies run for this thread in the block."""
    tag = f"zskip-{uuid.uuid4()}"
    spark.addTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        for session in (spark, *copies_of(spark)):
            session.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


@contextmanager
def counting_jobs() -> Iterator[Callable[[SparkSession], int]]:
    """Give a function that counts the jobs of the steps that this thread has begun within the block.

    A connected session does not tell: 0.
    """
    groups: list[str] = []

    def count(spark: SparkSession) -> int:
        if is_connected(spark):
            return 0
        with suppress(Exception):  # other jobs may keep Spark's listeners busy for longer than it waits
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        tracker = spark.sparkContext.statusTracker()
        return sum(len(tracker.getJobIdsForGroup(group)) for group in groups)

    token = _counted_groups.set(groups)
    try:
        yield count
    finally:
        _counted_groups.reset(token)


@contextmanager
def interruptible(context: SparkContext, group: str) -> Iterator[None]:
    """Let Ctrl-C cancel the jobs of a group, and raise KeyboardInterrupt once their last task has ended.

    PySpark's own handler interrupts the call that waits for the job, which leaves the job running and the connection to
    the JVM out of step. Here the call continues until another thread has had Spark cancel the job. A second Ctrl-C goes
    to the previous handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    cancel, done = threading.Event(), threading.Event()
    before = signal.getsignal(signal.SIGINT)
    canceller = threading.Thread(target=_cancel, args=(context, group, cancel, done), name="zskip-cancel", daemon=True)

    def request_cancel(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        cancel.set()

    signal.signal(signal.SIGINT, request_cancel)
    canceller.start()
    try:
        yield
    except Exception as error:
        if cancel.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        done.set()
        canceller.join(_CANCEL_SECONDS)
    if cancel.is_set():
        raise KeyboardInterrupt


def run_concurrently(spark: SparkSession, tasks: Sequence[Callable[[], None]], most: int) -> None:
    """Run functions in their order, at most `most` at a time, each in a thread of its own.

    After a failure no other function starts; the running ones finish, and then the error is raised. Ctrl-C cancels the
    jobs of the running ones. A connected session runs them one by one.
    """
    if most == 1 or len(tasks) < 2 or is_connected(spark):
        for task in tasks:
            task()
        return
    from pyspark import InheritableThread

    context, tag = spark.sparkContext, f"zskip-{uuid.uuid4()}"
    queue, errors, stop = deque(tasks), deque[BaseException](), threading.Event()

    def run() -> None:
        context.addJobTag(tag)
        while not stop.is_set():
            try:
                task = queue.popleft()
            except IndexError:
                return
            try:
                task()
            except BaseException as error:
                errors.append(error)
                stop.set()

    threads = [InheritableThread(target=run, name=f"zskip-batch-{i}") for i in range(min(most, len(tasks)))]
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
    if errors:
        raise errors[0]


def _join(threads: Sequence[threading.Thread], seconds: float = math.inf) -> None:
    """Wait for threads in short steps, so that a signal is handled promptly."""
    deadline = time.monotonic() + seconds
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        for thread in threads:
            thread.join(_TICK_SECONDS / len(threads))


def forget_shuffles(spark: SparkSession) -> None:
    """Let Spark delete the shuffles of finished jobs; before 4.1 it does when the driver's JVM collects garbage."""
    if version(spark) < (4, 1) and not is_connected(spark):
        spark._jvm.System.gc()  # type: ignore[union-attr]


def _cancel(context: SparkContext, group: str, cancel: threading.Event, done: threading.Event) -> None:
    """Wait for a cancellation; then cancel all jobs that the group has or gets, until its tasks have ended."""
    while not done.wait(_TICK_SECONDS) and not cancel.is_set():
        pass
    if not cancel.is_set():
        return
    try:
        deadline = time.monotonic() + _CANCEL_SECONDS
        while not done.is_set() or (time.monotonic() < deadline and _active_tasks(context, group)):
            context.cancelJobGroup(group)
            time.sleep(_TICK_SECONDS)
    except Exception:  # the SparkContext may have stopped, and the jobs with it
        _log.debug("could not cancel the jobs of %s", group, exc_info=True)


def _active_tasks(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def _set(context: SparkContext, name: str, value: Any) -> None:
    """Set a local property, or remove it where the value is None."""
    context.setLocalProperty(name, value)
