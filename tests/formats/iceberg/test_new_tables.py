"""A new Iceberg table and its first rows are one commit: whoever dies or fails on the way leaves no table."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tiers
from appends import INFO, NEW, stage
from crashes import Dying
from format_tables import PRELOADED, IcebergMaker, count_commits, rows_of
from owners import dead_owner

from zskip.errors import ConflictError, StorageError, TableNotFoundError, UnsupportedError
from zskip.formats import IcebergFormat
from zskip.formats.hive import is_hidden
from zskip.formats.iceberg.catalog import IcebergCatalog, TableDefinition, load_configured_catalog
from zskip.formats.iceberg.partitions import parse_partition_terms
from zskip.storage import LocalStorage

MAKER = IcebergMaker()
COLUMNS = pa.schema([pa.field(field.name, field.type) for field in NEW.schema])


def address(path: Path) -> str:
    """A name in a catalog without tables."""
    name = MAKER.address(path)
    os.environ[f"PYICEBERG_CATALOG__{name.partition('.')[0].upper()}__WAREHOUSE"] = (
        f"file://{path.parent}/w-{path.name}"
    )
    MAKER._catalog(path).create_namespace_if_not_exists("db")
    return name


def catalog_of(path: Path) -> IcebergCatalog:
    catalog = load_configured_catalog(address(path))
    assert catalog is not None
    return catalog


def draft(path: Path, *partition_by: str) -> IcebergCatalog:
    definition = TableDefinition(columns=COLUMNS, schema_json="", partition_by=partition_by, case_sensitive=False)
    return catalog_of(path).draft(definition)


def make(path: Path, storage_of: Any = LocalStorage, name: str = "first") -> IcebergFormat:
    """Make a table with its first rows as `zskip.write` does."""
    new = draft(path)
    root = new.current().root.removeprefix("file://")
    storage = storage_of(root)
    form = IcebergFormat(storage, new)
    if isinstance(storage, Dying):
        count_commits(storage.steps, form.name)
    base, added = form.snapshot(), stage(form, Path(root), name=name)
    try:
        assert form.append(base, added, INFO) is not None
    except BaseException:
        form.abort(added[0].path.rpartition("/")[0])
        raise
    return form


def die(path: Path, step: int, after: bool) -> None:
    make(path, lambda root: Dying(root, step, after), "dead")


def has_table(path: Path) -> bool:
    return bool(MAKER._catalog(path).table_exists("db.t"))


def test_the_first_snapshot_has_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "t ä"
    form = make(path)
    table = MAKER._load(path)
    assert rows_of(MAKER.read(path)) == rows_of(NEW)
    assert [snapshot.summary.operation.value for snapshot in table.snapshots()] == ["append"]
    assert not table.metadata.metadata_log
    assert form.snapshot().version == 1
    assert form.last_operation() == (1, INFO)
    # The same object goes on with the table that is there now.
    base, added = form.snapshot(), stage(form, Path(form.storage.root), name="more")
    assert form.append(base, added, INFO) == 2
    assert rows_of(MAKER.read(path)) == rows_of(NEW) + rows_of(NEW)


@pytest.mark.slow  # A process and a catalog for each step.
@pytest.mark.parametrize("after", tiers.nightly([True, False]), ids=["after", "before"])
def test_killed_at_every_step(tmp_path: Path, after: bool, caplog: pytest.LogCaptureFixture) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, "appends"])
    undecided = 0
    for step in range(1, 100):
        path = tmp_path / f"t{step}"
        address(path)
        child = context.Process(target=die, args=(path, step, after))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        committed = has_table(path)
        if committed:
            # The next rewrite sweeps.
            storage = LocalStorage(MAKER._load(path).location().removeprefix("file://"))
            form = IcebergFormat(storage, catalog_of(path))
            assert rows_of(MAKER.read(path)) == rows_of(NEW), step
            form.abort(form.stage())
        else:
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                form = make(path)
            assert rows_of(MAKER.read(path)) == rows_of(NEW), step
        root = Path(form.storage.root)
        known = {str(Path(name)) for name in MAKER.known_files(path)}
        known = {name.partition(f"{root}/")[2] or name for name in known}
        left = {f.path for f in LocalStorage(str(root)).walk(is_hidden)} - known
        staged = [f for f in (root / "_zskip" / "staging").rglob("*") if f.is_file()]
        if left or staged:
            # The catalog may have had such a table: its metadata was written.
            undecided += 1
            assert any(name.endswith(".metadata.json") for name in left), step
            assert "may be those of another table" in caplog.text
        if child.exitcode == 0:
            assert step > 8
            assert undecided <= 2
            return
    pytest.fail("the write never ended")


def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zskip.formats.iceberg.replace import ReplaceFiles

    path = tmp_path / "t"
    root = Path(draft(path).current().root.removeprefix("file://"))

    def fail(*_: Any) -> Any:
        raise OSError("disk full")

    monkeypatch.setattr(ReplaceFiles, "_write", fail)
    with pytest.raises(StorageError, match="disk full"):
        make(path)
    assert not has_table(path)
    assert [file for file in root.rglob("*") if file.is_file()] == []
    with pytest.raises(TableNotFoundError):
        catalog_of(path).current()


def test_of_two_makers_one_is_first(tmp_path: Path) -> None:
    path = tmp_path / "t"
    new = draft(path)
    slow = IcebergFormat(LocalStorage(new.current().root.removeprefix("file://")), new)
    base, added = slow.snapshot(), stage(slow, Path(slow.storage.root), name="slow")
    make(path)
    with pytest.raises(ConflictError, match=r'another writer has made the table "c.*meanwhile; nothing was committed'):
        slow.append(base, added, INFO)
    slow.abort(added[0].path.rpartition("/")[0])
    assert rows_of(MAKER.read(path)) == rows_of(NEW)
    root = Path(slow.storage.root)
    names = {file.name for file in root.rglob("*.parquet")}
    assert names == {"first-0.parquet", "first-1.parquet"}
    assert len(list((root / "metadata").glob("*.metadata.json"))) == 1


def test_the_files_of_a_renamed_table_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A table of the old name is made at the place where the renamed one still lies."""
    path = tmp_path / "t"
    form = make(path)
    root = Path(form.storage.root)
    # As if the process had died right after the commit.
    name = json.loads(json.dumps(MAKER._load(path).snapshots()[-1].summary.additional_properties))["zskip.rewrite"]
    files = sorted(str(file.relative_to(root)) for file in root.rglob("first-*.parquet"))
    moves = {"targets": files, "at_ms": 0, "table": str(MAKER._load(path).metadata.table_uuid)}
    staging = root / "_zskip" / "staging" / name
    staging.mkdir(parents=True)
    (staging / "_moved.json").write_text(json.dumps(moves))
    (staging / "_owner.json").write_bytes(dead_owner())
    MAKER._catalog(path).rename_table("db.t", "db.other")
    with caplog.at_level(logging.WARNING):
        make(path, name="second")
    assert "may be those of another table" in caplog.text
    other = MAKER._catalog(path).load_table("db.other")
    assert rows_of(other.scan().to_arrow()) == rows_of(NEW)
    assert rows_of(MAKER.read(path)) == rows_of(NEW)


def test_partitions_are_for_catalogs_of_the_session(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"partition_by=\['region'\].*catalogs of the session.*Nothing was"):
        draft(tmp_path / "t", "region")


TERMS = {
    "id": "id: identity",
    "`a b`": "a b: identity",
    "N.q": "n.q: identity",
    "days(ts)": "ts: day",
    " Hour( TS ) ": "ts: hour",
    "date(ts)": "ts: day",
    "bucket(16, id)": "id: bucket[16]",
    "bucket(id,16)": "id: bucket[16]",
    "truncate(3, `a b`)": "a b: truncate[3]",
    "truncate(a b, 3)": "a b: truncate[3]",
    "years(x)": "years(x): identity",
    "idd": 'no column "idd" in the rows for "c.db.t" (partition_by); did you mean "id"?',
    "days(tsx)": 'no column "tsx" in the rows for "c.db.t" (partition_by); did you mean "ts"?',
    "days(ts, id)": 'no column "ts, id" in the rows',
    "dayz(ts)": 'partition_by="dayz(ts)" names no transform of Iceberg; did you mean "day"?',
    "md5(id)": "Iceberg has years, months, days, hours, bucket and truncate",
    "bucket(id)": 'bucket takes a positive number and a column, as in "bucket(16, id)"',
    "bucket(0, id)": "bucket takes a positive number",
    "truncate(-1, id)": 'truncate takes a positive number and a column, as in "truncate(4, name)"',
    "days(id)": 'Iceberg has no day of "id", a long',
    "bucket(4, x)": 'Iceberg has no bucket[4] of "x", a double',
    "n": 'Iceberg has no identity of "n", a struct',
    "x": "zskip does not write partitions by the values of a double",
    "ts": "zskip does not write partitions by the values of a timestamptz",
}


@pytest.mark.parametrize("text", TERMS)
def test_partitions_as_spark_spells_them(text: str) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType, TimestamptzType

    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "ts", TimestamptzType()),
        NestedField(3, "a b", StringType()),
        NestedField(4, "x", DoubleType()),
        NestedField(5, "n", StructType(NestedField(6, "q", LongType()))),
        NestedField(7, "years(x)", LongType()),
    )
    try:
        (term,) = parse_partition_terms([text], schema, "c.db.t", case_sensitive=False)
        found = f"{term.column}: {term.transform}"
    except (ValueError, UnsupportedError) as error:
        found = str(error)
    assert TERMS[text] in found


def test_partitions_twice() -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField, TimestamptzType

    schema = Schema(NestedField(1, "ts", TimestamptzType()))
    with pytest.raises(ValueError, match='"ts" twice by the same transform, or by two periods'):
        parse_partition_terms(["days(ts)", "hours(TS)"], schema, "t", case_sensitive=False)
    with pytest.raises(ValueError, match='no column "TS"'):
        parse_partition_terms(["days(TS)"], schema, "t", case_sensitive=True)
