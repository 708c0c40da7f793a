"""The base of every storage that wraps another one."""

from __future__ import annotations

from collections.abc import Mapping

from zskip.storage.base import Kind, Storage


class StorageWrapper:
    """Has the root, kind and options of the storage below."""

    def __init__(self, base: Storage) -> None:
        self._base = base

    @property
    def root(self) -> str:
        """The root of the storage below."""
        return self._base.root

    @property
    def kind(self) -> Kind:
        """The kind of the storage below."""
        return self._base.kind

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the storage below."""
        return self._base.options

    def is_exclusive(self) -> bool:
        """Whether the storage below is."""
        return self._base.is_exclusive()
