"""What a user calls a table: a path, or the name or object of an Iceberg table, whose catalog says where it lies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from zskip.errors import InputError
from zskip.formats import check_name
from zskip.formats.iceberg.catalog import IcebergCatalog, PyIcebergCatalog, configured_catalog
from zskip.storage import Storage
from zskip.table.handle import Handle, storage_at

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession

_NAME = re.compile(r"[^\s./:\\]+(?:\.[^\s./:\\]+){2,}")


def find(
    path: str | IcebergTable,
    spark: SparkSession | None,
    index_storage: Storage | None,
    format_name: str | None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Handle:
    """Open what lies at a path or, where no directory is called so, the Iceberg table of that name.

    options: of the object store where the table lies.

    Raises InputError and StorageError where a catalog cannot be opened, TableNotFoundError where it has no such table.
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
    return Handle(storage, spark, index_storage, format_name)


def find_catalog(name: str, spark: SparkSession | None) -> IcebergCatalog | None:
    """The catalog of an Iceberg table's name, "catalog.db.table"; None where it is no such name.

    The session's own catalogs come first. Raises StorageError where such a one is down.
    """
    if not _NAME.fullmatch(name):
        return None
    configured = configured_catalog(name)
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
