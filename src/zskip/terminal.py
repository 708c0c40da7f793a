"""Progress bars on stderr, if it is a terminal."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_log = logging.getLogger(__name__)
_TERMINAL = threading.Lock()
"""Locked by the bar on the terminal; bars of nested steps do not show."""


class Bar:
    """The progress of one step, from the first update until it is complete, unless another bar is on the terminal.

    Errors of the bar never reach the step.
    """

    def __init__(self, text: str, unit: str, *, ends: bool) -> None:
        """See `bar`."""
        self._text, self._unit, self._ends = text, unit, ends
        self._progress: Progress | None = None
        self._is_owner = False
        self._ended = not sys.stderr.isatty()

    def update(self, completed: int, total: int, text: str | None = None) -> None:
        """Report progress; a total of 0 means that it is unknown yet. text: what the step does now, if that changes."""
        if self._ended:
            return
        try:
            if self._progress is None:
                self._is_owner = _TERMINAL.acquire(blocking=False)
                if not self._is_owner:
                    self._ended = True
                    return
                self._progress = _start(self._text, self._unit)
            description = self._text if text is None else text
            task = self._progress.task_ids[0]
            self._progress.update(task, completed=completed, total=total or None, description=description)
        except Exception:
            _log.debug("the progress bar stopped", exc_info=True)
            self.stop()
        if self._ends and completed >= total:
            self.stop()

    def stop(self) -> None:
        """Remove the bar."""
        self._ended = True
        if self._progress is not None:
            with contextlib.suppress(Exception):
                self._progress.stop()
        if self._is_owner:
            self._is_owner = False
            _TERMINAL.release()


@contextmanager
def bar(text: str, unit: str, *, ends: bool = True) -> Iterator[Bar]:
    """Show the progress of a step while the body runs.

    text: the name of the step; unit: what is counted, such as `files`; ends: whether the total is known from the start,
    so that the bar can go when it is reached.

    >>> with bar("read footers", "files") as progress:
    ...     progress.update(1, 2)
    """
    progress = Bar(text, unit, ends=ends)
    try:
        yield progress
    finally:
        progress.stop()


def _start(text: str, unit: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(f"{{task.completed}}/{{task.total}} {unit}"))
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    progress = Progress(*columns, *times, console=Console(stderr=True), transient=True)
    progress.add_task(text, total=None)
    progress.start()
    return progress
