"""The record of what was done to a table: true of the files that are there, and never in the way."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zskip
from zskip.errors import StorageError, ZskipWarning
from zskip.layout.fit import fit
from zskip.records import Field, Operation, Sample
from zskip.storage import LocalStorage, Storage
from zskip.table import journal
from zskip.table.address import resolve_address
from zskip.table.handle import Handle
from zskip.table.journal import fold_journal, read_clustering, read_history, read_journal, record_operation
from zskip.table.rewrite.batches import Note, read_note, write_note
from zskip.table.version import open_version, read_snapshot
from zskip.table.workload import recording
from zskip.types import DataType


def operation(version: int, *by: str) -> Operation:
    return Operation(
        version=version,
        time_ms=1_700_000_000_000 + version,
        operation="optimize" if by else "compact",
        by=by,
        curve="zorder" if by else None,
        build="sample" if by else None,
        rows=10,
        files_removed=2,
        files_added=1,
        bytes_removed=5,
        bytes_added=4,
        seconds=0.5,
    )


LAYOUT = fit(
    Sample(
        fields=(Field(name="a", type=DataType("string")), Field(name="b", type=DataType("double"))),
        columns=(
            np.array([b"x", b"y\x00", b"\xff"] * 20, object),
            np.concatenate([np.linspace(-9, 9, 58), [-np.inf, np.inf]]),
        ),
        nulls=(np.zeros(60, np.bool_), np.arange(60) % 9 == 0),
        partition=np.zeros(60, np.int32),
        weights=np.ones(60),
    ),
    np.array([4]),
    partition_rows=np.array([60]),
)


@pytest.fixture
def handle(tmp_path: Path) -> Handle:
    """A table of three files."""
    for i in range(3):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"f{i}.parquet")
    return resolve_address(str(tmp_path), None, None, None)


def records(handle: Handle) -> list[Path]:
    return sorted((Path(handle.storage.root) / "_zskip" / "operations").iterdir())


def test_a_record_says_which_live_files_are_in_which_layout(handle: Handle) -> None:
    record_operation(
        open_version(handle),
        dataclasses.replace(operation(1, "a", "b"), share_measured=0.5, scans=3),
        names=["f0.parquet", "f2.parquet"],
        layout=LAYOUT,
        target_file_size=77,
    )
    record_operation(open_version(handle), operation(2))
    (first, second) = read_journal(handle.home)
    assert (first.operation, second.operation) == (operation(1, "a", "b"), operation(2))
    assert (first.layout(), first.target_file_size, second.layout()) == (LAYOUT, 77, None)
    found = read_clustering([first, second], read_snapshot(handle))
    assert found is not None
    assert found.newest is first
    assert found.files.tolist() == [True, False, True]
    pq.write_table(pa.table({"a": [5, 6]}), Path(handle.storage.root) / "f2.parquet")
    found = read_clustering([first, second], read_snapshot(handle))
    assert found is not None
    assert found.files.tolist() == [True, False, False]
    layout = zskip.open(handle.storage.root).info().layout
    assert layout is not None
    assert (layout.by, layout.version, layout.files, layout.files_since) == (("a", "b"), 1, 1, 2)
    assert layout.since_ms == operation(1).time_ms
    assert zskip.open(handle.storage.root).history() == (operation(2), operation(1, "a", "b"))


def test_records_of_one_millisecond_keep_their_order(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1_700_000_000_000_000_000, 1_000)
    monkeypatch.setattr("time.time_ns", lambda: next(clock))
    for version in range(20):
        record_operation(open_version(handle), operation(version))
    assert [record.operation.version for record in read_history(handle.home)] == list(range(20))


def test_history_tells_what_scans_read_after_each_operation(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([5, 15, 16, 25])
    monkeypatch.setattr(recording, "_now_ms", lambda: next(clock, 99))
    for moment in (30, 10, 20):
        record_operation(open_version(handle), dataclasses.replace(operation(moment), time_ms=moment))
    table = zskip.open(handle.storage.root)
    table.index()
    table.record()
    for where in ("a = 0", "a < 2", "a = 1", "a < 9"):
        table.files(where)
    told = {of.version: (of.share_measured, of.scans) for of in table.history()}
    assert told == {10: (pytest.approx(0.5), 2), 20: (1.0, 1), 30: (None, 0)}
    assert [of.version for of in table.history()] == [20, 10, 30]
    (file,) = (Path(handle.storage.root) / "_zskip" / "workload").glob("*.reservoir")
    file.write_bytes(b"nothing")
    assert [of.scans for of in table.history()] == [0, 0, 0]


def test_other_columns_are_another_layout(handle: Handle) -> None:
    record_operation(open_version(handle), operation(1, "a", "b"), names=["f0.parquet"], layout=LAYOUT)
    record_operation(open_version(handle), operation(2, "b", "a"), names=["f1.parquet"], layout=LAYOUT)
    found = read_clustering(read_journal(handle.home), read_snapshot(handle))
    assert found is not None
    assert found.files.tolist() == [False, True, False]


def test_what_cannot_be_read_is_left_out(handle: Handle) -> None:
    for version in range(1, 6):
        record_operation(open_version(handle), operation(version, "a"), names=["f0.parquet"], layout=LAYOUT)
    cut, other, odd, newer, sound = records(handle)
    cut.write_bytes(cut.read_bytes()[:50])
    other.write_bytes(gzip.compress(b'{"format": 2}'))
    odd.write_bytes(b"not gzip")
    content = json.loads(gzip.decompress(newer.read_bytes()))
    content["layout"]["zskip_layout"] = 99
    newer.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert [record.operation.version for record in read_journal(handle.home)] == [4, 5]
    assert read_journal(handle.home)[0].layout() is None
    assert read_journal(handle.home)[1].layout() == LAYOUT
    assert sound.exists()


def test_whatever_is_damaged_is_left_out(handle: Handle) -> None:
    record_operation(open_version(handle), operation(1, "a"), names=["f0.parquet"], layout=LAYOUT)
    (record,) = records(handle)
    write_note(handle.home, Note(arguments="{}", by=("a",), curve="zorder", began_ms=1, batches=()))
    cases: list[tuple[Path, Callable[[Storage], object]]] = [
        (record, read_journal),
        (record.with_name("batches.gz"), read_note),
    ]
    for file, read in cases:
        whole = file.read_bytes()
        assert read(handle.home)
        for i in range(10, len(whole)):
            file.write_bytes(whole[:i] + bytes([whole[i] ^ 255]) + whole[i + 1 :])
            assert not read(handle.home), i
        file.write_bytes(whole)


def test_what_is_gone_is_forgotten(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_MAX_RECORDS", 4)
    monkeypatch.setattr(journal, "_MOST_SINGLE", 0)
    record_operation(open_version(handle), operation(1, "a"), names=["f0.parquet"], layout=LAYOUT)
    record_operation(open_version(handle), operation(2, "a"), names=["f1.parquet"], layout=LAYOUT)
    (Path(handle.storage.root) / "f1.parquet").unlink()
    record_operation(open_version(handle), operation(3))
    kept = {record.operation.version: record for record in read_history(handle.home)}
    # That of the latest clustering says how to go on, though none of its files is left.
    assert kept[2].layout() == LAYOUT
    record_operation(open_version(handle), operation(4, "a"), names=["f2.parquet"], layout=LAYOUT)
    record_operation(open_version(handle), operation(5))
    kept = {record.operation.version: record for record in read_history(handle.home)}
    assert (kept[2].files, kept[2].layout_data) == (None, None)
    for version in range(6, 10):
        record_operation(open_version(handle), operation(version))
    # Those without live files are in a file that only the history reads.
    for read, versions in ((read_history, [1, 4, 6, 7, 8, 9]), (read_journal, [1, 4])):
        assert [record.operation.version for record in read(handle.home)] == versions


def test_many_records_are_folded(handle: Handle) -> None:
    record_operation(
        open_version(handle), operation(0, "a"), names=["f0.parquet", "f1.parquet"], layout=LAYOUT, target_file_size=7
    )
    written = read_history(handle.home)
    for version in range(1, 40):
        names = ["f2.parquet"] if version == 20 else ["gone.parquet"]
        record_operation(open_version(handle), operation(version, "a"), names=names, layout=LAYOUT)
        written.append(read_history(handle.home)[-1])
    assert len(records(handle)) < 10
    kept = read_history(handle.home)
    assert [record.operation for record in kept] == [record.operation for record in written]
    # Whatever has live files is as it was; of the others only the operation is left.
    for i in (0, 20):
        assert (kept[i].name, kept[i].files, kept[i].layout()) == (written[i].name, written[i].files, LAYOUT)
    assert (kept[1].files, kept[1].layout_data) == (None, None)
    found, before = (read_clustering(every, read_snapshot(handle)) for every in (kept, written))
    assert found is not None
    assert before is not None
    assert (found.files.tolist(), found.run_numbers.tolist()) == ([True] * 3, [0, 0, 20])
    assert before.run_numbers.tolist() == found.run_numbers.tolist()
    assert found.largest_run.name == written[0].name
    # Appends and plans find the same without what is gone.
    live = read_clustering(read_journal(handle.home), read_snapshot(handle))
    assert live is not None
    assert [live.runs[i].name for i in live.run_numbers] == [written[i].name for i in (0, 0, 20)]
    assert (live.largest_run.name, live.newest.name) == (written[0].name, written[-1].name)
    assert len(live.runs) < len(found.runs)


def test_folding_keeps_the_layouts_that_matter(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_MOST_LAYOUTS", 1)
    for version, names in enumerate((["f0.parquet"], ["f1.parquet", "f2.parquet"], ["gone.parquet"])):
        record_operation(open_version(handle), operation(version, "a"), names=names, layout=LAYOUT)
    monkeypatch.setattr(journal, "_MOST_SINGLE", 0)
    fold_journal(handle)
    assert len(records(handle)) == 1
    assert [record.layout() for record in read_journal(handle.home)] == [None, LAYOUT, LAYOUT]


def test_what_follows_the_layout_of_the_table_does_not_repeat_it(handle: Handle) -> None:
    record_operation(open_version(handle), operation(0, "a"), names=["f0.parquet"], layout=LAYOUT)
    for version in range(1, 20):
        names = ["f1.parquet", "f2.parquet"] if version == 9 else ["gone.parquet"]
        record_operation(open_version(handle), operation(version, "a"), names=names, follows=True)
    kept = read_journal(handle.home)
    assert [record.layout() for record in kept if record.layout_data is not None] == [LAYOUT]
    found = read_clustering(kept, read_snapshot(handle))
    assert found is not None
    assert (found.files.tolist(), found.largest_run.operation.version) == ([True] * 3, 0)
    assert found.newest.operation.version == 19


def test_two_processes_may_fold_at_once(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in range(5):
        record_operation(open_version(handle), operation(version, "a"), names=["f0.parquet"], layout=LAYOUT)
    before = read_history(handle.home)
    singles = {file: file.read_bytes() for file in records(handle)}
    monkeypatch.setattr(journal, "_MOST_SINGLE", 0)
    fold_journal(handle)
    # The other process had read all records before, and died before it deleted the last of them.
    for file in list(singles)[2:]:
        file.write_bytes(singles[file])
    fold_journal(handle)
    folded = records(handle)
    assert len(folded) == 2
    assert [record.operation for record in read_history(handle.home)] == [record.operation for record in before]
    for file in folded:
        (file.parent / f"{'9' * 16}-other.{file.name.split('.', 1)[1]}").write_bytes(file.read_bytes())
    assert [record.name for record in read_history(handle.home)] == [record.name for record in before]


@pytest.mark.parametrize(("read_records", "versions"), [(read_history, [0, 1, 2]), (read_journal, [2])])
def test_a_record_that_is_folded_while_it_is_read_is_not_lost(
    handle: Handle,
    monkeypatch: pytest.MonkeyPatch,
    read_records: Callable[[Storage], list[journal.Record]],
    versions: list[int],
) -> None:
    for version in range(3):
        record_operation(open_version(handle), operation(version, "a"), names=["f0.parquet"], layout=LAYOUT)
    monkeypatch.setattr(journal, "_MOST_SINGLE", 0)
    read = LocalStorage.read

    def folded_first(storage: LocalStorage, path: str) -> bytes:
        monkeypatch.setattr(LocalStorage, "read", read)
        fold_journal(handle)
        return storage.read(path)

    monkeypatch.setattr(LocalStorage, "read", folded_first)
    assert [record.operation.version for record in read_records(handle.home)] == versions


def test_a_table_that_cannot_be_written_costs_a_warning(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr(LocalStorage, "write", refuse)
    with pytest.warns(ZskipWarning, match=r"committed.*disk full"):
        record_operation(open_version(handle), operation(1))
