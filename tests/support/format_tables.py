"""Tables of every format for one suite: made, changed and read back by other engines than zskip."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from crashes import Countdown, Dying

from zskip.formats import IcebergFormat, StagedFile, TableFormat, open_format
from zskip.formats.base import STAGED
from zskip.formats.hive import is_hidden
from zskip.formats.iceberg.catalog import load_configured_catalog
from zskip.records import Snapshot
from zskip.storage import LocalStorage

PRELOADED = [
    "format_tables",
    "deltalake",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "zskip.formats.iceberg.commit",
    "zskip.formats.iceberg.replace",
    "zskip.formats.iceberg.sweep",
]
"""Modules of the processes that tests kill, imported once for all."""
PARTITIONS = ("eu", "us east", "a=b/c%'\"[é", None)
REGION = ds.partitioning(pa.schema([("region", pa.string())]), flavor="hive")


def content(rows: int = 40, start: int = 0) -> pa.Table:
    """Rows with nulls, in partitions of awkward names."""
    ids = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array([None if i % 7 == 0 else float(i % 5) for i in ids], pa.float64()),
            "name": pa.array([None if i % 11 == 0 else f"{'é' * (i % 40)}{i}" for i in ids], pa.string()),
            "region": pa.array([PARTITIONS[i % 4] for i in ids], pa.string()),
        }
    )


def rows_of(table: pa.Table) -> Counter[str]:
    """The multiset of a table's rows, columns by name, missing ones as nulls."""
    return Counter(str(sorted((k, v) for k, v in row.items() if v is not None)) for row in table.to_pylist())


class Maker(Protocol):
    """How a test makes and reads tables of a format."""

    name: str
    time_travel: bool
    hidden: bool
    """Whether partition columns are columns like all others."""

    def address(self, path: Path) -> str:
        """What zskip opens a table by."""

    def targets(self, path: Path) -> tuple[str, ...]:
        """How statements name a table."""

    def append(self, path: Path, rows: pa.Table, *, partitioned: bool) -> None:
        """Add rows in new files, to a new table if there is none; columns may be new."""

    def delete_some(self, path: Path) -> None:
        """Remove some rows, by new files instead of live ones."""

    def read(self, path: Path, version: int | None = None) -> pa.Table:
        """All rows, as another engine than zskip sees them."""

    def known_files(self, path: Path) -> set[str]:
        """The data files, live or dead, that the format knows of."""


class InDirectory:
    """Tables that are opened by their path."""

    name = ""
    hidden = False

    def address(self, path: Path) -> str:
        return str(path)

    def targets(self, path: Path) -> tuple[str, ...]:
        return f"{self.name}.`{path}`", f"'{path}'"


class ParquetMaker(InDirectory):
    name = "parquet"
    time_travel = False

    def append(self, path: Path, rows: pa.Table, *, partitioned: bool) -> None:
        count = len(list(path.rglob("*.parquet"))) if path.exists() else 0
        ds.write_dataset(
            rows,
            path,
            format="parquet",
            partitioning=REGION if partitioned else None,
            basename_template=f"{count:05d}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
        )

    def delete_some(self, path: Path) -> None:
        file = next(f for f in sorted(self._live(path)) if pq.read_metadata(f).num_rows > 1)
        rows = pq.ParquetFile(file).read()
        file.unlink()
        pq.write_table(rows.slice(1), file.with_name("less.parquet"))

    def read(self, path: Path, version: int | None = None) -> pa.Table:
        parts = [
            ds.dataset(f, format="parquet", partitioning=REGION, partition_base_dir=str(path)) for f in self._live(path)
        ]
        return pa.concat_tables([part.to_table() for part in parts], promote_options="permissive")

    def known_files(self, path: Path) -> set[str]:
        return {file.relative_to(path).as_posix() for file in self._live(path)}

    def _live(self, path: Path) -> list[Path]:
        return [path / file.path for file in LocalStorage(str(path)).walk(is_hidden)]


class DeltaMaker(InDirectory):
    name = "delta"
    time_travel = True

    def append(self, path: Path, rows: pa.Table, *, partitioned: bool) -> None:
        from deltalake import write_deltalake

        by = ["region"] if partitioned else None
        write_deltalake(str(path), rows, mode="append", partition_by=by, schema_mode="merge")

    def delete_some(self, path: Path) -> None:
        from deltalake import DeltaTable

        DeltaTable(str(path)).delete("id = 5")

    def read(self, path: Path, version: int | None = None) -> pa.Table:
        from deltalake import DeltaTable

        return DeltaTable(str(path), version=version).to_pyarrow_table()

    def known_files(self, path: Path) -> set[str]:
        import json
        from urllib.parse import unquote

        lines = [json.loads(x) for f in (path / "_delta_log").glob("*.json") for x in f.read_text().splitlines()]
        return {unquote(line["add"]["path"]) for line in lines if "add" in line}


class IcebergMaker:
    """Tables of SQL catalogs, each of which lies beside its table."""

    name = "iceberg"
    time_travel = True
    hidden = True

    def address(self, path: Path) -> str:
        catalog = f"c{zlib.crc32(str(path).encode())}"
        os.environ[f"PYICEBERG_CATALOG__{catalog.upper()}__URI"] = f"sqlite:///{path}.db"
        return f"{catalog}.db.t"

    def targets(self, path: Path) -> tuple[str, ...]:
        return (self.address(path),)

    def append(self, path: Path, rows: pa.Table, *, partitioned: bool) -> None:
        if not path.exists():
            self._create(path, rows, partitioned)
        table = self._load(path)
        with table.update_schema() as update:
            update.union_by_name(rows.schema)
        table.append(rows)

    def _create(self, path: Path, rows: pa.Table, partitioned: bool) -> None:
        path.mkdir(parents=True)
        catalog = self._catalog(path)
        catalog.create_namespace("db")
        made = catalog.create_table("db.t", rows.schema, location=f"file://{path}")
        if partitioned:
            with made.update_spec() as update:
                update.add_identity("region")

    def delete_some(self, path: Path) -> None:
        self._load(path).delete("id = 5")

    def read(self, path: Path, version: int | None = None) -> pa.Table:
        table = self._load(path)
        of_version = {snapshot.sequence_number: snapshot.snapshot_id for snapshot in table.snapshots()}
        return table.scan(snapshot_id=None if version is None else of_version[version]).to_arrow()

    def known_files(self, path: Path) -> set[str]:
        table = self._load(path)
        found = {table.metadata_location} | {entry.metadata_file for entry in table.metadata.metadata_log}
        found |= {snapshot.manifest_list for snapshot in table.snapshots()}
        for snapshot in table.snapshots():
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                found |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io, discard_deleted=False)}
        return {name.removeprefix(f"file://{path}/") for name in found}

    def _load(self, path: Path) -> Any:
        return self._catalog(path).load_table("db.t")

    def _catalog(self, path: Path) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog(self.address(path).partition(".")[0], uri=f"sqlite:///{path}.db")


FORMATS: tuple[Maker, ...] = (ParquetMaker(), DeltaMaker(), IcebergMaker())
"""Another format is another line here."""


def maker(name: str) -> Maker:
    """The maker of a format."""
    return next(m for m in FORMATS if m.name == name)


def opened(path: Path) -> TableFormat:
    """The format that lies at a path."""
    return opened_in(LocalStorage(str(path)))


def opened_in(storage: LocalStorage) -> TableFormat:
    """The format of a storage, with the catalog of the table where it has one."""
    found = open_format(storage)
    if found.name != "iceberg":
        return found
    return IcebergFormat(storage, load_configured_catalog(maker("iceberg").address(Path(storage.root))))


def stage_all(form: TableFormat, base: Snapshot, name: str, only: Sequence[int] | None = None) -> list[StagedFile]:
    """Write the rows of each partition's files to one staged file, the last row first."""
    staging, root = form.stage(), Path(base.root)
    added = []
    for number, partition in enumerate(base.partitions):
        found = [root / p for p, of in zip(base.paths, base.partition_of, strict=True) if of == number]
        if only is not None and number not in only:
            continue
        rows = pa.concat_tables([_plain(pq.ParquetFile(f).read()) for f in found], promote_options="permissive")
        staged = f"{staging}/{name}-{number}.parquet{STAGED}"
        pq.write_table(rows.take(pa.array(range(len(rows) - 1, -1, -1))), root / staged)
        added.append(StagedFile(path=staged, directory=partition.directory, size=(root / staged).stat().st_size))
    return added


def with_ids(rows: pa.Table) -> pa.Table:
    """The same with the ids that Iceberg gives to the columns of a table that is made of them."""
    ids = [{"PARQUET:field_id": str(number)} for number in range(1, rows.num_columns + 1)]
    return rows.cast(pa.schema([f.with_metadata(one) for f, one in zip(rows.schema, ids, strict=True)]))


def _plain(rows: pa.Table) -> pa.Table:
    """The same with texts of one Arrow type, of which writers use several."""
    views = pa.types.is_string_view
    return rows.cast(pa.schema([f.with_type(pa.string()) if views(f.type) else f for f in rows.schema]))


def rewrite(
    form: TableFormat,
    name: str = "new",
    between: Callable[[], None] = lambda: None,
    only: Callable[[int], int] | None = None,
) -> int:
    """Replace all files of a table by one for each partition; `between` happens just before the commit.

    only: chooses the one partition whose files are replaced, from how many there are.
    """
    base = form.snapshot()
    chosen = range(len(base.partitions)) if only is None else [only(len(base.partitions))]
    added = stage_all(form, base, name, chosen)
    between()
    try:
        return form.replace(base, np.isin(base.partition_of, chosen), added, {"operation": "optimize", "by": ["id"]})
    except BaseException:
        form.abort(added[0].path.rpartition("/")[0])
        raise


def count_commits(steps: Countdown, name: str) -> None:
    """Make the commits of a format's library steps, too, in this process."""
    if name == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        from zskip.formats.iceberg.replace import ReplaceFiles

        SqlCatalog.commit_table = steps.counted(SqlCatalog.commit_table)  # type: ignore[method-assign]
        SqlCatalog._write_metadata = staticmethod(steps.counted(SqlCatalog._write_metadata))  # type: ignore[method-assign]
        ReplaceFiles._write = steps.counted(ReplaceFiles._write)  # type: ignore[method-assign]
        ReplaceFiles._commit = steps.counted(ReplaceFiles._commit)  # type: ignore[method-assign]


def die_in_rewrite(path: str, step: int, after: bool) -> None:
    """Rewrite a table in a process that is killed at a step; the commits of libraries are steps, too."""
    storage = Dying(path, step, after)
    form = opened_in(storage)
    count_commits(storage.steps, form.name)
    rewrite(form)
