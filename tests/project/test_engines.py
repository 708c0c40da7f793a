"""The examples of docs/engines.md: each engine reads only the files that the index leaves, and finds all rows."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tables

import zskip

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
EXAMPLES = dict(re.findall(r"## (\S+)\n.*?```python\n(.*?)```", PAGE, re.DOTALL))
IDS: dict[str, Callable[[Any], list[int]]] = {
    "DuckDB": lambda rows: [row[0] for row in rows.project("id").fetchall()],
    "Polars": lambda rows: rows.select("id").collect()["id"].to_list(),
    "pyarrow.dataset": lambda rows: rows.to_table(columns=["id"])["id"].to_pylist(),
}
DAY = dt.date(2024, 3, 1)
QUERIES: dict[str, tuple[str, pc.Expression, Callable[[dict[str, Any]], bool]]] = {
    "few": (
        "user_id = 7 AND day >= DATE '2024-03-01'",
        (pc.field("user_id") == 7) & (pc.field("day") >= DAY),
        lambda row: row["user_id"] == 7 and row["day"] >= DAY,
    ),
    "none": ("user_id > 100000", pc.field("user_id") > 100_000, lambda row: False),
    "null": ("user_id IS NULL", pc.field("user_id").is_null(), lambda row: row["user_id"] is None),
    "not": (
        "NOT (user_id >= 60 OR name = 'name-0007')",
        ~((pc.field("user_id") >= 60) | (pc.field("name") == "name-0007")),
        lambda row: None not in (row["user_id"], row["name"]) and row["user_id"] < 60 and row["name"] != "name-0007",
    ),
    "all": ("id >= 0", pc.field("id") >= 0, lambda row: True),
}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Indexed files, each with the users of one range; an index that does not see what `spoiled` does."""
    table = tables.events()
    table = table.rename_columns(["user_id" if name == "user" else name for name in table.column_names])
    table = table.sort_by("user_id")
    path = tmp_path_factory.mktemp("engines") / "events"
    path.mkdir()
    for i in range(8):
        pq.write_table(table.slice(i * 750, 750), path / f"part-{i}.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zskip.storage.local.identity_on_disk", lambda inode, ctime_ns: 0)
        zskip.open(str(path)).index()
        yield path


def run(engine: str, path: Path, query: str | None = None) -> dict[str, Any]:
    """Run the example of an engine, with another predicate if one is given; what it leaves behind."""
    code = EXAMPLES[engine].replace('"events"', repr(str(path)))
    names: dict[str, Any] = {}
    if query is not None:
        assert len(re.findall(r"^where = ", code, re.MULTILINE)) == 1
        code = re.sub(r"^where = .*", "", code, flags=re.MULTILINE)
        names["where"] = QUERIES[query][1 if engine == "pyarrow.dataset" else 0]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "engines.md", "exec", dont_inherit=True), names)
    assert printed.getvalue().strip()
    return names


@contextlib.contextmanager
def spoiled(path: Path, kept: list[str]) -> Iterator[int]:
    """Make of all files but some what no engine can read, in a way that the index does not see; how many.

    Of the table's first file the footer stays, which tells zskip the columns.
    """
    first = tables.visible(path)[0]
    sound = {file: file.read_bytes() for file in tables.visible(path) if str(file) not in kept}
    for file, data in sound.items():
        footer = data[-8 - int.from_bytes(data[-8:-4], "little") :] if file == first else b""
        write(file, b"?" * (len(data) - len(footer)) + footer)
    try:
        yield len(sound)
    finally:
        for file, data in sound.items():
            write(file, data)


def write(file: Path, data: bytes) -> None:
    """Write other bytes, and keep the time."""
    before = file.stat()
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_there_is_an_example_for_each_engine() -> None:
    assert set(EXAMPLES) == set(IDS)


@pytest.mark.parametrize("engine", IDS)
def test_the_examples_run_as_they_stand(engine: str, events: Path) -> None:
    names = run(engine, events)
    assert 1 <= len(names["files"] if "files" in names else names["plan"].files) < 8
    assert len(IDS[engine](names["rows"])) > 0


@pytest.mark.parametrize("engine", IDS)
@pytest.mark.parametrize("query", QUERIES)
def test_the_rows_are_those_of_the_whole_table(engine: str, query: str, events: Path) -> None:
    where, _, matches = QUERIES[query]
    rows = pa.concat_tables([pq.read_table(file) for file in tables.visible(events)]).to_pylist()
    needed = sorted(row["id"] for row in rows if matches(row))
    kept = zskip.open(str(events)).files(where)
    with spoiled(events, kept or [str(tables.visible(events)[0])]) as count:
        assert (count > 0) == (query != "all")
        assert (kept == []) == (query == "none")
        names = run(engine, events, query)
        if engine == "pyarrow.dataset":
            assert names["files"] == (kept or names["table"].files()[:1])
        else:
            assert list(names["plan"].files) == kept
        assert sorted(IDS[engine](names["rows"])) == needed


@pytest.mark.parametrize("engine", IDS)
def test_partitions_are_read_as_the_page_says(engine: str, tmp_path: Path) -> None:
    path = tables.make_partitioned(tmp_path / "t")
    table = zskip.open(str(path))
    table.index()
    where = "y = 2024 AND region = 'us east' AND id < 3000"
    files = table.files(where)
    assert 0 < len(files) < len(table.files())
    rows = pq.read_table(path, partitioning="hive").to_pylist()
    needed = [row["id"] for row in rows if row["y"] == 2024 and row["region"] == "us east" and row["id"] < 3000]
    expression = (pc.field("y") == 2024) & (pc.field("region") == "us east") & (pc.field("id") < 3000)
    with spoiled(path, files):
        rows = {
            "DuckDB": lambda: duckdb.read_parquet(files, hive_partitioning=True).filter(where),
            "Polars": lambda: pl.scan_parquet(files, hive_partitioning=True).filter(pl.sql_expr(where)),
            "pyarrow.dataset": lambda: ds.dataset(files, format="parquet", partitioning="hive").filter(expression),
        }[engine]()
        assert sorted(IDS[engine](rows)) == sorted(needed)


@pytest.mark.parametrize("engine", IDS)
def test_columns_that_not_all_files_have_are_read_as_the_page_says(engine: str, tmp_path: Path) -> None:
    for i in range(4):
        later = {"b": [i, 10 * i]} if i % 2 == 0 else {}
        pq.write_table(pa.table({"id": [2 * i, 2 * i + 1], **later}), tmp_path / f"{i}.parquet")
    table = zskip.open(str(tmp_path))
    table.index()
    where = "b IS NULL AND id > 2 OR b = 20"
    files = table.files(where)
    assert [Path(file).stem for file in files] == ["1", "2", "3"]
    expression = (pc.field("b").is_null() & (pc.field("id") > 2)) | (pc.field("b") == 20)
    schema = {"id": pa.int64(), "b": pa.int64()}
    rows = {
        "DuckDB": lambda: table.plan(where).to_duckdb(duckdb.default_connection()).filter(where),
        "Polars": lambda: table.plan(where).to_polars().filter(pl.sql_expr(where)),
        "pyarrow.dataset": lambda: ds.dataset(files, schema=pa.schema(schema)).filter(expression),
    }[engine]()
    assert sorted(IDS[engine](rows)) == [3, 5, 6, 7]
