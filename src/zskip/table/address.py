"""What a user calls a table: a path, or a name that a catalog resolves to its location."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from zskip.errors import InputError, UnsupportedError, ZskipError
from zskip.formats import CATALOG_FORMAT, DEFAULT_FORMAT, check_name
from zskip.formats.iceberg.catalog import IcebergCatalog, PyIcebergCatalog, load_configured_catalog
from zskip.storage import Storage
from zskip.table.handle import Handle, storage_at

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession

_SESSION_NAME = re.compile(r"(?:`(?:[^`]|``)+`|[^\s./:\\`]+)(?:\.(?:`(?:[^`]|``)+`|[^\s./:\\`]+)){0,2}")
_CATALOG_NAME = re.compile(r"[^\s./:\\]+(?:\.[^\s./:\\]+){2,}")


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
    and UnsupportedError for a table that zskip cannot work on.
    """
    check_name(format_name)
    if not isinstance(path, str):
        return open_in_catalog(PyIcebergCatalog.of(path), spark, index_storage, options)
    may_be_name = format_name in (None, CATALOG_FORMAT) and _CATALOG_NAME.fullmatch(path) is not None
    storage = storage_at(path, spark, {} if may_be_name else options)
    if may_be_name and storage.stat("") is None:
        catalog = find_catalog(path, spark)
        if catalog is not None:
            return open_in_catalog(catalog, spark, index_storage, options)
    if spark is not None and is_session_name(path) and storage.stat("") is None:
        handle = _open_in_session(path, spark, index_storage, format_name)
        if handle is not None:
            return handle
    return Handle(storage, spark, index_storage, format_name)


def is_session_name(text: str) -> bool:
    """Whether a text can be the name of a table in the session's catalogs."""
    return _SESSION_NAME.fullmatch(text) is not None


def _open_in_session(
    name: str, spark: SparkSession, index_storage: Storage | None, format_name: str | None
) -> Handle | None:
    """Open the table of a name in the session's catalogs; None where there is none."""
    from zskip.spark.jvm.catalog import check_partitions, find_named_table, is_missing, split_name

    parts = split_name(spark, name)
    try:
        table = find_named_table(spark, parts)
    except ZskipError:
        raise
    except Exception as error:  # the session's parser and catalogs raise what they like
        if not parts or is_missing(error):
            return None
        reason = str(error).strip().splitlines()[0]
        raise UnsupportedError(f'"{name}" cannot be a table of zskip: {reason}') from error
    actual = table.format_name or DEFAULT_FORMAT
    if format_name not in (None, actual):
        raise InputError(f'"{name}" is a table of the format {actual}, not {format_name}')
    handle = Handle(storage_at(table.root, spark), spark, index_storage, table.format_name, catalog_table=table)
    check_partitions(spark, table, handle.format.snapshot)
    return handle


def find_catalog(name: str, spark: SparkSession | None) -> IcebergCatalog | None:
    """Find the catalog of an Iceberg table named "catalog.db.table"; None for other names.

    The session's own catalogs come first. Raises StorageError where the catalog is down.
    """
    if not _CATALOG_NAME.fullmatch(name):
        return None
    configured = load_configured_catalog(name)
    if spark is None:
        return configured
    from zskip.spark.formats import session_catalog

    own = session_catalog(spark, name)
    return configured if own is None or (configured is not None and not own.exists()) else own


def open_in_catalog(
    catalog: IcebergCatalog,
    spark: SparkSession | None,
    index_storage: Storage | None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Handle:
    """Open a table at the location that its catalog gives; raises InputError where only Spark reaches that."""
    root = catalog.current().root
    try:
        storage = storage_at(root, spark, options if "://" in root else {})
    except InputError as error:
        raise InputError(f'the Iceberg table "{catalog.table}" cannot be opened: {error}') from error
    return Handle(storage, spark, index_storage, CATALOG_FORMAT, catalog)
