"""No call raises what is not an error of zskip's: directories, names, footers and settings that libraries fail on."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from written_by import written_by

import zskip
from zskip.errors import ZskipError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"id": [1, 2, 3], "k": [2, 1, 2]})
TEXT = "not what it should be \u00e9 {"


def file(place: Path, name: str = "0.parquet", table: pa.Table = ROWS, **options: Any) -> None:
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, place / name, **options)


def text(place: Path, name: str, content: str | bytes = TEXT) -> None:
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def partition(name: str) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        file(place, f"{name}/0.parquet")
        file(place, "b=a/0.parquet")

    return make


def column(name: str, values: Any) -> Callable[[Path], None]:
    return lambda place: file(place, table=ROWS.append_column(name, values))


def beside(name: str, content: str | bytes = TEXT) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        file(place)
        text(place, name, content)

    return make


def indexed(name: str, content: str | bytes = TEXT) -> Callable[[Path], None]:
    """A table with an index, of which files whose names begin so are damaged."""

    def make(place: Path) -> None:
        file(place)
        zskip.open(str(place)).index()
        paths = list(place.glob(name))
        for path in paths:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if not paths:
            text(place, name, content)

    return make


def footer_changed(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        file(place)
        path = place / "0.parquet"
        path.write_bytes(change(path.read_bytes()))

    return make


def row_metadata(schema: str) -> Callable[[Path], None]:
    key = "org.apache.spark.sql.parquet.row.metadata"
    return lambda place: file(place, table=ROWS.replace_schema_metadata({key: schema}))


SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})


def delta(change: Mapping[str, Any], *, raw: str | None = None, name: str = f"{0:020}.json") -> Callable[[Path], None]:
    """A Delta table of one commit; change: of its entries."""

    def make(place: Path) -> None:
        file(place)
        entries: dict[str, Any] = {
            "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
            "metaData": {
                "id": "0",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": SCHEMA,
                "partitionColumns": [],
                "configuration": {},
            },
            "add": {
                "path": "0.parquet",
                "partitionValues": {},
                "size": (place / "0.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            },
        }
        for kind, values in change.items():
            entries[kind] = {**entries[kind], **values} if isinstance(values, dict) else values
        lines = [json.dumps({kind: entry}) for kind, entry in entries.items() if entry is not None]
        text(place, f"_delta_log/{name}", "\n".join(lines) if raw is None else raw)

    return make


def iceberg(change: Mapping[str, Any] | None, hint: str = "1", *, raw: bytes | None = None) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        file(place)
        metadata = {
            "format-version": 2,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": str(place),
            "last-sequence-number": 1,
            "last-updated-ms": 1,
            "last-column-id": 1,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": [field(1, "id", "long")]}],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "snapshots": [],
            **(change or {}),
        }
        text(place, "metadata/version-hint.text", hint)
        text(place, "metadata/v1.metadata.json", json.dumps(metadata).encode() if raw is None else raw)

    return make


def field(number: int, name: str, type_: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": type_}


def snapshot(manifest_list: str) -> dict[str, Any]:
    of = {"snapshot-id": 1, "timestamp-ms": 1, "sequence-number": 1, "summary": {"operation": "append"}, "schema-id": 0}
    return {"snapshots": [{**of, "manifest-list": manifest_list}], "current-snapshot-id": 1}


def hudi(properties: str, commit: str | None = None) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        file(place)
        text(place, ".hoodie/hoodie.properties", properties)
        if commit is not None:
            for name in (
                "20240101000000000.commit",
                "20240101000000000.inflight",
                "20240101000000000.commit.requested",
            ):
                text(place, f".hoodie/{name}", commit)

    return make


HUDI = (
    "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=6\nhoodie.timeline.layout.version=1\n"
)
ORDERED = pa.array([dt.time(1), None, dt.time(2)], pa.time64("us"))
PLACES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda place: None,
    "an empty directory": lambda place: place.mkdir(),
    "a file": lambda place: text(place.parent, place.name),
    "a Parquet file": lambda place: file(place.parent, place.name),
    "a loop of links": lambda place: place.symlink_to(place),
    "a loop of links below": lambda place: (file(place), (place / "x").symlink_to("x"))[0],
    "a loop of links beside": lambda place: (file(place), (place.parent / "x").symlink_to("x"))[0],
    "a link below": lambda place: (file(place), (place / "x.parquet").symlink_to(place / "gone"))[0],
    "other files": lambda place: text(place, "x.csv"),
    "an empty partition value": partition("b="),
    "a partition without a name": partition("=x"),
    "a partition with a wrong escape": partition("b=%zz"),
    "a partition with a zero": partition("b=%00"),
    "a partition with a bad letter": partition("b=%ff"),
    "a directory of another depth": partition("b=1/c=2"),
    "another partition column": partition("c=2"),
    "partition columns that differ in case": partition("B=2"),
    "a partition column twice": partition("b=1/b=2"),
    "a partition column of the file": partition("id=7"),
    "a partition of a date that is none": partition("b=2024-02-31"),
    "a plain directory": partition("old"),
    "a file that is not Parquet": beside("x.parquet"),
    "an empty file": beside("x.parquet", b""),
    "only magic bytes": beside("x.parquet", b"PAR1PAR1"),
    "a footer longer than its file": footer_changed(lambda data: data[:-8] + struct.pack("<I", 1 << 30) + b"PAR1"),
    "a footer without an end": footer_changed(lambda data: data[:-40] + data[-8:]),
    "a footer that is encrypted": footer_changed(lambda data: data[:-4] + b"PARE"),
    "names that are not UTF-8": footer_changed(lambda data: data.replace(b"\x02id", b"\x02\xff\xfe")),
    "damaged pages": footer_changed(lambda data: b"PAR1" + b"\xff" * 30 + data[34:]),
    "a column without a name": column("", ["a", "b", "c"]),
    "a column with a blank name": column(" ", ["a", "b", "c"]),
    "a column with quotes": column("a`b\"c'", ["a", "b", "c"]),
    "a column with a dot": column("a.b", ["a", "b", "c"]),
    "a column with a line break": column("a\n\t;,{}()=", ["a", "b", "c"]),
    "columns that differ in case": column("ID", ["a", "b", "c"]),
    "a column twice": column("id", ["a", "b", "c"]),
    "a time": column("t", ORDERED),
    "nanoseconds": column("t", pa.array([1, 2, None], pa.timestamp("ns"))),
    "nanoseconds in a zone": column("t", pa.array([1, 2, None], pa.timestamp("ns", "Europe/Berlin"))),
    "a duration": column("t", pa.array([1, 2, None], pa.duration("us"))),
    "half floats": column("t", pa.array([None, None, None], pa.float16())),
    "unsigned": column("t", pa.array([1, 2, 1 << 63], pa.uint64())),
    "wide decimals": column("t", pa.array([Decimal(1), Decimal(2), None], pa.decimal256(60, 3))),
    "nothing but null": column("t", pa.nulls(3)),
    "an empty struct": column("t", pa.array([{"a": 1}, None, {"a": 2}], pa.struct([("a", pa.int8())]))),
    "a map of structs": column("t", pa.array([[({"a": 1}, 1)]] * 3, pa.map_(pa.struct([("a", pa.int8())]), pa.int8()))),
    "a list of lists": column("t", pa.array([[[1]], None, [[2]]])),
    "files of other types": lambda place: (file(place), file(place, "1.parquet", pa.table({"id": ["a"], "k": [b"b"]})))[
        0
    ],
    "files of other columns": lambda place: (file(place), file(place, "1.parquet", pa.table({"x": [1]})))[0],
    "a file without columns": lambda place: file(place, table=pa.table({})),
    "a file without rows": lambda place: file(place, table=ROWS.slice(0, 0)),
    "row metadata that is no JSON": row_metadata(TEXT),
    "row metadata of a strange type": row_metadata(SCHEMA.replace('"long"', '"strange"')),
    "row metadata of other columns": row_metadata(SCHEMA.replace('"id"', '"other"')),
    "row metadata of another type": row_metadata(SCHEMA.replace('"long"', '"string"')),
    "row metadata of a user's type": row_metadata(SCHEMA.replace('"long"', '{"type": "udt", "class": "no.Such"}')),
    "a summary that is none": beside("_common_metadata"),
    "a footer summary that is none": beside("_metadata"),
    "a log of a sink that is none": beside("_spark_metadata/0"),
    "an index that is none": indexed("_zskip/index/manifest-*"),
    "an index without its segments": indexed("_zskip/index/segment-*"),
    "an index that is a file": beside("_zskip"),
    "a commit log that is none": beside("_zskip/log/00000000000000000001.json"),
    "a commit log of a list": beside("_zskip/log/00000000000000000001.json", "[1, 2]"),
    "moves that are none": beside("_zskip/_moved.json"),
    "a journal that is none": indexed("_zskip/journal/*"),
    "a workload that is none": beside("_zskip/workload.json"),
    "a Delta log that is empty": lambda place: (file(place), (place / "_delta_log").mkdir())[0],
    "a Delta log that is a file": beside("_delta_log"),
    "a Delta log that is no JSON": delta({}, raw=TEXT),
    "a Delta log of numbers": delta({}, raw="1\n2\n"),
    "a Delta log without columns": delta({"metaData": None}),
    "a Delta log without a protocol": delta({"protocol": None}),
    "a Delta log with a gap": delta({}, name=f"{7:020}.json"),
    "Delta of the future": delta({"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}),
    "Delta with a strange feature": delta(
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}}
    ),
    "Delta with strange columns": delta({"metaData": {"schemaString": TEXT}}),
    "Delta with a strange type": delta({"metaData": {"schemaString": SCHEMA.replace('"long"', '"strange"')}}),
    "Delta by a column that is gone": delta({"metaData": {"partitionColumns": ["gone"]}}),
    "Delta with a strange mapping": delta({"metaData": {"configuration": {"delta.columnMapping.mode": "nonsense"}}}),
    "Delta with a strange partition": delta({"add": {"partitionValues": {"gone": "1"}}}),
    "Delta with a file that is gone": delta({"add": {"path": "gone.parquet"}}),
    "Delta with a file elsewhere": delta({"add": {"path": "../x.parquet"}}),
    "Delta with a path that is none": delta({"add": {"path": "%zz \u00e9.parquet"}}),
    "Delta with a wrong size": delta({"add": {"size": -5}}),
    "Delta with strange statistics": delta({"add": {"stats": TEXT}}),
    "Delta with statistics of another type": delta({"add": {"stats": '{"numRecords": "x", "minValues": {"id": "y"}}'}}),
    "Delta with a deletion vector that is none": delta(
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"],
            },
            "add": {"deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}},
        }
    ),
    "a Delta checkpoint that is none": lambda place: (delta({})(place), text(place, "_delta_log/_last_checkpoint"))[0],
    "Iceberg": iceberg({}),
    "Iceberg that is no JSON": iceberg({}, raw=TEXT.encode()),
    "Iceberg that is a list": iceberg({}, raw=b"[1]"),
    "Iceberg that is not compressed": iceberg({}, raw=gzip.compress(b"{}")[:-4]),
    "Iceberg of the future": iceberg({"format-version": 99}),
    "Iceberg whose version is gone": iceberg({}, "7"),
    "Iceberg whose version is none": iceberg({}, TEXT),
    "Iceberg with a strange type": iceberg(
        {"schemas": [{"type": "struct", "schema-id": 0, "fields": [field(1, "id", "strange")]}]}
    ),
    "Iceberg without its columns": iceberg({"current-schema-id": 5}),
    "Iceberg by a column that is gone": iceberg(
        {
            "partition-specs": [
                {"spec-id": 0, "fields": [{"source-id": 9, "field-id": 1000, "name": "x", "transform": "day"}]}
            ]
        }
    ),
    "Iceberg by a strange transform": iceberg(
        {
            "partition-specs": [
                {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "x", "transform": "strange"}]}
            ]
        }
    ),
    "Iceberg without its manifests": iceberg(snapshot("metadata/gone.avro")),
    "Iceberg with manifests elsewhere": iceberg(snapshot("s3://elsewhere/gone.avro")),
    "Iceberg with manifests that are none": lambda place: (
        iceberg(snapshot(f"{place}/metadata/m.avro"))(place),
        text(place, "metadata/m.avro"),
    )[0],
    "Iceberg with a snapshot that is gone": iceberg({"current-snapshot-id": 77}),
    "Hudi without properties": hudi(""),
    "Hudi that is none": hudi(TEXT),
    "Hudi of the future": hudi(HUDI.replace("version=6", "version=99")),
    "Hudi without commits": hudi(HUDI),
    "Hudi with a commit that is none": hudi(HUDI, TEXT),
    "Hudi with an empty commit": hudi(HUDI, "{}"),
    "Hudi of another kind": hudi(HUDI.replace("COPY_ON_WRITE", "STRANGE")),
}
NAMES = [
    "t",
    "a b",
    "\u00e4#%25",
    "a,b;c",
    "*",
    "[x]",
    "{a,b}",
    "a\nb",
    "x=1",
    "_hidden",
    ".dot",
    "-",
    "'\"`",
    "n" * 200,
]
WRONG_NAMES = [
    "",
    " ",
    "\0",
    "t\0",
    "\ud800",
    "s3://",
    "x://y/z",
    "a.b.c.d.e",
    "`",
    "parquet.`/nowhere`",
]
CALLS: dict[str, Callable[[zskip.Table, Path], object]] = {
    "files": lambda table, _: table.files("id = 1"),
    "all files": lambda table, _: table.files(),
    "index": lambda table, _: table.index(),
    "files again": lambda table, _: table.files("id > 1 AND k IN (1, 2)"),
    "prune": lambda table, _: table.prune("t IS NULL OR id < 5"),
    "explain": lambda table, _: table.explain("id BETWEEN 1 AND 2"),
    "info": lambda table, _: table.info(),
    "info by": lambda table, _: table.info(by=["id", "k"]),
    "history": lambda table, _: table.history(),
    "describe_index": lambda table, _: table.describe_index(),
    "record": lambda table, _: table.record(),
    "workload": lambda table, _: table.workload(),
    "report": lambda table, scratch: table.report(scratch / "report.html"),
    "plot": lambda table, _: table.plot("id"),
    "clean": lambda table, _: table.clean(delete=True),
}


def optimize_by_spark(table: zskip.Table) -> None:
    with written_by("spark"):
        table.optimize(by=["k", "id"], files=1)


CALLS_WITH_SPARK: dict[str, Callable[[zskip.Table, Path], object]] = {
    "df": lambda table, _: table.df("id = 1"),
    "index by Spark": lambda table, _: table.index(collect="scan", sketches=["bloom:k"]),
    "explain": lambda table, _: table.explain("id BETWEEN 1 AND 2", analyze=True),
    "advise": lambda table, _: table.advise(["id = 1"], columns=["id", "k"]),
    "what_if": lambda table, _: table.what_if(["id", "k"]),
    "verify": lambda table, _: table.verify("id = 2"),
    "maintain": lambda table, _: table.maintain(by=["id", "k"], dry_run=True),
    "append": lambda table, _: table.append(table._handle.spark.createDataFrame([(4, 4)], "id long, k long")),
    "optimize into": lambda table, scratch: table.optimize(by=["id", "k"], into=str(scratch / "into")),
    "compact": lambda table, _: table.compact(),
    "optimize": lambda table, _: table.optimize(by=["id", "k"], files=2),
    "optimize by Spark": lambda table, _: optimize_by_spark(table),
}
SETTINGS = {
    "spark.sql.timeType.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.validatePartitionColumns": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.compression.codec": "lz4_raw",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.maxRecordsPerFile": "1",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.zskip.joins": "nonsense",
    "spark.zskip.enabled": "nonsense",
}


@contextmanager
def only_own_errors(problems: list[str], what: str, *names: str) -> Iterator[None]:
    """Note what is raised that is no error of zskip's, or does not say of what."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ZskipError as error:
        said = str(error)
        if not any(name in said for name in names) or len(said.split()) < 5 or "Traceback" in said:
            problems.append(f"{what}: {type(error).__name__} says only: {said[:200]}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        problems.append(f"{what}: {type(error).__module__}.{type(error).__name__}: {str(error)[:200]}")


def shown(path: Path) -> list[str]:
    """By what an error may name a table: its path, a directory or a column of it, or what was asked."""
    return [str(path), str(path.parent), path.name, '"id"', '"k"', '"t"', '"=x"', '"old"', "scan", "index", "columns"]


def ask_all(
    make: Callable[[Path], None],
    path: Path,
    calls: Mapping[str, Callable[[zskip.Table, Path], object]],
    problems: list[str],
    name: str,
    spark: SparkSession | None = None,
) -> None:
    """Make a table anew for each call that writes, and ask of it."""
    for number, (call, ask) in enumerate(calls.items()):
        place = path / (str(number) if spark is not None else "0") / "table"
        if not place.parent.exists():
            place.parent.mkdir(parents=True)
            make(place)
        with only_own_errors(problems, f"{call} of {name}", *shown(place)):
            ask(zskip.open(str(place)) if spark is None else zskip.table(spark, str(place)), place.parent)


def test_of_any_directory(tmp_path: Path) -> None:
    """In the night all calls; by day a third of them for each directory."""
    problems: list[str] = []
    for number, (name, make) in enumerate(PLACES.items()):
        calls = dict(list(CALLS.items())[number % 3 :: 3]) if tiers.QUICK else CALLS
        ask_all(make, tmp_path / str(number), calls, problems, name)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", tiers.nightly(NAMES, daily=4))
def test_of_any_name(tmp_path: Path, name: str) -> None:
    problems: list[str] = []
    for number, (call, ask) in enumerate(CALLS.items()):
        path = tmp_path / str(number) / name
        file(path)
        with only_own_errors(problems, call, *shown(path)):
            ask(zskip.open(str(path)), path.parent)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("format_name", [None, "parquet", "delta", "iceberg", "hudi"])
def test_of_a_name_that_is_none(format_name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    problems: list[str] = []
    for name in WRONG_NAMES:
        for call in ("files", "info", "index", "clean", "record"):
            with only_own_errors(problems, f"{call} of {name!r}", name, repr(name), str(tmp_path), "path", "home"):
                CALLS[call](zskip.open(name, format=format_name), tmp_path)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("part", tiers.nightly(range(16)))
def test_with_spark_of_any_directory(spark: SparkSession, tmp_path: Path, part: int) -> None:
    """In the night all calls of all directories; by day some of a few."""
    problems: list[str] = []
    names = list(PLACES)[part::16]
    for number, name in enumerate(names):
        calls = dict(list(CALLS_WITH_SPARK.items())[number % 4 :: 4]) if tiers.QUICK else CALLS_WITH_SPARK
        ask_all(PLACES[name], tmp_path / str(number), calls, problems, name, spark)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("setting", tiers.nightly(SETTINGS))
def test_with_any_setting(spark: SparkSession, tmp_path: Path, setting: str) -> None:
    problems: list[str] = []
    session = spark.newSession()
    session.conf.set(setting, SETTINGS[setting])
    names = ["a time", "nanoseconds", "columns that differ in case", "another partition column", "files of other types"]
    for number, name in enumerate(names):
        calls = dict(list(CALLS_WITH_SPARK.items())[number::5]) if tiers.QUICK else CALLS_WITH_SPARK
        ask_all(PLACES[name], tmp_path / str(number), calls, problems, name, session)
    assert not problems, "\n".join(problems)
