"""Which directories and names are tables, and what is told of those that are none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import format_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import InputError, StorageError, TableNotFoundError


def write(path: Path, name: str = "part-0.parquet") -> None:
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [1, 2, 3]}), path / name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Tables of all formats at several depths, among directories that are none."""
    root = tmp_path / "lake"
    write(root / "plain")
    write(root / "sales" / "a b")
    write(root / "sales" / "by_day" / "day=2024-01-01" / "hour=1")
    write(root / "sales" / "by_day" / "day=2024-01-02" / "hour=1")
    format_tables.DeltaMaker().append(root / "sales" / "events", format_tables.content(), partitioned=True)
    (root / "iceberg" / "metadata").mkdir(parents=True)
    (root / "iceberg" / "metadata" / "00000-x.metadata.json").write_text("{")
    write(root / "iceberg" / "data")
    write(root / "_hidden")
    write(root / ".hidden")
    (root / "csv" / "day=1").mkdir(parents=True)
    (root / "csv" / "day=1" / "rows.csv").write_text("1,2")
    (root / "empty").mkdir()
    (root / "readme.txt").write_text("no table")
    return root


def found(root: Path, *patterns: str, exclude: tuple[str, ...] | str = ()) -> list[str]:
    names = zskip.lake(None, *(str(root / pattern) for pattern in patterns or ("",)), exclude=exclude).tables
    return [os.path.relpath(name, root) for name in names]


def test_tables_are_told_from_directories(root: Path) -> None:
    assert found(root) == ["iceberg", "plain", "sales/a b", "sales/by_day", "sales/events"]
    assert found(root, "plain") == ["plain"]
    assert found(root, "sales/by_day") == ["sales/by_day"]


def test_files_beside_tables_are_a_table_of_their_own(root: Path) -> None:
    write(root / "sales")
    assert found(root, "sales") == ["sales", "sales/a b", "sales/by_day", "sales/events"]
    by_name = {os.path.relpath(table.table, root): table for table in zskip.lake(None, str(root)).survey().tables}
    assert "not name=value" in by_name["sales"].error
    assert not by_name["sales/events"].error


def test_globs_and_exclusions(root: Path) -> None:
    assert found(root, "sales/*") == ["sales/a b", "sales/by_day", "sales/events"]
    assert found(root, "*/e*", "pl?in") == ["sales/events", "plain"]
    assert found(root, exclude=("*/sales/*", "iceberg")) == ["plain"]
    assert found(root, exclude=str(root / "sales")) == ["iceberg", "plain"]
    assert found(root, "sales", "sales/events", ".") == [*found(root, "sales"), "iceberg", "plain"], "each once"


def test_links_neither_loop_nor_double(root: Path) -> None:
    (root / "sales" / "again").symlink_to(root / "plain")
    (root / "sales" / "up").symlink_to(root)
    names = found(root)
    assert len(names) == len({os.path.realpath(root / name) for name in names}) == 5


def test_every_format_is_found(unpack: Callable[[str], Path]) -> None:
    path = unpack("plain")
    assert zskip.lake(None, str(path.parent)).survey().tables[0].format == "hudi"


@pytest.mark.parametrize(
    ("patterns", "exclude", "error", "text"),
    [
        ((), (), InputError, "names no table"),
        (("",), (), InputError, "'' is not a pattern"),
        ((3,), (), InputError, "3 is not a pattern"),
        (("plain",), (None,), InputError, "None is not a pattern"),
        (("/nowhere/at all",), (), TableNotFoundError, '"/nowhere/at all" does not exist'),
        (("{root}/plane",), (), TableNotFoundError, 'did you mean "{root}/plain"'),
        (("{root}/salez*",), (), TableNotFoundError, 'did you mean "sales"'),
        (("{root}/empty",), (), TableNotFoundError, "there is no table"),
        (("{root}/csv",), (), TableNotFoundError, "there is no table"),
        (("{root}/readme.txt",), (), TableNotFoundError, "is a file"),
        (("sales.*",), (), InputError, "names of tables need a classic session"),
        (("{root}",), ("*",), InputError, "leaves none of the 5 tables"),
    ],
)
def test_bad_input(
    root: Path, patterns: tuple[str, ...], exclude: tuple[str, ...], error: type[Exception], text: str
) -> None:
    given = [p.format(root=root) if isinstance(p, str) else p for p in patterns]
    with pytest.raises(error) as caught:
        zskip.lake(None, *given, exclude=exclude)
    assert text.format(root=root) in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_without_rights_is_a_line(root: Path) -> None:
    (root / "sales").chmod(0)
    try:
        lines = {os.path.relpath(t.table, root): t.error for t in zskip.lake(None, str(root)).survey().tables}
        assert "no permission" in lines["sales"]
        assert not lines["plain"]
    finally:
        (root / "sales").chmod(0o755)


def test_a_part_that_cannot_be_reached_is_a_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zskip.storage import LocalStorage

    list_dir = LocalStorage.list_dir

    def refuse(self: LocalStorage, path: str) -> object:
        if "sales" in self.uri(path):
            raise StorageError(f"{self.uri(path)} does not answer")
        return list_dir(self, path)

    monkeypatch.setattr(LocalStorage, "list_dir", refuse)
    survey = zskip.lake(None, str(root)).survey()
    assert [t.error for t in survey.tables if "sales" in t.table] == [f"{root}/sales does not answer"]
    assert "2 of them cannot be read" in str(survey), "with the broken Iceberg table"
    with pytest.raises(StorageError, match="no table can be reached"):
        zskip.lake(None, str(root / "sales"))


@pytest.fixture
def names(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """Two databases with a table at a path, a view, and a table of another engine."""
    spark.sql(f"CREATE DATABASE lake_a LOCATION '{tmp_path}/a'")
    spark.sql(f"CREATE DATABASE lake_b LOCATION '{tmp_path}/b'")
    events = tables.make_events(tmp_path / "events")
    spark.sql(f"CREATE TABLE lake_a.events USING parquet LOCATION '{events}'")
    spark.sql("CREATE TABLE lake_a.other USING parquet AS SELECT 1 AS id")
    spark.sql("CREATE TABLE lake_b.rows USING csv AS SELECT 1 AS id")
    spark.sql("CREATE VIEW lake_a.seen AS SELECT * FROM lake_a.events")
    yield spark
    for name in ("lake_a", "lake_b"):
        spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.mark.spark
def test_names_of_catalogs(names: SparkSession, tmp_path: Path) -> None:
    lines = {t.table: t for t in zskip.lake(names, "lake_?.*", str(tmp_path / "events")).survey().tables}
    assert sorted(lines) == ["lake_a.events", "lake_a.other", "lake_a.seen", "lake_b.rows"], (
        "named and by its path: once"
    )
    assert (lines["lake_a.events"].files, lines["lake_a.events"].error) == (6, "")
    assert "is a view" in lines["lake_a.seen"].error
    assert "lake_b.rows" in lines["lake_b.rows"].error
    assert zskip.lake(names, "lake_a.*", exclude=["seen", "lake_a.o*"]).tables == ("lake_a.events",)
    assert zskip.lake(names, "LAKE_A.Events", "spark_catalog.lake_a.ev*").tables == ("lake_a.events",)
    done = zskip.lake(names, "lake_a.*").maintain()
    assert [table.table for table in done.tables] == ["lake_a.events"]
    assert not done.failed, "views are no failures"
    assert names.table("lake_a.events").count() == tables.ROWS


@pytest.mark.spark
def test_bad_names(names: SparkSession) -> None:
    for pattern, error, text in (
        ("lake_a.evnts", TableNotFoundError, 'did you mean "events"'),
        ("lake_c.*", TableNotFoundError, 'did you mean "lake_b" or "lake_a"'),
        ("a.b.c.d", InputError, "is not a pattern of tables"),
        ("*.lake_a.events", InputError, "is not a pattern of tables"),
        ("nowhere.db.*", StorageError, "cannot list the tables"),
    ):
        with pytest.raises(error, match=text):
            zskip.lake(names, pattern)
