"""Hudi tables read without a JVM, held against what Hudi's own reader said of them when they were written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from owners import dead_owner
from pyspark.sql import SparkSession

import zskip
from zskip.errors import InputError, MissingDependencyError, StorageError, TableNotFoundError, UnsupportedError
from zskip.formats import open_format
from zskip.formats.hudi.protocol import check_partitions, check_rewritable
from zskip.formats.hudi.timeline import read_timeline
from zskip.formats.hudi.values import drop_widened_floats, spark_schema
from zskip.index import Index
from zskip.records import Field, Snapshot
from zskip.storage import LocalStorage
from zskip.types import DataType

DATA = Path(__file__).parents[2] / "data" / "hudi"
SAID: dict[str, Any] = json.loads((DATA / "rows.json").read_text())
READABLE = ["flat", "hive", "plain", "virtual"]
Unpack = Callable[[str], Path]


def opened(path: Path) -> Snapshot:
    return open_format(LocalStorage(str(path))).snapshot()


def names(paths: list[str] | tuple[str, ...]) -> list[str]:
    return sorted(str(path).rpartition("/")[2] for path in paths)


@pytest.mark.parametrize("name", [*READABLE, "mor"])
def test_files_columns_and_counts_are_hudis_own(name: str, unpack: Unpack) -> None:
    path = unpack(name)
    table, expected = opened(path), SAID[name]
    assert list(table.paths) == sorted(table.paths)
    assert names(table.paths) == expected["files"]
    assert len(list(path.rglob("*.parquet"))) > len(table) or name not in ("flat", "hive", "plain")
    assert table.sizes.tolist() == [(path / file).stat().st_size for file in table.paths]
    assert table.reading.declared is not None
    columns = json.loads(table.reading.declared[0])["fields"]
    assert [column["name"] for column in columns] == [column["name"] for column in expected["columns"]]
    described = [{"name": f["name"], "type": nullable(f["type"])} for f in expected["columns"]]
    assert [{"name": f["name"], "type": f["type"]} for f in columns] == described
    assert table.known is not None
    counts = [pq.read_metadata(path / file).num_rows for file in table.paths]
    assert table.known.rows.tolist() == counts
    if name != "mor":
        assert sum(counts) == len(expected["rows"])


def nullable(kind: Any) -> Any:
    """A type in Spark's JSON of which every part may be null."""
    if not isinstance(kind, dict):
        return kind
    return {k: True if k in ("containsNull", "valueContainsNull") else nullable(v) for k, v in kind.items()}


@pytest.mark.parametrize("name", tiers.nightly(["hive", "virtual", "flat", "plain"], daily=2))
def test_a_frame_has_the_rows_of_hudis_reader(name: str, unpack: Unpack, spark: SparkSession) -> None:
    table = zskip.table(spark, str(unpack(name)))
    table.index()
    frame = table.df()
    assert frame.columns == [column["name"] for column in SAID[name]["columns"]]
    assert (
        sorted((json.loads(row) for row in frame.toJSON().collect()), key=lambda row: row["id"]) == SAID[name]["rows"]
    )
    few = frame.where("id = 0")
    assert [row.id for row in few.collect()] == [0]
    assert table.last_scan is not None
    assert table.last_scan.files < table.last_scan.files_total
    if name == "hive":
        result = table.verify(queries=2)
        assert result.ok, result.mismatches
        assert (result.files, result.queries) == (7, 2)


def test_the_index_lies_where_hudi_keeps_such_things(unpack: Unpack) -> None:
    path = unpack("hive")
    before = {file for file in path.rglob("*") if file.is_file()}
    table = zskip.open(str(path))
    assert table.index(granularity="row_group").files == 7
    new = {file.relative_to(path).parts[:3] for file in path.rglob("*") if file.is_file()} - {
        file.relative_to(path).parts[:3] for file in before
    }
    assert new == {(".hoodie", "zskip", "index")}
    info = table.info()
    assert (info.format, info.rows, info.partition_columns, info.partitions) == ("hudi", 17, ("region",), 4)
    assert table.describe_index()
    keeps = {Path(file).name for file in table.files("id = 5")}
    assert 1 <= len(keeps) < 7
    assert table.index().version == table.index().version


def test_partition_values_prune_a_table_never_seen_before(unpack: Unpack) -> None:
    table = zskip.open(str(unpack("hive")))
    assert {Path(file).parent.name for file in table.files("region = 'a/b'")} == {
        "region=a%2Fb",
        "region=__HIVE_DEFAULT_PARTITION__",
    }
    # Unescaped, texts may have lost a slash; numbers are what they are.
    table = zskip.open(str(unpack("plain")))
    assert len(table.files("region = 'y'")) == 2
    assert {Path(file).parent.parent.name for file in table.files("p = 1")} == {"1"}


@pytest.mark.parametrize("name", ["hive", "plain"])
def test_what_is_known_of_partition_columns_is_what_their_files_hold(name: str, unpack: Unpack) -> None:
    path = unpack(name)
    table = opened(path)
    assert table.known is not None
    assert table.grouped_by == {"hive": ("region",), "plain": ("p", "region")}[name]
    bounded = 0
    for column in table.grouped_by:
        stats = table.known.column(column)
        for i, file in enumerate(table.paths):
            (value,) = set(pq.ParquetFile(path / file).read([column])[column].to_pylist())
            if stats is not None and stats.bounded[i]:
                bounded += 1
                assert stats.lower[i] == stats.upper[i] == (value.encode() if isinstance(value, str) else value)
                assert stats.nulls[i] == 0
            elif stats is not None:
                assert value is None
                assert stats.nulls[i] == -1
    assert bounded == {"hive": 5, "plain": 2}[name]
    assert table.known.column("id") is None


def field(kind: object) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", kind]}]})


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp-millis"),
        ({"type": "array", "items": {"type": "string", "logicalType": "uuid"}}, "uuid"),
        ({"type": "map", "values": {"type": "enum", "name": "e", "symbols": ["x"]}}, "enum"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5}, "bytes decimal"),
        ({"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 5}, None),
        ({"type": "long", "logicalType": "timestamp-micros"}, None),
        ({"type": "record", "name": "s", "fields": [{"name": "b", "type": "double"}]}, None),
    ],
)
def test_types_that_spark_would_write_as_others_are_not_rewritten(kind: object, refused: str | None) -> None:
    options = {"hoodie.table.type": "COPY_ON_WRITE"}
    if refused is None:
        check_rewritable("/t", options, field(kind))
    else:
        with pytest.raises(UnsupportedError, match=refused):
            check_rewritable("/t", options, field(kind))


def test_an_index_that_was_not_tried_is_left_alone() -> None:
    options = {"hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.metadata.partitions": "files,secondary_index_a"}
    with pytest.raises(UnsupportedError, match="secondary_index_a"):
        check_rewritable("/t", options, field("long"))


def test_types_are_sparks_own() -> None:
    kinds = [
        "int",
        {"type": "int", "logicalType": "date"},
        {"type": "long", "logicalType": "local-timestamp-micros"},
        {"type": "record", "name": "s", "fields": [{"name": "x", "type": ["float", "null"]}]},
        "s",
        {"type": "map", "values": ["null", "bytes"]},
    ]
    avro = {"type": "record", "name": "t", "fields": [{"name": f"c{i}", "type": kind} for i, kind in enumerate(kinds)]}
    types = [each["type"] for each in json.loads(spark_schema(json.dumps(avro), "/t"))["fields"]]
    inner = {"type": "struct", "fields": [{"name": "x", "type": "float", "nullable": True, "metadata": {}}]}
    map_type = {"type": "map", "keyType": "string", "valueType": "binary", "valueContainsNull": True}
    assert types == ["integer", "date", "timestamp_ntz", inner, inner, map_type]
    for strange in (["int", "string"], {"type": "int", "logicalType": "time-millis"}, "unknown"):
        with pytest.raises(UnsupportedError, match="Avro type"):
            spark_schema(field(strange), "/t")


def test_columns_that_hudi_widens_by_way_of_text_do_not_prune(tmp_path: Path) -> None:
    file = tmp_path / "t" / "a.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table({"w": pa.array([0.1], pa.float32()), "f": pa.array([0.1], pa.float32()), "d": [0.1]}), file)
    zskip.open(str(file.parent)).index()
    index = Index.load(LocalStorage(str(file.parent)))
    assert index is not None
    fields = [
        Field(name=name, type=DataType(kind)) for name, kind in (("W", "double"), ("f", "float"), ("d", "double"))
    ]
    assert [field.name for field in drop_widened_floats(fields, index.manifest.segments)] == ["f", "d"]


def test_null_partitions_are_pruned_once_indexed(unpack: Unpack) -> None:
    table = zskip.open(str(unpack("hive")))
    table.index()
    assert {Path(file).parent.name for file in table.files("region IS NULL")} == {"region=__HIVE_DEFAULT_PARTITION__"}
    assert {Path(file).parent.name for file in table.files("region = 'ö =%'")} == {"region=ö %3D%25"}


def test_files_with_logs_beside_them_are_always_kept(unpack: Unpack, spark: SparkSession) -> None:
    path = unpack("mor")
    table = zskip.table(spark, str(path))
    table.index(granularity="row_group", sketches=["bloom(0.01):name"])
    logged = {file for file in opened(path).paths if file.startswith("1/")}
    assert len(logged) == 1
    for where in ("name = 'logged'", "id > 1000", "v = 7"):
        (kept,) = table.files(where, deletes=True)
        assert str(Path(kept).relative_to(path)) in logged
        assert kept.row_groups is None
        (log,) = kept.deletes
        assert (log.kind, log.size) == ("log file", Path(str(log.path)).stat().st_size)
        assert table.explain(where).steps[-1].files == 1
    for action in (table.df, table.verify):
        with pytest.raises(UnsupportedError, match=r"run_compaction"):
            action()
    with pytest.raises(UnsupportedError, match=r"deleted or changed; read it with df\(\)"):
        table.files()


def test_a_partition_is_no_table(unpack: Unpack) -> None:
    for name, partition in (("plain", "0/x"), ("hive", "region=c")):
        with pytest.raises(InputError, match="partition of a table of the format hudi"):
            zskip.open(str(unpack(name) / partition)).files()


def test_pending_instants_are_not_read(unpack: Unpack) -> None:
    path = unpack("hive")
    timeline = path / ".hoodie" / "timeline"
    (done,) = timeline.glob("*_*.replacecommit")
    done.unlink()
    table = opened(path)
    instant = done.name.partition("_")[0]
    assert not any(instant in file for file in table.paths)
    assert len([file for file in table.paths if file.startswith("region=c/")]) == 2
    looked = read_timeline(LocalStorage(str(path)))
    assert looked.pending == looked.unguarded == {instant}
    assert len(looked.complete) == 4
    (path / ".hoodie" / ".heartbeat").mkdir()
    (path / ".hoodie" / ".heartbeat" / instant).touch()
    assert not read_timeline(LocalStorage(str(path))).unguarded


def test_a_killed_rewrite_is_cleaned_up_once_hudi_has_rolled_it_back(unpack: Unpack) -> None:
    path = unpack("hive")
    table = zskip.open(str(path))
    assert not table.clean().leftovers
    staged = path / ".hoodie" / "zskip" / "staging" / "dead"
    staged.mkdir(parents=True)
    (staged / "_owner.json").write_bytes(dead_owner())
    (staged / "_instant").write_text("20261121160000000")
    begun = path / ".hoodie" / "timeline" / "20261121160000000.replacecommit.requested"
    begun.touch()
    assert not table.clean(delete=True).leftovers
    assert staged.exists()
    begun.unlink()
    (leftover,) = table.clean(delete=True).leftovers
    assert Path(leftover.path) == staged
    assert not staged.exists()
    assert len(opened(path)) == 7


def test_the_timeline_of_hudi_0(unpack: Unpack) -> None:
    path = unpack("plain")
    assert (len(read_timeline(LocalStorage(str(path))).complete), opened(path).version) == (
        2,
        max(int(file.stem) for file in (path / ".hoodie").glob("*.commit")),
    )


def change(path: Path, old: str, new: str) -> None:
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    assert old in text
    properties.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("table.version=9", "table.version=77", "version 77"),
        ("base.file.format=PARQUET", "base.file.format=ORC", "not Parquet"),
        ("hoodie.table.format=native", "hoodie.table.format=iceberg", "table format iceberg"),
        ("hoodie.table.name=t", "hoodie.table.name=t\nhoodie.bootstrap.base.path=/old", "bootstrapped"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(old: str, new: str, match: str, unpack: Unpack) -> None:
    path = unpack("flat")
    change(path, old, new)
    with pytest.raises(UnsupportedError, match=match):
        zskip.open(str(path)).files()


def test_partition_columns_outside_of_files_are_refused(unpack: Unpack) -> None:
    with pytest.raises(UnsupportedError, match=r"drop\.partition\.columns"):
        zskip.open(str(unpack("dropped"))).info()


def test_columns_by_id_are_refused(unpack: Unpack) -> None:
    path = unpack("flat")
    (path / ".hoodie" / ".schema" / "20260101000000000.schemacommit").touch()
    with pytest.raises(UnsupportedError, match=r"schema\.on\.read"):
        zskip.open(str(path)).files()


def test_a_type_at_which_the_package_panics_is_refused(unpack: Unpack) -> None:
    path = unpack("plain")
    (last,) = sorted((path / ".hoodie").glob("*.commit"))[-1:]
    commit = json.loads(last.read_text())
    schema = json.loads(commit["extraMetadata"]["schema"])
    schema["fields"].append(
        {"name": "local", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]}
    )
    commit["extraMetadata"]["schema"] = json.dumps(schema)
    last.write_text(json.dumps(commit))
    with pytest.raises(UnsupportedError, match="type of a column"):
        zskip.open(str(path)).files()


def test_a_table_without_properties_or_with_a_broken_timeline(unpack: Unpack) -> None:
    path = unpack("flat")
    (last,) = sorted((path / ".hoodie" / "timeline").glob("*_*.commit"))[-1:]
    last.write_bytes(b"broken")
    with pytest.raises(StorageError, match="timeline"):
        zskip.open(str(path)).info()
    shutil.rmtree(path / ".hoodie" / "timeline")
    (path / ".hoodie" / "hoodie.properties").unlink()
    with pytest.raises(TableNotFoundError, match=r"hoodie\.properties"):
        zskip.open(str(path)).info()


def test_a_table_without_commits_is_empty(unpack: Unpack) -> None:
    path = unpack("virtual")
    for file in (path / ".hoodie" / "timeline").iterdir():
        if file.is_file():
            file.unlink()
    assert (len(opened(path)), opened(path).version) == (0, 0)
    assert zskip.open(str(path)).files("1 = 1") == []


def test_without_the_package_one_line_says_what_to_install(unpack: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hudi", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "zskip\[hudi\]"'):
        zskip.open(str(unpack("flat"))).files()


def test_without_the_bundle_nothing_is_rewritten(unpack: Unpack, spark: SparkSession) -> None:
    path = unpack("hive")
    before = sorted(path.rglob("*"))
    with pytest.raises(UnsupportedError, match=r"hudi-spark3\.5-bundle"):
        zskip.table(spark, str(path)).optimize(by=["id", "v"], files=2)
    assert sorted(path.rglob("*")) == before


def test_a_partition_above_another_one_is_refused(tmp_path: Path) -> None:
    """The package `hudi` lists only directories without directories: rows would be missing."""
    storage = LocalStorage(str(tmp_path))
    for directory in ("sao", "sao/paulo", "x"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / ".hoodie_partition_metadata").touch()
    options = {"hoodie.table.partition.fields": "city"}
    with pytest.raises(UnsupportedError, match=r'partition "sao" above another one.*hoodie\.metadata\.enable'):
        check_partitions(storage, options, ["sao/paulo", "x"])
    check_partitions(storage, {**options, "hoodie.table.metadata.partitions": "files"}, ["sao/paulo", "x"])
    check_partitions(storage, options, ["sao", "sao/paulo", "x"])
    # Directories of values such as 2024/01 are no partitions.
    (tmp_path / "sao" / ".hoodie_partition_metadata").unlink()
    check_partitions(storage, options, ["sao/paulo", "x"])


def test_partitions_of_two_columns_are_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "list_dir", lambda self, path: pytest.fail("a directory was listed"))
    options = {"hoodie.table.partition.fields": "country,city"}
    check_partitions(LocalStorage(str(tmp_path)), options, ["br/sao", "br/rio"])
