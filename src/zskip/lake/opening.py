"""Open a lake; the function imports what it needs, so that `import zskip` takes no time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zskip.errors import public
from zskip.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@public
def lake(spark: SparkSession | None, *tables: str, exclude: Sequence[str] | str = ()) -> Lake:
    """Open many tables at once, to survey them and to maintain them under one budget.

    A table that is named twice counts once. A part of the lake that cannot be reached becomes a line with its error in
    the survey.

    Args:
        spark: The session; None for paths on a disk, in stores and on HDFS, if you only need `survey`, `record`,
            `report` and dry runs of `maintain`.
        *tables: Directories (every table in or below one: Parquet, Delta, Iceberg, Hudi), globs of directories such as
            "s3a://bucket/lake/*/raw", and names in the catalogs of a classic session: "sales.*", "catalog.db.*",
            "db.table".
        exclude: Patterns of names and paths to leave out.

    Raises:
        TableNotFoundError: A pattern matches nothing; the message has the nearest names.
        InputError: An argument is no pattern.
        UnsupportedError: Spark is too old.
        StorageError: Nothing can be reached.
    """
    from zskip.errors import InputError
    from zskip.lake.find import find_tables
    from zskip.table.handle import classic

    patterns = [exclude] if isinstance(exclude, str) else list(exclude)
    wrong = [text for text in (*tables, *patterns) if not isinstance(text, str) or not text.strip()]
    if wrong or not tables:
        what = f"{wrong[0]!r} is not a pattern" if wrong else "it names no table"
        raise InputError(f'{what}; give directories such as "/lake", or names such as "sales.*"')
    session = classic(spark)
    if session is not None:
        from zskip.spark.jvm.compat import check_session

        check_session(session)
    return Lake(spark, tables, patterns, find_tables(spark, tables, patterns))
