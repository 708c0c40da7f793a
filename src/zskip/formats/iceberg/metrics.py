"""Metrics of a new data file for its manifest: counts, and bounds as Iceberg truncates and encodes them.

Bounds come from the footer statistics that zskip trusts, so files of writers with wrong statistics get none.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import MetricModeTypes, StatisticsCollector, compute_statistics_plan
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DecimalType, FixedType, StringType, UUIDType
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

from zskip.formats.base import StagedFile
from zskip.formats.iceberg.values import leaves
from zskip.index import BoundIndex
from zskip.index.collect.footers import NAN_STATISTICS
from zskip.records import ALL_NULL, ColumnStats
from zskip.storage import Storage
from zskip.types import DataType, Encoded, Form, to_decimal

_COUNTED = (MetricModeTypes.COUNTS, MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)
_BOUNDED = (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)


def file_metrics(
    storage: Storage, files: Sequence[StagedFile], index: BoundIndex, schema: Schema, properties: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The counts, bounds and offsets of files, as fields of `pyiceberg.manifest.DataFile`.

    index: of the same files in the same order; properties: of the table, which choose each column's metrics.
    """
    plan = compute_statistics_plan(schema, dict(properties))
    columns = [(plan[field_id], index.column(path)) for path, field_id in leaves(schema.as_struct())]
    counted = [(c, stats) for c, stats in columns if stats is not None and c.mode.type in _COUNTED]
    rows = index.rows.tolist()
    metrics = []
    for i, file in enumerate(files):
        with storage.open(file.path) as stream:
            footer = pq.read_metadata(stream)
        with_nan: dict[str, Any] = json.loads((footer.metadata or {}).get(NAN_STATISTICS, b"{}"))
        metrics.append(_layout(footer, schema) | _statistics(rows[i], counted, i, with_nan))
    return metrics


def _layout(footer: pq.FileMetaData, schema: Schema) -> dict[str, Any]:
    """The offsets of row groups, and the size of each column."""
    ids = {".".join(path): field_id for path, field_id in leaves(schema.as_struct())}
    sizes: dict[int, int] = {}
    offsets = []
    for i in range(footer.num_row_groups):
        columns = [footer.row_group(i).column(j) for j in range(footer.num_columns)]
        first = columns[0]
        dictionary = first.dictionary_page_offset if first.has_dictionary_page else None
        offsets.append(first.data_page_offset if not dictionary else min(dictionary, first.data_page_offset))
        for column in columns:
            field_id = ids.get(column.path_in_schema)
            if field_id is not None:
                sizes[field_id] = sizes.get(field_id, 0) + column.total_compressed_size
    return {"column_sizes": sizes, "split_offsets": offsets}


def _statistics(
    rows: int, columns: Sequence[tuple[StatisticsCollector, ColumnStats]], file: int, with_nan: Collection[str]
) -> dict[str, Any]:
    """with_nan: columns that get no bounds: Iceberg ignores NaN there, and for Spark it is the greatest value."""
    metrics: dict[str, dict[int, Any]] = {
        name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    for collector, stats in columns:
        key = collector.field_id
        nulls = rows if stats.nulls[file] == ALL_NULL else int(stats.nulls[file])
        metrics["value_counts"][key] = rows
        if nulls >= 0:
            metrics["null_value_counts"][key] = nulls
        if stats.type.form is Form.FLOAT and not stats.may_nan[file]:
            metrics["nan_value_counts"][key] = 0
        is_bounded = stats.bounded[file] and nulls != rows and collector.column_name not in with_nan
        if collector.mode.type in _BOUNDED and is_bounded:
            lower = _bound(stats.lower[file], stats.type, collector, upper=False)
            upper = _bound(stats.upper[file], stats.type, collector, upper=True)
            if lower is not None and upper is not None:
                metrics["lower_bounds"][key], metrics["upper_bounds"][key] = lower, upper
    return {"record_count": rows, **metrics}


def _bound(value: Encoded, data_type: DataType, collector: StatisticsCollector, *, upper: bool) -> bytes | None:
    """A bound in a manifest's encoding; None if no bound is that short."""
    kind, length = collector.iceberg_type, collector.mode.length
    if isinstance(kind, DecimalType):
        with decimal.localcontext(decimal.Context(prec=80)):
            return to_bytes(kind, to_decimal(value, data_type))
    if isinstance(kind, StringType):
        try:
            text = bytes(value).decode()  # type: ignore[arg-type]
            cut = truncate_upper_bound_text_string(text, length) if upper else text[:length]
            return None if cut is None else cut.encode()
        except UnicodeError:  # Increasing a character may yield half of a surrogate pair.
            return None
    if isinstance(kind, BinaryType):
        data = bytes(value)  # type: ignore[arg-type]
        return truncate_upper_bound_binary_string(data, length) if upper else data[:length]
    if isinstance(kind, FixedType | UUIDType):
        # Not of UUIDs, which writers compare in more than one way.
        data = bytes(value)  # type: ignore[arg-type]
        return data if isinstance(kind, FixedType) and len(data) == len(kind) else None
    if data_type.form is Form.FLOAT:
        number = float(value)
        # Zeros of either sign are equal for Spark, but not for Iceberg.
        return to_bytes(kind, number if number else (0.0 if upper else -0.0))
    return to_bytes(kind, bool(value) if data_type.name == "boolean" else int(value))
