"""What the replacement of all rows must keep on every format: the old rows or the new ones, never a part of either."""

from __future__ import annotations

import json
import multiprocessing
import signal
from pathlib import Path

import pyarrow as pa
import pytest
import tiers
from appends import INFO, NEW, append, die_in_append, overwrite, stage
from format_tables import FORMATS, PRELOADED, Maker, content, opened, rewrite, rows_of

from zskip.errors import ConflictError, InputError, UnsupportedError
from zskip.formats.delta.create import check_new_columns, create_table
from zskip.formats.hive import is_hidden
from zskip.records import Field, Snapshot
from zskip.storage import LocalStorage
from zskip.types import DataType


def make(maker: Maker, path: Path) -> Path:
    maker.append(path, content(40), partitioned=False)
    maker.append(path, content(20, 40), partitioned=False)
    return path


@pytest.fixture
def table(maker: Maker, tmp_path: Path) -> Path:
    return make(maker, tmp_path / "t ä")


def test_new_rows_in_place_of_all(maker: Maker, table: Path) -> None:
    form, old = opened(table), opened(table).snapshot()
    version = overwrite(form, table)
    after = opened(table).snapshot()
    assert (after.version, len(after)) == (version, 2)
    assert version > old.version
    assert rows_of(maker.read(table)) == rows_of(NEW)
    if maker.time_travel:
        assert rows_of(maker.read(table, old.version)) == rows_of(content(60))
    if maker.name == "iceberg":
        latest = maker._load(table).snapshots()[-1].summary  # type: ignore[attr-defined]
        assert latest.operation.value == "overwrite"
        assert (latest["total-records"], latest["deleted-data-files"], latest["added-data-files"]) == ("24", "2", "2")
    if maker.name == "delta":
        lines = [json.loads(x) for x in sorted((table / "_delta_log").glob("*.json"))[-1].read_text().splitlines()]
        assert [line[kind]["dataChange"] for line in lines for kind in ("add", "remove") if kind in line] == [True] * 4
        info = next(line["commitInfo"] for line in lines if "commitInfo" in line)
        assert (info["operationParameters"]["mode"], info["isBlindAppend"]) == ("Overwrite", False)
    append(opened(table), table, name="more")
    rewrite(opened(table))
    assert rows_of(maker.read(table)) == rows_of(NEW) + rows_of(NEW)


def test_beside_other_writers(maker: Maker, table: Path) -> None:
    form = opened(table)
    base, added = form.snapshot(), stage(form, table)
    append(opened(table), table, name="meanwhile")
    form.overwrite(base, added, INFO)
    assert rows_of(maker.read(table)) == rows_of(NEW)
    with pytest.raises(ConflictError):
        rewrite(opened(table), between=lambda: overwrite(opened(table), table, name="again") and None)
    assert rows_of(maker.read(table)) == rows_of(NEW)
    base, added = form.snapshot(), stage(form, table, name="late")
    overwrite(opened(table), table, name="last")
    if maker.name == "parquet":
        # A directory does not say whether the columns are still the same.
        with pytest.raises(ConflictError, match="replaced the rows"):
            form.append(base, added, INFO)
    else:
        form.append(base, added, INFO)
        assert rows_of(maker.read(table)) == rows_of(NEW) + rows_of(NEW)


@pytest.mark.slow  # A process and a table for each step.
@pytest.mark.parametrize("maker", tiers.nightly(FORMATS, daily=2), ids=lambda maker: maker.name)
@pytest.mark.parametrize("after", tiers.nightly([True, False]), ids=["after", "before"])
def test_killed_at_every_step(maker: Maker, tmp_path: Path, after: bool) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, "appends"])
    for step in range(1, 100):
        path = make(maker, tmp_path / f"t{step}")
        child = context.Process(target=die_in_append, args=(str(path), step, after, True))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        opened(path).snapshot()
        assert rows_of(maker.read(path)) in (rows_of(content(60)), rows_of(NEW)), step
        overwrite(opened(path), path, NEW.slice(5))
        assert rows_of(maker.read(path)) == rows_of(NEW.slice(5)), step
        files = {f.path for f in LocalStorage(str(path)).walk(is_hidden)}
        staged = [f for f in (path / "_zskip" / "staging").rglob("*") if f.is_file()]
        assert (files - maker.known_files(path), staged) == (set(), []), step
        if child.exitcode == 0:
            assert step > 4
            return
    pytest.fail("the overwrite never ended")


def test_delta_tables_that_only_take_appends(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), content(5), configuration={"delta.appendOnly": "true"})
    with pytest.raises(UnsupportedError, match="appendOnly"):
        overwrite(opened(tmp_path), tmp_path)


def test_a_new_delta_table_has_its_rows_in_the_first_version(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    from zskip.formats import DeltaFormat

    names = {"id": "long", "v": "double", "name": "string", "region": "string"}
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in names.items()]
    columns = json.dumps({"type": "struct", "fields": fields})
    check_new_columns(columns)
    storage = LocalStorage(str(tmp_path))
    empty = pa.table({"x": [0]})["x"].to_numpy()[:0]
    snapshot = Snapshot(
        root=str(tmp_path),
        version=0,
        fields=tuple(Field(name=n, type=DataType(t)) for n, t in names.items()),
        partition_fields=(),
        partitions=(),
        paths=(),
        sizes=empty,
        mtimes_ms=empty,
        partition_of=empty.astype("int32"),
    )
    form = DeltaFormat(storage)
    assert create_table(storage, columns, (), snapshot, stage(form, tmp_path), INFO) == 0
    assert rows_of(DeltaTable(str(tmp_path)).to_pyarrow_table()) == rows_of(NEW)
    assert opened(tmp_path).last_operation() == (
        0,
        {"rewrite": opened(tmp_path).last_operation()[1]["rewrite"], **INFO},
    )  # type: ignore[index]
    assert not list((tmp_path / "_zskip" / "staging").glob("*"))
    append(opened(tmp_path), tmp_path, name="more")
    assert rows_of(DeltaTable(str(tmp_path)).to_pyarrow_table()) == rows_of(NEW) + rows_of(NEW)
    with pytest.raises(InputError, match="made a Delta table meanwhile"):
        create_table(storage, columns, (), snapshot, stage(form, tmp_path, name="late"), INFO)
