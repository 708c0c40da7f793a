"""What an append must keep on every format: all rows, each once, whoever else writes and whenever a process dies."""

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
from appends import INFO, NEW, append, die_in_append, stage
from format_tables import PRELOADED, Maker, content, opened, rewrite, rows_of

from zskip.errors import ConflictError, InputError, UnsupportedError
from zskip.formats import BatchId, StagedFile, open_format
from zskip.formats.hive import is_hidden
from zskip.storage import LocalStorage


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
@pytest.mark.parametrize("after", tiers.nightly([True, False]), ids=["after", "before"])
def test_killed_at_every_step(maker: Maker, tmp_path: Path, after: bool) -> None:
    # Not a plain fork: the threads of libraries do not survive it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, "appends"])
    for step in range(1, 100):
        path = make(maker, tmp_path / f"t{step}")
        before = rows_of(maker.read(path))
        child = context.Process(target=die_in_append, args=(str(path), step, after))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        opened(path).snapshot()
        rows = rows_of(maker.read(path))
        assert rows in (before, before + rows_of(NEW)), step
        append(opened(path), path)
        assert rows_of(maker.read(path)) == rows + rows_of(NEW), step
        files = {f.path for f in LocalStorage(str(path)).walk(is_hidden)}
        staged = [f for f in (path / "_zskip" / "staging").rglob("*") if f.is_file()]
        assert (files - maker.known_files(path), staged) == (set(), []), step
        if child.exitcode == 0:
            assert step > 4
            return
    pytest.fail("the append never ended")


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
