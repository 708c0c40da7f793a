"""Hudi tables through the `hudi` package, without a JVM: the live base files after the latest commit."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from zskip.errors import MissingDependencyError, StorageError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats.base import HOME
from zskip.formats.hudi.protocol import check_partitions, check_readable
from zskip.formats.hudi.timeline import read_timeline
from zskip.formats.hudi.values import partition_fields, read_statistics, spark_schema
from zskip.formats.schema import fields_from_json, first_line
from zskip.formats.table_format import TableFormat
from zskip.records import Deletes, Partition, Reading, Snapshot
from zskip.storage import normalize_location
from zskip.storage.base import check_inside

if TYPE_CHECKING:
    from hudi import HudiFileSlice, HudiInstant, HudiTable

INFO_KEY = "zskip"
"""The key of the optimize operation in a commit's extra metadata."""
NOTE = "_instant"
"""The file in a staging directory with the instant of its rewrite."""
_HOME = ".hoodie"
_MOST_COMMITS = 100
"""Commits that are read for row counts; older ones hold few files each."""
_INSTANT = re.compile(r"[0-9]{14}(?:[0-9]{3})?")
_ESCAPE = re.compile(r"\\(.)")
_EMPTY = '{"type": "record", "fields": []}'
_NO_COLUMNS = json.dumps({"type": "struct", "fields": []})


class HudiFormat(TableFormat):
    """Reads a Hudi table by its path."""

    name = "hudi"
    home = f"{_HOME}/zskip"
    in_one_thread = True

    def options(self) -> dict[str, str]:
        """The contents of `hoodie.properties`; raises TableNotFoundError if there is none."""
        try:
            text = self._storage.read(f"{_HOME}/hoodie.properties").decode(errors="replace")
        except FileNotFoundError as error:
            raise TableNotFoundError(
                f'"{self._storage.root}/{_HOME}" has no hoodie.properties, so it is not a complete Hudi table; '
                "check the path"
            ) from error
        lines = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
        return {name.strip(): _ESCAPE.sub(r"\1", value.strip()) for name, _, value in lines}

    def avro_schema(self) -> str:
        """The table's own columns, without Hudi's metadata columns, in Avro's JSON."""
        with _translating_errors(self._storage.root):
            return str(self._open().get_schema_in_avro_str())

    def changed_file_groups(self, instant: str) -> frozenset[tuple[str, str]] | None:
        """Partition and id of each file group that a commit wrote to or replaced; None if it is not known."""
        table = self._open()
        with _translating_errors(self._storage.root):
            for completed in _completed(table):
                if completed.timestamp == instant:
                    return _file_groups(json.loads(table.get_timeline().get_instant_metadata_in_json(completed)))
        return None

    def snapshot(self) -> Snapshot:
        """The live base files, with statistics from the latest commits and from partition paths.

        Raises TableNotFoundError if there is no table, and UnsupportedError for tables that zskip would read wrongly.
        """
        root, options = self._storage.root, self.options()
        check_readable(self._storage, options)
        table = self._open()
        with _translating_errors(root):
            timeline = table.get_timeline()
            instants = _completed(table)
            schema = _avro_schema(table, options) if instants else _EMPTY
            slices = sorted(table.get_file_slices(), key=lambda file_slice: file_slice.base_file_relative_path())
        _check_slices(root, slices)
        data = spark_schema(schema, root)
        fields = fields_from_json(data)
        directories = list(dict.fromkeys(file_slice.partition_path for file_slice in slices))
        check_partitions(self._storage, options, directories)
        ordinals = {directory: i for i, directory in enumerate(directories)}
        paths = tuple(check_inside(file_slice.base_file_relative_path(), root) for file_slice in slices)
        with _translating_errors(root):
            commits = (json.loads(timeline.get_instant_metadata_in_json(i)) for i in instants[:_MOST_COMMITS])
            rows = _rows_written(commits, frozenset(paths))
        partition_of = np.array([ordinals[file_slice.partition_path] for file_slice in slices], np.int32)
        has_log = np.array([file_slice.has_log_files() for file_slice in slices], np.bool_)
        return Snapshot(
            root=root,
            version=max((int(instant.timestamp) for instant in instants), default=0),
            fields=fields,
            partition_fields=(),
            partitions=tuple(Partition(directory=directory) for directory in directories),
            paths=paths,
            sizes=np.array([file_slice.base_file_size for file_slice in slices], np.int64),
            mtimes_ms=np.zeros(len(slices), np.int64),
            partition_of=partition_of,
            known=read_statistics([rows.get(path, -1) for path in paths], fields, options, directories, partition_of),
            grouped_by=partition_fields(options),
            reading=Reading(
                changed=has_log if has_log.any() else None,
                read_deletes=(lambda: self._log_files(slices)) if has_log.any() else None,
                declared=(data, _NO_COLUMNS),
            ),
        )

    def _log_files(self, slices: Sequence[HudiFileSlice]) -> dict[str, tuple[Deletes, ...]]:
        """The log files of each file group that has some, by the path of its base file."""
        return {
            file_slice.base_file_relative_path(): tuple(
                Deletes(kind="log file", path=self._storage.uri(path), size=size)
                for path, size in zip(file_slice.log_files_relative_paths(), file_slice.log_file_sizes, strict=True)
            )
            for file_slice in slices
            if file_slice.has_log_files()
        }

    def _open(self) -> HudiTable:
        try:
            from hudi import HudiTable
        except ImportError as error:
            raise MissingDependencyError(
                f'"{self._storage.root}" is a Hudi table, for which the package hudi is not installed; '
                'run: pip install "zskip[hudi]"'
            ) from error
        with _translating_errors(self._storage.root):
            return HudiTable(_uri(self._storage.root), dict(self._storage.options))

    def check_replaceable(self) -> None:
        """Raise UnsupportedError: only Hudi's own code, in a Spark session, commits to its tables."""
        raise UnsupportedError(
            f'Hudi itself has to commit to "{self._storage.root}"; open it with zskip.table in a Spark session that '
            "has loaded Hudi's bundle. Nothing was written"
        )

    def check_appendable(self, *, overwrites: bool = False) -> None:
        """Raise UnsupportedError: Hudi's own writer knows the record keys of new rows."""
        raise UnsupportedError(
            f'zskip does not append to the Hudi table "{self._storage.root}"; append with Hudi itself, as in '
            'df.write.format("hudi").mode("append"), and let maintain() put the new rows in order. Nothing was written'
        )

    def find_remains(self, staging_directory: str) -> list[str] | None:
        """No files, or None while the commit is pending, which Hudi rolls back."""
        try:
            instant = self._storage.read(f"{self.home}{staging_directory.removeprefix(HOME)}/{NOTE}").decode()
        except FileNotFoundError:
            instant = ""
        return None if instant in read_timeline(self._storage).pending else []

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """The version and info of zskip's latest rewrite among the newest commits."""
        table = self._open()
        with _translating_errors(self._storage.root):
            timeline = table.get_timeline()
            for instant in [i for i in _completed(table) if i.action not in ("commit", "deltacommit")][:_MOST_COMMITS]:
                extra = json.loads(timeline.get_instant_metadata_in_json(instant)).get("extraMetadata") or {}
                if INFO_KEY in extra:
                    return int(instant.timestamp), json.loads(extra[INFO_KEY])
        return None


def _completed(table: HudiTable) -> list[HudiInstant]:
    """All completed commits that are not archived, newest first."""
    timeline = table.get_timeline()
    instants = {
        instant.timestamp: instant
        for instant in (
            *timeline.get_completed_commits(),
            *timeline.get_completed_deltacommits(),
            *timeline.get_completed_replacecommits(),
            *timeline.get_completed_clustering_commits(),
        )
    }
    for timestamp in instants:
        if not _INSTANT.fullmatch(timestamp):
            raise UnsupportedError(
                f'"{table.base_url}" has the instant "{timestamp}", which Hudi would not write; restore the timeline'
            )
    return [instants[timestamp] for timestamp in sorted(instants, reverse=True)]


def _rows_written(commits: Iterator[Mapping[str, Any]], live: frozenset[str]) -> dict[str, int]:
    """Rows of live base files by path, as far as the commits that wrote them record them."""
    rows: dict[str, int] = {}
    for commit in commits:
        for files in (commit.get("partitionToWriteStats") or {}).values():
            for stats in files:
                if stats.get("path") in live and not stats.get("totalWriteErrors"):
                    rows[stats["path"]] = int(stats.get("numWrites", -1))
        if len(rows) == len(live):
            break
    return rows


def _file_groups(commit: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    written = commit.get("partitionToWriteStats") or {}
    replaced = commit.get("partitionToReplaceFileIds") or {}
    groups = {(partition, str(file.get("fileId"))) for partition, files in written.items() for file in files}
    return frozenset(groups | {(partition, group) for partition, ids in replaced.items() for group in ids})


def _avro_schema(table: HudiTable, options: Mapping[str, str]) -> str:
    if options.get("hoodie.populate.meta.fields", "true").lower() == "false":
        return str(table.get_schema_in_avro_str())
    return str(table.get_schema_in_avro_str_with_meta_fields())


def _check_slices(root: str, slices: Sequence[HudiFileSlice]) -> None:
    for each in slices:
        if not each.base_file_name:
            raise UnsupportedError(
                f'the Hudi table "{root}" has rows in log files alone ("{each.log_file_names[0]}"), which zskip does '
                "not read; compact it with CALL run_compaction. Nothing was written"
            )


def _uri(root: str) -> str:
    """The table's root in the `hudi` package's form; raises UnsupportedError for roots that it cannot reach."""
    location = normalize_location(root)
    if location.startswith("hdfs:"):
        raise UnsupportedError(f'the package hudi does not reach HDFS, where "{root}" lies; use Hudi itself')
    return location if "://" in location else "file://" + quote(location)


@contextlib.contextmanager
def _translating_errors(root: str) -> Iterator[None]:
    """Raise the package's errors about a table as zskip's errors."""
    try:
        yield
    except ZskipError:
        raise
    except Exception as error:
        raise StorageError(
            f'cannot read the timeline of the Hudi table "{root}" ({first_line(error)}); restore it, or read the table '
            "with Hudi itself"
        ) from error
    except BaseException as error:
        # The package panics in Rust on some types, such as timestamps without a time zone.
        if type(error).__name__ != "PanicException":
            raise
        raise UnsupportedError(
            f'the package hudi cannot read the Hudi table "{root}" ({first_line(error)}), most likely for the type of '
            "a column; read it with Hudi itself. Nothing was written"
        ) from error
