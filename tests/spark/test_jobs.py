"""Steps of Spark jobs that Ctrl-C interrupts."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from zskip.spark import jobs


class Context:
    """A SparkContext whose jobs end once they are cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.set()

    def statusTracker(self) -> Any:
        class Tracker:
            def getJobIdsForGroup(self, group: str) -> list[int]:
                return []

        return Tracker()


def test_a_step_that_is_done_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_TICK_SECONDS", 15.0)
    start = time.monotonic()
    with jobs.interruptible(Context(), "g"):  # type: ignore[arg-type]
        pass
    assert time.monotonic() - start < 10


def test_control_c_cancels_the_jobs_and_is_raised_once_they_have_ended() -> None:
    context: Any = Context()

    def run() -> None:
        with jobs.interruptible(context, "g"):
            os.kill(os.getpid(), signal.SIGINT)
            assert context.cancelled.wait(20)

    with pytest.raises(KeyboardInterrupt):
        run()
