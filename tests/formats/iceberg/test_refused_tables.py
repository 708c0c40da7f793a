"""Iceberg tables that zskip would read wrongly, or cannot read, are refused with the reason; nothing is written."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zskip
from zskip.errors import InputError, MissingDependencyError, StorageError, TableNotFoundError, UnsupportedError

pytest.importorskip("pyiceberg")
from iceberg_tables import catalog_at, edit, newest, path_of, small
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from zskip.formats import open_format
from zskip.storage import LocalStorage


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_at(tmp_path)


def files_of(table: Table) -> list[Any]:
    return zskip.open(str(path_of(table))).files()


def refused(table: Table, reason: str, error: type[Exception] = UnsupportedError) -> None:
    """Every way to read the table says why not, and writes nothing."""
    before = sorted(path_of(table).rglob("*"))
    opened = zskip.open(str(path_of(table)))
    for read in (opened.files, opened.index, opened.info, opened.explain):
        with pytest.raises(error, match=reason):
            read()
    assert sorted(path_of(table).rglob("*")) == before


class DeleteManifest(ManifestWriterV2):
    """pyiceberg writes no deletes."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def with_manifest(
    table: Table,
    file: DataFile,
    status: ManifestEntryStatus = ManifestEntryStatus.EXISTING,
    *,
    deletes: bool = True,
    sequence: int = 2,
) -> None:
    """Put a manifest with one more file into the current snapshot."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    home = f"{table.location()}/metadata"

    def output(name: str) -> OutputFile:
        return table.io.new_output(f"{home}/{name}")

    kind = DeleteManifest if deletes else ManifestWriterV2
    with kind(table.spec(), table.schema(), output("more.avro"), snapshot.snapshot_id, "deflate") as writer:
        writer.add_entry(
            ManifestEntry.from_args(
                status=status,
                snapshot_id=snapshot.snapshot_id,
                sequence_number=sequence,
                file_sequence_number=sequence,
                data_file=file,
            )
        )
    manifest = writer.to_manifest_file()
    manifests = snapshot.manifests(table.io)
    with write_manifest_list(
        format_version=2,
        output_file=output("list.avro"),
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=None,
        sequence_number=sequence,
        avro_compression="deflate",
    ) as listed:
        listed.add_manifests([*manifests, manifest])
    edit(table, lambda metadata: metadata["snapshots"][-1].update({"manifest-list": f"{home}/list.avro"}))


def data_file(table: Table, content: DataFileContent, format: FileFormat = FileFormat.PARQUET, **more: Any) -> DataFile:
    return DataFile.from_args(
        **{
            "content": content,
            "file_path": f"{table.location()}/data/more",
            "file_format": format,
            "partition": Record(),
            "record_count": 1,
            "file_size_in_bytes": 100,
            **more,
        }
    )


@pytest.mark.parametrize(
    ("content", "format", "reason"),
    [
        (DataFileContent.POSITION_DELETES, FileFormat.PARQUET, "has position deletes"),
        (DataFileContent.POSITION_DELETES, FileFormat.PUFFIN, "has deletion vectors"),
        (DataFileContent.EQUALITY_DELETES, FileFormat.PARQUET, "has equality deletes"),
    ],
)
def test_tables_with_deletes(catalog: SqlCatalog, content: DataFileContent, format: FileFormat, reason: str) -> None:
    table = small(catalog)
    with_manifest(table, data_file(table, content, format))
    refused(table, rf"{reason}.*zskip\.table\(spark, .catalog\.db\.table.\)")


@pytest.mark.parametrize("content", [DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES])
def test_deletes_apply_to_files_that_are_not_younger(catalog: SqlCatalog, content: DataFileContent) -> None:
    table = small(catalog)
    table.delete("a < 100")
    table.delete("a = 100")
    (oldest,) = (entry["sequence_number"] for entry in table.inspect.entries().to_pylist() if entry["status"] == 1)
    with_manifest(table, data_file(table, content), sequence=oldest - 1)
    assert len(files_of(table)) == 1
    with_manifest(table, data_file(table, content), sequence=oldest)
    refused(table, "has (position|equality) deletes")


@pytest.mark.parametrize(
    ("least", "greatest", "applies"), [(0, 0, True), (1, 1, True), (None, 0, True), (0, None, True), (2, 2, False)]
)
def test_positional_deletes_apply_to_the_paths_they_name(
    catalog: SqlCatalog, least: int | None, greatest: int | None, applies: bool
) -> None:
    table = small(catalog)
    paths = [f"file://{path}".encode() for path in sorted(files_of(table))] + [f"{table.location()}/data/zz".encode()]
    bounds = {
        name: {} if at is None else {2147483546: paths[at]}
        for name, at in (("lower_bounds", least), ("upper_bounds", greatest))
    }
    with_manifest(table, data_file(table, DataFileContent.POSITION_DELETES, **bounds))
    if applies:
        refused(table, "has position deletes")
    else:
        assert len(files_of(table)) == 2


def test_deletes_that_are_gone_do_not_matter(catalog: SqlCatalog) -> None:
    table = small(catalog)
    with_manifest(table, data_file(table, DataFileContent.POSITION_DELETES), ManifestEntryStatus.DELETED)
    assert len(files_of(table)) == 2


@pytest.mark.parametrize("format", [FileFormat.ORC, FileFormat.AVRO])
def test_files_that_are_no_parquet(catalog: SqlCatalog, format: FileFormat) -> None:
    table = small(catalog)
    with_manifest(table, data_file(table, DataFileContent.DATA, format), deletes=False)
    refused(table, f"has files of the format {format.value}")


def test_encrypted_files(catalog: SqlCatalog) -> None:
    table = small(catalog)
    with_manifest(table, data_file(table, DataFileContent.DATA, key_metadata=b"key"), deletes=False)
    refused(table, "has encrypted files")


def test_a_file_that_is_named_twice(catalog: SqlCatalog) -> None:
    table = small(catalog)
    path = f"file://{files_of(table)[0]}"
    with_manifest(table, data_file(table, DataFileContent.DATA, file_path=path), deletes=False)
    refused(table, "name a file twice", StorageError)


def test_a_table_whose_files_lie_elsewhere(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = small(catalog)
    shutil.copytree(path_of(table), tmp_path / "copy")
    with pytest.raises(UnsupportedError, match="outside of its directory"):
        zskip.open(str(tmp_path / "copy")).files()
    with_manifest(
        table, data_file(table, DataFileContent.DATA, file_path=f"{table.location()}/../other.parquet"), deletes=False
    )
    refused(table, r"\.\./other\.parquet\" outside of its directory")


def test_a_link_to_a_table_is_followed(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = small(catalog)
    (tmp_path / "link").symlink_to(path_of(table))
    assert [Path(f).resolve() for f in zskip.open(str(tmp_path / "link")).files()] == [Path(f) for f in files_of(table)]


def test_a_neighbor_of_a_longer_name_is_elsewhere(catalog: SqlCatalog) -> None:
    table = small(catalog)
    with_manifest(
        table, data_file(table, DataFileContent.DATA, file_path=f"{table.location()}2/x.parquet"), deletes=False
    )
    refused(table, "outside of its directory")


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "the format version 4": lambda m: m.update({"format-version": 4}),
    "the format version None": lambda m: m.pop("format-version"),
    "uses encryption": lambda m: m.update({"encryption-keys": [{"key-id": "1", "encrypted-key-metadata": "eA=="}]}),
    "the type variant": lambda m: m["schemas"][0]["fields"][0].update(type="variant"),
    "the type timestamptz_ns": lambda m: m["schemas"][0]["fields"][0].update(type="timestamptz_ns"),
    "the type geometry": lambda m: m["schemas"][0]["fields"][0].update(
        type={"type": "list", "element-id": 9, "element": "geometry(srid:4326)", "element-required": False}
    ),
    'the default value of the column "a"': lambda m: m["schemas"][0]["fields"][0].update({"initial-default": 7}),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_what_is_not_known_of_the_format(catalog: SqlCatalog, reason: str) -> None:
    table = small(catalog)
    edit(table, CHANGES[reason])
    refused(table, reason)


def test_metadata_of_before_there_were_schemas(catalog: SqlCatalog) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()))
    table = catalog.create_table("db.old", schema, properties={"format-version": "1"})
    table.append(pa.table({"a": pa.array([1], pa.int32())}))

    def forget(metadata: dict[str, Any]) -> None:
        for name in ("schemas", "current-schema-id", "partition-specs", "default-spec-id"):
            metadata.pop(name)

    edit(table, forget)
    refused(table, "kept no older schemas, so columns may have been renamed")


def test_a_partition_spec_that_is_gone(catalog: SqlCatalog) -> None:
    table = small(catalog)
    edit(table, lambda m: m.update({"partition-specs": [{"spec-id": 5, "fields": []}], "default-spec-id": 5}))
    refused(table, "is of the partition spec 0", StorageError)


def test_a_mapping_of_names_that_is_none(catalog: SqlCatalog) -> None:
    table = small(catalog)
    edit(table, lambda m: m["properties"].update({"schema.name-mapping.default": "{"}))
    refused(table, "cannot read", StorageError)


def test_version_3_without_anything_new_is_read(catalog: SqlCatalog) -> None:
    table = small(catalog)
    edit(table, lambda m: m.update({"format-version": 3, "next-row-id": 6}))
    assert len(files_of(table)) == 2


def test_version_1_is_read(catalog: SqlCatalog) -> None:
    table = catalog.create_table(
        "db.old", Schema(NestedField(1, "a", IntegerType())), properties={"format-version": "1"}
    )
    for a in (1, 2, 3):
        table.append(pa.table({"a": pa.array([a], pa.int32())}))
    assert len(zskip.open(str(path_of(table))).files("a = 2")) == 1


def test_a_table_without_a_snapshot_is_empty(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "a", IntegerType())))
    opened = zskip.open(str(path_of(table)))
    assert opened.files("a = 1") == []
    assert opened.info().columns == {"a": "integer"}


def test_files_that_were_imported(catalog: SqlCatalog) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "s", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s"))
    table = catalog.create_table("db.t", schema, partition_spec=spec)
    (path_of(table) / "s=x").mkdir(parents=True)
    path = path_of(table) / "s=x" / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "s": ["x", "x"]}), path)
    table.add_files([f"file://{path}"])
    assert files_of(table) == [str(path)]
    assert zskip.open(str(path_of(table))).files("a = 7 or s = 'y'") == []
    file = data_file(table, DataFileContent.DATA, partition=Record("z"), column_sizes={1: 30, 2: 30})
    with_manifest(table, file, deletes=False)
    # What the file holds counts, not what its directory was called.
    assert len(zskip.open(str(path_of(table))).files("s = 'y'")) == 1
    with_manifest(
        table, data_file(table, DataFileContent.DATA, partition=Record("z"), column_sizes={1: 30}), deletes=False
    )
    refused(table, "was migrated and may not hold the partition column")


@pytest.mark.parametrize("names", [["s", "old"], ["a"], ["A"]])
def test_a_mapping_of_names_that_differ(catalog: SqlCatalog, names: list[str]) -> None:
    table = small(catalog)
    mapping = json.dumps([{"field-id": 2, "names": names}])
    edit(table, lambda m: m["properties"].update({"schema.name-mapping.default": mapping}))
    refused(table, "name mapping gives the name")


def test_without_pyiceberg(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small(catalog)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "zskip\[iceberg\]"') as raised:
        files_of(table)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format-version": 2}', b"\x1f\x8bxx", b"\xff\xfe"])
def test_metadata_that_is_damaged(catalog: SqlCatalog, content: bytes) -> None:
    table = small(catalog)
    newest(table).write_bytes(content)
    refused(table, f"cannot read .*{newest(table).name}", StorageError)


@pytest.mark.parametrize("pattern", ["snap-*.avro", "*-m0.avro"])
@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_manifests_that_cannot_be_read(catalog: SqlCatalog, pattern: str, how: str) -> None:
    table = small(catalog)
    for path in (path_of(table) / "metadata").glob(pattern):
        if how == "gone":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-40])
    refused(table, "is gone, as after" if how == "gone" else "cannot read", StorageError)


def as_hadoop(table: Table, *versions: int, hint: str | None) -> Path:
    """Name the newest metadata as catalogs of Hadoop do."""
    home = path_of(table) / "metadata"
    content = newest(table).read_bytes()
    for path in home.glob("*.metadata.json"):
        path.unlink()
    for version in versions:
        (home / f"v{version}.metadata.json").write_bytes(content)
    if hint is not None:
        (home / "version-hint.text").write_text(hint)
    return home


def test_a_hint_names_the_version_and_those_after_it_count(catalog: SqlCatalog) -> None:
    table = small(catalog)
    old = json.loads(sorted((path_of(table) / "metadata").glob("00001-*.json"))[0].read_text())
    home = as_hadoop(table, 11, hint="10\n")
    (home / "v10.metadata.json").write_text(json.dumps(old))
    (home / "v9.metadata.json").write_text("not this one")
    assert len(files_of(table)) == 2
    (home / "v11.metadata.json").unlink()
    assert len(files_of(table)) == 1
    (home / "version-hint.text").unlink()
    assert len(files_of(table)) == 1


def test_a_hint_may_name_the_file(catalog: SqlCatalog) -> None:
    table = small(catalog)
    (path_of(table) / "metadata" / "version-hint.text").write_text(newest(table).name)
    assert len(files_of(table)) == 2


def test_metadata_may_be_compressed(catalog: SqlCatalog) -> None:
    table = small(catalog)
    home = as_hadoop(table, 2, hint=None)
    (home / "v3.gz.metadata.json").write_bytes(gzip.compress((home / "v2.metadata.json").read_bytes()))
    (home / "v2.metadata.json").write_text("not this one")
    assert len(files_of(table)) == 2


def test_a_hint_that_says_nothing_is_none(catalog: SqlCatalog) -> None:
    table = small(catalog)
    as_hadoop(table, 2, hint="\n")
    assert len(files_of(table)) == 2


@pytest.mark.parametrize("hint", ["7", "x", "\N{SUPERSCRIPT TWO}"])
def test_a_hint_to_nothing(catalog: SqlCatalog, hint: str) -> None:
    table = small(catalog)
    as_hadoop(table, 2, hint=hint)
    refused(table, "of which there is no metadata file", StorageError)


def test_a_hint_that_is_no_text(catalog: SqlCatalog) -> None:
    table = small(catalog)
    (as_hadoop(table, 2, hint=None) / "version-hint.text").write_bytes(b"\xff\xfe")
    refused(table, "version-hint.text.* is damaged", StorageError)


def test_a_hint_that_is_older_than_what_another_catalog_wrote(catalog: SqlCatalog) -> None:
    table = small(catalog)
    name, content = newest(table).name, newest(table).read_bytes()
    home = as_hadoop(table, 1, hint="1")
    (home / name).write_bytes(content)
    refused(table, "newer metadata than version-hint.text names")


def test_two_files_of_the_newest_version(catalog: SqlCatalog) -> None:
    table = small(catalog)
    other = newest(table).with_name(newest(table).name[:-20] + "abcdef" + newest(table).name[-14:])
    other.write_bytes(newest(table).read_bytes())
    refused(table, "only the catalog knows which one is committed")


def test_a_table_in_the_middle_of_being_made(catalog: SqlCatalog) -> None:
    table = small(catalog)
    for path in (path_of(table) / "metadata").glob("*.metadata.json"):
        path.rename(path.with_name("3f2a6bb8-0000-4000-8000-000000000000.metadata.json"))
    refused(table, "holds no metadata file of an Iceberg table", TableNotFoundError)


def test_a_path_that_holds_two_formats(catalog: SqlCatalog) -> None:
    table = small(catalog)
    (path_of(table) / "_delta_log").mkdir()
    refused(table, r"_delta_log/ \(delta\) and metadata/\*\.metadata\.json \(iceberg\)", InputError)
    assert len(zskip.open(str(path_of(table)), format="iceberg").files()) == 2


START = dt.datetime(2024, 1, 1, 0, 0, 0, 123456)


def with_times(
    catalog: SqlCatalog, *, unit: str = "us", divisor: int = 1, start: dt.datetime = START, bounds: bool = True
) -> tuple[Table, list[int]]:
    """A table with a file of ten hours, and their microseconds.

    unit: of the file; divisor: what the bounds in the manifest are cut by.
    """
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "ts", TimestamptzType()),
        NestedField(3, "n", StructType(NestedField(4, "tn", TimestampType()))),
    )
    table = catalog.create_table("db.t", schema)
    kind = pa.struct([("tn", pa.timestamp("us"))])
    one = {
        "id": pa.array([99]),
        "ts": pa.array([START], pa.timestamp("us", "UTC")),
        "n": pa.array([{"tn": START}], kind),
    }
    table.append(pa.table(one))
    times = pa.array([start + dt.timedelta(hours=i) for i in range(10)], pa.timestamp("us"))
    stored = times.cast(pa.timestamp(unit), safe=False)
    nested = pa.StructArray.from_arrays([stored], ["tn"])
    rows = pa.table({"id": pa.array(range(10)), "ts": stored.cast(pa.timestamp(unit, "UTC")), "n": nested})
    path = path_of(table) / "data" / "more.parquet"
    pq.write_table(rows, path)
    numbers = [number // divisor * divisor for number in stored.cast(pa.int64()).to_pylist()]
    ends = {"lower_bounds": min(numbers), "upper_bounds": max(numbers)} if bounds else {}
    described = {end: {i: struct.pack("<q", number) for i in (2, 4)} for end, number in ends.items()}
    sizes = {"file_path": f"file://{path}", "record_count": 10, "file_size_in_bytes": path.stat().st_size}
    with_manifest(table, data_file(table, DataFileContent.DATA, **sizes, **described), deletes=False)
    return table, times.cast(pa.int64()).to_pylist()


def test_bounds_that_were_cut_to_milliseconds(catalog: SqlCatalog) -> None:
    table, times = with_times(catalog, divisor=1000)
    opened, last = zskip.open(str(path_of(table))), START + dt.timedelta(hours=9)
    for where, files in (
        (f"ts = TIMESTAMP'{last}'", 1),
        (f"ts > TIMESTAMP'{last.replace(microsecond=123000)}'", 1),
        (f"ts >= TIMESTAMP'{last.replace(microsecond=124000)}'", 0),
        (f"ts < TIMESTAMP'{START.replace(microsecond=123000)}'", 0),
    ):
        assert len(opened.files(where)) == files, where
    # Nor are all rows below the bound, which would answer a count.
    snapshot = open_format(LocalStorage(str(path_of(table)))).snapshot()
    stats = snapshot.known.column("ts")
    assert stats.upper.max() >= max(times)
    assert stats.lower.min() <= min(times)


@pytest.mark.parametrize(("unit", "bounds"), [("ms", True), ("ns", True), ("ms", False)])
def test_files_whose_timestamps_are_in_another_unit(catalog: SqlCatalog, unit: str, bounds: bool) -> None:
    table, _ = with_times(catalog, unit=unit, bounds=bounds)
    if not bounds:
        mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["ts"]}]
        edit(table, lambda m: m["properties"].update({"schema.name-mapping.default": json.dumps(mapping)}))
    refused(table, f'"data/more.parquet", whose column "ts" holds timestamps in the unit {unit} ')


def test_the_first_days_of_1970_are_no_other_unit(catalog: SqlCatalog) -> None:
    table, _ = with_times(catalog, start=dt.datetime(1970, 1, 2))
    assert len(zskip.open(str(path_of(table))).files("ts < TIMESTAMP'1971-01-01'")) == 1
