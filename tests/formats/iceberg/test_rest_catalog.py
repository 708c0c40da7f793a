"""A table of a REST catalog: found by its name, and rewritten by commits over HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")
pytest.importorskip("pyiceberg_core")

import rest_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

import zskip
from zskip.errors import TableNotFoundError
from zskip.formats.iceberg.replace import ReplaceFiles

NAME = "remote.n.t"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the catalog was asked; it has a table of 900 rows in four files."""
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/wh"
    behind = SqlCatalog("behind", uri=uri, warehouse=warehouse)
    behind.create_namespace("n")
    rows = pa.table({"id": list(range(900)), "v": [i * 7919 % 900 for i in range(900)]})
    table = behind.create_table("n.t", schema=rows.schema)
    for i in range(4):
        table.append(rows.slice(i * 225, 225))
    with rest_catalog.served(uri, warehouse) as (url, asked):
        monkeypatch.setenv("PYICEBERG_CATALOG__REMOTE__URI", url)
        monkeypatch.setenv("PYICEBERG_CATALOG__REMOTE__TYPE", "rest")
        yield asked


def rows_of(name: str = NAME) -> list[int]:
    table = RestCatalog("remote", uri=os.environ["PYICEBERG_CATALOG__REMOTE__URI"]).load_table(name.partition(".")[2])
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def test_a_name_is_looked_up(asked: list[str]) -> None:
    table = zskip.open(NAME)
    assert table.index().files == 4
    assert len(table.files("id = 5")) == 1
    assert any(line.startswith("GET /v1/namespaces/n/tables/t") for line in asked)
    with pytest.raises(TableNotFoundError, match=r"remote\.n\.none"):
        zskip.open("remote.n.none")


@pytest.mark.spark
def test_a_rewrite_is_committed_upon_what_others_committed(
    asked: list[str], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = zskip.table(spark, NAME)
    assert table.optimize(by=["id", "v"], files=2).files_after == 2
    assert sum(line.startswith("POST") for line in asked) == 1
    prepare = ReplaceFiles.prepare
    faster = [pa.table({"id": [900], "v": [0]})]

    def after_another(self: ReplaceFiles) -> Any:
        prepared = prepare(self)
        if faster:
            catalog = RestCatalog("remote", uri=os.environ["PYICEBERG_CATALOG__REMOTE__URI"])
            catalog.load_table("n.t").append(faster.pop())
        return prepared

    monkeypatch.setattr(ReplaceFiles, "prepare", after_another)
    assert table.optimize(by=["v", "id"], files=2).files_after == 2
    assert rows_of() == list(range(901))
    assert sum(line.startswith("POST") for line in asked) == 4
    assert table.df().where("id >= 890").count() == 11
    assert table.clean().leftovers == ()
