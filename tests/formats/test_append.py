"""Appends and overwrites on every format: all rows, each once, whoever else writes and whenever a process dies."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from appends import INFO, NEW, append, die_in_append, overwrite, stage
from format_tables import PRELOADED, Maker, content, opened, rewrite, rows_of

from zskip.errors import ConflictError, InputError, UnsupportedError
from zskip.formats import BatchId, StagedFile, open_format
from zskip.formats.delta.create import check_new_columns, create_table
from zskip.formats.hive import is_hidden
from zskip.records import Field, Snapshot
from zskip.storage import LocalStorage
from zskip.types import DataType


@pytest.fixture
def table(maker: Maker, tmp_path: Path) -> Path:
    return make(maker, tmp_path / "t ä")


def make(maker: Maker, path: Path) -> Path:
    maker.append(path, content(40), partitioned=False)
    maker.append(path, content(20, 40), partitioned=False)
    return path


def test_an_append_adds_its_rows_and_no_other_change(maker: Maker, table: Path) -> None:
    form, old = opened(table), opened(table).snapshot()
    before = rows_of(maker.read(table))
    version = append(form, table)
    after = form.snapshot()
    assert rows_of(maker.read(table)) == before + rows_of(NEW)
    assert set(old.paths) < set(after.paths)
    assert len(after) == len(old) + 2
    assert after.version == version > old.version
    assert not list((table / "_zskip" / "staging").glob("*/*"))
    rewrite(form)
    assert rows_of(maker.read(table)) == before + rows_of(NEW)


def test_readers_of_changes_see_an_append(maker: Maker, table: Path) -> None:
    append(opened(table), table)
    if maker.name == "delta":
        lines = [json.loads(x) for x in sorted((table / "_delta_log").glob("*.json"))[-1].read_text().splitlines()]
        assert [line["add"]["dataChange"] for line in lines if "add" in line] == [True, True]
        info = next(line["commitInfo"] for line in lines if "commitInfo" in line)
        assert (info["operation"], info["operationParameters"]["mode"], info["isBlindAppend"]) == (
            "WRITE",
            "Append",
            True,
        )
        assert not any("remove" in line for line in lines)
    if maker.name == "iceberg":
        latest = maker._load(table).snapshots()[-1].summary  # type: ignore[attr-defined]
        assert latest.operation.value == "append"
        assert (latest["added-records"], latest["total-records"], latest["added-data-files"]) == ("24", "84", "2")


@pytest.mark.slow  # A process and a table for each step.
@pytest.mark.parametrize("overwrites", [False, True], ids=["append", "overwrite"])
@pytest.mark.parametrize("after", tiers.nightly([True, False]), ids=["after", "before"])
def test_killed_at_every_step(maker: Maker, tmp_path: Path, after: bool, overwrites: bool) -> None:
    # Not a plain fork: the threads of libraries do not survive it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, "appends"])
    for step in range(1, 100):
        path = make(maker, tmp_path / f"t{step}")
        before = rows_of(maker.read(path))
        child = context.Process(target=die_in_append, args=(str(path), step, after, overwrites))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        opened(path).snapshot()
        rows = rows_of(maker.read(path))
        assert rows in (before, rows_of(NEW) if overwrites else before + rows_of(NEW)), step
        append(opened(path), path)
        assert rows_of(maker.read(path)) == rows + rows_of(NEW), step
        files = {f.path for f in LocalStorage(str(path)).walk(is_hidden)}
        staged = [f for f in (path / "_zskip" / "staging").rglob("*") if f.is_file()]
        assert (files - maker.known_files(path), staged) == (set(), []), step
        if child.exitcode == 0:
            assert step > 4
            return
    pytest.fail("the write never ended")


def test_a_batch_is_appended_once(maker: Maker, table: Path) -> None:
    form, before = opened(table), rows_of(maker.read(table))
    assert form.last_batch("stream") is None
    assert append(form, table, BatchId(application="stream", version=3)) is not None
    assert opened(table).last_batch("stream") == 3
    for version in (3, 2):
        assert append(opened(table), table, BatchId(application="stream", version=version), f"again{version}") is None
    assert rows_of(maker.read(table)) == before + rows_of(NEW)
    for i in range(22):
        rewrite(form, f"new{i}")
    assert opened(table).last_batch("stream") == 3
    assert append(form, table, BatchId(application="other", version=1), "other") is not None
    assert (opened(table).last_batch("stream"), opened(table).last_batch("other")) == (3, 1)
    assert not list((table / "_zskip" / "staging").glob("*/*"))


def test_of_the_same_batch_twice_at_once_one_is_committed(
    maker: Maker, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, batch = rows_of(maker.read(table)), BatchId(application="stream", version=1)
    interrupted = _meanwhile(maker, monkeypatch, lambda: append(opened(table), table, batch, "fast"))
    assert append(opened(table), table, batch, "slow") is None
    assert interrupted == [True]
    assert rows_of(maker.read(table)) == before + rows_of(NEW)


def _meanwhile(maker: Maker, monkeypatch: pytest.MonkeyPatch, work: Any) -> list[bool]:
    """Do something just before the next commit; the list is filled once it is done."""
    done: list[bool] = []
    if maker.name == "parquet":
        from zskip.formats.parquet import log as owner

        name = "publish"
    elif maker.name == "iceberg":
        from zskip.formats.iceberg.replace import ReplaceFiles as owner  # type: ignore[no-redef]

        name = "prepare"
    else:
        import zskip.formats.delta.format as owner  # type: ignore[no-redef]

        name = "commit_transaction"
    commit = getattr(owner, name)

    def slow(*arguments: Any, **options: Any) -> Any:
        if not done:
            done.append(True)
            work()
        return commit(*arguments, **options)

    monkeypatch.setattr(owner, name, slow)
    return done


def test_an_append_and_a_rewrite_at_once(maker: Maker, table: Path) -> None:
    before, form = rows_of(maker.read(table)), opened(table)
    base, added = form.snapshot(), stage(form, table)
    rewrite(opened(table))
    assert form.append(base, added, INFO) is not None
    expected: Counter[str] = before + rows_of(NEW)
    assert rows_of(maker.read(table)) == expected
    rewrite(opened(table), "newer", lambda: append(opened(table), table, name="late") and None)
    assert rows_of(maker.read(table)) == expected + rows_of(NEW)


def test_columns_that_changed_meanwhile(maker: Maker, table: Path) -> None:
    if maker.name == "parquet":
        pytest.skip("a directory declares no columns")
    form = opened(table)
    base, added = form.snapshot(), stage(form, table)
    maker.append(table, content(1, 99).append_column("extra", pa.array([1])), partitioned=False)
    before = rows_of(maker.read(table))
    with pytest.raises(ConflictError, match="columns"):
        form.append(base, added, INFO)
    form.abort(added[0].path.rpartition("/")[0])
    assert rows_of(maker.read(table)) == before


def test_delta_partitions_and_rules(tmp_path: Path) -> None:
    from deltalake import DeltaTable, Field, Schema
    from deltalake.schema import PrimitiveType

    def primitive(name: str, kind: str, nullable: bool = True) -> Field:
        return Field(name, PrimitiveType(kind), nullable=nullable)

    schema = Schema([primitive("id", "long", False), primitive("region", "string", False)])
    DeltaTable.create(str(tmp_path), schema, partition_by=["region"])
    form = open_format(LocalStorage(str(tmp_path)))
    base = form.snapshot()

    def staged(ids: list[int | None], directory: str) -> list[StagedFile]:
        path = f"{form.stage()}/x.parquet"
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), tmp_path / path)
        return [StagedFile(path=path, directory=directory, size=(tmp_path / path).stat().st_size)]

    form.append(base, staged([1, 2], "region=us east"), INFO)
    for added in (staged([1, None], "region=eu"), staged([1], "region=__HIVE_DEFAULT_PARTITION__")):
        with pytest.raises(InputError, match="must not be null"):
            form.append(base, added, INFO)
    table = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert sorted(table.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "region": "us east"},
        {"id": 2, "region": "us east"},
    ]
    late = staged([1], "region=eu")
    DeltaTable(str(tmp_path)).alter.add_constraint({"few": "id < 9"})
    rules = open_format(LocalStorage(str(tmp_path))).row_rules()
    assert (rules.required, rules.checks) == (["id", "region"], {'CHECK constraint "few" (id < 9)': "id < 9"})
    with pytest.raises(ConflictError, match=r"rules for rows.*changed meanwhile"):
        form.append(base, late, INFO)


def test_an_iceberg_table_in_partitions_is_refused(tmp_path: Path) -> None:
    from format_tables import maker as maker_of

    maker_of("iceberg").append(tmp_path / "t", content(40), partitioned=True)
    with pytest.raises(
        UnsupportedError, match="is partitioned, and is not in a catalog of the session; append with its engine"
    ):
        opened(tmp_path / "t").check_appendable()


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    from format_tables import maker as maker_of

    make(maker_of("parquet"), tmp_path / "t")
    append(opened(tmp_path / "t"), tmp_path / "t")
    with pytest.raises(ConflictError, match="already exists"):
        append(opened(tmp_path / "t"), tmp_path / "t")


# Overwrites


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


def test_an_overwrite_beside_other_writers(maker: Maker, table: Path) -> None:
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
