from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from zskip.index import BoundIndex, refresh
from zskip.records import ColumnStats, Field, Partition, Snapshot
from zskip.storage import FileInfo
from zskip.types import DataType, Encoded, encode


class DiskStorage:
    """The smallest storage there is: a local directory."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.opened: list[str] = []

    def uri(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _info(self, path: Path) -> FileInfo:
        stat = path.stat()
        name = str(path.relative_to(self.root))
        return FileInfo(name, 0 if path.is_dir() else stat.st_size, stat.st_mtime_ns // 1_000_000, path.is_dir())

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        found = (p for p in sorted(Path(self.root).rglob("*")) if p.is_file())
        return [self._info(p) for p in found if not any(map(skip, p.relative_to(self.root).parts))]

    def list_dir(self, path: str) -> list[FileInfo]:
        directory = Path(self.uri(path))
        names = sorted(p.name for p in directory.iterdir()) if directory.is_dir() else []
        found = (self.stat(f"{path}/{name}") for name in names)
        return [info for info in found if info is not None]

    def stat(self, path: str) -> FileInfo | None:
        try:
            return self._info(Path(self.uri(path)))
        except FileNotFoundError:
            return None

    def read(self, path: str) -> bytes:
        return Path(self.uri(path)).read_bytes()

    def open(self, path: str) -> BinaryIO:
        self.opened.append(path)
        return open(self.uri(path), "rb")

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        full = Path(self.uri(path))
        full.parent.mkdir(parents=True, exist_ok=True)
        temporary = full.with_name(f".{full.name}.{os.getpid()}.{os.urandom(4).hex()}")
        temporary.write_bytes(data)
        try:
            if overwrite:
                temporary.replace(full)
            else:
                os.link(temporary, full)
        finally:
            temporary.unlink(missing_ok=True)

    def rename(self, source: str, target: str) -> None:
        Path(self.uri(source)).rename(self.uri(target))

    def delete(self, path: str) -> None:
        full = Path(self.uri(path))
        if full.is_dir():
            shutil.rmtree(full)
        else:
            full.unlink(missing_ok=True)


def take_snapshot(storage: DiskStorage, fields: dict[str, str], version: int = 1) -> Snapshot:
    files = [f for f in storage.walk(lambda name: name.startswith(("_", "."))) if f.path.endswith(".parquet")]
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
