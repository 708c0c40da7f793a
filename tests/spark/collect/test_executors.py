"""Executors read footers as the driver does, and what they do not read the driver reads itself."""

from __future__ import annotations

import io
import pickle
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

from zskip.errors import CorruptFileError, ZskipWarning
from zskip.formats.footers import footer, inspection
from zskip.formats.parquet.format import ParquetFormat
from zskip.index import BoundIndex, prune_row_groups, refresh
from zskip.index.collect import parallel_footers
from zskip.index.collect.footers import FooterReader
from zskip.index.collect.plain_footers import PlainFooterReader, make_footer_parser
from zskip.predicate import Columns, parse
from zskip.records import Snapshot
from zskip.spark.collect import executors
from zskip.spark.collect.executors import Executors, workers_of
from zskip.storage import LocalStorage
from zskip.storage.overlay import Overlay

FILES = 60


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> LocalStorage:
    """Small files of two schemas, some of several row groups; one of them is damaged."""
    path = tmp_path_factory.mktemp("executors") / "a ü%20b"
    path.mkdir()
    rows = tables.events(FILES * 10)
    for i in range(FILES):
        part = rows.slice(i * 10, 10)
        part = part.drop_columns(["flag"]) if i % 7 == 3 else part
        pq.write_table(part, path / f"part-{i:03}.parquet", row_group_size=10 - i % 5)
    (path / "part-031.parquet").write_bytes(b"PAR1" + bytes(500) + b"PAR1")
    return LocalStorage(str(path))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few files count as many, in several jobs."""
    for module in (parallel_footers, footer):
        monkeypatch.setattr(module, "MANY_FILES", 10)
    monkeypatch.setattr(executors, "_FILES_PER_JOB", 25)


class CountingWorkers:
    """Counts the results of other workers."""

    def __init__(self, base: Executors) -> None:
        self.base, self.parsed, self.files = base, 0, 0

    def parse_files(self, *args: Any) -> Any:
        for batch in self.base.parse_files(*args):
            self.files += len(batch)
            self.parsed += sum(result is not None for result in batch)
            yield batch


def count_workers(spark: SparkSession, storage: LocalStorage) -> CountingWorkers:
    return CountingWorkers(Executors(spark, lambda: storage, 2))


def snapshot_of(storage: LocalStorage) -> Snapshot:
    return ParquetFormat(storage).snapshot()


def known(storage: LocalStorage, snapshot: Snapshot, given: CountingWorkers | None) -> tuple[BoundIndex, list[str]]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        index = refresh(Overlay(storage), snapshot, row_groups=True, workers=given)
    return index.bind(snapshot), [str(w.message) for w in said if w.category is ZskipWarning]


def same(one: BoundIndex, other: BoundIndex) -> None:
    assert one.rows.tolist() == other.rows.tolist()
    for field in one.snapshot.fields:
        mine, theirs = one.column((field.name,)), other.column((field.name,))
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            for name in ("lower", "upper", "bounded", "nulls", "may_nan"):
                assert np.array_equal(getattr(mine, name), getattr(theirs, name)), (field.name, name)


def test_footers_come_back_as_they_were(storage: LocalStorage) -> None:
    reader = PlainFooterReader()
    look = make_footer_parser(True)()
    for file in storage.walk(lambda name: name == "part-031.parquet"):
        data = storage.read(file.path)
        told = pickle.loads(pickle.dumps(look(io.BytesIO(data), file.size)))
        assert reader.read(told) == FooterReader().read(io.BytesIO(data), file.size, row_groups=True)


@pytest.mark.spark
def test_executors_read_footers_as_the_driver_does(spark: SparkSession, storage: LocalStorage, few: None) -> None:
    snapshot, workers = snapshot_of(storage), count_workers(spark, storage)
    expected, warned = known(storage, snapshot, None)
    bound, also_warned = known(storage, snapshot, workers)
    same(bound, expected)
    assert warned == also_warned
    assert "part-031" in warned[0]
    assert (workers.files, workers.parsed) == (FILES, FILES - 1)
    predicate = parse("id < 25", Columns(snapshot.fields))
    kept = expected.prune(predicate).kept
    mine, theirs = prune_row_groups(bound, predicate, kept), prune_row_groups(expected, predicate, kept)
    assert mine is not None
    assert theirs is not None
    assert (mine.by_file, mine.total) == (theirs.by_file, theirs.total)
    assert len(mine.by_file) == len(np.flatnonzero(kept)) - 1


@pytest.mark.spark
def test_a_rewrite_looks_at_its_input_through_executors(spark: SparkSession, storage: LocalStorage, few: None) -> None:
    snapshot, workers = snapshot_of(storage), count_workers(spark, storage)
    with pytest.raises(CorruptFileError, match="part-031"):
        inspection.inspect_footers(storage, snapshot, merge=True, workers=workers)
    sound = snapshot.select(np.array(["031" not in path for path in snapshot.paths]))
    found = inspection.inspect_footers(storage, sound, merge=True, workers=workers)
    expected = inspection.inspect_footers(storage, sound, merge=True)
    assert found.codec == expected.codec
    assert found.rows.tolist() == expected.rows.tolist() == [10] * (FILES - 1)
    assert workers.parsed >= FILES - 1


@pytest.mark.spark
@pytest.mark.parametrize("trouble", ["another pyarrow", "no files there", "no job"])
def test_the_driver_reads_what_executors_do_not(
    spark: SparkSession,
    storage: LocalStorage,
    few: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trouble: str,
) -> None:
    """And says why."""
    snapshot, workers = snapshot_of(storage), count_workers(spark, storage)
    expected, _ = known(storage, snapshot, None)
    if trouble == "another pyarrow":
        monkeypatch.setattr(pa, "__version__", "1.0")
    elif trouble == "no files there":
        workers.base._connect = lambda: LocalStorage("/nowhere")
    else:
        monkeypatch.setattr(executors, "_task", lambda *given: 1)
    caplog.set_level("INFO", "zskip.spark")
    found, _ = known(storage, snapshot, workers)
    same(found, expected)
    assert workers.parsed == 0
    assert {"another pyarrow": "pyarrow is", "no files there": "No such file"}.get(trouble, "") in caplog.text


@pytest.mark.spark
def test_threads_stay_where_the_executors_are_this_process(spark: SparkSession, storage: LocalStorage) -> None:
    assert workers_of(spark, storage) is None
