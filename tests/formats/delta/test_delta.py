"""Delta tables: what is refused before any work, what the log says of files, and what is written to it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote_to_bytes

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tables
from deltalake import DeltaTable, write_deltalake
from format_tables import content, opened, rewrite, rows_of, stage_all
from plan_rows import ENGINES, rows
from pyspark.sql import SparkSession

import zskip
from zskip.errors import (
    ConflictError,
    CorruptFileError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
    ZskipWarning,
)
from zskip.formats.base import BatchId, StagedFile
from zskip.formats.commit_checks import check_live
from zskip.formats.delta.commit import is_checkpoint_due
from zskip.formats.delta.format import DeltaFormat
from zskip.formats.delta.opening import open_table
from zskip.formats.delta.protocol import check_in_log
from zskip.formats.delta.stats import columns_with_statistics, cut_lower, cut_upper
from zskip.formats.hive import directory_of
from zskip.records import Field
from zskip.storage import LocalStorage
from zskip.table.version import read_snapshot
from zskip.types import DataType, read_type

VECTORS = Path(__file__).parents[2] / "data" / "conformance"


def make(
    path: Path,
    files: Mapping[str, str | None],
    *,
    columns: Sequence[tuple[str, str]] = (("id", "long"),),
    partition_by: Sequence[str] = (),
    features: tuple[Sequence[str], Sequence[str]] | None = None,
    versions: tuple[int, int] = (1, 2),
    configuration: Mapping[str, str] | None = None,
    **more: Any,
) -> Path:
    """A log by hand; files: logged paths and statistics; more: of each file."""
    protocol: dict[str, Any] = {"minReaderVersion": versions[0], "minWriterVersion": versions[1]}
    if features is not None:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": list(features[0]), "writerFeatures": list(features[1])}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    metadata = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partition_by),
        "configuration": dict(configuration or {}),
    }
    lines: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    for name, stats in files.items():
        add = {"path": name, "partitionValues": {}, "size": 10, "modificationTime": 5, "dataChange": True, **more}
        lines.append({"add": add | ({} if stats is None else {"stats": stats})})
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    return path


READER_FEATURES = ["variantType", "fooBar", "catalogManaged", "variantShredding-preview"]
WRITER_FEATURES = [
    "rowTracking",
    "clustering",
    "identityColumns",
    "inCommitTimestamp",
    "icebergCompatV1",
    "icebergCompatV2",
    "allowColumnDefaults",
    "domainMetadata",
    "materializePartitionColumns",
    "collations-preview",
    "fooBar",
]
HARMLESS = {
    "appendOnly": {"delta.appendOnly": "true"},
    "invariants": {},
    "checkConstraints": {"delta.constraints.c": "id >= 0"},
    "generatedColumns": {},
    "changeDataFeed": {"delta.enableChangeDataFeed": "true"},
}
"""Features and settings."""


@pytest.mark.parametrize("feature", READER_FEATURES)
def test_a_feature_of_readers_that_is_not_known(tmp_path: Path, feature: str) -> None:
    make(tmp_path / "t", {"a.parquet": None}, features=([feature], [feature]))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsupportedError, match=r"Delta Lake itself|DROP FEATURE") as caught:
        zskip.open(str(tmp_path / "t")).files()
    assert feature.lower()[:7] in str(caught.value).lower().replace("-", "")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("feature", WRITER_FEATURES)
def test_a_feature_of_writers_is_no_hindrance_to_readers(tmp_path: Path, feature: str) -> None:
    path = make(tmp_path / "t", {"a.parquet": None}, features=([], [feature]))
    assert [Path(file).name for file in zskip.open(str(path)).files()] == ["a.parquet"]
    with pytest.raises(UnsupportedError, match=f"cannot rewrite .* uses {feature}"):
        opened(path).check_replaceable()


@pytest.mark.parametrize("feature", HARMLESS)
def test_a_feature_that_a_rewrite_cannot_break(tmp_path: Path, feature: str) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), content(8))
    log = path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [feature]}
        if "metaData" in line:
            line["metaData"]["configuration"] = HARMLESS[feature]
    log.write_text("\n".join(map(json.dumps, lines)))
    before = rows_of(DeltaTable(str(path)).to_pyarrow_table())
    opened(path).check_replaceable()
    rewrite(opened(path))
    assert rows_of(DeltaTable(str(path)).to_pyarrow_table()) == before
    assert not (path / "_change_data").exists()


def test_versions_without_features(tmp_path: Path) -> None:
    make(tmp_path / "old", {"a.parquet": None}, versions=(1, 6))
    with pytest.raises(UnsupportedError, match="identityColumns"):
        opened(tmp_path / "old").check_replaceable()
    make(tmp_path / "new", {"a.parquet": None}, versions=(4, 8))
    with pytest.raises((UnsupportedError, StorageError), match=r"[Vv]ersion"):
        opened(tmp_path / "new").snapshot()


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def deletion_vector(rows: Sequence[int]) -> dict[str, Any]:
    """A deletion vector in the log itself: a bitmap of one container of sorted numbers."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    words = struct.unpack(f">{-(-len(data) // 4)}I", data + bytes(-len(data) % 4))
    text = "".join(_Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


VECTORS_ON = (["deletionVectors"], ["deletionVectors"])


def test_files_with_deleted_rows_come_only_with_their_deletes(tmp_path: Path) -> None:
    names = {"p=a%253D%20b%C3%A9/a%20b.parquet": '{"numRecords":9}'}
    path = make(tmp_path / "t ü", names, features=VECTORS_ON, deletionVector=deletion_vector([0, 3, 7]))
    table = zskip.open(str(path))
    with pytest.raises(UnsupportedError, match=r"1 of 1 have rows that are deleted.*df\(\).*deletes=True"):
        table.files()
    (file,) = table.files(deletes=True)
    assert file == f"{path}/p=a%3D bé/a b.parquet"
    (deletes,) = file.deletes
    assert (deletes.kind, deletes.path, deletes.rows.tolist()) == ("deletion vector", None, [0, 3, 7])
    assert table.prune().files == 1
    with pytest.raises(UnsupportedError, match=r"rewrite.*deletionVectors.*live files.*REORG TABLE"):
        opened(path).check_replaceable()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_leaves_out_deleted_rows(tmp_path: Path, engine: str) -> None:
    columns, more = (("id", "long"), ("p", "string")), {"partitionValues": {"p": "x"}}
    deleted = deletion_vector([0, 3, 7])
    path = make(
        tmp_path / "t", {"a.parquet": '{"numRecords":9}'}, columns=columns, partition_by=["p"], features=VECTORS_ON,
        deletionVector=deleted, **more,
    )  # fmt: skip
    pq.write_table(pa.table({"id": range(9)}), path / "a.parquet")
    assert rows(zskip.open(str(path)).plan("id >= 0"), engine) == [(i, "x") for i in (1, 2, 4, 5, 6, 8)]


def test_rows_that_may_be_deleted_count_as_deleted(tmp_path: Path) -> None:
    damaged = deletion_vector([1]) | {"pathOrInlineDv": "x" * 40}
    path = make(tmp_path / "t", {"a.parquet": '{"numRecords":9}'}, features=VECTORS_ON, deletionVector=damaged)
    with pytest.raises(UnsupportedError, match="deleted"):
        zskip.open(str(path)).files()
    with pytest.raises(UnsupportedError, match="cannot be read"):
        zskip.open(str(path)).files(deletes=True)


def test_deletion_vectors_that_are_allowed_but_not_there(tmp_path: Path) -> None:
    path = make(tmp_path / "t", {"a.parquet": None}, features=VECTORS_ON)
    assert [file.deletes for file in zskip.open(str(path)).files()] == [()]
    opened(path).check_replaceable()


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_refused(tmp_path: Path, mode: str) -> None:
    path = make(tmp_path / "t", {}, versions=(2, 5), configuration={"delta.columnMapping.mode": mode})
    with pytest.raises((UnsupportedError, StorageError), match=r"columnMapping|[Cc]olumn mapping|physicalName"):
        zskip.open(str(path)).files()


def mapped_table(path: Path, mode: str, physical: Mapping[str, str], stats: str | None = None) -> str:
    """Two files of ids from 0 to 9 and from 10 to 19, in the column `physical` of the table's columns."""
    path.mkdir(exist_ok=True)
    fields = [
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": i, "delta.columnMapping.physicalName": stored},
        }
        for i, (name, stored) in enumerate(physical.items())
    ]
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"}
    metadata = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": configuration,
    }
    lines: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    for start in (0, 10):
        file = path / f"{start}.parquet"
        if not file.exists():
            pq.write_table(pa.table({FIRST_NAME: range(start, start + 10)}), file)
        add = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 5}
        lines.append({"add": add | {"dataChange": True} | ({} if stats is None or start else {"stats": stats})})
    (path / "_delta_log").mkdir(exist_ok=True)
    (path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    return str(path)


FIRST_NAME = "col-6b2f8e0a-0000-4000-8000-000000000000"
SECOND_NAME = FIRST_NAME.replace("6", "7")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_keeps_all_digits_of_partition_values(tmp_path: Path, engine: str) -> None:
    text = "-123456789012345678901234567890123456.78"
    columns, values = (("id", "long"), ("d", "decimal(38,2)")), {"d": text}
    path = make(tmp_path / "t", {"a.parquet": None}, columns=columns, partition_by=["d"], partitionValues=values)
    pq.write_table(pa.table({"id": [1]}), path / "a.parquet")
    assert rows(zskip.open(str(path)).plan(), engine) == [(1, Decimal(text))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_plan_reads_columns_that_were_renamed(tmp_path: Path, mode: str, engine: str) -> None:
    path = mapped_table(tmp_path / "t", mode, {"b": FIRST_NAME, "a": SECOND_NAME})
    zskip.open(path).index()
    assert rows(zskip.open(path).plan("b >= 15"), engine) == [(b, None) for b in range(10, 20)]
    assert rows(zskip.open(path).plan("b > 20"), engine) == []


@pytest.mark.parametrize("mode", ["name", "id"])
def test_bounds_belong_to_physical_names(tmp_path: Path, mode: str) -> None:
    path = mapped_table(tmp_path / "t", mode, {"a": FIRST_NAME})
    table = zskip.open(path)
    table.index()
    assert len(table.files("a = 3")) == 1
    mapped_table(tmp_path / "t", mode, {"b": FIRST_NAME, "a": SECOND_NAME})
    assert [len(zskip.open(path).files(where)) for where in ("b = 3", "a = 3", "a IS NULL")] == [1, 0, 2]
    mapped_table(tmp_path / "t", mode, {FIRST_NAME: SECOND_NAME, SECOND_NAME: FIRST_NAME})
    assert len(zskip.open(path).files(f"`{SECOND_NAME}` = 3")) == 1
    assert len(zskip.open(path).files(f"`{FIRST_NAME}` = 3")) == 0


def test_names_that_delta_has_not_drawn_tell_nothing_of_columns_found_by_id(tmp_path: Path) -> None:
    path = mapped_table(tmp_path / "t", "id", {"a": "a"})
    table = zskip.open(path)
    table.index()
    assert [len(table.files(where)) for where in ("a = 3", "a IS NULL")] == [2, 2]


def test_statistics_of_the_log_belong_to_physical_names(tmp_path: Path) -> None:
    stats = json.dumps({"numRecords": 10, "minValues": {FIRST_NAME: 0}, "maxValues": {FIRST_NAME: 9}})
    path = mapped_table(tmp_path / "t", "name", {SECOND_NAME: FIRST_NAME, FIRST_NAME: SECOND_NAME}, stats)
    table = zskip.open(path)
    assert [len(table.files(f"`{name}` = 15")) for name in (SECOND_NAME, FIRST_NAME)] == [1, 2]


@pytest.mark.parametrize(
    "name", ["file:/else/a.parquet", "/else/a.parquet", "../a.parquet", "d/%2E%2E/%2e%2e/a.parquet", "%2Fa.parquet"]
)
def test_files_of_another_directory_are_refused(tmp_path: Path, name: str) -> None:
    path = make(tmp_path / "t", {name: None})
    with pytest.raises(UnsupportedError, match="shallow clone"):
        zskip.open(str(path)).files()


@pytest.mark.parametrize(("kind", "value"), [("timestamp", "2024-01-01 00:00:00"), ("binary", "ab")])
def test_partitions_whose_values_engines_read_differently(tmp_path: Path, kind: str, value: str) -> None:
    """Queries skip files by the other columns, and nothing is written."""
    stats = [json.dumps({"numRecords": 1, "minValues": {"id": i}, "maxValues": {"id": i}}) for i in (1, 2)]
    path = make(
        tmp_path / "t",
        {"a.parquet": stats[0], "b.parquet": stats[1]},
        columns=(("id", "long"), ("at", kind)),
        partition_by=["at"],
        partitionValues={"at": value},
    )
    table = zskip.open(str(path))
    assert [Path(file).name for file in table.files("id = 1")] == ["a.parquet"]
    for where in ("at = TIMESTAMP'2024-01-01 00:00:00'", "at < TIMESTAMP'2000-01-01 00:00:00'", "at IS NULL"):
        assert len(table.files(where)) == 2
    assert table.info().partition_columns == ("at",)
    for check in ("check_replaceable", "check_appendable"):
        with pytest.raises(UnsupportedError, match=f'partitions by "at" \\({kind}.*Nothing was written'):
            getattr(opened(path), check)()


BY_CATALOG: dict[str, dict[str, Any]] = {
    "catalogManaged": {"features": (["catalogManaged"], ["catalogManaged"])},
    "catalogOwned-preview": {"features": (["catalogOwned-preview"], ["catalogOwned-preview"])},
    "coordinatedCommits-preview": {"features": ([], ["coordinatedCommits-preview"])},
    "delta.coordinatedCommits.commitCoordinator-preview": {
        "configuration": {"delta.coordinatedCommits.commitCoordinator-preview": "dynamodb"}
    },
}


@pytest.mark.parametrize("name", BY_CATALOG)
def test_a_table_whose_catalog_takes_the_commits(tmp_path: Path, name: str) -> None:
    """The log may lack the newest version, so it is neither read nor written; deltalake knows some of these."""
    path = make(tmp_path / "t", {"a.parquet": None}, **BY_CATALOG[name])
    for call in (zskip.open(str(path)).files, zskip.open(str(path)).info, opened(path).check_replaceable):
        with pytest.raises(UnsupportedError, match=r"catalog"):
            call()
    reads, writes = BY_CATALOG[name].get("features", ((), ()))
    protocol = SimpleNamespace(reader_features=reads, writer_features=writes)
    with pytest.raises(UnsupportedError, match=rf"uses {name}: its catalog takes the commits.*Nothing was written"):
        check_in_log("t", protocol, BY_CATALOG[name].get("configuration", {}))


def test_a_path_that_names_an_older_version(tmp_path: Path) -> None:
    """Delta reads these; a directory that is really called so comes first, as there."""
    make(tmp_path / "t", {"a.parquet": None})
    for version in ("@v0", "@20240101000000000", "@v0/"):
        with pytest.raises(UnsupportedError, match=r'is an older version of the Delta table ".*/t"'):
            zskip.open(f"{tmp_path}/t{version}")
    make(tmp_path / "t@v0", {"b.parquet": None})
    assert [Path(file).name for file in zskip.open(f"{tmp_path}/t@v0").files()] == ["b.parquet"]
    with pytest.raises(TableNotFoundError):
        zskip.open(f"{tmp_path}/none@v0").files()


def test_a_directory_of_another_escape(tmp_path: Path) -> None:
    path = tmp_path / "a%20b"
    make(path, {})
    with pytest.raises(UnsupportedError, match="%"):
        zskip.open(str(path)).files()


def test_a_log_without_a_beginning(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(TableNotFoundError, match="no whole Delta log"):
        zskip.open(str(tmp_path)).files()
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text("{")
    with pytest.raises((StorageError, TableNotFoundError), match="log"):
        zskip.open(str(tmp_path)).files()


def test_without_deltalake_one_line_says_what_to_install(tmp_path: Path) -> None:
    make(tmp_path / "t", {})
    code = f"import sys; sys.modules['deltalake'] = None; import zskip; zskip.open({str(tmp_path / 't')!r}).files()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "zskip[delta]"' in done.stderr.splitlines()[-1]


def test_dead_files_are_not_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, content(8))
    write_deltalake(path, content(4, 100), mode="overwrite")
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 2
    files = zskip.open(path).files()
    assert [pq.read_metadata(file).num_rows for file in files] == [4]


def test_an_empty_table_and_one_of_checkpoints(tmp_path: Path) -> None:
    empty = str(tmp_path / "empty")
    write_deltalake(empty, content(8).slice(0, 0), partition_by=["region"])
    assert zskip.open(empty).files() == []
    path = tmp_path / "t"
    for i in range(3):
        write_deltalake(str(path), content(8, 8 * i), mode="append", partition_by=["region"])
    before = zskip.open(str(path)).files()
    DeltaTable(str(path)).create_checkpoint()
    for i in range(2):
        (path / "_delta_log" / f"{i:020d}.json").unlink()
    assert zskip.open(str(path)).files() == before
    rewrite(opened(path))
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == 24


PARTITION_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["01", "2020-01-01", "a b\n'\"[%41{", "x=ü/", "/", None]),
    "double": (pa.float64(), [1.0, math.nan, -0.0, math.inf, None]),
    "local": (pa.timestamp("us"), [dt.datetime(2024, 3, 10, 2, 30, 0, 1), None]),
    "tiny": (pa.int8(), [1, -3, None]),
    "large": (pa.int64(), [2**60, None]),
    "single": (pa.float32(), [0.1, None]),
    "flag": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [dt.date(2024, 1, 1), dt.date(1, 1, 1), None]),
    "exact": (pa.decimal128(38, 2), [decimal.Decimal("1" * 30), None]),
}


@pytest.mark.spark
def test_partition_values_of_each_type(tmp_path: Path, spark: SparkSession) -> None:
    path, count = tmp_path / "t", 6
    columns = {
        name: pa.array([values[i % len(values)] for i in range(count)] * 2, data_type)
        for name, (data_type, values) in PARTITION_VALUES.items()
    }
    rows = pa.table({"id": range(2 * count), **columns})
    write_deltalake(str(path), rows, partition_by=list(columns))
    before = rows_of(DeltaTable(str(path)).to_pyarrow_table())
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    table = zskip.table(other, str(path))
    through_spark, alone = read_snapshot(table._handle), read_snapshot(zskip.open(str(path))._handle)
    assert str([p.values for p in through_spark.partitions]) == str([p.values for p in alone.partitions])
    table.optimize(["id"], curve="linear", files=count)
    assert rows_of(DeltaTable(str(path)).to_pyarrow_table()) == before
    assert sorted(r.id for r in table.df().collect()) == list(range(2 * count))
    for name in columns:
        nulls = [i for i, value in enumerate(rows[name].to_pylist()) if value is None]
        assert sorted(r.id for r in table.df().where(f"{name} IS NULL").collect()) == nulls
    assert table.verify(queries=6).ok


def test_what_the_log_says_prunes_a_table_never_indexed(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for i in range(5):
        write_deltalake(path, content(20, 20 * i), mode="append")
    table = zskip.open(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(table.files("id = 33")) == 1
        assert table.prune("id >= 60").rows == 40
        assert len(table.files("v > 100")) == 5, "a bound says nothing of NaN"
        assert table.files("name IS NOT NULL AND id < 0") == []
    assert not (tmp_path / "t" / "_zskip").exists()


def test_bounds_of_the_log_are_no_values(tmp_path: Path) -> None:
    columns = (("at", "timestamp"), ("local", "timestamp_ntz"), ("day", "date"), ("f", "double"), ("s", "string"))
    statistics = {
        "numRecords": 3,
        "minValues": {
            "at": "2024-01-01T00:00:00.123Z",
            "local": "2024-01-01T00:00:00.123",
            "day": "1500-01-01",
            "f": 1,
        },
        "maxValues": {
            "at": "2024-01-01T00:00:00.123Z",
            "local": "2024-01-01T00:00:00.123",
            "day": "2024-01-01",
            "f": 2,
        },
        "nullCount": {"at": 0, "s": 3},
    }
    features = (["timestampNtz"], ["timestampNtz"])
    path = make(
        tmp_path / "t", {"a.parquet": json.dumps(statistics), "b.parquet": None}, columns=columns, features=features
    )

    def kept(where: str) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZskipWarning)
            return sum(file.endswith("a.parquet") for file in zskip.open(str(path)).files(where))

    assert kept("at = TIMESTAMP '2024-01-01 00:00:00.123999 UTC'") == 1
    assert kept("local = TIMESTAMP_NTZ '2024-01-01 00:00:00.123999'") == 1
    assert kept("at = TIMESTAMP '2024-01-01 00:00:00.124 UTC'") == 0
    assert kept("at < TIMESTAMP '2024-01-01 00:00:00.123 UTC'") == 0
    assert kept("day = DATE '1400-01-01'") == 1, "which day it is depends on the calendar"
    assert kept("f > 5") == 1, "there may be NaN"
    assert kept("f < 0") == 0
    assert kept("s = 'x'") == 0
    assert kept("at IS NULL") == 0
    assert len(zskip.open(str(path)).files("f < 0")) == 1, "of b.parquet nothing is known"


@pytest.mark.parametrize("stats", ["", "{}", "no json", '{"numRecords":3,"minValues":{"id":"x"}}', "[1]"])
def test_statistics_that_are_none(tmp_path: Path, stats: str) -> None:
    path = make(tmp_path / "t", {"a.parquet": stats, "b.parquet": '{"numRecords":1,"minValues":{"id":5}}'})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        assert len(zskip.open(str(path)).files("id = 1")) == 2


@pytest.mark.spark
def test_verify_audits_what_the_log_says(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), content(20))
    log = path / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('\\"id\\":19', '\\"id\\":11'))
    result = zskip.table(spark, str(path)).verify(queries=0)
    assert [wrong.what for wrong in result.mismatches] == ["upper bound of id"]


@pytest.mark.slow
@pytest.mark.spark
def test_every_type_is_pruned_rightly_by_the_log_alone_and_after(tmp_path: Path, spark: SparkSession) -> None:
    tables.make_all_types(tmp_path / "plain")
    path = tmp_path / "t"
    for file in sorted((tmp_path / "plain").iterdir()):
        rows = pq.read_table(file)
        rows = rows.rename_columns([name.replace(" ", "_").replace(".", "_") for name in rows.column_names])
        write_deltalake(str(path), rows, mode="append")
    before = rows_of(DeltaTable(str(path)).to_pyarrow_table())
    table = zskip.table(spark, str(path))
    table.optimize(["whole", "text", "at"], files=6)
    assert rows_of(DeltaTable(str(path)).to_pyarrow_table()) == before
    shutil.rmtree(path / "_zskip")
    checked = table.verify(queries=8)
    assert checked.ok, checked.mismatches
    for name in ("whole", "large", "short_decimal", "long_decimal", "text", "day", "at", "local", "single", "double"):
        assert_bounds(path, name)


def assert_bounds(path: Path, name: str) -> None:
    """What is logged of a column bounds its values in each live file, as deltalake reads the log."""
    for action in pa.table(DeltaTable(str(path)).get_add_actions()).to_pylist():
        values = pq.read_table(path / action["path"], columns=[name])[name]
        assert action["num_records"] == len(values)
        least, greatest = (action[part] and action[part][name] for part in ("min", "max"))
        non_nulls = [v for v in values.to_pylist() if v is not None]
        has_nan = any(isinstance(v, float) and math.isnan(v) for v in non_nulls)
        assert action["null_count"][name] == values.null_count
        if has_nan:
            assert greatest is None, "a reader to which NaN is the greatest value would lose it"
        elif non_nulls and least is not None:
            assert least <= min(non_nulls), (name, least, min(non_nulls))
        if non_nulls and greatest is not None:
            assert greatest >= max(non_nulls), (name, greatest, max(non_nulls))
            assert not isinstance(greatest, str) or len(greatest) <= 33


@pytest.mark.spark
def test_other_engines_read_and_skip_by_what_was_written(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "t"
    for i in range(4):
        write_deltalake(str(path), tables.events(1500, i), mode="append")
    zskip.table(spark, str(path)).optimize(["user", "day"], files=16)
    table = DeltaTable(str(path))
    assert len(table.file_uris(file_pruning_predicate="user = 7")) <= 6
    dataset = table.to_pyarrow_dataset()
    assert sum(1 for _ in dataset.get_fragments(filter=pc.field("user") == 7)) <= 6
    expected = sum(tables.events(1500, i).filter(pc.field("user") == 7).num_rows for i in range(4))
    assert dataset.count_rows(filter=pc.field("user") == 7) == expected
    assert duckdb.from_arrow(dataset.to_table()).filter('"user" = 7').shape[0] == expected
    entry = table.history(1)[0]
    assert json.loads(entry["operationParameters"]["zOrderBy"]) == ["user", "day"]
    assert entry["isBlindAppend"] is False
    log = (path / "_delta_log" / f"{table.version():020d}.json").read_text().splitlines()
    changes = [line for line in map(json.loads, log) if "add" in line or "remove" in line]
    assert len(changes) == 20
    assert not any((line.get("add") or line["remove"])["dataChange"] for line in changes)


@pytest.mark.spark
def test_vacuum_leaves_the_index_alone(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "t"
    for i in range(3):
        write_deltalake(str(path), content(20, 20 * i), mode="append")
    table = zskip.table(spark, str(path))
    table.optimize(["id"], curve="linear", files=3)
    assert len(list(path.glob("*.parquet"))) == 6
    before = sorted((path / "_zskip").rglob("*"))
    deleted = DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert len(deleted) == 3
    assert sorted((path / "_zskip").rglob("*")) == before
    assert len(zskip.open(str(path)).files("id = 3")) == 1
    assert table.verify(queries=1).ok


@pytest.mark.spark
def test_a_refused_table_is_left_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    path = make(tmp_path / "t", {"a.parquet": None}, features=([], ["rowTracking", "domainMetadata"]))
    before = sorted(path.rglob("*"))
    with pytest.raises(UnsupportedError, match="rowTracking"):
        zskip.table(spark, str(path)).optimize(["id"], curve="linear")
    write_deltalake(str(tmp_path / "u"), content(8))
    with pytest.raises(UnsupportedError, match="into="):
        zskip.table(spark, str(tmp_path / "u")).optimize(["id"], curve="linear", into=str(tmp_path / "v"))
    assert sorted(path.rglob("*")) == before
    assert not (tmp_path / "v").exists()


def log_entry(path: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()]


@pytest.mark.parametrize("spelled", ["aü.parquet", "a%C3%BC.parquet", "a%c3%bc.parquet", "%61ü&,~.parquet"])
def test_files_are_removed_by_the_spelling_of_the_log(tmp_path: Path, spelled: str) -> None:
    path = tmp_path / "t"
    path.mkdir()
    name = os.fsdecode(unquote_to_bytes(spelled))
    pq.write_table(pa.table({"id": [1, 2]}), path / name)
    size, mtime = (path / name).stat().st_size, (path / name).stat().st_mtime_ns // 1_000_000
    make(path, {spelled: '{"numRecords":2}'}, size=size, modificationTime=mtime)
    assert opened(path).snapshot().paths == (name,)
    assert rewrite(opened(path)) == 1
    entry = log_entry(path, 1)
    assert [line["remove"]["path"] for line in entry if "remove" in line] == [spelled]
    assert sum("add" in line for line in entry) == sum("commitInfo" in line for line in entry) == 1
    assert DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist() == [2, 1]
    assert [os.fsencode(f.name) for f in path.glob("new*.parquet")] == [b"new-0.parquet"]


class NoConditions(LocalStorage):
    """A store like one that Hadoop before 3.4.2 writes to: of two writers of one object, both may succeed."""

    kind: Any = "objects"

    def is_exclusive(self) -> bool:
        return False


@pytest.mark.parametrize("name", ["a.parquet", "aü.parquet"])
def test_commits_to_a_store_without_conditions(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    path.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), path / name)
    size, mtime = (path / name).stat().st_size, (path / name).stat().st_mtime_ns // 1_000_000
    make(path, {name: '{"numRecords":2}'}, size=size, modificationTime=mtime)
    form, base = DeltaFormat(NoConditions(str(path))), opened(path).snapshot()
    pq.write_table(pa.table({"id": [3]}), path / "new")
    staging = form.stage()
    (path / "new").rename(path / staging / "new.parquet")
    added = [
        StagedFile(path=f"{staging}/new.parquet", directory="", size=(path / staging / "new.parquet").stat().st_size)
    ]
    if name == "a.parquet":
        assert form.overwrite(base, added) == 1
        assert log_entry(path, 1)[0]["commitInfo"]["engineInfo"].startswith("delta-rs"), "which is exclusive"
    else:
        with pytest.raises(UnsupportedError, match=r"spells paths otherwise than deltalake.*Nothing was committed"):
            form.overwrite(base, added)
        form.abort(staging)
    assert opened(path).snapshot().paths == (("new.parquet",) if name == "a.parquet" else (name,))


def test_an_entry_says_the_same_whoever_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In object stores deltalake writes those that it spells as the log does, else zskip."""
    entries = []
    for kind in ("disk", "objects"):
        path = tmp_path / kind
        write_deltalake(str(path), pa.table({"id": [1, 2], "p": ["a b", "c:%d"]}), partition_by=["p"])
        monkeypatch.setattr(LocalStorage, "kind", kind)
        assert rewrite(opened(path)) == 1
        assert sorted(DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
        info, *actions = log_entry(path, 1)
        assert ("delta-rs" in info["commitInfo"]["engineInfo"]) == (kind == "objects")
        chosen = [
            {name: action[key].get(name) for name in ("partitionValues", "dataChange", "stats", "extendedFileMetadata")}
            for action in actions
            for key in action
        ]
        parameters = info["commitInfo"]["operationParameters"]
        entries.append((chosen, parameters, info["commitInfo"]["isBlindAppend"], info["commitInfo"]["readVersion"]))
    assert entries[0] == entries[1]


def test_an_entry_that_zskip_writes_never_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    path.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), path / "ü.parquet")
    size, mtime = (path / "ü.parquet").stat().st_size, (path / "ü.parquet").stat().st_mtime_ns // 1_000_000
    make(path, {"ü.parquet": '{"numRecords":2}'}, size=size, modificationTime=mtime)
    write, others = LocalStorage.write, iter([3, 4])

    def late(storage: LocalStorage, name: str, data: bytes, **options: Any) -> None:
        if name.startswith("_delta_log/") and (more := next(others, None)):
            write_deltalake(str(path), pa.table({"id": [more]}), mode="append")
        write(storage, name, data, **options)

    monkeypatch.setattr(LocalStorage, "write", late)
    assert rewrite(opened(path)) == 3
    assert sorted(DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3, 4]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("error", [StorageError("no answer"), FileExistsError("there is something already")])
def test_an_entry_that_zskip_writes_may_be_there_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool, error: Exception
) -> None:
    path = tmp_path / "t"
    path.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), path / "ü.parquet")
    size, mtime = (path / "ü.parquet").stat().st_size, (path / "ü.parquet").stat().st_mtime_ns // 1_000_000
    make(path, {"ü.parquet": '{"numRecords":2}'}, size=size, modificationTime=mtime)
    write = LocalStorage.write

    def fail(storage: LocalStorage, name: str, data: bytes, **options: Any) -> None:
        is_entry = name.startswith("_delta_log/")
        if committed or not is_entry:
            write(storage, name, data, **options)
        if is_entry:
            raise error

    monkeypatch.setattr(LocalStorage, "write", fail)
    if committed:
        assert rewrite(opened(path)) == 1
    else:
        with pytest.raises(StorageError, match=str(error)):
            rewrite(opened(path))
    assert DeltaTable(str(path)).version() == committed
    assert sorted(DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    assert len(list(path.glob("new*"))) == committed


def test_new_files_have_paths_that_nobody_escapes(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), content(16), partition_by=["region"])
    before = rows_of(DeltaTable(str(path)).to_pyarrow_table())
    rewrite(opened(path))
    logged = pa.table(DeltaTable(str(path)).get_add_actions())["path"].to_pylist()
    assert sum("/" in name for name in logged) == 2
    assert all(re.fullmatch(r"(region=(eu|__HIVE_DEFAULT_PARTITION__)/)?new-\d\.parquet", name) for name in logged)
    assert rows_of(DeltaTable(str(path)).to_pyarrow_table()) == before


def test_deltalake_changes_what_was_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), content(16), partition_by=["region"])
    rewrite(opened(path))
    for number in range(4):  # One row of each partition.
        DeltaTable(str(path)).delete(f"id = {number}")
        DeltaTable(str(path)).update(predicate=f"id = {8 + number}", updates={"id": str(100 + number)})
    ids = DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist()
    assert sorted(ids) == [4, 5, 6, 7, 12, 13, 14, 15, 100, 101, 102, 103]


def test_a_change_of_columns_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), content(8))
    more = content(4, 50).append_column("late", pa.array(range(4)))
    with pytest.raises(ConflictError, match="columns"):
        rewrite(opened(path), between=lambda: write_deltalake(str(path), more, mode="append", schema_mode="merge"))


STRUCT = read_type({"type": "struct", "fields": [{"name": n, "type": "long", "nullable": True} for n in ("x", "a.b")]})


@pytest.mark.parametrize(
    ("named", "by", "expected"),
    [
        ("`z.z`,`q``r`, Y", [], ["z.z", "q`r", "y"]),
        ("ST.X, `a,b`", ["y"], ["a,b", "y", "st.x"]),
        ("st.`a.b`", ["st.x"], ["st.x", "st.a.b"]),
        ("st", ["z.z"], ["z.z", "st.x", "st.a.b"]),
        ("none", ["k", "st.`a.b`"], ["k", "st.a.b"]),
        (None, ["k", "st.x"], ["z.z", "q`r", "k", "st.x"]),
    ],
)
def test_columns_with_statistics_are_named_as_delta_names_them(
    named: str | None, by: list[str], expected: list[str]
) -> None:
    fields = [Field(name=name, type=DataType("long")) for name in ("z.z", "q`r", "a,b", "y", "k")]
    settings = {"delta.dataSkippingNumIndexedCols": "2"} | (
        {} if named is None else {"delta.dataSkippingStatsColumns": named}
    )
    paths = columns_with_statistics([*fields, Field(name="st", type=STRUCT)], settings, by)
    assert [".".join(path) for path in paths] == expected


@pytest.mark.parametrize("kind", ["truncateMin", "truncateMax"])
def test_strings_are_cut_as_delta_cuts_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = json.loads((VECTORS / "delta_string_truncation.json").read_text(encoding="utf-8"))[kind]
    for vector in vectors:
        if not vector["prefixLen"]:
            continue
        monkeypatch.setattr("zskip.formats.delta.stats.MOST_CHARACTERS", vector["prefixLen"])
        text, value = vector["input"], vector["input"].encode("utf-8", "surrogatepass")
        if kind == "truncateMin":
            assert cut_lower(value) <= text
        else:
            cut = cut_upper(value)
            assert cut is None or cut.encode() >= value
            assert cut == vector["expected"] or cut is None or "\U0010ffff" in text, vector


def test_cut_strings_bound_all_that_the_value_bounds() -> None:
    rng = random.Random(3)
    letters = ["a", "\x7f", "~", "é", "\uffff", "\U0001f600", "\U0010ffff", "\x00"]
    for _ in range(3000):
        values = ["".join(rng.choices(letters, k=rng.randint(0, 40))) for _ in range(5)]
        raw = sorted(value.encode() for value in values)
        lower, upper = cut_lower(raw[0]), cut_upper(raw[-1])
        assert len(lower) <= 32
        assert lower.encode() <= raw[0]
        assert upper is None or (upper.encode() >= raw[-1] and len(upper) <= 33)
        bound = raw[-1][:20] + b"\xff"
        upper = cut_upper(bound)
        below = [value for value in raw if value <= bound]
        assert upper is None or all(upper.encode() >= value for value in below)


def test_directories_of_partitions_are_told_apart() -> None:
    texts = ["a", "a=b", "a%3Db", "", None, "é", "/", "a/b=c", "\x00", "x" * 10]
    assert len({directory_of(["p", "q"], [a, b]) for a in texts for b in texts}) == len(texts) ** 2


def test_one_warning_says_which_files_nothing_is_known_of(tmp_path: Path) -> None:
    path = make(tmp_path / "t", {"a.parquet": '{"numRecords":1}', "b.parquet": None})
    with pytest.warns(ZskipWarning) as warned:
        zskip.open(str(path)).files("id = 1")
    assert len(warned) == 1
    assert "there is no index, and the table's own metadata knows nothing of 1 of the 2 files" in str(warned[0].message)


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """A table of two files."""
    for i in range(2):
        write_deltalake(str(tmp_path / "t"), content(8, 8 * i), mode="append")
    return tmp_path / "t"


def test_manifests_for_other_engines_are_told_of(flat: Path) -> None:
    """Without Delta Lake nobody writes them; a table without any is left alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        append(flat, 1)
    (flat / "_symlink_format_manifest").mkdir()
    with pytest.warns(ZskipWarning, match=r"_symlink_format_manifest.*GENERATE symlink_format_manifest FOR TABLE"):
        append(flat, 2)


def just_before_the_commit(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Do something once, when a rewrite has found all its files live and is about to commit."""
    todo = [work]

    def check(*arguments: Any) -> None:
        check_live(*arguments)
        if todo:
            todo.pop()()

    monkeypatch.setattr("zskip.formats.delta.format.check_live", check)


def append(path: Path, number: int) -> None:
    table = DeltaFormat(LocalStorage(str(path)))
    name = f"{table.stage()}/{number}.parquet"
    pq.write_table(pa.table({"id": [number]}), path / name)
    staged = StagedFile(path=name, directory="", size=(path / name).stat().st_size)
    table.append(table.snapshot(), [staged], {"operation": "append"}, BatchId(application="app", version=number))


def checkpoints(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "_delta_log").glob("*.checkpoint*"))


def test_a_table_that_only_zskip_writes_gets_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"id": [-1]}), configuration={"delta.checkpointInterval": "4"})
    for number in range(4):
        append(path, number)
    rewrite(opened(path))
    assert checkpoints(path) == [f"{4:020d}.checkpoint.parquet"]
    for version in range(4):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [-1, 0, 1, 2, 3]
    assert DeltaFormat(LocalStorage(str(path))).last_batch("app") == 3
    monkeypatch.setattr(DeltaTable, "create_checkpoint", lambda self: 1 / 0)
    for number in range(4, 8):
        append(path, number)
    assert DeltaTable(path).version() == 9
    assert len(checkpoints(path)) == 1


@pytest.mark.parametrize(
    ("features", "due"), [((), True), (("changeDataFeed",), True), (("domainMetadata", "rowTracking"), False)]
)
def test_tables_with_features_get_no_checkpoints_by_deltalake(
    tmp_path: Path, features: tuple[str, ...], due: bool
) -> None:
    table = DeltaTable(make(tmp_path / "t", {}, features=((), ("appendOnly", *features))))
    assert is_checkpoint_due(table, 10) is due
    assert not is_checkpoint_due(table, 11)


def test_of_two_that_found_all_live_one_commits(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(DeltaTable(str(flat)).to_pyarrow_table())
    just_before_the_commit(monkeypatch, lambda: rewrite(opened(flat), "first"))
    with pytest.raises(ConflictError, match="another writer removed"):
        rewrite(opened(flat), "late")
    assert rows_of(DeltaTable(str(flat)).to_pyarrow_table()) == before
    assert not list(flat.glob("late*"))


@pytest.mark.parametrize("appends", [True, False])
def test_the_log_is_read_once_for_a_plan_and_once_for_a_commit(
    flat: Path, monkeypatch: pytest.MonkeyPatch, appends: bool
) -> None:
    reads: list[DeltaTable] = []

    def read(*arguments: Any, **options: Any) -> DeltaTable:
        reads.append(open_table(*arguments, **options))
        return reads[-1]

    monkeypatch.setattr("zskip.formats.delta.format.open_table", read)
    form = opened(flat)
    base = form.snapshot()
    form.check_appendable() if appends else form.check_replaceable()
    rules, added = form.row_rules(), stage_all(form, base, "new", [0])
    assert not rules.required
    form.append(base, added) if appends else form.replace(base, np.ones(len(base), np.bool_), added)
    assert len(reads) == 2


def test_an_append_in_the_last_moment_costs_one_more_try(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(DeltaTable(str(flat)).to_pyarrow_table())
    just_before_the_commit(monkeypatch, lambda: write_deltalake(str(flat), content(4, 90), mode="append"))
    assert rewrite(opened(flat)) == 3
    assert rows_of(DeltaTable(str(flat)).to_pyarrow_table()) == before + rows_of(content(4, 90))


@pytest.mark.spark
def test_a_file_that_is_gone_and_a_table_that_is(flat: Path, spark: SparkSession) -> None:
    table = zskip.table(spark, str(flat))
    lost = Path(zskip.open(str(flat)).files()[0])
    lost.unlink()
    before = sorted(flat.rglob("*"))
    with pytest.raises(CorruptFileError, match=re.escape(lost.name)):
        table.optimize(["id"], curve="linear")
    assert sorted(flat.rglob("*")) == before
    shutil.rmtree(flat)
    with pytest.raises(TableNotFoundError, match="no whole Delta log"):
        table.optimize(["id"], curve="linear")
    assert not flat.exists()
