"""All rows of a table, read without zskip's index."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from zskip.errors import UnsupportedError, ZskipWarning
from zskip.table.handle import Handle
from zskip.table.snapshot import read_table_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read_all_rows(handle: Handle) -> DataFrame:
    """Open the live files; neither an index nor statistics leave any out."""
    from zskip.spark.engines import read_whole
    from zskip.spark.scan.relation import scan

    spark = handle.need_spark("this")
    if handle.format.name == "parquet":
        return spark.read.parquet(handle.storage.root)
    schema = read_table_schema(handle)
    if handle.catalog is not None and schema.snapshot.reader is not None:
        return read_by_name(handle)
    frame = read_whole(spark, handle.format.name, schema.snapshot)
    return scan(spark, schema) if frame is None else frame


def read_by_engine(handle: Handle, reason: UnsupportedError) -> DataFrame:
    """Open the table with the format's own reader in the session, which then does the skipping.

    reason: why zskip does not read the table itself; raised where the session has no such reader.
    """
    if handle.catalog is None or not handle.catalog.in_session:
        raise reason
    name = handle.catalog.table
    warnings.warn(f'Iceberg itself reads "{name}", without the index of zskip: {reason}', ZskipWarning, stacklevel=4)
    return read_by_name(handle)


def read_by_name(handle: Handle) -> DataFrame:
    """Open a table of the session's Iceberg catalogs with Iceberg's own reader."""
    assert handle.catalog is not None, "it has a name"
    name = handle.catalog.table
    return handle.need_spark("df()").table(".".join(f"`{part}`" for part in name.split(".")))
