"""Storages on which a process dies in the middle of something."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zskip.storage import LocalStorage


class Crash(BaseException):
    """Stands for a process that is gone."""


def dying(storage_class: type[Any], root: Path, step: int, after: bool) -> Any:
    """A storage that is gone before or after its n-th change."""

    class Dying(storage_class):  # type: ignore[misc]
        calls = 0

        def write(self, *arguments: Any, **options: Any) -> None:
            self.mutate(super().write, *arguments, **options)

        def delete(self, *arguments: Any) -> None:
            self.mutate(super().delete, *arguments)

        def mutate(self, call: Any, *arguments: Any, **options: Any) -> None:
            self.calls += 1
            if self.calls == step and not after:
                raise Crash
            call(*arguments, **options)
            if self.calls == step:
                raise Crash

    return Dying(root)


class Countdown:
    """Kills its process before or after the k-th step that changes anything.

    After a step is before the next one, unless steps have steps in them: what dies before a step is left to the night.
    """

    def __init__(self, step: int, after: bool = False) -> None:
        self._left = step
        self._after = after

    def at(self, work: Callable[[], Any]) -> Any:
        """Do a step, or die; steps may have steps in them."""
        self._left -= 1
        is_last = self._left == 0
        if is_last and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = work()
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def counted(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, each call of which is a step."""
        return lambda *arguments, **options: self.at(lambda: work(*arguments, **options))


class Dying(LocalStorage):
    """Kills its process before or after the k-th step that changes anything."""

    def __init__(self, root: str, step: int, after: bool) -> None:
        super().__init__(root)
        self.steps = Countdown(step, after)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self.steps.at(lambda: LocalStorage.write(self, path, data, overwrite=overwrite))

    def rename(self, source: str, target: str) -> None:
        self.steps.at(lambda: LocalStorage.rename(self, source, target))

    def delete(self, path: str) -> None:
        self.steps.at(lambda: LocalStorage.delete(self, path))
