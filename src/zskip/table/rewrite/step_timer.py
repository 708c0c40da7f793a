"""Seconds by step, and a line in the log for each."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger("zskip")


class Clock:
    """Measures named steps one after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step; steps of one name add up."""
        _log.debug("%s ...", name)
        start = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - start
            self.seconds[name] = round(self.seconds.get(name, 0.0) + took, 3)
            _log.debug("%s took %.3f s", name, took)
