"""What a user calls a table: a path, or a name that a catalog resolves to its location."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from zskip.errors import InputError, MissingDependencyError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats import CATALOG_FORMAT, DEFAULT_FORMAT, check_name
from zskip.formats.iceberg.catalog import IcebergCatalog, PyIcebergCatalog, load_configured_catalog
from zskip.storage import Storage
from zskip.table.handle import Handle, storage_at

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession

_PART, _CATALOG_PART = r"(?:`(?:[^`]|``)+`|[^\s./:\\`]+)", r"[^\s./:\\]+"
_SESSION_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")
_CATALOG_NAME = re.compile(rf"{_CATALOG_PART}(?:\.{_CATALOG_PART}){{2,}}")
_BRANCH = "branch_"
_VERSION = re.compile(r"(?:tag|snapshot_id|at_timestamp)_.+|(?i:changes|rewrite)")
"""The last parts of names by which Spark reads other versions of an Iceberg table than the branches `branch_...`."""
_DELTA_VERSION = re.compile(r"(.+)@(?:v\d+|\d{17})/*")
"""A path by which Delta reads an older version, by its number or time, where there is no such directory."""


def resolve_address(
    path: str | IcebergTable,
    spark: SparkSession | None,
    index_storage: Storage | None,
    format_name: str | None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Handle:
    """Open the table at a path or, where there is no such directory, the table of that name in a catalog.

    options: of the object store where the table lies.

    Raises InputError and StorageError where a catalog cannot be opened, TableNotFoundError where it has no such table,
    and UnsupportedError for a table that zskip cannot work on, and for a version that is no branch.
    """
    check_name(format_name)
    if not isinstance(path, str):
        return open_in_catalog(PyIcebergCatalog.of(path), spark, index_storage, options)
    parts = name_parts(path, spark)
    if parts and storage_at(path, spark).stat("") is None:
        handle = open_name(parts, spark, index_storage, format_name, options)
        if handle is not None:
            return handle
    return open_path(path, spark, index_storage, format_name, {} if parts else options)


def is_session_name(text: str) -> bool:
    """Whether a text can be the name of a table in the session's catalogs."""
    return _SESSION_NAME.fullmatch(text) is not None


def name_parts(text: str, spark: SparkSession | None) -> tuple[str, ...]:
    """The parts of what may be the name of a table in a catalog; empty for other texts."""
    parts: tuple[str, ...] = ()
    if spark is not None and is_session_name(text):
        from zskip.spark.jvm.catalog import split_name

        parts = split_name(spark, text)
    return parts or (tuple(text.split(".")) if _CATALOG_NAME.fullmatch(text) else ())


def open_path(
    path: str,
    spark: SparkSession | None,
    index_storage: Storage | None,
    format_name: str | None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Handle:
    """Open the table in a directory; raises UnsupportedError for a path that is a version of a Delta table."""
    storage, version = storage_at(path, spark, options), _DELTA_VERSION.fullmatch(path)
    if version is not None and storage.stat("") is None and storage_at(version[1], spark, options).is_dir("_delta_log"):
        raise UnsupportedError(
            f'"{path}" is an older version of the Delta table "{version[1]}", and zskip works on the newest; read '
            f'it with spark.read.format("delta").load("{path}"), or open "{version[1]}". Nothing was written'
        )
    return Handle(storage, spark, index_storage, format_name)


def open_name(
    parts: Sequence[str],
    spark: SparkSession | None,
    index_storage: Storage | None = None,
    format_name: str | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Handle | None:
    """Open the table of a name in a catalog of the session's or pyiceberg's; None where there is none.

    Each way to name a table comes by here. Raises as `resolve_address` does.
    """
    if format_name in (None, CATALOG_FORMAT):
        catalog = find_catalog(parts, spark)
        if catalog is not None:
            return open_in_catalog(catalog, spark, index_storage, options)
    return None if spark is None else _open_in_session(parts, spark, index_storage, format_name)


def _open_in_session(
    parts: Sequence[str], spark: SparkSession, index_storage: Storage | None, format_name: str | None
) -> Handle | None:
    """Open the table of a name in the session's other catalogs; None where there is none."""
    from zskip.spark.jvm.catalog import check_partitions, find_named_table, is_missing

    name = ".".join(parts)
    try:
        table = find_named_table(spark, tuple(parts))
    except ZskipError:
        raise
    except Exception as error:  # the session's parser and catalogs raise what they like
        if is_missing(error):
            return None
        reason = str(error).strip().splitlines()[0]
        raise UnsupportedError(f'"{name}" cannot be opened: {reason}') from error
    actual = table.format_name or DEFAULT_FORMAT
    if format_name not in (None, actual):
        raise InputError(f'"{name}" is a table of the format {actual}, not {format_name}')
    handle = Handle(storage_at(table.root, spark), spark, index_storage, table.format_name, catalog_table=table)
    check_partitions(spark, table, handle.format.snapshot)
    return handle


def find_catalog(
    parts: Sequence[str], spark: SparkSession | None, *, may_be_new: bool = False
) -> IcebergCatalog | None:
    """Find the catalog of an Iceberg table by the parts of its name; None for names of other tables.

    may_be_new: whether the catalog may have to make it. The session's own catalogs come first. Raises StorageError
    where the catalog is down.
    """
    if not parts or any("." in part for part in parts):
        return None
    configured = load_configured_catalog(".".join(parts)) if len(parts) > 2 else None
    if spark is None:
        return configured
    from zskip.spark.formats import session_catalog
    from zskip.spark.jvm.catalog import DEFAULT_CATALOG, qualified_name

    full_name = qualified_name(spark, parts)
    # A short name may be a path, and the session's default catalog has tables of other formats.
    may_be_other = not may_be_new and (len(parts) < 3 or full_name[0] == DEFAULT_CATALOG)
    may_be_other = may_be_other or configured is not None
    try:
        own = session_catalog(spark, ".".join(full_name))
    except MissingDependencyError:
        if not may_be_other:
            raise
        own = None
    if own is None:
        return configured
    return configured if may_be_other and not own.exists() else own


def open_in_catalog(
    catalog: IcebergCatalog,
    spark: SparkSession | None,
    index_storage: Storage | None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Handle:
    """Open a table, or a branch of one, at the location that its catalog gives.

    Raises InputError where only Spark reaches that, and UnsupportedError for a version that is no branch.
    """
    try:
        root = catalog.current().root
    except TableNotFoundError:
        handle = _open_version(catalog, spark, index_storage, options)
        if handle is None:
            raise
        return handle
    try:
        storage = storage_at(root, spark, options if "://" in root else {})
    except InputError as error:
        raise InputError(f'the Iceberg table "{catalog.table}" cannot be opened: {error}') from error
    return Handle(storage, spark, index_storage, CATALOG_FORMAT, catalog)


def _open_version(
    catalog: IcebergCatalog, spark: SparkSession | None, index_storage: Storage | None, options: Mapping[str, str]
) -> Handle | None:
    """Open a branch by a name such as "catalog.db.t.branch_x"; None for a name of no version of a table."""
    name, _, version = catalog.table.rpartition(".")
    is_branch = version.startswith(_BRANCH)
    if "." not in name or not (is_branch or _VERSION.fullmatch(version)):
        return None
    try:
        catalog.above().current()
    except TableNotFoundError:
        return None
    if not is_branch:
        raise UnsupportedError(
            f'"{version}" of the Iceberg table "{name}" is a version that zskip neither reads nor writes; read it with '
            f'spark.table("{catalog.table}"), or name the table or a branch ("{name}.branch_...") instead. '
            "Nothing was written"
        )
    return open_in_catalog(catalog.above(), spark, index_storage, options).on_branch(version.removeprefix(_BRANCH))
