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
    """Open many tables at once: find them, to survey them and to maintain them under one budget.

    tables: directories (every table in or below one: Parquet, Delta, Iceberg, Hudi), globs of directories such as
    "s3a://bucket/lake/*/raw", and patterns of names in the session's catalogs: "sales.*", "catalog.db.*", "db.table".
    A table that is named twice counts once. exclude: patterns of names and paths to leave out. spark: None for what
    needs no Spark: paths on a disk, in stores and on HDFS; `survey`, `record`, `report`, and dry runs of `maintain`.

    Raises TableNotFoundError for what matches nothing, with the nearest names, InputError for what can be no pattern,
    UnsupportedError for Spark Connect, and StorageError where nothing can be reached; a part that cannot be reached
    is a line with its error in a survey.
    """
    from zskip.errors import InputError
    from zskip.lake.find import find_tables

    patterns = [exclude] if isinstance(exclude, str) else list(exclude)
    wrong = [text for text in (*tables, *patterns) if not isinstance(text, str) or not text.strip()]
    if wrong or not tables:
        what = f"{wrong[0]!r} is no pattern" if wrong else "it names no table"
        raise InputError(f'{what}; give directories such as "/lake", or names such as "sales.*"')
    if spark is not None:
        from zskip.spark.jvm.compat import check_session

        check_session(spark)
    return Lake(spark, tables, patterns, find_tables(spark, tables, patterns))
