"""The true statistics of files, counted by Spark: rows, nulls, NaN and bounds, in one aggregation by file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from zskip.errors import ConflictError
from zskip.index import CountedColumn
from zskip.records import Ints
from zskip.spark.forms import form_sql, free_name, quote_identifier
from zskip.spark.jobs import describe_jobs
from zskip.spark.jvm import compat
from zskip.types import DataType, Form, encode_decimal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Path = tuple[str, ...]
PREFIX_BYTES = 65
"""Leading bytes of strings: one more than the index's bounds have, enough to compare with those."""
_AUTHORITY = re.compile(r"^[A-Za-z][\w+.-]*:(?://[^/]*)?")
_COLUMNS_PER_JOB = 100
_FILE = "zskip_file"


class FilePositions:
    """Finds the files of a snapshot by the names that Spark gives them."""

    def __init__(self, uris: Sequence[str]) -> None:
        """uris: of the files in the snapshot's order, as the table's storage writes them."""
        self._positions = {_AUTHORITY.sub("", uri): i for i, uri in enumerate(uris)}

    def __len__(self) -> int:
        return len(self._positions)

    def find(self, name: str) -> int:
        """The index of a file by its `input_file_name()`; raises ConflictError for a file that is new."""
        position = self._positions.get(_AUTHORITY.sub("", unquote(name)))
        if position is None:
            raise ConflictError(f'another writer added "{name}" in the meantime; call again')
        return position


def number_rows(frame: DataFrame, positions: FilePositions, file: str, row: str) -> DataFrame:
    """Add the index of each row's file, and the number of the row in it.

    frame: a scan of files. First counts the rows of each part of a file that one task reads, to learn the files' names.
    The numbers are wrong where tasks do not read the parts of a file in their order.
    """
    from pyspark.sql import functions as F

    name, task, shift = (free_name(text, frame.columns) for text in (_FILE, "zskip_task", "zskip_shift"))
    added = {name: F.input_file_name(), task: F.spark_partition_id(), row: F.monotonically_increasing_id()}
    numbered = frame.withColumns(added)
    with describe_jobs(frame.sparkSession, "name the files"):
        counted = numbered.groupBy(name, task).agg(F.min(row).alias(row), F.count("*").alias("n"))
        parts = compat.collect_arrow(counted)
    rows: Counter[str] = Counter()
    shifts = []
    for part in sorted(parts.to_pylist(), key=lambda part: part[task]):
        uri = part[name]
        shifts.append((uri, part[task], positions.find(uri), rows[uri] - part[row]))
        rows[uri] += part["n"]
    schema = f"{name} string, {task} int, {file} int, {shift} bigint"
    shifted = compat.frame_of_rows(frame.sparkSession, shifts, schema)
    joined = numbered.join(F.broadcast(shifted), [name, task])
    return joined.withColumn(row, F.col(row) + F.col(shift)).drop(name, task, shift)


def aggregate_by_file(
    frame: DataFrame, sums: Mapping[str, str], positions: FilePositions, text: str
) -> tuple[Ints, pa.Table]:
    """Compute SQL aggregates over the rows of each file; returns the indices of files with rows, and a table.

    sums: from alias to aggregate; text: the name of the job.
    """
    from pyspark.sql import functions as F

    spark = frame.sparkSession
    # The settings of the active session decide what texts mean, and which types there are.
    with compat.active_session(spark):
        columns = [F.expr(sql).alias(name) for name, sql in sums.items()]
        aggregates = frame.groupBy(F.input_file_name().alias(_FILE)).agg(*columns)
    with describe_jobs(spark, text):
        table = compat.collect_arrow(aggregates)
    names = table[_FILE].to_pylist() if table.num_rows else []
    return np.array([positions.find(name) for name in names], np.int64), table


def count_values(
    frame: DataFrame,
    columns: Sequence[tuple[Path, DataType]],
    positions: FilePositions,
    text: str,
    check: Callable[[Collection[str]], None] = lambda texts: None,
) -> tuple[Ints, dict[Path, CountedColumn]]:
    """Count the rows of each file, and the nulls, NaN and bounds of some columns of orderable types.

    frame: rows of the table's files, without joins or caching; check: refuses SQL that means something else in the
    frame's session. Reads these columns only, in one job per hundred.
    """
    rows = np.zeros(len(positions), np.int64)
    counted: dict[Path, CountedColumn] = {}
    for batch in _batches(columns):
        sums = {"rows": "count(1)"}
        for i, (path, data_type) in enumerate(batch):
            sums |= _sums(i, ".".join(map(quote_identifier, path)), data_type)
        check(sums.values())
        files, table = aggregate_by_file(frame, sums, positions, text)
        if table.num_rows:
            rows[files] = table["rows"].to_numpy()
        counted |= {path: _read(table, i, data_type, files, rows) for i, (path, data_type) in enumerate(batch)}
    return rows, counted


def _batches(columns: Sequence[tuple[Path, DataType]]) -> Iterator[Sequence[tuple[Path, DataType]]]:
    for start in range(0, max(len(columns), 1), _COLUMNS_PER_JOB):
        yield columns[start : start + _COLUMNS_PER_JOB]


def _sums(i: int, column: str, data_type: DataType) -> dict[str, str]:
    value = exact_sql(column, data_type)
    sums = {f"count{i}": f"count({column})", f"min{i}": f"min({value})", f"max{i}": f"max({value})"}
    return sums | ({f"nans{i}": f"count_if(isnan({column}))"} if data_type.form is Form.FLOAT else {})


def exact_sql(column: str, data_type: DataType) -> str:
    """The values of a column in the form of its type as SQL, NaN as null; long decimals as they are.

    >>> exact_sql("x", DataType("float"))
    'CASE WHEN NOT isnan(x) THEN CAST(x AS DOUBLE) + 0.0D END'
    """
    if data_type.is_decimal and data_type.precision > 18:
        return column
    if data_type.form is Form.FLOAT:
        return f"CASE WHEN NOT isnan({column}) THEN CAST({column} AS DOUBLE) + 0.0D END"
    if data_type.form is Form.BYTES:
        return f"substring(CAST({column} AS BINARY), 1, {PREFIX_BYTES})"
    return form_sql(column, data_type)


def _read(table: pa.Table, i: int, data_type: DataType, files: Ints, rows: Ints) -> CountedColumn:
    form = data_type.form
    dtype: Any = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: np.object_}[cast(Form, form)]
    blank: Any = {Form.INT: 0, Form.FLOAT: 0.0, Form.BYTES: b""}[cast(Form, form)]
    ends = [np.full(len(rows), blank, dtype), np.full(len(rows), blank, dtype)]
    nulls, nans = rows.copy(), np.zeros(len(rows), np.int64)
    bounded = np.zeros(len(rows), np.bool_)
    if table.num_rows:
        nulls[files] -= table[f"count{i}"].to_numpy()
        if form is Form.FLOAT:
            nans[files] = table[f"nans{i}"].to_numpy()
        bounded[files] = table[f"min{i}"].is_valid().to_numpy()
        for end, name in zip(ends, (f"min{i}", f"max{i}"), strict=True):
            values = [blank if v is None else v for v in table[name].to_pylist()]
            if data_type.is_decimal and data_type.precision > 18:
                values = [v if isinstance(v, bytes) else _long_decimal(v, data_type) for v in values]
            for i_file, value in zip(files.tolist(), values, strict=True):
                end[i_file] = value
    return CountedColumn(type=data_type, nulls=nulls, nans=nans, lower=ends[0], upper=ends[1], bounded=bounded)


def _long_decimal(value: Any, data_type: DataType) -> Any:
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * 10 ** (exponent + data_type.scale)
    return encode_decimal(-unscaled if sign else unscaled, data_type)
