"""The shell, SQL and the report of a lake."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip import cli
from zskip.errors import InputError, StorageError, TableNotFoundError, ZskipWarning
from zskip.lake import workload


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, files in (("a", 3), ("b", 9)):
        tables.make_events(tmp_path / "lake" / name, files=files)
    return tmp_path / "lake"


def call(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    before, sys.argv = sys.argv, ["zskip", "lake", *arguments]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv = before
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


@pytest.mark.spark
def test_the_shell(spark: SparkSession, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call("survey", str(root), "--exclude", "a", "--json", capsys=capsys)
    assert (code, err) == (0, "")
    assert [table["files"] for table in json.loads(out)["tables"]] == [9]
    assert "compact" in call("survey", str(root), capsys=capsys)[1]
    code, out, _ = call("maintain", str(root), "--budget", "1GB", "--dry-run", "--json", capsys=capsys)
    assert (code, json.loads(out)["batches"]) == (0, 2)
    (root / "c").mkdir()
    (root / "c" / "x.parquet").write_bytes(b"nothing")
    code, out, _ = call("maintain", str(root), "--jobs", "2", "--json", capsys=capsys)
    done = json.loads(out)
    assert (code, done["batches"], list(done["failed"])) == (1, 2, [str(root / "c")])
    code, out, _ = call("report", str(root), "-o", str(root.parent / "page.html"), capsys=capsys)
    assert (code, out.strip()) == (0, str(root.parent / "page.html"))
    code, _, err = call("maintain", str(root), "--jobs", "0", capsys=capsys)
    assert (code, "jobs=0" in err) == (2, True)
    assert call("survey", "nowhere/at/all", capsys=capsys)[0] == 2


@pytest.mark.spark
def test_names(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    spark.sql(f"CREATE DATABASE lake_names LOCATION '{tmp_path}/db'")
    try:
        for name in ("a", "b"):
            spark.sql(f"CREATE TABLE lake_names.{name} USING parquet LOCATION '{root / name}'")
        (row,) = zskip.lake(spark, "lake_names.*", exclude="*.a").survey().tables
        assert (row.table, row.files, row.action, row.error) == ("lake_names.b", 9, "compact", "")
        lake = zskip.lake(spark, "lake_names.*")
        planned = lake.maintain("1GB", dry_run=True).tables
        assert {row.table: row.batches for row in planned} == {"lake_names.a": 1, "lake_names.b": 1}
        done = lake.maintain("1GB").tables
        assert {row.table: row.files_added for row in done} == {"lake_names.a": 1, "lake_names.b": 1}
        assert spark.table("lake_names.b").count() == tables.ROWS, "the catalog knows of the new files"
        assert lake.maintain().tables == ()
        with pytest.raises(TableNotFoundError, match='did you mean "lake_names'):
            zskip.lake(spark, "lake_name.*")
    finally:
        spark.sql("DROP DATABASE lake_names CASCADE")


def test_record_tells_what_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = zskip.lake(None, str(root))
    lake.record(True)
    assert all(zskip.open(str(root / name)).workload().recording for name in "ab")
    lake.record(False)
    record_table = workload.record_table

    def refuse(handle: Any, on: bool) -> None:
        if handle.storage.root.endswith("/b"):
            raise StorageError("no permission")
        record_table(handle, on)

    monkeypatch.setattr(workload, "record_table", refuse)
    with pytest.warns(ZskipWarning, match="/b are not recorded: no permission"):
        lake.record(True)
    assert zskip.open(str(root / "a")).workload().recording
    with pytest.raises(StorageError, match="no table can be recorded"):
        zskip.lake(None, str(root / "b")).record(True)
    with pytest.raises(InputError, match="give True or False"):
        lake.record(1)  # type: ignore[arg-type]


def test_the_report_links_to_tables(root: Path, tmp_path: Path) -> None:
    (root / "<b>odd & name").mkdir()
    (root / "<b>odd & name" / "x.parquet").write_bytes(b"nothing")
    page = zskip.lake(None, str(root)).report(tmp_path / "lake.html")
    text = page.read_text()
    links = re.findall(r'<a href="([^"]+)">', text)
    assert len(links) == 2
    for link in links:
        assert (tmp_path / link).read_text().startswith("<!doctype html>")
    assert "&lt;b&gt;odd &amp; name" in text
    assert "<b>odd" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "Nothing yet" in text
    data = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)[0])
    assert len(data["figures"]["tables"]["data"][0]["x"]) == 2
    with pytest.raises(InputError, match="is a directory"):
        zskip.lake(None, str(root)).report(tmp_path)
