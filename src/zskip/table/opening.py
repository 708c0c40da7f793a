"""Open a table: with a Spark session, or without one for what needs only files; or make one of a DataFrame.

Each function imports what it needs, so that `import zskip` and `zskip --help` take no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zskip.errors import public
from zskip.table.table import Table

if TYPE_CHECKING:
    from os import PathLike

    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import DataFrame, SparkSession

    from zskip.records import WriteResult
    from zskip.table.optimize_request import Given


@public
def table(
    spark: SparkSession,
    path: str | IcebergTable,
    *,
    index_path: str | None = None,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Open a table through a Spark session.

    Under Spark Connect, this process and the executors must reach the table, as `zskip.open` does.

    Args:
        spark: The session.
        path: Directory on anything that Hadoop's file systems reach, a `pyiceberg.table.Table`, or the name of a table
            in the session's catalogs, "db.table" or "catalog.db.table", if no directory has that name. Catalogs may be
            Hive's, Spark's own, Iceberg's and those of pyiceberg; zskip keeps sizes and partitions in Hive's and
            Spark's correct.
        index_path: Directory for the index of a read-only table. Pass it whenever you open the table.
        format: "parquet", "delta", "iceberg" or "hudi"; detected by default.
        storage_options: Spark Connect: how this process and the executors reach the store, as in `zskip.open`. A
            classic session reaches it by the settings of Hadoop.

    Raises:
        InputError: An argument is invalid, or `index_path` holds the index of another table.
    """
    from zskip.errors import InputError
    from zskip.table.address import resolve_address
    from zskip.table.handle import classic

    if classic(spark) is None:
        opened = open(path, index_path=index_path, format=format, storage_options=storage_options)
        return Table(opened._handle.attach(spark, path))
    if storage_options is not None:
        raise InputError(
            "storage_options are for Spark Connect; a classic session reaches stores by its Hadoop settings, such as "
            "spark.hadoop.fs.s3a.endpoint. Leave them out"
        )
    from zskip.spark.jvm.hadoop import storage_for

    index_storage = None if index_path is None else storage_for(spark, index_path)
    return Table(resolve_address(path, spark, index_storage, format))


@public
def open(
    path: str | IcebergTable,
    *,
    index_path: str | None = None,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Open a table without Spark, on a disk or in a store, for `index`, `files`, `info`, `clean` and the like.

    Nothing contacts the store before the first use of the table.

    Args:
        path: Directory; `s3://`, `gs://` or `abfss://` with a bucket (needs `zskip[stores]`); `hdfs://host:port/path`
            (needs `zskip[hdfs]`); or the name or object of an Iceberg table in a catalog of pyiceberg.
        index_path: As in `zskip.table`.
        format: As in `zskip.table`.
        storage_options: How to reach the store, with the keys of deltalake and Polars, such as `aws_access_key_id`,
            `aws_region` or `aws_endpoint_url`; for HDFS, Hadoop's settings. The rest comes from the environment, or on
            HDFS from the files in HADOOP_CONF_DIR.

    Raises:
        InputError: An argument is invalid.
        MissingDependencyError: A package is missing.
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


@public
def write(
    df: DataFrame,
    target: str | PathLike[str],
    *,
    by: Sequence[str] | str,
    curve: str = "zorder",
    files: int | None = None,
    target_file_size: int | str | None = None,
    partition_by: Sequence[str] | str = (),
    format: str = "parquet",
    mode: str = "error",
    branch: str | None = None,
    workload: Given = None,
    unseen: float = 0.2,
    compression: str = "zstd",
    seed: int = 0,
) -> WriteResult:
    """Write a DataFrame as a clustered and indexed table, in one pass.

    The plan of the DataFrame runs once: its rows wait on Spark's local disks while a sample chooses the layout. With
    `partition_by` it runs once more, to count the rows of each partition; persist the DataFrame first (`df.persist()`)
    if it is slow or gives other rows each time.

    A new table appears whole or not at all. An existing one stays as it is until the commit. If you overwrite a Delta
    or Iceberg table, or one with a name, it keeps its columns and partition columns; a directory of Parquet files takes
    those of the DataFrame.

    Args:
        df: The rows.
        target: Path, or a name in the session's catalogs, "db.table" or "catalog.db.table".
        by: 2 to 32 columns that queries filter on (one is enough for curve="linear").
        curve: As in `Table.optimize`.
        files: As in `Table.optimize`.
        target_file_size: As in `Table.optimize`.
        partition_by: Columns that become Hive partitions, or partition fields of Iceberg such as "days(ts)",
            "bucket(16, id)" or "truncate(4, name)".
        format: "parquet", "delta" (with deltalake, no jar) or "iceberg" (by a name in a catalog).
        mode: "error" refuses a target that exists, "append" adds the rows by the table's own layout, "overwrite"
            replaces all rows in one commit.
        branch: As in `Table.append`.
        workload: File of queries to fit the layout to, one a line or as JSON. Also a list, as in `Table.advise`.
        unseen: As in `Table.optimize`.
        compression: Codec of the files, such as "zstd", "zstd:3" or "snappy".
        seed: As in `Table.optimize`.

    Raises:
        InputError: An argument is invalid, or the DataFrame has no rows or columns, is a stream, or reads the table
            that it would overwrite.
        ColumnError: A column is missing, doubled, of another type, or without an order.
        UnsupportedError: Hudi, Spark Connect, or something that the format cannot hold.
        ConflictError: Rows or columns changed at the same time.

    After an error the target is as it was.
    """
    from zskip.table.optimize_request import check_request
    from zskip.table.write.write import write as write_table

    request = check_request(
        by=by,
        curve=curve,
        files=files,
        target_file_size=target_file_size,
        sampling="reservoir",
        seed=seed,
        compression=compression,
        workload=workload,
        unseen=unseen,
    )
    return write_table(df, target, request, format_name=format, mode=mode, partition_by=partition_by, branch=branch)
