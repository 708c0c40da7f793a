from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from zskip.index import BoundIndex, refresh
from zskip.records import ColumnStats, Field, Partition, Snapshot
from zskip.storage import LocalStorage
from zskip.types import DataType, Encoded, encode


class DiskStorage(LocalStorage):
    """A local directory that remembers which files were opened."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.opened: list[str] = []

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        self.opened.append(path)
        return super().open(path, size)


def take_snapshot(storage: DiskStorage, fields: dict[str, str], version: int = 1) -> Snapshot:
    files = sorted(f for f in storage.walk(lambda name: name.startswith(("_", "."))) if f.path.endswith(".parquet"))
    return Snapshot(
        root=storage.root,
        version=version,
        fields=tuple(Field(name=name, type=DataType(kind)) for name, kind in fields.items()),
        partition_fields=(),
        partitions=(Partition(directory=""),),
        paths=tuple(f.path for f in files),
        sizes=np.array([f.size for f in files], np.int64),
        mtimes_ms=np.array([f.mtime_ms for f in files], np.int64),
        partition_of=np.zeros(len(files), np.int32),
    )


@pytest.fixture
def storage(tmp_path: Path) -> DiskStorage:
    return DiskStorage(tmp_path)


@pytest.fixture(scope="session")
def snap() -> Callable[..., Snapshot]:
    return take_snapshot


@pytest.fixture(scope="session")
def indexed() -> Callable[..., BoundIndex]:
    """Take a snapshot, bring the index up to date with it, and bind the two."""

    def bind(storage: DiskStorage, fields: dict[str, str], **options: bool) -> BoundIndex:
        snapshot = take_snapshot(storage, fields)
        return refresh(storage, snapshot, full=options.get("full", False)).bind(
            snapshot, case_sensitive=options.get("case_sensitive", False)
        )

    return bind


@pytest.fixture(scope="session")
def storage_class() -> type[DiskStorage]:
    return DiskStorage


@dataclass(frozen=True)
class Truth:
    """What the rows of one file say of one column, found by looking at every one of them."""

    rows: int
    nulls: int
    nans: int
    lower: Encoded | None
    upper: Encoded | None

    @classmethod
    def of(cls, values: Iterable[object], kind: str) -> Truth:
        values = list(values)
        encoded = [encode(v, DataType(kind)) for v in values if v is not None]
        ordered = [v for v in encoded if v == v]
        nans = len(encoded) - len(ordered)
        return cls(
            len(values), len(values) - len(encoded), nans, min(ordered, default=None), max(ordered, default=None)
        )

    def check(self, stats: ColumnStats, file: int) -> None:
        """Fail where the statistics of a file deny what its rows say."""
        assert stats.nulls[file] in (-1, self.nulls)
        assert self.nans == 0 or stats.may_nan[file]
        if stats.bounded[file] and self.lower is not None:
            assert stats.lower[file] <= self.lower
            assert stats.upper[file] >= self.upper


@pytest.fixture(scope="session")
def truth() -> type[Truth]:
    return Truth
