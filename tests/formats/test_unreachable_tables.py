"""Tables that are gone, half there, or out of reach: an error that names it, soon, and nothing written."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from format_tables import FORMATS, Maker, content, opened, rewrite
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError, InputError, StorageError, TableNotFoundError, ZskipError
from zskip.formats import open_format
from zskip.formats.delta.format import DeltaFormat
from zskip.storage import LocalStorage
from zskip.table.handle import Handle
from zskip.table.table import Table


@pytest.fixture
def table(maker: Maker, tmp_path: Path) -> Path:
    path = tmp_path / "t"
    maker.append(path, content(20), partitioned=True)
    maker.append(path, content(20, 20), partitioned=True)
    return path


def everything(path: Path) -> list[tuple[str, int]]:
    return sorted((str(f), f.stat().st_mtime_ns) for f in path.rglob("*"))


class Elsewhere(LocalStorage):
    """A place that cannot be reached, under the name of another."""

    root = "s3://zskip-test-bucket/t"


class ReadOnly(LocalStorage):
    """Refuses every change, as an object store does that may only be read."""

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        raise StorageError(f'cannot write "{path}": access denied')

    def rename(self, source: str, target: str) -> None:
        raise StorageError(f'cannot move "{source}": access denied')

    def delete(self, path: str) -> None:
        raise StorageError(f'cannot delete "{path}": access denied')


@pytest.mark.parametrize("known", [False, True], ids=["no credentials", "no network"])
def test_a_remote_table_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    nobody = "http://127.0.0.1:9"
    environment = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_METADATA_ENDPOINT": nobody, "AWS_ENDPOINT_URL": nobody}
    environment |= {"AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true", "AWS_CONFIG_FILE": str(tmp_path / "none")}
    environment |= {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
    environment |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"} if known else {}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    before = time.monotonic()
    with pytest.raises(StorageError, match=r"s3://zskip-test-bucket/t.*AWS_ACCESS_KEY_ID"):
        DeltaFormat(Elsewhere(str(tmp_path))).snapshot()
    assert time.monotonic() - before < 60
    assert not list(tmp_path.iterdir())


def test_a_table_that_may_only_be_read(maker: Maker, table: Path) -> None:
    before, storage = everything(table), ReadOnly(str(table))
    form = open_format(storage)
    assert form.snapshot().paths == opened(table).snapshot().paths != ()
    if maker.name != "iceberg":  # Which is written to by its catalog, not by its path.
        with pytest.raises(StorageError, match="denied"):
            form.stage()
    handle = Handle(storage, None)
    assert len(Table(handle).files()) == len(form.snapshot())
    with pytest.raises(StorageError, match="denied"):
        Table(handle).index()
    assert Table(handle).clean(delete=True).leftovers == ()
    assert everything(table) == before


@pytest.mark.parametrize("whole", [True, False], ids=["table", "log"])
def test_a_table_dropped_before_the_commit(maker: Maker, table: Path, whole: bool) -> None:
    log = {"delta": "_delta_log", "iceberg": "metadata"}.get(maker.name)
    if log is None and not whole:
        pytest.skip("has no such log")
    dropped = table if whole or log is None else table / log
    with pytest.raises((TableNotFoundError, ConflictError, StorageError), match=str(table)):
        rewrite(opened(table), between=lambda: shutil.rmtree(dropped))
    assert not dropped.exists() or not list(dropped.rglob("*.*"))
    assert not [f for f in table.rglob("new*") if f.is_file()] or dropped != table


@pytest.mark.parametrize("names", [[], [".00000000000000000000.json.tmp"], ["_last_checkpoint"]])
def test_a_conversion_to_delta_that_was_cut_short(tmp_path: Path, names: list[str]) -> None:
    pq.write_table(content(8), tmp_path / "a.parquet")
    (tmp_path / "_delta_log").mkdir()
    for name in names:
        (tmp_path / "_delta_log" / name).write_text('{"version":3,"size":4}')
    before = everything(tmp_path)
    with pytest.raises((TableNotFoundError, StorageError), match=str(tmp_path)):
        zskip.open(str(tmp_path)).files()
    with pytest.raises(InputError, match="_delta_log"):
        zskip.open(str(tmp_path), format="parquet").files()
    assert everything(tmp_path) == before


def test_delta_with_the_metadata_of_iceberg(tmp_path: Path) -> None:
    maker = FORMATS[1]
    maker.append(tmp_path, content(8), partitioned=False)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "00000-8a1c4c1e-1b2f-4a53-8f0e-8d3d0c0f0a11.metadata.json").write_text("{}")
    before = everything(tmp_path)
    with pytest.raises(InputError, match=r'_delta_log.*format="delta"'):
        zskip.open(str(tmp_path)).files()
    assert everything(tmp_path) == before
    assert len(zskip.open(str(tmp_path), format="delta").files()) == 1


@pytest.mark.spark
def test_a_file_that_is_gone_is_named(maker: Maker, table: Path, spark: SparkSession) -> None:
    frame, paths = zskip.table(spark, str(table)).df(), opened(table).snapshot().paths
    (table / paths[0]).unlink()
    with pytest.raises(Exception, match=r"(?s)FILE_NOT_EXIST|does not exist|FileNotFound"):
        frame.collect()
    if maker.name == "parquet":
        return
    before = everything(table)
    with pytest.raises(ZskipError, match=Path(paths[0]).name):
        zskip.table(spark, maker.address(table)).optimize(["id", "v"], files=4)
    assert everything(table) == before


@pytest.mark.spark
def test_a_table_dropped_while_it_is_rewritten(
    maker: Maker, table: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zskip.table.rewrite import optimize

    sample = optimize._sample

    def dropped(*arguments: object) -> object:
        drawn_sample = sample(*arguments)  # type: ignore[arg-type]
        shutil.rmtree(table)
        return drawn_sample

    monkeypatch.setattr(optimize, "_sample", dropped)
    with pytest.raises(ZskipError, match=str(table)):
        zskip.table(spark, maker.address(table)).optimize(["id", "v"], files=4)
    assert not [f for f in table.rglob("*") if f.is_file()]
    monkeypatch.undo()
    with pytest.raises(TableNotFoundError, match=str(table)):
        zskip.table(spark, str(table)).df()


@pytest.mark.spark
def test_a_scheme_without_a_file_system(spark: SparkSession) -> None:
    before = time.monotonic()
    with pytest.raises(StorageError, match=r"zskipfs://bucket/t"):
        zskip.table(spark, "zskipfs://bucket/t").df()
    assert time.monotonic() - before < 60
