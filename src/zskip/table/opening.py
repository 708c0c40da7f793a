"""Open a table: with a Spark session, or without one for what needs only files.

Each function imports what it needs, so that `import zskip` and `zskip --help` take no time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from zskip.table.table import Table

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession


def table(
    spark: SparkSession,
    path: str | IcebergTable,
    *,
    index_path: str | None = None,
    format: str | None = None,
) -> Table:
    """Open a table through a Spark session; `path` may be anything that Hadoop's file systems reach.

    path: also a `pyiceberg.table.Table`, or, if there is no directory of that name, the name of a table in the
    session's catalogs, "db.table" or "catalog.db.table" (Hive's and Spark's own, whose sizes and partitions stay
    correct; Iceberg's, also those of pyiceberg). index_path: a directory for the index of a read-only table; pass it
    whenever you open the table. Using a directory that holds the index of another table raises InputError. format:
    "parquet", "delta", "iceberg" or "hudi"; detected by default. With Spark Connect this process must reach the table
    as `open` does: `df(where=...)`, `files`, `explain`, `info` and `index` work, the rest raises UnsupportedError.
    """
    from zskip.table.address import resolve_address
    from zskip.table.read.spark_connect import is_connected

    if is_connected(spark):
        handle = open(path, index_path=index_path, format=format)._handle
        connected = Table(dataclasses.replace(handle, connected=spark))
        if isinstance(path, str) and "://" in path:
            connected._root = path.rstrip("/")
        return connected
    from zskip.spark.jvm.hadoop import storage_for

    index_storage = None if index_path is None else storage_for(spark, index_path)
    return Table(resolve_address(path, spark, index_storage, format))


def open(
    path: str | IcebergTable,
    *,
    index_path: str | None = None,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Open a table without Spark, on a disk or in a store, for `index`, `files`, `prune`, `info`, `clean` and the like.

    path: a directory; `s3://`, `gs://` or `abfss://` with a bucket, which needs `zskip[stores]`;
    `hdfs://host:port/path`, which needs `zskip[hdfs]`; or the name or object of an Iceberg table, from pyiceberg's
    catalogs only; index_path, format: as in `table`; storage_options: how to reach the object store, with the keys of
    deltalake and Polars, such as `aws_access_key_id`, `aws_region` or `aws_endpoint_url`, or Hadoop's settings for
    HDFS; the rest comes from the environment, on HDFS from the files in HADOOP_CONF_DIR.

    Raises InputError for invalid arguments and MissingDependencyError for missing packages. Nothing contacts the store
    before the first use of the table.
    """
    from zskip.errors import InputError
    from zskip.storage import check_options, is_remote, storage_for
    from zskip.table.address import resolve_address

    if index_path == "":
        raise InputError("index_path is empty; give a directory, or leave it out to keep the index in the table")
    options = check_options(storage_options)
    index_storage = None
    if index_path is not None:
        index_storage = storage_for(index_path, options if is_remote(index_path) else {})
    return Table(resolve_address(path, None, index_storage, format, options))
