"""Branches of Iceberg tables in catalogs of pyiceberg's: each has rows and batches of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from appends import append, overwrite
from format_tables import IcebergMaker, content, rows_of

import zskip
from zskip.errors import InputError, TableNotFoundError, UnsupportedError
from zskip.formats import BatchId, IcebergFormat
from zskip.formats.iceberg.catalog import load_configured_catalog
from zskip.storage import LocalStorage

MAKER = IcebergMaker()


def opened(path: Path, branch: str | None = None) -> IcebergFormat:
    return IcebergFormat(LocalStorage(str(path)), load_configured_catalog(MAKER.address(path)), branch)


def read(path: Path, branch: str) -> object:
    table = MAKER._load(path)
    return rows_of(table.scan(snapshot_id=table.refs()[branch].snapshot_id).to_arrow())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with a branch and a tag."""
    MAKER.append(tmp_path / "t", content(40), partitioned=False)
    table = MAKER._load(tmp_path / "t")
    snapshot = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(snapshot, "audit").create_tag(snapshot, "good").commit()
    return tmp_path / "t"


def test_rows_go_to_the_branch_alone(path: Path) -> None:
    before, new = rows_of(content(40)), rows_of(content(24, 60))
    audit, own = opened(path, "audit"), opened(path)
    version = append(audit, path, BatchId(application="a", version=3))
    assert (read(path, "audit"), read(path, "main")) == (before + new, before)
    assert (audit.last_batch("a"), own.last_batch("a")) == (3, None)
    assert (audit.snapshot().version, own.snapshot().version) == (version, 1)
    assert (len(audit.snapshot()), len(own.snapshot())) == (3, 1)
    # The same batch is new to the table's own branch, and not to the other.
    assert append(audit, path, BatchId(application="a", version=2), "again") is None
    assert append(opened(path, "main"), path, BatchId(application="a", version=2), "own") is not None
    assert (read(path, "audit"), read(path, "main")) == (before + new, before + new)
    overwrite(audit, path)
    assert (read(path, "audit"), read(path, "main")) == (new, before + new)
    parent = MAKER._load(path).refs()["main"].snapshot_id
    assert MAKER._load(path).snapshot_by_id(parent).parent_snapshot_id is not None
    assert not list((path / "_zskip" / "staging").glob("*/*"))
    known = {file for file in MAKER.known_files(path) if file.endswith(".parquet")}
    assert {str(file.relative_to(path)) for file in path.rglob("*.parquet")} == known


@pytest.mark.parametrize(
    ("branch", "match"),
    [
        ("adit", r'"c\d+\.db\.t" has no branch "adit"; its branches are main, audit\. ALTER TABLE c\d+\.db\.t CREATE'),
        ("good", r'has a tag "good", which takes no rows; its branches are main, audit'),
    ],
)
def test_what_is_no_branch(path: Path, branch: str, match: str) -> None:
    for call in (lambda form: form.snapshot(), lambda form: form.check_appendable(), lambda form: form.last_batch("a")):
        with pytest.raises(InputError, match=match):
            call(opened(path, branch))


def test_an_empty_table_has_its_own_branch_only(tmp_path: Path) -> None:
    path = tmp_path / "t"
    MAKER._create(path, content(1), partitioned=False)
    with pytest.raises(InputError, match="its branches are main"):
        opened(path, "audit").snapshot()
    append(opened(path, "main"), path)
    assert rows_of(MAKER.read(path)) == rows_of(content(24, 60))


def test_a_branch_by_its_name(path: Path) -> None:
    name = MAKER.address(path)
    append(opened(path, "audit"), path)
    assert (len(zskip.open(name).files()), len(zskip.open(f"{name}.branch_main").files())) == (1, 1)
    assert len(zskip.open(f"{name}.branch_audit").files()) == 3
    with pytest.raises(InputError, match='has no branch "none"'):
        zskip.open(f"{name}.branch_none").files()
    with pytest.raises(UnsupportedError, match=f'open it as "{name}"'):
        zskip.open(f"{name}.branch_audit").index()
    snapshot = MAKER._load(path).current_snapshot()
    for version in ("tag_good", f"snapshot_id_{snapshot.snapshot_id}", "at_timestamp_1", "changes"):
        with pytest.raises(UnsupportedError, match=f'"{version}" of the Iceberg table "{name}" is a version'):
            zskip.open(f"{name}.{version}")
    for other in ("files", "branch", "tag_"):
        with pytest.raises(TableNotFoundError):
            zskip.open(f"{name}.{other}").files()
