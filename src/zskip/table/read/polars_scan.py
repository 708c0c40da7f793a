"""The rows of a plan in Polars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from zskip.errors import MissingDependencyError
from zskip.table.read.stored_columns import FILE, FileGroup, StoredColumn, StoredRows

try:
    import polars as pl
except ImportError as error:
    raise MissingDependencyError("to_polars() needs Polars; run: pip install polars") from error

_ROW = "__zskip_row"


def to_lazy_frame(rows: StoredRows) -> pl.LazyFrame:
    """The live rows of the files of a plan."""
    empty = cast(pl.DataFrame, pl.from_arrow(rows.schema.empty_table()))
    if not rows.groups:
        return empty.lazy()
    partitions = None if rows.partitions is None else cast(pl.DataFrame, pl.from_arrow(rows.partitions)).lazy()
    frames = []
    for group in rows.groups:
        columns = [_expression(column, empty.schema[column.name]) for column in group.columns]
        for frame in _read(group):
            if partitions is None:
                frames.append(frame.select(columns))
            else:
                with_file = frame.select(*columns, FILE)
                frames.append(with_file.join(partitions, on=FILE, how="inner").drop(FILE))
    return pl.concat(frames)


def _read(group: FileGroup) -> Iterator[pl.LazyFrame]:
    """The stored columns of files: of those without deleted rows at once, of others one by one, without these rows."""
    whole = [file for file in group.files if file not in group.deleted]
    if whole:
        yield pl.scan_parquet(whole, glob=False, hive_partitioning=False, include_file_paths=FILE)
    for file, rows in group.deleted.items():
        frame = pl.scan_parquet(file, glob=False, hive_partitioning=False, include_file_paths=FILE, row_index_name=_ROW)
        yield frame.filter(~pl.col(_ROW).is_in(pl.Series(rows).implode()))


def _expression(column: StoredColumn, kind: pl.DataType) -> pl.Expr:
    """What reads a column of the table from files."""
    if column.stored is None:
        return pl.lit(None, kind).alias(column.name)
    stored = pl.col(column.stored)
    if not column.is_zoned:
        stored = stored.dt.replace_time_zone("UTC")
    return stored.cast(kind).alias(column.name)
