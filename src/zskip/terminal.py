"""Progress bars on stderr, where that is a terminal."""

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
_SHOWN = threading.Lock()
"""Held by the bar that is on the terminal: those of the steps within a step stay away."""


class Bar:
    """How far one step is; it shows from the first word of it until all is done, unless another one does.

    No trouble with the bar ever reaches the step.
    """

    def __init__(self, text: str, unit: str, *, ends: bool) -> None:
        """As `bar` takes them."""
        self._text, self._unit, self._ends = text, unit, ends
        self._shown: Progress | None = None
        self._holds = False
        self._ended = not sys.stderr.isatty()

    def update(self, completed: int, total: int) -> None:
        """Say how many of how many are done; a total of 0 is one that is not known yet."""
        if self._ended:
            return
        try:
            if self._shown is None:
                self._holds = _SHOWN.acquire(blocking=False)
                if not self._holds:
                    self._ended = True
                    return
                self._shown = _started(self._text, self._unit)
            self._shown.update(self._shown.task_ids[0], completed=completed, total=total or None)
        except Exception:
            _log.debug("the progress bar stopped", exc_info=True)
            self.stop()
        if self._ends and completed >= total:
            self.stop()

    def stop(self) -> None:
        """Take the bar away."""
        self._ended = True
        if self._shown is not None:
            with contextlib.suppress(Exception):
                self._shown.stop()
        if self._holds:
            self._holds = False
            _SHOWN.release()


@contextmanager
def bar(text: str, unit: str, *, ends: bool = True) -> Iterator[Bar]:
    """Show how far a step is while the body runs.

    text: what the step is called; unit: what is counted, such as `files`; ends: whether all is known from the start, so
    that the bar goes once that is done.

    >>> with bar("read footers", "files") as shown:
    ...     shown.update(1, 2)
    """
    shown = Bar(text, unit, ends=ends)
    try:
        yield shown
    finally:
        shown.stop()


def _started(text: str, unit: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(f"{{task.completed}}/{{task.total}} {unit}"))
    made = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    made.add_task(text, total=None)
    made.start()
    return made
