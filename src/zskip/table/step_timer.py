"""Time named steps, and log each."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger("zskip")


class StepTimer:
    """Times named steps that run one after another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step; steps with the same name add up."""
        _log.debug("%s ...", name)
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self.seconds[name] = round(self.seconds.get(name, 0.0) + seconds, 3)
            _log.debug("%s took %.3f s", name, seconds)
