"""A reader written by docs/index-format.md alone sees what zskip sees.

`Reader` knows nothing of zskip; the table's columns and live files, which a query engine has, are given to it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables

import zskip
from zskip.index import Index
from zskip.index.store.listing import ROW_GROUPS_SCHEMA
from zskip.index.store.segment import BLOCK_ROWS, ENTRIES_SCHEMA
from zskip.records import ALL_NULL
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.version import read_snapshot

PAGE = Path(__file__).resolve().parents[3] / "docs" / "index-format.md"

FORMS = {
    **dict.fromkeys(["boolean", "byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz"], "int"),
    **dict.fromkeys(["float", "double"], "float"),
    **dict.fromkeys(["string", "binary"], "bytes"),
}


def form_of(kind: str | None) -> str | None:
    decimal = re.fullmatch(r"decimal\((\d+),\d+\)", kind or "")
    if decimal:
        return "int" if int(decimal[1]) <= 18 else "bytes"
    return FORMS.get(kind or "")


def numbers(runs: list[list[int]]) -> list[int]:
    return [number for first, count in runs for number in range(first, first + count)]


Live = tuple[int, int, int]
"""Size, modification time and identity; 0 for an unknown identity."""


def live_files(table: Path, paths: Sequence[str]) -> dict[str, Live]:
    found = {}
    for path in paths:
        stat = (table / path).stat()
        identity = (stat.st_ino * 11400714819323198485 + stat.st_ctime_ns // 1000) % 2**63
        found[path] = (stat.st_size, stat.st_mtime_ns // 10**6, identity)
    return found


class Reader:
    """An index, read by the page's rules."""

    def __init__(self, table: Path, live: dict[str, Live]) -> None:
        self.home = table / "_zskip" / "index"
        self.live = live
        names = [n for n in os.listdir(self.home) if re.fullmatch(r"manifest-[0-9]{10,}\.json", n)]
        data = (self.home / max(names, key=lambda n: int(n[9:-5]))).read_bytes()
        assert data[:9] == b'{"crc": "'
        assert data[17:20] == b'", '
        assert int(data[9:17], 16) == zlib.crc32(data[20:])
        self.manifest = json.loads(data)
        assert self.manifest["format"] == 2
        assert self.manifest["table"] is None
        self.owner: dict[str, tuple[int, int]] = {}
        self.rows: dict[str, int] = {}
        self.schema: dict[str, int] = {}
        self.version: dict[str, int] = {}
        for place, segment in enumerate(self.manifest["segments"]):
            for number, row in enumerate(self.listed(segment)):
                path = row["path"]
                if self.is_live(row) and row["rows"] >= 0:
                    self.owner[path] = place, number
                    self.rows[path], self.schema[path] = row["rows"], row["schema"]
                    self.version[path] = row["table_version"]
        self.complete = set(self.owner) == set(live)

    def is_live(self, row: dict[str, Any]) -> bool:
        size, mtime_ms, identity = self.live.get(row["path"], (-1, -1, -1))
        return (size, mtime_ms) == (row["size"], row["mtime_ms"]) and (
            0 in (identity, row["identity"]) or identity == row["identity"]
        )

    def listed(self, segment: dict[str, Any]) -> list[dict[str, Any]]:
        assert re.fullmatch(r"segment-[0-9a-f]{32}", segment["name"])
        listing = pq.read_table(pa.BufferReader(self.checked(f"{segment['name']}-files.zskip", segment["listing"])))
        assert listing.num_rows == segment["files"]
        files: list[dict[str, Any]] = listing.to_pylist()
        return files

    def row_groups(self, name: str, file: str) -> list[tuple[int, Any, Any]] | None:
        """Rows and bounds of a column of integers in each row group of a file; None where they are not known."""
        groups: dict[int, tuple[int, Any, Any]] = {}
        for segment in self.manifest["row_group_segments"] or ():
            mine = {i: row for i, row in enumerate(self.listed(segment)) if row["path"] == file}
            mine = {i: row for i, row in mine.items() if self.is_live(row)}
            if not mine:
                continue
            columns = [self.column(number) for number in numbers(segment["columns"])]
            entries = {row["file"]: row for row in self.entries(segment, columns.index(((name,), "long")))}
            groups = {}
            for i, row in mine.items():
                assert row["row_group"] not in groups
                entry = entries.get(i, {})
                groups[row["row_group"]] = row["rows"], entry.get("int_min"), entry.get("int_max")
        known = sorted(groups) == list(range(len(groups))) and sum(f[0] for f in groups.values()) == self.rows.get(file)
        return [groups[number] for number in sorted(groups)] if known else None

    def checked(self, name: str, block: list[int]) -> bytes:
        offset, length, crc = block
        data = (self.home / name).read_bytes()[offset : offset + length]
        assert (len(data), zlib.crc32(data)) == (length, crc)
        return data

    def column(self, number: int) -> tuple[tuple[str, ...], str | None]:
        path = self.manifest["columns"][number]
        kind = self.manifest["types"][self.manifest["type_of"][number]]
        return (path,) if isinstance(path, str) else tuple(path), kind

    def entry(self, path: tuple[str, ...], file: str) -> dict[str, Any] | str | None:
        """The entry that answers for a column of a file, `all null`, or None where nothing is known."""
        if file not in self.owner:
            return None
        place, number = self.owner[file]
        segment = self.manifest["segments"][place]
        names = [name.lower() for name in path]
        near = []
        columns = numbers(segment["columns"])
        for column in numbers(segment["schemas"][self.schema[file]]):
            column_path, kind = self.column(columns[column])
            fold_names = [name.lower() for name in column_path]
            if all(a == b for a, b in zip(fold_names, names, strict=False)):
                near.append((column, len(column_path) == len(path), kind))
        if not near:
            defaults = {name.lower() for s in self.manifest["segments"] for name in s["defaults"]}
            return "all null" if self.complete and names[0] not in defaults else None
        [(column, same, kind), *others] = near
        if others or not same or form_of(kind) is None:
            return None
        entries = [row for row in self.entries(segment, column) if row["file"] == number]
        assert len(entries) <= 1
        return {**entries[0], "form": form_of(kind), "type": kind} if entries else None

    def entries(self, segment: dict[str, Any], column: int) -> list[dict[str, Any]]:
        """The entries of one column: bytes of its row groups and the footer, no others."""
        start, end = segment["starts"][column : column + 2]
        if start == end:
            return []
        name = f"{segment['name']}-entries.zskip"
        first, last = start // 16384, (end - 1) // 16384
        image = bytearray(segment["footer"][0] + segment["footer"][1])
        for block in [*segment["blocks"][first : last + 1], segment["footer"]]:
            image[block[0] : block[0] + block[1]] = self.checked(name, block)
        rows = pq.ParquetFile(pa.BufferReader(bytes(image))).read_row_groups(list(range(first, last + 1)))
        entries = rows.slice(start - first * 16384, end - start).to_pylist()
        assert {row["column"] for row in entries} == {column}
        assert [row["file"] for row in entries] == sorted({row["file"] for row in entries})
        return entries


def same_as_zskip(path: Path, lacking: Sequence[tuple[str, ...]] = ()) -> int:
    """Hold the reader against zskip, for each file and column; how many entries had bounds.

    lacking: fields inside structs that the first file lacks, so that they are none of the table's.
    """
    handle = zskip.open(str(path))._handle
    snapshot = read_snapshot(handle)
    live = live_files(path, snapshot.paths)
    reader, bound = Reader(path, live), bind_index(handle, snapshot, warn=False)
    assert [reader.rows.get(p, -1) for p in snapshot.paths] == bound.rows.tolist()
    assert [reader.version.get(p, -1) for p in snapshot.paths] == bound.versions().tolist()
    bounded = 0
    for column in columns_of(handle):
        stats = bound.column(column)
        if column in lacking:
            assert stats is None
            continue
        for i, file in enumerate(snapshot.paths):
            entry = reader.entry(column, file)
            if stats is None or entry is None:
                assert entry is None or isinstance(entry, str)
                assert stats is None or (not stats.bounded[i] and stats.nulls[i] == -1)
            elif isinstance(entry, str):
                assert stats.nulls[i] in (ALL_NULL, reader.rows[file])
            elif entry["type"] == stats.type.name:
                low, high = entry[f"{entry['form']}_min"], entry[f"{entry['form']}_max"]
                assert stats.nulls[i] == (-1 if entry["nulls"] is None else entry["nulls"])
                empty = entry["nans"] and entry["nans"] + (entry["nulls"] or 0) == reader.rows[file]
                if low is not None and high is not None and not empty:
                    assert (stats.lower[i], stats.upper[i]) == (low, high)
                    bounded += 1
                assert bool(stats.bounded[i]) == bool(empty or (low is not None and high is not None))
                if entry["form"] == "float" and entry["nulls"] != reader.rows[file]:
                    assert stats.may_nan[i] == (entry["nans"] != 0)
    return bounded


def columns_of(handle: Handle) -> list[tuple[str, ...]]:
    """All columns of the files, fields of structs included."""
    index = Index.load(handle.storage)
    assert index is not None
    return sorted({column.path for segment in index.manifest.segments for column in segment.columns})


def test_all_types_and_odd_names(tmp_path: Path) -> None:
    path = tables.make_all_types(tmp_path / "t")
    zskip.open(str(path)).index()
    assert same_as_zskip(path) > 30


def test_partitions_segments_and_files_that_come_and_go(tmp_path: Path) -> None:
    path = tables.make_partitioned(tmp_path / "t")
    table = zskip.open(str(path))
    table.index()
    files = tables.visible(path)
    for i in range(3):
        pq.write_table(pq.read_table(files[i], partitioning=None), files[i].with_name(f"new-{i}.parquet"))
        table.index()
    files[5].unlink()
    os.utime(files[6], (1, 1))
    assert len(Reader(path, {}).manifest["segments"]) > 1
    assert same_as_zskip(path) > 100
    table.index()
    assert same_as_zskip(path) > 100


def test_columns_that_come_and_go(tmp_path: Path) -> None:
    new = {"B": [1.5, float("nan")], "s": [{"x": 1}, None]}
    for i, extra in enumerate(
        [new, {"b": [2.5, 3.5]}, {"s": [{"y": 1}, None]}, {"b": ["x", None]}, {"b": [1.0] * 2, **new}]
    ):
        pq.write_table(pa.table({"a": [i, None], **extra}), tmp_path / f"{i}.parquet")
    zskip.open(str(tmp_path)).index()
    assert same_as_zskip(tmp_path, lacking=[("s", "y")]) >= 9


def test_a_column_over_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.insert(0, str(PAGE.parents[1] / "bench"))
    monkeypatch.setattr("zskip.index.store.segment.MAX_ENTRIES", 90_000)
    from shared.index_data import make_index

    index = make_index(str(tmp_path), 40_000, 2, 3)
    snapshot = index.snapshot
    bound = Index.load(index.storage).bind(snapshot)  # type: ignore[union-attr]
    reader = Reader(tmp_path, {f.path: (f.size, f.mtime_ms, 0) for f in snapshot})
    for number in range(2):
        [segment] = reader.manifest["segments"]
        rows = reader.entries(segment, number)
        stats = bound.column((f"column_{number:04d}",))
        assert stats is not None
        assert [row["int_min"] for row in rows] == stats.lower.tolist()


def test_row_groups(tmp_path: Path) -> None:
    table = tables.events(600).sort_by("id")
    for i in range(3):
        pq.write_table(table.slice(200 * i, 200), tmp_path / f"{i}.parquet", row_group_size=60)
        zskip.open(str(tmp_path)).index(granularity="row_group")
    pq.write_table(table.slice(0, 9), tmp_path / "1.parquet")
    pq.write_table(table, tmp_path / "new.parquet")
    live = live_files(tmp_path, read_snapshot(zskip.open(str(tmp_path))._handle).paths)
    reader = Reader(tmp_path, live)
    assert len(reader.manifest["row_group_segments"]) > 1
    rows = [60, 60, 60, 20]
    for i in (0, 2):
        lows = [200 * i + 60 * k for k in range(4)]
        expected = [(n, low, low + n - 1) for n, low in zip(rows, lows, strict=True)]
        assert reader.row_groups("id", f"{i}.parquet") == expected
    assert reader.row_groups("id", "1.parquet") is None
    assert reader.row_groups("id", "new.parquet") is None


def test_the_page_names_every_part(tmp_path: Path) -> None:
    zskip.open(str(tables.make_events(tmp_path / "t"))).index()
    manifest = Reader(tmp_path / "t", {}).manifest
    page = PAGE.read_text()
    for name in [*manifest, *manifest["segments"][0], *ROW_GROUPS_SCHEMA.names, *ENTRIES_SCHEMA.names, *FORMS]:
        assert f"`{name}`" in page, name
    assert f"{BLOCK_ROWS:,} rows" in page
