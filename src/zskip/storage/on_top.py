"""What every storage on top of another one has from that."""

from __future__ import annotations

from collections.abc import Mapping

from zskip.storage.base import Kind, Storage


class OnTop:
    """The same place as the storage below."""

    def __init__(self, base: Storage) -> None:
        self._base = base

    @property
    def root(self) -> str:
        """The root of the storage below."""
        return self._base.root

    @property
    def kind(self) -> Kind:
        """As the storage below."""
        return self._base.kind

    @property
    def options(self) -> Mapping[str, str]:
        """Those of the storage below."""
        return self._base.options

    def is_exclusive(self) -> bool:
        """As the storage below."""
        return self._base.is_exclusive()
