"""Rewrites of Iceberg tables through pyiceberg's catalogs: partitions, metrics, ids, other writers, and what fails."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import shutil
import socket
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from format_tables import rewrite, stage_all

import zskip
from zskip.errors import (
    ColumnError,
    ConflictError,
    CorruptFileError,
    InputError,
    PredicateError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
    ZskipError,
    ZskipWarning,
)
from zskip.formats import IcebergFormat, StagedFile
from zskip.index.collect.footers import NAN_STATISTICS
from zskip.storage import LocalStorage

pytest.importorskip("pyiceberg")
from iceberg_tables import SCHEMA, catalog_at, content, create, edit, newest, path_of, rows_of, small
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import FixedType, TimeType, UUIDType

from zskip.formats.iceberg import catalog as iceberg_catalog
from zskip.formats.iceberg import format as iceberg
from zskip.formats.iceberg import sweep
from zskip.formats.iceberg import table as iceberg_table
from zskip.formats.iceberg.catalog import PyIcebergCatalog, UnknownCommitError, load_configured_catalog
from zskip.formats.iceberg.replace import ReplaceFiles

WRITABLE = Schema(*(f for f in SCHEMA.fields if not isinstance(f.field_type, UUIDType | FixedType | TimeType)))
BY: dict[str, tuple[tuple[str, Transform[Any, Any]], ...]] = {
    "nothing": (),
    "identity": (("s", IdentityTransform()), ("b", IdentityTransform())),
    "numbers": (("m", IdentityTransform()), ("i", TruncateTransform(20))),
    "buckets": (("id", BucketTransform(3)), ("s", BucketTransform(2)), ("w", BucketTransform(2))),
    "texts": (("s", TruncateTransform(2)), ("bin", TruncateTransform(1))),
    "years": (("ts", YearTransform()), ("d", MonthTransform())),
    "hours": (("tn", HourTransform()), ("ts", DayTransform()), ("d", DayTransform())),
    "void": (("id", VoidTransform()), ("b", IdentityTransform())),
}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_at(tmp_path)


def form_of(table: Table) -> IcebergFormat:
    return IcebergFormat(LocalStorage(str(path_of(table))), PyIcebergCatalog.of(table))


def entries(table: Table) -> list[ManifestEntry]:
    current = table.refresh().current_snapshot()
    assert current is not None
    return [e for m in current.manifests(table.io) for e in m.fetch_manifest_entry(table.io)]


def unknown_files(table: Table) -> set[str]:
    """Files below a table that no metadata, manifest or log of it names."""
    table.refresh()
    known = {table.metadata_location} | {entry.metadata_file for entry in table.metadata.metadata_log}
    for snapshot in table.snapshots():
        known.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            known.add(manifest.manifest_path)
            known |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io, discard_deleted=False)}
    return {f"file://{path}" for path in path_of(table).rglob("*") if path.is_file()} - known


def filled(catalog: SqlCatalog, *by: tuple[str, Transform[Any, Any]], **properties: str) -> Table:
    table = create(catalog, *by, schema=WRITABLE, **properties)
    rng = random.Random(3)
    for start in (0, 30):
        table.append(content(rng, 30, start).select([field.name for field in WRITABLE.fields]))
    return table


def partition_of(table: Table, spec_id: int, row: dict[str, Any]) -> tuple[Any, ...]:
    """The partition values of a row by the definition of each transform."""
    found = []
    for part in table.metadata.specs()[spec_id].fields:
        field = table.schema().find_field(part.source_id)
        value = row[field.name]
        if isinstance(value, dt.datetime):
            value = (value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        elif isinstance(value, dt.date):
            value = (value - dt.date(1970, 1, 1)).days
        found.append(part.transform.transform(field.field_type)(value))
    return tuple(found)


@pytest.mark.slow
@pytest.mark.parametrize("by", BY)
def test_every_row_stays_in_its_partition(catalog: SqlCatalog, by: str) -> None:
    table = filled(catalog, *BY[by])
    before = rows_of(table.scan().to_arrow())
    old = {tuple(e.data_file.partition[i] for i in range(len(BY[by]))) for e in entries(table)}
    rewrite(form_of(table))
    assert rows_of(table.refresh().scan().to_arrow()) == before
    manifest_entries = entries(table)
    assert len(manifest_entries) == len(old), "one new file for each partition"
    for entry in manifest_entries:
        file = entry.data_file
        values = tuple(file.partition[i] for i in range(len(BY[by])))
        assert values in old
        for row in pq.ParquetFile(file.file_path.removeprefix("file://")).read().to_pylist():
            assert partition_of(table, file.spec_id, row) == values
    assert table.current_snapshot().summary.operation.value == "replace"
    assert table.current_snapshot().summary["total-records"] == "60"
    some = table.scan().to_arrow()
    for name in ("id", "i", "s", "d", "ts", "tn", "b", "m"):
        value = next(v for v in some[name].to_pylist() if v is not None)
        expected = sum(v == value for v in some[name].to_pylist())
        literal = value.isoformat() if isinstance(value, dt.date) else str(value) if name == "m" else value
        assert table.scan(EqualTo(name, literal)).to_arrow().num_rows == expected, name
    table.append(content(random.Random(4), 5, 900).select(some.column_names))
    assert table.scan().to_arrow().num_rows == 65
    assert unknown_files(table) == set()


def test_the_metrics_of_new_files_are_exact(catalog: SqlCatalog) -> None:
    table = filled(catalog, ("b", IdentityTransform()), **{"write.metadata.metrics.column.bin": "counts"})
    rewrite(form_of(table))
    for entry in entries(table):
        file = entry.data_file
        assert file.file_size_in_bytes == Path(file.file_path.removeprefix("file://")).stat().st_size
        rows = pq.ParquetFile(file.file_path.removeprefix("file://")).read()
        assert file.record_count == rows.num_rows
        assert file.split_offsets == [4]
        for field in table.schema().fields:
            key, kind = field.field_id, field.field_type
            if field.name in ("n", "l"):
                assert key not in file.value_counts
                continue
            values = rows[field.name].to_pylist()
            there = [v for v in values if v is not None and v == v]
            assert file.value_counts[key] == len(values)
            assert file.null_value_counts[key] == values.count(None)
            assert file.column_sizes[key] > 0
            if field.name == "bin":
                assert key not in file.lower_bounds
                continue
            if key not in file.lower_bounds:
                assert not there or field.name in ("f", "x")
                continue
            least, greatest = (from_bytes(kind, held[key]) for held in (file.lower_bounds, file.upper_bounds))
            if field.name == "s":
                assert least == min(there)[:16]
                assert greatest == max(there) if len(max(there)) <= 16 else len(greatest) <= 16
                assert greatest >= max(there)
            else:
                assert (least, greatest) == tuple(map(_encoded, (min(there), max(there)))), field.name


def _encoded(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return (value - dt.date(1970, 1, 1)).days if isinstance(value, dt.date) else value


def test_files_of_several_specs_stay_under_theirs(catalog: SqlCatalog) -> None:
    table = small(catalog, 4)
    with table.update_spec() as update:
        update.add_field("a", BucketTransform(2), "half")
    more = pa.table({"a": pa.array(range(200, 208), pa.int32()), "s": ["x"] * 8})
    table.append(more)
    with table.update_spec() as update:
        update.remove_field("half")
        update.add_identity("s")
    table.append(more)
    before = rows_of(table.scan().to_arrow())
    assert form_of(table).snapshot().grouped_by == (), "not all files are partitioned by a column itself"
    specs = Counter((e.data_file.spec_id, e.data_file.record_count) for e in entries(table))
    rewrite(form_of(table))
    assert rows_of(table.refresh().scan().to_arrow()) == before
    after = Counter((e.data_file.spec_id, e.data_file.record_count) for e in entries(table))
    assert {spec for spec, _ in after} == {spec for spec, _ in specs} == {0, 1, 2}
    assert table.scan("a = 203").to_arrow().num_rows == 2
    table.append(more)
    assert table.scan().to_arrow().num_rows == before.total() + 8


def test_a_table_of_version_1(catalog: SqlCatalog) -> None:
    schema = Schema(*WRITABLE.fields[:2])
    table = create(catalog, ("i", IdentityTransform()), schema=schema, **{"format-version": "1"})
    rows = pa.table({"id": pa.array(range(6), pa.int64()), "i": pa.array([0, 1, None] * 2, pa.int32())})
    table.append(rows)
    table.append(rows)
    rewrite(form_of(table))
    assert table.refresh().metadata.format_version == 1
    assert rows_of(table.scan().to_arrow()) == rows_of(pa.concat_tables([rows, rows]))
    assert len(entries(table)) == 3
    assert form_of(table).last_operation() == (0, {"operation": "optimize", "by": ["id"]})


def test_columns_are_found_when_they_are_renamed_later(catalog: SqlCatalog) -> None:
    table = small(catalog)
    form = form_of(table)
    base = form.snapshot()
    added = stage_all(form, base, "x")
    form.replace(base, np.ones(len(base), bool), added)
    with table.update_schema() as update:
        update.rename_column("s", "other")
    assert table.scan("a >= 100").to_arrow()["other"].to_pylist() == ["v2", "v1", "v0"]


def test_files_with_wrong_ids_are_not_committed(catalog: SqlCatalog) -> None:
    table = small(catalog)
    form = form_of(table)
    base = form.snapshot()
    (added,) = stage_all(form, base, "x")
    file = path_of(table) / added.path
    rows = pq.read_table(file)
    for ids in ((b"2", b"1"), (b"1", None), (None, None)):
        fields = [
            f.with_metadata({"PARQUET:field_id": key} if key else {}) for f, key in zip(rows.schema, ids, strict=True)
        ]
        pq.write_table(rows.cast(pa.schema(fields)), file)
        wrong = StagedFile(path=added.path, directory="", size=file.stat().st_size)
        with pytest.raises(CorruptFileError, match="report it"):
            form.replace(base, np.ones(len(base), bool), [wrong])
    form.abort(added.path.rpartition("/")[0])
    assert form.snapshot().paths == base.paths
    assert unknown_files(table) == set()


@pytest.mark.parametrize("name", ["u", "fx"])
def test_types_that_spark_writes_as_others_are_refused(catalog: SqlCatalog, name: str) -> None:
    table = create(catalog, schema=Schema(SCHEMA.find_field("id"), SCHEMA.find_field(name)))
    with pytest.raises(UnsupportedError, match=f'column "{name}"'):
        form_of(table).check_replaceable()


def test_a_column_of_a_live_partition_that_was_dropped(catalog: SqlCatalog) -> None:
    table = create(catalog, ("i", IdentityTransform()), schema=Schema(*WRITABLE.fields[:2]))
    table.append(pa.table({"id": pa.array([1], pa.int64()), "i": pa.array([1], pa.int32())}))
    with table.update_spec() as update:
        update.remove_field("p0")
    with table.update_schema() as update:
        update.delete_column("i")
    with pytest.raises(UnsupportedError, match="dropped column"):
        form_of(table).check_replaceable()


def test_rows_that_have_ids_are_refused(catalog: SqlCatalog) -> None:
    table = small(catalog)
    edit(table, lambda described: described.update({"format-version": 3, "next-row-id": 6}))
    with pytest.raises(UnsupportedError, match="version 3"):
        form_of(table).check_replaceable()


def test_without_a_catalog_there_is_no_rewrite(catalog: SqlCatalog) -> None:
    table = small(catalog)
    form = IcebergFormat(LocalStorage(str(path_of(table))))
    for refused in (form.check_replaceable, form.stage):
        with pytest.raises(UnsupportedError, match=r"catalog\.db\.table"):
            refused()


def test_the_catalog_knows_which_metadata_is_current(catalog: SqlCatalog) -> None:
    table = small(catalog)
    shutil.copy(newest(table), newest(table).with_name("00002-11111111-2222-3333-4444-555555555555.metadata.json"))
    with pytest.raises(UnsupportedError, match="only the catalog knows"):
        zskip.open(str(path_of(table))).files()
    assert len(zskip.open(table).files("a >= 100")) == 1
    rewrite(form_of(table))
    assert table.refresh().scan().to_arrow().num_rows == 6


def test_another_writer_between_the_look_and_the_commit(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small(catalog)
    prepare, late = ReplaceFiles.prepare, [1, 2]

    def prepared(self: ReplaceFiles) -> Any:
        prepared_commit = prepare(self)
        if late:
            catalog.load_table("db.t").append(pa.table({"a": pa.array([late.pop()], pa.int32()), "s": ["late"]}))
        return prepared_commit

    monkeypatch.setattr(ReplaceFiles, "prepare", prepared)
    before = rows_of(table.scan().to_arrow())
    rewrite(form_of(table))
    assert rows_of(table.refresh().scan("s != 'late'").to_arrow()) == before
    assert table.scan("s = 'late'").to_arrow()["a"].to_pylist() == [1, 2]
    assert [s.summary.operation.value for s in table.snapshots()].count("replace") == 1
    assert unknown_files(table) == set()


def test_a_column_that_comes_meanwhile_is_a_conflict(catalog: SqlCatalog) -> None:
    table = small(catalog)

    def widen() -> None:
        with catalog.load_table("db.t").update_schema() as update:
            update.add_column("more", WRITABLE.find_field("d").field_type)

    with pytest.raises(ConflictError, match="columns"):
        rewrite(form_of(table), between=widen)
    assert unknown_files(table) == set()


def test_what_zskip_does_not_read_comes_meanwhile(catalog: SqlCatalog) -> None:
    table = small(catalog)

    def rename() -> None:
        with catalog.load_table("db.t").update_schema() as update:
            update.rename_column("s", "other")

    form = form_of(table)
    base = form.snapshot()
    added = stage_all(form, base, "x")
    contents = form._contents()
    rename()
    from zskip.formats.iceberg.commit import prepare_rewrite

    rewrite = prepare_rewrite(contents, base, added, added[0].path.split("/")[2], {})
    with pytest.raises(ConflictError, match="was called"):
        PyIcebergCatalog.of(table).commit(rewrite, form._contents)
    form.abort(added[0].path.rpartition("/")[0])
    assert unknown_files(table) == set()


def test_a_table_dropped_meanwhile(catalog: SqlCatalog) -> None:
    table = small(catalog)
    files = sorted(path_of(table).rglob("*.parquet"))
    with pytest.raises(TableNotFoundError, match=r"c\.db\.t"):
        rewrite(form_of(table), between=lambda: catalog.drop_table("db.t"))
    assert set(files) <= set(path_of(table).rglob("*.parquet"))


def test_an_answer_that_is_lost_is_looked_up(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small(catalog)
    commit = SqlCatalog.commit_table

    def lost(self: SqlCatalog, *arguments: Any) -> Any:
        commit(self, *arguments)
        raise ConnectionError("the line is dead")

    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    assert rewrite(form_of(table)) == 3
    assert table.refresh().scan().to_arrow().num_rows == 6
    assert unknown_files(table) == set()


def test_a_commit_of_which_nothing_is_known_keeps_its_files(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = small(catalog)
    pending: list[Any] = []

    def slow(self: SqlCatalog, *arguments: Any) -> Any:
        pending.append(arguments)
        raise ConnectionError("the line is dead")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", slow)
        with pytest.raises(UnknownCommitError, match="call again"):
            rewrite(form_of(table))
    kept = unknown_files(table)
    assert len([name for name in kept if name.endswith("new-0.parquet")]) == 1
    # It comes after all: nothing that it needs was taken away.
    catalog.commit_table(*pending[0])
    assert table.refresh().scan().to_arrow().num_rows == 6
    (staging,) = (path_of(table) / "_zskip" / "staging").iterdir()
    monkeypatch.setattr(iceberg, "_UNKNOWN_FOR", 0)
    form_of(table).abort(f"_zskip/staging/{staging.name}")
    assert table.refresh().scan().to_arrow().num_rows == 6
    assert unknown_files(table) == set()


def test_a_commit_that_never_came_is_swept(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small(catalog)

    def dead(*arguments: Any) -> Any:
        raise ConnectionError("the line is dead")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", dead)
        with pytest.raises(UnknownCommitError):
            rewrite(form_of(table))
    assert unknown_files(table)
    (staging,) = (path_of(table) / "_zskip" / "staging").iterdir()
    monkeypatch.setattr(iceberg, "_UNKNOWN_FOR", 0)
    form_of(table).abort(f"_zskip/staging/{staging.name}")
    assert unknown_files(table) == set()


def test_a_name_is_looked_up_where_no_directory_has_it(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(catalog)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__C__URI", f"sqlite:///{tmp_path}/c.db")
    assert len(zskip.open("c.db.t").files("a >= 100")) == 1
    assert zskip.open("c.db.t", format="iceberg").info().files == 2
    with pytest.raises(TableNotFoundError, match=r"c\.db\.nothing"):
        zskip.open("c.db.nothing")
    with pytest.raises(TableNotFoundError):
        zskip.open("d.db.t").files()
    pq.write_table(pa.table({"z": [1]}), (tmp_path / "c.db.t").mkdir() or tmp_path / "c.db.t" / "x.parquet")
    assert list(zskip.open("c.db.t").info().columns) == ["z"]


def test_a_catalog_that_lacks_a_property(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LACKING__TYPE", "sql")
    with pytest.raises(InputError, match=r"lacking.*uri.*PYICEBERG_CATALOG__LACKING__"):
        zskip.open("lacking.db.t")


@pytest.fixture
def silent() -> Iterator[str]:
    """A catalog that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_catalog_that_does_not_answer(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__SILENT__URI", silent)
    monkeypatch.setattr(iceberg_catalog, "TIMEOUT", 0.5)
    start = time.monotonic()
    with pytest.raises(StorageError, match=r"silent\.db\.t.*no answer within 0\.5 seconds"):
        zskip.open("silent.db.t")
    assert time.monotonic() - start < 30


def test_a_catalog_in_memory(tmp_path: Path) -> None:
    from pyiceberg.catalog.memory import InMemoryCatalog

    memory_catalog = InMemoryCatalog("m", warehouse=f"file://{tmp_path}")
    memory_catalog.create_namespace("db")
    table = small(memory_catalog)
    rewrite(form_of(table))
    assert table.refresh().scan().to_arrow().num_rows == 6


def test_a_catalog_that_is_down_in_the_middle(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small(catalog)
    before = sorted(path_of(table).rglob("*"))

    def dead(*arguments: Any) -> Any:
        raise ConnectionError("connection refused")

    form = form_of(table)
    base = form.snapshot()
    added = stage_all(form, base, "x")
    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "load_table", dead)
        with pytest.raises(StorageError, match=r"connection refused.*Nothing was committed"):
            form.replace(base, np.ones(len(base), bool), added)
        form.abort(added[0].path.rpartition("/")[0])
    assert form.snapshot().paths == base.paths
    assert [path for path in sorted(path_of(table).rglob("*")) if "_zskip" not in path.parts] == before


def test_metadata_that_the_catalog_names_is_gone(catalog: SqlCatalog) -> None:
    table = small(catalog)
    newest(table).unlink()
    with pytest.raises(StorageError, match=newest(table).name):
        form_of(table).snapshot()


def test_a_manifest_is_not_kept_from_a_later_rewrite_by_an_expired_one(catalog: SqlCatalog) -> None:
    """The files of a rewrite stay, even where its snapshot has expired and its process died right after."""
    table = small(catalog)
    form = form_of(table)
    base = form.snapshot()
    added = stage_all(form, base, "x")
    staging = added[0].path.rpartition("/")[0]
    name = staging.rpartition("/")[2]
    form.replace(base, np.ones(len(base), bool), added)
    note = {"targets": [f"data/{added[0].path.rpartition('/')[2]}"], "at_ms": int(time.time() * 1000)}
    LocalStorage(str(path_of(table))).write(f"_zskip/staging/{name}/_moved.json", json.dumps(note).encode())
    table.refresh().append(pa.table({"a": pa.array([9], pa.int32()), "s": ["new"]}))
    old = [s.snapshot_id for s in table.refresh().snapshots()][:-1]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    form.abort(f"_zskip/staging/{name}")
    assert table.refresh().scan().to_arrow().num_rows == 7


@pytest.mark.parametrize("merged", [True, False])
def test_many_small_manifests_become_one(catalog: SqlCatalog, merged: bool) -> None:
    properties = {"commit.manifest.min-count-to-merge": "4", "commit.manifest-merge.enabled": str(merged).lower()}
    table = create(catalog, ("i", IdentityTransform()), schema=WRITABLE, **properties)
    names = [field.name for field in WRITABLE.fields]
    rng = random.Random(5)
    for start in range(0, 20, 5):
        table.append(content(rng, 5, start).select(names))
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(2), "half")
    table.append(content(rng, 5, 20).select(names))
    whole = rows_of(table.scan().to_arrow())
    before = {e.data_file.file_path: e for e in entries(table)}
    old_version = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    rewrite(form_of(table), only=lambda count: count - 1)
    after = {e.data_file.file_path: e for e in entries(table)}
    snapshot = table.current_snapshot()
    assert snapshot is not None
    counts = Counter(m.partition_spec_id for m in snapshot.manifests(table.io) if not m.deleted_files_count)
    assert (counts[0] < 4) == merged
    kept = before.keys() & after.keys()
    assert len(kept) > 5
    for path in kept:
        for name in ("snapshot_id", "sequence_number", "file_sequence_number"):
            assert getattr(after[path], name) == getattr(before[path], name)
        for name in ("spec_id", "partition", "record_count", "file_size_in_bytes", "lower_bounds", "null_value_counts"):
            old, new = (getattr(each[path].data_file, name) for each in (before, after))
            assert (dict(old) == dict(new)) if name.endswith(("bounds", "counts")) else (old == new)
    assert rows_of(table.scan().to_arrow()) == rows_of(table.scan(snapshot_id=old_version).to_arrow()) == whole
    table.append(content(rng, 5, 30).select(names))
    assert table.scan().to_arrow().num_rows == 30


def test_manifests_are_read_once(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table, read = small(catalog), []
    entries_of = iceberg_table._Reader.entries

    def entries(reader: Any, manifest: Any, *more: Any) -> Any:
        read.append(manifest.manifest_path)
        return entries_of(reader, manifest, *more)

    monkeypatch.setattr(iceberg_table._Reader, "entries", entries)
    form = form_of(table)
    assert [len(form.snapshot()) for _ in range(2)] == [2, 2]
    assert len(read) == len({*read}) == 2
    table.append(pa.table({"a": pa.array([9], pa.int32()), "s": ["new"]}))
    assert len(form.snapshot()) == 3
    assert len(read) == len({*read}) == 3
    catalog.drop_table("db.t")
    small(catalog, 5)
    assert form.snapshot().known is not None
    assert sum(form.snapshot().known.rows.tolist()) == 10  # type: ignore[union-attr]


def test_a_commit_reads_none_of_the_metadata_that_the_log_has_forgotten(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = small(catalog)
    with table.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "2"})
    names: list[str] = []
    read = sweep.read_metadata

    def noted(storage: Any, path: str) -> Any:
        names.append(path)
        return read(storage, path)

    monkeypatch.setattr(sweep, "read_metadata", noted)
    for number in range(4):
        names.clear()
        rewrite(form_of(table), f"new{number}")
        assert names == [f"metadata/{newest(table.refresh()).name}"]
    assert len(list((path_of(table) / "metadata").glob("*.json"))) > 6


def test_zeros_and_long_texts_have_bounds_that_hold(catalog: SqlCatalog) -> None:
    schema = Schema(*(SCHEMA.find_field(name) for name in ("id", "x", "s", "m")))
    mode = "write.metadata.metrics.column.s"
    table = create(catalog, schema=schema, **{mode: "counts"})
    last = "\U0010ffff"
    rows = pa.table(
        {
            "id": pa.array(range(4), pa.int64()),
            "x": [0.0, -0.0, 0.0, -0.0],
            "s": ["a" * 15 + last * 3, "\ud7ff" * 20, "b" * 40, "a"],
            "m": pa.array([Decimal("-1.50"), None, Decimal("9999999.99"), Decimal("0")], pa.decimal128(9, 2)),
        }
    )
    table.append(rows)
    with table.transaction() as change:
        change.set_properties({mode: "truncate(16)"})
    rewrite(form_of(table))
    (entry,) = entries(table)
    file = entry.data_file
    fields = {field.field_id: field for field in table.schema().fields}
    lower = {fields[key].name: from_bytes(fields[key].field_type, bound) for key, bound in file.lower_bounds.items()}
    assert math.copysign(1, lower["x"]) == -1
    assert "s" not in lower, "nothing above U+D7FF that is as short is a text"
    assert lower["m"] == Decimal("-1.50")
    assert load_configured_catalog("no.such.catalog") is None
    for text in rows["s"].to_pylist():
        assert table.scan(EqualTo("s", text)).to_arrow().num_rows == 1


@pytest.mark.parametrize("recorded", [False, True])
def test_a_column_with_nan_has_no_bounds(catalog: SqlCatalog, recorded: bool) -> None:
    """For Iceberg bounds leave out NaN, which for Spark is above them."""
    table = create(catalog, schema=Schema(SCHEMA.find_field("id"), SCHEMA.find_field("x")))
    form = form_of(table)
    staging = form.stage()
    rows = pa.table({"id": [1, 2], "x": [1.0, math.nan]}, table.schema().as_arrow().with_metadata(None))
    footer = {NAN_STATISTICS: json.dumps({"x": [[0, 1, 1.0, 1.0]]})} if recorded else None
    path = path_of(table) / staging / "a.parquet"
    pq.write_table(rows.replace_schema_metadata(footer), path)
    form.append(form.snapshot(), [StagedFile(path=f"{staging}/a.parquet", directory="", size=path.stat().st_size)])
    (entry,) = entries(table.refresh())
    assert (table.schema().find_field("x").field_id in entry.data_file.lower_bounds) != recorded
    assert table.schema().find_field("id").field_id in entry.data_file.lower_bounds


def test_the_command_line_takes_a_name(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from zskip.cli.app import app

    small(catalog)
    monkeypatch.setenv("PYICEBERG_CATALOG__C__URI", f"sqlite:///{tmp_path}/c.db")
    result = CliRunner().invoke(app, ["files", "c.db.t", "--where", "a >= 100"])
    assert result.exit_code == 0, result.output
    assert result.output.count(".parquet") == 1


def test_where_holds_for_whole_files_or_not_at_all(catalog: SqlCatalog, spark: Any) -> None:
    table = filled(catalog, ("s", TruncateTransform(1)), ("b", IdentityTransform()))
    before, old = rows_of(table.scan().to_arrow()), {e.data_file.file_path for e in entries(table)}
    opened = zskip.table(spark, table)
    assert opened.info().partition_columns == ("b",)
    with pytest.raises(ColumnError, match="already lie in separate files"):
        opened.optimize(["id", "b"])
    with pytest.raises(PredicateError, match="cannot be decided"):
        opened.optimize(["id", "i"], where="i = 5")
    result = opened.optimize(["id", "i"], where="b", files=2)
    after = {e.data_file.file_path for e in entries(table)}
    kept = [e.data_file.file_path for e in entries(table) if e.data_file.partition[1] is not True]
    assert 0 < result.files_before == len(old - after)
    assert set(kept) < old
    assert rows_of(table.refresh().scan().to_arrow()) == before


def test_settings_of_new_files_are_followed_or_named(catalog: SqlCatalog, spark: Any) -> None:
    table = small(catalog)
    with table.transaction() as transaction:
        transaction.set_properties(
            {"write.parquet.bloom-filter-enabled.column.s": "true", "write.object-storage.enabled": "true"}
        )
    with pytest.warns(ZskipWarning, match=r"do not follow write\.object-storage\.enabled"):
        result = zskip.table(spark, table).optimize(["a", "s"])
    assert result.notes == ("new files do not follow write.object-storage.enabled",)
    for entry in entries(table):
        file = pq.read_metadata(entry.data_file.file_path.removeprefix("file://"))
        columns = {c.path_in_schema: c for c in map(file.row_group(0).column, range(file.num_columns))}
        assert [name for name, c in columns.items() if c.bloom_filter_offset is not None] == ["s"]


def test_a_data_file_that_is_gone(catalog: SqlCatalog, spark: Any) -> None:
    table = small(catalog)
    lost = Path(entries(table)[0].data_file.file_path.removeprefix("file://"))
    lost.unlink()
    with pytest.raises(ZskipError, match=lost.name):
        zskip.table(spark, table).optimize(["a", "s"])
    assert len(table.refresh().snapshots()) == 2
    assert unknown_files(table) == set()
