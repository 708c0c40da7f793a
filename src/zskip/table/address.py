"""What a user calls a table: a path, or the name of a table, whose catalog says where it lies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from zskip.errors import InputError, UnsupportedError, ZskipError
from zskip.formats import check_name
from zskip.formats.iceberg.catalog import IcebergCatalog, PyIcebergCatalog, load_configured_catalog
from zskip.storage import Storage
from zskip.table.handle import Handle, storage_at

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession

_IN_SESSION = re.compile(r"(?:`(?:[^`]|``)+`|[^\s./:\\`]+)(?:\.(?:`(?:[^`]|``)+`|[^\s./:\\`]+)){0,2}")
_NAME = re.compile(r"[^\s./:\\]+(?:\.[^\s./:\\]+){2,}")


def find(
    path: str | IcebergTable,
    spark: SparkSession | None,
    index_storage: Storage | None,
    format_name: str | None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Handle:
    """Open what lies at a path or, where no directory is called so, the table of that name in a catalog.

    options: of the object store where the table lies.

    Raises InputError and StorageError where a catalog cannot be opened, TableNotFoundError where it has no such table,
    and UnsupportedError where it is none for zskip.
    """
    check_name(format_name)
    if not isinstance(path, str):
        return in_catalog(PyIcebergCatalog.of(path), spark, index_storage, options)
    named = format_name in (None, "iceberg") and _NAME.fullmatch(path) is not None
    storage = storage_at(path, spark, {} if named else options)
    if named and storage.stat("") is None:
        catalog = find_catalog(path, spark)
        if catalog is not None:
            return in_catalog(catalog, spark, index_storage, options)
    if spark is not None and _IN_SESSION.fullmatch(path) and storage.stat("") is None:
        found = _in_session(path, spark, index_storage, format_name)
        if found is not None:
            return found
    return Handle(storage, spark, index_storage, format_name)


def _in_session(
    name: str, spark: SparkSession, index_storage: Storage | None, format_name: str | None
) -> Handle | None:
    """The table of a name in the session's catalogs; None where there is none."""
    from zskip.spark.jvm.catalog import check_partitions, find_named_table, is_missing, split_name

    parts = split_name(spark, name)
    try:
        named = find_named_table(spark, parts)
    except ZskipError:
        raise
    except Exception as error:  # the session's parser and catalogs raise what they like
        if not parts or is_missing(error):
            return None
        said = str(error).strip().splitlines()[0]
        raise UnsupportedError(f'"{name}" cannot be a table of zskip: {said}') from error
    if format_name not in (None, named.format_name or "parquet"):
        raise InputError(f'"{name}" is a table of the format {named.format_name or "parquet"}, not {format_name}')
    handle = Handle(storage_at(named.root, spark), spark, index_storage, named.format_name, named=named)
    check_partitions(spark, named, handle.format.snapshot())
    return handle


@contextmanager
def new_place(into: str | None, handle: Handle) -> Iterator[str | None]:
    """The path of a table that is made from another one, which the catalog is told of once it is there.

    into: its path, or a name like "db.t".

    Raises InputError for the name of a table that exists, or of another catalog than the session's own.
    """
    spark = handle.spark
    if into is None or spark is None or "." not in into or not _IN_SESSION.fullmatch(into):
        yield into
        return
    from zskip.spark.jvm.catalog import create_statement, default_path, register_table, split_name

    parts = split_name(spark, into)
    root = None if storage_at(into, spark).stat("") is not None else default_path(spark, parts)
    if root is None:
        yield into
        return
    creation = create_statement(spark, parts, root, handle.named)
    yield storage_at(root, spark).root
    register_table(spark, parts, creation)


def find_catalog(name: str, spark: SparkSession | None) -> IcebergCatalog | None:
    """The catalog of an Iceberg table's name, "catalog.db.table"; None where it is no such name.

    The session's own catalogs come first. Raises StorageError where such a one is down.
    """
    if not _NAME.fullmatch(name):
        return None
    configured = load_configured_catalog(name)
    if spark is None:
        return configured
    from zskip.spark.engines import session_catalog

    own = session_catalog(spark, name)
    return configured if own is None or (configured is not None and not own.exists()) else own


def in_catalog(
    catalog: IcebergCatalog,
    spark: SparkSession | None,
    index_storage: Storage | None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Handle:
    """Open the table where its catalog says that it lies; raises InputError where only Spark reaches that."""
    root = catalog.current().root
    try:
        storage = storage_at(root, spark, options if "://" in root else {})
    except InputError as error:
        raise InputError(f'the Iceberg table "{catalog.table}" cannot be opened: {error}') from error
    return Handle(storage, spark, index_storage, "iceberg", catalog)
