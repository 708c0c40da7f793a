"""Find the tables of a lake: below directories, by globs of paths, and by patterns of names in the session."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from zskip.errors import InputError, StorageError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats.hive import is_hidden
from zskip.formats.schema import first_line
from zskip.predicate.columns import name_parts
from zskip.storage import FileInfo, Storage, real_location
from zskip.table.address import resolve_address
from zskip.table.handle import Handle, classic, storage_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WILDCARD = re.compile(r"[*?\[]")
_MOST_LEVELS = 40
"""Directories within each other; deeper ones are a loop of links."""
_LISTINGS_AT_ONCE = 32
"""On a store, where each waits for its answer."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FoundTable:
    """A table that matches a pattern; `error` says why it cannot be opened."""

    name: str
    handle: Handle | None = None
    error: str = ""
    is_foreign: bool = False
    """Whether it is a view, or a table of another engine."""

    @property
    def location(self) -> str:
        """The same for all names of a directory."""
        return self.name if self.handle is None else real_location(self.handle.storage.root)


def find_tables(spark: SparkSession | None, patterns: Sequence[str], exclude: Sequence[str]) -> list[FoundTable]:
    """Find the tables that patterns name, each once, by its name in a catalog rather than by its path.

    Raises TableNotFoundError for a pattern that matches nothing, with the nearest names, InputError for what can be no
    pattern, and StorageError where nothing at all can be reached; a part that cannot be reached is a table with an
    error.
    """
    tables: dict[str, FoundTable] = {}
    for pattern in patterns:
        matches = _find_named(spark, pattern) if _is_name(pattern) else _find_at(spark, pattern)
        for table in matches:
            known = tables.get(table.location)
            if known is None or (_has_catalog(table) and not _has_catalog(known)):
                tables[table.location] = table
    kept = [table for table in tables.values() if not any(_is_excluded(table, pattern) for pattern in exclude)]
    if not kept:
        raise InputError(f"exclude={list(exclude)!r} leaves none of the {len(tables):,} tables")
    if all(table.error and not table.is_foreign and table.handle is None for table in kept):
        raise StorageError(f"no table can be reached: {kept[0].error}")
    return kept


def _has_catalog(table: FoundTable) -> bool:
    return table.handle is not None and (table.handle.catalog or table.handle.catalog_table) is not None


def _is_excluded(table: FoundTable, pattern: str) -> bool:
    """Whether a pattern matches the table's name, its last part, its path, or a directory above."""
    names = {table.name, re.split(r"[./]", table.name)[-1], table.location}
    names |= {name.replace("`", "").lower() for name in names}
    pattern = pattern.rstrip("/")
    return any(fnmatchcase(name, pattern) or fnmatchcase(name, pattern + "/*") for name in names)


def _is_name(pattern: str) -> bool:
    """Whether a pattern is of names, not of paths."""
    return (
        not re.search(r"[/\\~]", pattern.replace("``", ""))
        and pattern not in (".", "..")
        and not os.path.isdir(pattern)
    )


def _find_at(spark: SparkSession | None, pattern: str) -> list[FoundTable]:
    """Find the tables below a directory, or below those that a glob matches."""
    parts = pattern.rstrip("/").split("/")
    first = next((i for i, part in enumerate(parts) if _WILDCARD.search(part)), len(parts))
    base = "/".join(parts[:first]) or "/"
    try:
        storage = storage_at(base, spark)
        info = storage.stat("")
        if info is None or not info.is_dir:
            what = "is a file" if info is not None else "does not exist"
            raise TableNotFoundError(f'"{base}" {what}; give a directory of tables{_near_paths(base, spark)}')
        directories = _match_directories(storage, parts[first:])
    except StorageError as error:
        return [FoundTable(name=base, error=str(error))]
    if not directories:
        names = [entry.path for entry in storage.list_dir("") if entry.is_dir and not is_hidden(entry.path)]
        raise TableNotFoundError(f'no directory matches "{pattern}"{_near(parts[first], names)}')
    tables = [*_walk(storage, directories, spark)]
    if not tables:
        raise TableNotFoundError(
            f'there is no table of Parquet files, Delta, Iceberg or Hudi in or below "{pattern}"; give a directory '
            "of tables, or a table"
        )
    return sorted(tables, key=lambda table: table.name)


def _match_directories(storage: Storage, globs: Sequence[str]) -> list[str]:
    """The directories that match, level by level."""
    directories = [""]
    for glob in globs:
        entries = [entry for directory in directories for entry in storage.list_dir(directory) if entry.is_dir]
        directories = [
            entry.path
            for entry in entries
            if fnmatchcase(_name(entry), glob) and (not is_hidden(_name(entry)) or glob.startswith((".", "_")))
        ]
    return directories


def _name(entry: FileInfo) -> str:
    return entry.path.rpartition("/")[2]


def _walk(storage: Storage, directories: Sequence[str], spark: SparkSession | None) -> Iterator[FoundTable]:
    """Find tables level by level; a directory that is a table is not looked into."""

    def look(directory: str) -> tuple[FoundTable | None, list[str]]:
        try:
            is_table, below = _look_at(storage, directory)
        except ZskipError as error:
            return FoundTable(name=storage.uri(directory), error=str(error)), []
        if not is_table:
            return None, below
        return _open(storage.uri(directory), spark, is_path=True), below

    with ThreadPoolExecutor(1 if storage.kind == "disk" else _LISTINGS_AT_ONCE) as pool:
        for _ in range(_MOST_LEVELS):
            looks = list(pool.map(look, directories))
            yield from (table for table, _ in looks if table is not None)
            directories = [directory for _, below in looks for directory in below]


def _look_at(storage: Storage, directory: str) -> tuple[bool, list[str]]:
    """Whether a directory is a table, and the directories below that may hold others."""
    entries = storage.list_dir(directory)
    names = {_name(entry) for entry in entries if entry.is_dir}
    if names & {"_delta_log", ".hoodie"}:
        return True, []
    if "metadata" in names:
        metadata = storage.list_dir(f"{directory}/metadata" if directory else "metadata")
        if any(_name(file).endswith((".metadata.json", "version-hint.text")) for file in metadata):
            return True, []
    visible = [entry for entry in entries if not is_hidden(_name(entry))]
    below = [entry.path for entry in visible if entry.is_dir]
    if any(_is_data(entry) for entry in visible):
        # Other directories beside its files may be tables of their own.
        return True, [path for path in below if "=" not in path.rpartition("/")[2]]
    if below and all("=" in path.rpartition("/")[2] for path in below):
        return any(_holds_data(storage, path, _MOST_LEVELS) for path in below), []
    return False, below


def _is_data(entry: FileInfo) -> bool:
    return not entry.is_dir and entry.size > 0 and (entry.path.endswith(".parquet") or ".parquet." in _name(entry))


def _holds_data(storage: Storage, directory: str, levels: int) -> bool:
    """Whether a partition holds Parquet files, by the first that it has."""
    entries = [entry for entry in storage.list_dir(directory) if not is_hidden(_name(entry))]
    if any(_is_data(entry) for entry in entries):
        return True
    return levels > 0 and any(_holds_data(storage, entry.path, levels - 1) for entry in entries if entry.is_dir)


def _open(name: str, spark: SparkSession | None, *, is_path: bool) -> FoundTable:
    try:
        if spark is not None and classic(spark) is None:
            return FoundTable(name=name, handle=Handle(storage_at(name, None), None).attach(spark, name))
        return FoundTable(
            name=name,
            handle=Handle(storage_at(name, spark), spark) if is_path else resolve_address(name, spark, None, None),
        )
    except ZskipError as error:
        is_foreign = not is_path and isinstance(error, UnsupportedError)
        return FoundTable(name=name, error=str(error), is_foreign=is_foreign)


def _find_named(spark: SparkSession | None, pattern: str) -> list[FoundTable]:
    """Find the tables of the session's catalogs whose names match."""
    parts = name_parts(pattern)
    if spark is None or classic(spark) is None:
        raise InputError(
            f'"{pattern}" is not a directory here, and names of tables need a classic session: zskip.lake(spark, '
            f'"{pattern}")'
        )
    if not 1 <= len(parts) <= 3 or not pattern.strip() or (len(parts) == 3 and _WILDCARD.search(parts[0])):
        raise InputError(
            f'"{pattern}" is not a pattern of tables; write "db.*", "catalog.db.*", a name, or a path with a slash'
        )
    return [_open(name, spark, is_path=False) for name in list(_match_names(spark, parts, pattern))]


def _match_names(spark: SparkSession, parts: Sequence[str], pattern: str) -> Iterator[str]:
    """The matching names as SQL text; raises TableNotFoundError with the nearest where none matches."""
    catalog = parts[:-2]
    prefix = "".join(f"{_quote(part)}." for part in catalog)
    name_pattern = parts[-2] if len(parts) > 1 else spark.catalog.currentDatabase()
    databases = _list(spark, f"SHOW NAMESPACES{f' IN {prefix[:-1]}' if prefix else ''}", lambda row: row[0], pattern)
    matching = [database for database in databases if fnmatchcase(database.lower(), name_pattern.lower())]
    if not matching:
        raise TableNotFoundError(f'no database matches "{name_pattern}" of "{pattern}"{_near(name_pattern, databases)}')
    names: list[str] = []
    has_match = False
    for database in matching:
        rows = _list(
            spark,
            f"SHOW TABLES IN {prefix}{_quote(database)}",
            lambda row: "" if row["isTemporary"] else row["tableName"],
            pattern,
        )
        for name in filter(None, rows):
            names.append(name)
            if fnmatchcase(name.lower(), parts[-1].lower()):
                has_match = True
                yield f"{prefix}{_quote(database)}.{_quote(name)}"
    if not has_match:
        raise TableNotFoundError(f'no table matches "{pattern}"{_near(parts[-1], names)}')


def _list(spark: SparkSession, statement: str, read: Callable[..., str], pattern: str) -> list[str]:
    try:
        return [read(row) for row in spark.sql(statement).collect()]
    except Exception as error:  # catalogs raise what they like
        raise StorageError(f'the catalog cannot list the tables of "{pattern}": {first_line(error)}') from error


def _quote(part: str) -> str:
    return part if re.fullmatch(r"\w+", part) else "`" + part.replace("`", "``") + "`"


def _near(name: str, names: Iterable[str]) -> str:
    """Name the nearest, to end an error."""
    known = sorted(set(names))
    near = difflib.get_close_matches(_WILDCARD.sub("", name), known, n=3, cutoff=0.4)
    if near:
        return "; did you mean " + " or ".join(f'"{one}"' for one in near) + "?"
    return f"; there are {', '.join(known[:10])}{' and more' * (len(known) > 10)}" if known else "; there is none"


def _near_paths(path: str, spark: SparkSession | None) -> str:
    """Name the directories beside one that does not exist."""
    parent, _, name = path.rpartition("/")
    try:
        beside = [_name(entry) for entry in storage_at(parent or ".", spark).list_dir("") if entry.is_dir]
    except (ZskipError, OSError):
        return ""
    near = difflib.get_close_matches(name, beside, n=2, cutoff=0.6)
    return "; did you mean " + " or ".join(f'"{parent}/{one}"' for one in near) + "?" if near else ""
