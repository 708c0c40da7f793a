"""Storages on which a process dies in the middle of something."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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
