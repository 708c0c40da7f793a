"""Iceberg tables by their path: no row is lost by what manifests say, and what zskip would read wrongly is refused."""

from __future__ import annotations

import datetime as dt
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tiers

import zskip
from zskip.errors import UnsupportedError
from zskip.storage import LocalStorage

pytest.importorskip("pyiceberg")
from iceberg_tables import (
    catalog_at,
    content,
    create,
    edit,
    matching,
    path_of,
    read_files,
    rows_of,
    small,
)
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_at(tmp_path)


def literal(value: Any) -> str:
    if isinstance(value, float):
        return "CAST('NaN' AS DOUBLE)" if value != value else f"CAST({value!r} AS DOUBLE)"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"{kind}'{value.replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def predicates(rng: random.Random, rows: pa.Table, count: int) -> list[str]:
    """Random predicates on values of the rows, in SQL that Spark and DuckDB read alike."""
    names = [name for name in rows.column_names if name not in ("u", "bin", "fx", "tm", "n", "l")]

    def leaf() -> str:
        name = rng.choice(names)
        non_nulls = [v for v in rows[name].to_pylist() if v is not None]
        if rng.random() < 0.15 or not non_nulls:
            return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
        values = [literal(rng.choice(non_nulls)) for _ in range(3)]
        if rng.random() < 0.2:
            return f"{name} IN ({', '.join(values)})"
        if rng.random() < 0.2 and name == "s":
            return f"s LIKE '{values[0][1:-1][:3]}%'"
        return f"{name} {rng.choice(['=', '<', '<=', '>', '>=', '<>'])} {values[0]}"

    def tree(depth: int) -> str:
        if depth == 0 or rng.random() < 0.4:
            return leaf()
        if rng.random() < 0.2:
            return f"NOT ({tree(depth - 1)})"
        return f"({tree(depth - 1)}) {rng.choice(['AND', 'OR'])} ({tree(depth - 1)})"

    return [tree(2) for _ in range(count)]


def refuse_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = LocalStorage.open

    def opened(self: LocalStorage, path: str, size: int | None = None) -> Any:
        assert path.startswith("_zskip/"), f"{path} was opened"
        return plain(self, path, size)

    monkeypatch.setattr(LocalStorage, "open", opened)


def check(table: Table, rng: random.Random, count: int = 40) -> int:
    """No row is lost, whatever is asked; returns the number of files skipped."""
    opened = zskip.open(str(path_of(table)))
    everything = opened.files()
    rows = read_files(table, everything)
    assert rows_of(rows.drop_columns(["file"])) == rows_of(table.scan().to_arrow())
    skipped = 0
    # Files have random names: in their order other predicates would be drawn each time.
    for where in predicates(rng, rows.drop_columns(["file"]).sort_by("id"), count):
        kept = set(map(str, opened.files(where)))
        assert set(matching(rows, where)) <= kept, where
        skipped += len(everything) - len(kept)
    return skipped


BY: dict[str, tuple[tuple[str, Transform[Any, Any]], ...]] = {
    "nothing": (),
    "text and truth": (("s", IdentityTransform()), ("b", IdentityTransform())),
    "date": (("d", IdentityTransform()),),
    "decimal": (("m", IdentityTransform()),),
    "times": (("ts", IdentityTransform()), ("tn", DayTransform())),
    "bucket": (("id", BucketTransform(3)), ("i", TruncateTransform(10))),
    "days": (("ts", DayTransform()), ("s", TruncateTransform(2))),
}


@pytest.mark.parametrize("by", tiers.only(BY, ["nothing", "text and truth", "days"]))
def test_no_row_is_lost_and_no_file_opened(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    rng = random.Random(by)
    table = create(catalog, *BY[by])
    for start in (0, 10, 50, 90):
        table.append(content(rng, 12, start))
    refuse_opens(monkeypatch)
    assert check(table, rng) > 40


def test_nan_and_nulls_are_known(catalog: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "x", DoubleType()), NestedField(2, "k", DoubleType()), NestedField(3, "s", StringType())
    )
    table = create(catalog, ("k", IdentityTransform()), schema=schema)
    nan = float("nan")
    for x, k, s in (([1.0, nan], 1.0, "a"), ([2.0, 3.0], 7.0, None), ([nan, nan], None, "c"), ([None, None], 2.0, "d")):
        table.append(
            pa.table(
                {
                    "x": pa.array(x, pa.float64()),
                    "k": pa.array([k] * 2, pa.float64()),
                    "s": pa.array([s] * 2, pa.string()),
                }
            )
        )
    opened = zskip.open(str(path_of(table)))
    rows = read_files(table, opened.files())

    def skipped(where: str) -> int:
        kept = set(map(str, opened.files(where)))
        assert set(matching(rows, where)) <= kept
        return 4 - len(kept)

    assert skipped("x > 5") == 1  # Of other files, nobody counted NaN, which is greater.
    assert skipped("x < 0.5") >= 2
    assert skipped("x IS NOT NULL") == 1
    assert skipped("k = 7") == 3
    assert skipped("k IS NULL") == 3
    assert skipped("s IS NULL") == 3
    assert skipped("s IS NOT NULL") == 1
    assert skipped("s = 'c'") == 3


def test_a_count_of_nan_is_exact(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "x", DoubleType())))
    for values in ([1.0, 2.0], [float("nan")] * 2, [1.0, float("nan")]):
        table.append(pa.table({"x": values}))
    counts = {2.0: 0, None: 2, 1.0: 1}

    def counted(file: DataFile) -> dict[int, int]:
        upper = file.upper_bounds.get(1)
        return {1: counts[None if upper is None else struct.unpack("<d", upper)[0]]}

    monkeypatch.setattr(DataFile, "nan_value_counts", property(counted))
    opened = zskip.open(str(path_of(table)))
    assert len(opened.files("x > 5")) == 2
    assert len(opened.files("x < 5")) == 2
    assert len(opened.files("x = CAST('NaN' AS DOUBLE)")) == 2


def test_a_value_count_that_is_not_the_number_of_rows_makes_nulls_unknown(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = small(catalog)
    opened = zskip.open(str(path_of(table)))
    assert opened.files("a IS NULL") == []
    monkeypatch.setattr(DataFile, "value_counts", property(lambda _: {1: 2}))
    assert len(opened.files("a IS NULL")) == 2


def test_older_files_of_narrower_types_and_fewer_columns(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog, ("b", IdentityTransform()))
    rng = random.Random(7)
    table.append(content(rng, 20, 0))
    with table.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
        update.update_column("m", DecimalType(18, 2))
        update.add_column("more", StringType())
        update.add_column(("n", "inner"), LongType())
        update.delete_column("tn")
    rows = content(rng, 20, 30).drop_columns(["tn"])
    rows = rows.set_column(1, "i", pa.array([2**40 + i for i in range(20)], pa.int64()))
    rows = rows.set_column(rows.column_names.index("f"), "f", rows["f"].cast(pa.float64()))
    rows = rows.append_column("more", pa.array([f"more {i}" for i in range(20)]))
    table.append(rows)
    with table.update_spec() as spec:
        spec.remove_field("p0")
        spec.add_field("d", IdentityTransform())
    table.append(content(rng, 20, 60).drop_columns(["tn"]))
    refuse_opens(monkeypatch)
    assert check(table, rng, 100) > 40
    opened = zskip.open(str(path_of(table)))
    assert opened.info().columns["i"] == "long"
    assert opened.info().columns["m"] == "decimal(18,2)"


def test_bounds_of_narrower_types_are_believed(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "a", IntegerType()), NestedField(2, "f", FloatType())))
    table.append(pa.table({"a": pa.array([-1, 7], pa.int32()), "f": pa.array([0.5, 1.5], pa.float32())}))
    with table.update_schema() as update:
        update.update_column("a", LongType())
        update.update_column("f", DoubleType())
    table.append(pa.table({"a": [2**40], "f": [1e300]}))
    opened = zskip.open(str(path_of(table)))
    assert len(opened.files("a > 7")) == len(opened.files("a = 7")) == len(opened.files("f < 1")) == 1
    assert len(opened.files("a BETWEEN 8 AND 100")) == 0


def test_ancient_days_are_not_believed(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "d", DateType())))
    for day in (dt.date(1500, 1, 1), dt.date(2024, 1, 1)):
        table.append(pa.table({"d": [day]}))
    opened = zskip.open(str(path_of(table)))
    assert len(opened.files("d = DATE'2024-01-01'")) == 2
    assert len(opened.files("d = DATE'1500-01-01'")) == 1


@pytest.mark.parametrize("change", ["rename", "rename inside", "add again", "add again in another case"])
def test_columns_whose_names_are_not_sure_are_refused(catalog: SqlCatalog, change: str) -> None:
    table = create(catalog)
    table.append(content(random.Random(1), 5, 0))
    with table.update_schema() as update:
        if change.startswith("rename"):
            update.rename_column("s" if change == "rename" else ("n", "r"), "other")
        else:
            update.delete_column("s")
    if change.startswith("add"):
        with table.update_schema() as update:
            update.add_column("s" if change == "add again" else "S", StringType())
    opened = zskip.open(str(path_of(table)))
    reason = 'called "(s|n.r)"' if change.startswith("rename") else '"s" was dropped and another'
    for read in (opened.files, opened.info, opened.index):
        with pytest.raises(UnsupportedError, match=reason):
            read()
    assert not (path_of(table) / "_zskip").exists()


def test_a_column_that_was_dropped_is_no_more(catalog: SqlCatalog) -> None:
    table = small(catalog)
    with table.update_schema() as update:
        update.delete_column("s")
    opened = zskip.open(str(path_of(table)))
    assert list(opened.info().columns) == ["a"]
    assert len(opened.files("a >= 100")) == 1


@pytest.mark.parametrize("first", [True, False])
def test_history_that_expired_is_refused(catalog: SqlCatalog, first: bool) -> None:
    table = small(catalog)
    with table.update_schema() as update:
        update.add_column("more", StringType())
    if not first:
        with table.update_schema() as update:
            update.delete_column("more")  # Which makes the first schema the current one.
    assert len(zskip.open(str(path_of(table))).files()) == 2
    edit(table, lambda metadata: metadata["schemas"].pop(0 if first else 1))
    with pytest.raises(UnsupportedError, match="older schemas are expired"):
        zskip.open(str(path_of(table))).files()


def test_a_name_that_files_spell_otherwise_is_refused(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "a b", IntegerType())))
    table.append(pa.table({"a b": pa.array([1], pa.int32())}))
    with pytest.raises(UnsupportedError, match='"a b" is called "a_x20b" in its files'):
        zskip.open(str(path_of(table))).files()


def test_rows_deleted_by_rewriting_files_are_gone(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    table = create(catalog, ("b", IdentityTransform()))
    for start in (0, 11, 40):
        table.append(content(rng, 20, start))
    table.delete("id >= 5 and id < 15")
    table.delete("id >= 40 and id < 60")
    table.overwrite(content(rng, 20, 200), "id = 20")
    refuse_opens(monkeypatch)
    assert check(table, rng) > 0


def sorted_rows(rows: list[Any]) -> list[str]:
    """Rows without NaN, and bytes as any version of Spark gives them."""
    plain = [{k: bytes(v) if isinstance(v, bytearray) else v for k, v in row.items() if v == v} for row in rows]
    return sorted(map(str, plain))


def test_spark_reads_it_without_a_jar(catalog: SqlCatalog, spark: Any) -> None:
    rng = random.Random(11)
    table = create(catalog, ("i", TruncateTransform(20)), ("b", IdentityTransform()))
    for start in (0, 11, 40):
        table.append(content(rng, 20, start))
    with table.update_schema() as update:
        update.add_column("more", StringType())
    table.delete("id = 3")
    opened = zskip.table(spark, str(path_of(table)))
    frame = opened.df()
    expected = table.scan().to_arrow().drop_columns(["u", "tm"]).to_pylist()
    for row in expected:
        row["ts"] = row["ts"] and row["ts"].replace(tzinfo=None)
    names = [field.name for field in table.schema().fields if field.name not in ("u", "tm")]
    assert sorted_rows([r.asDict(recursive=True) for r in plain(frame.select(names))]) == sorted_rows(expected)
    before = opened.last_scan
    assert before is not None
    assert before.files == before.files_total > 6
    assert frame.where("id = 45").count() == 1
    assert opened.last_scan is not None
    assert opened.last_scan.files < before.files
    assert opened.index().files == before.files_total
    assert opened.verify(queries=3).ok
    assert opened.explain("id = 45", analyze=True).regret is not None
    assert opened.info().index is not None
    assert opened.info().rows == 59


def plain(frame: Any) -> list[Any]:
    """The rows, times without the zone of this machine."""
    from pyspark.sql import functions as F

    return frame.withColumn("ts", F.to_timestamp_ntz(F.date_format("ts", "yyyy-MM-dd HH:mm:ss.SSSSSS"))).collect()


def test_spark_reads_narrower_columns_of_older_files(catalog: SqlCatalog, spark: Any) -> None:
    if spark.version < "4":
        pytest.skip("Spark 3.5 raises an error for files that hold a narrower type than the table")
    table = small(catalog)
    with table.update_schema() as update:
        update.update_column("a", LongType())
    table.append(pa.table({"a": [2**40], "s": ["x"]}))
    opened = zskip.table(spark, str(path_of(table)))
    frame = opened.df()
    assert [row.a for row in frame.orderBy("a").collect()] == [0, 1, 2, 100, 101, 102, 2**40]
    assert [row.a for row in frame.where(f"a in (1, {2**40}, {2**32 + 2})").orderBy("a").collect()] == [1, 2**40]
    assert opened.last_scan is not None
    assert opened.last_scan.files == 2
    assert opened.verify(queries=1).ok


def test_a_frame_stays_at_its_snapshot(catalog: SqlCatalog, spark: Any) -> None:
    table = small(catalog)
    frame = zskip.table(spark, str(path_of(table))).df()
    table.delete("a >= 100")
    assert frame.count() == 6
    assert zskip.table(spark, str(path_of(table))).df().count() == 3


def test_an_empty_table_in_spark(catalog: SqlCatalog, spark: Any) -> None:
    table = create(catalog, ("b", IdentityTransform()))
    opened = zskip.table(spark, str(path_of(table)))
    assert opened.df().where("id = 1").count() == 0
    assert opened.df().columns == [field.name for field in table.schema().fields]
    assert opened.verify().ok


@pytest.mark.parametrize("more", [{}, {"into": "other"}])
def test_optimize_is_refused_and_writes_nothing(
    catalog: SqlCatalog, spark: Any, tmp_path: Path, more: dict[str, str]
) -> None:
    table = small(catalog)
    before = sorted(tmp_path.rglob("*"))
    more = {name: str(tmp_path / value) for name, value in more.items()}
    with pytest.raises(UnsupportedError, match=r"does not rewrite the Iceberg table|of the format iceberg"):
        zskip.table(spark, str(path_of(table))).optimize(["a", "s"], **more)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_index_beside_the_manifests(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    table = create(catalog, ("d", IdentityTransform()))
    table.append(content(rng, 40, 0))
    opened = zskip.open(str(path_of(table)))
    assert opened.index().files == len(opened.files())
    table.append(content(rng, 40, 40))
    refuse_opens(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert check(table, rng) > 40
