"""The size that rows will have once they are clustered, from a few of them that are written as new files are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.records import Floats, Sample
from zskip.spark.write.arrow.columns import join
from zskip.spark.write.arrow.placing import column_at, key_forms, key_positions, position_hashes
from zskip.spark.write.arrow.writing import FileOptions, encoded_bytes

SAMPLED_ROWS, SAMPLED_BYTES, SAMPLED_FILES = 32_000, 8 << 20, 8
_REGIONS = 32
_DAMPING = 0.5
"""Of the gain that the sample shows for rows twice as dense: dictionaries and runs gain less and less."""
_LEAST = 0.5
"""The part of the bytes before that is left at least."""


class Sizes(NamedTuple):
    """What clustered rows will take."""

    row_bytes: float
    """On average."""
    weights: Floats
    """(sampled rows,) bytes of each sampled row, as a multiple of the average of all."""


def estimate_sizes(
    rows: pa.Table, named: pa.Schema, options: FileOptions, sample: Sample, table_rows: int, table_bytes: int
) -> Sizes:
    """Estimate what rows will take in new files.

    rows: some, in the columns of new files, as old files have them; named: these columns with the table's names;
    sample: of the keys, none of which is an expression; table_rows, table_bytes: of all old files.
    """
    layout = _regions(sample, table_rows)
    batch = pa.RecordBatch.from_arrays([join(column.chunks) for column in rows.columns], rows.schema.names)
    columns = [column_at(batch, path) for path in key_positions(named, sample.fields)]
    forms = key_forms(columns, sample.fields)
    values, nulls = zip(*forms, strict=True)
    region, keys = layout.place(values, nulls, 0, position_hashes(0, 0, len(batch)))
    order = np.argsort(keys, kind="stable")
    order = order[np.argsort(region[order], kind="stable")]
    clustered, region = pa.Table.from_batches([batch.take(pa.array(order))]), region[order]
    places, _ = layout.place(sample.columns, sample.nulls, 0, position_hashes(1, 0, len(sample)))

    def row_bytes(part: pa.Table) -> float:
        return float(encoded_bytes(part, options) / max(part.num_rows, 1))

    # As many rows, in all of the range of keys and in half of it.
    half = -(-len(order) // 2)
    sparse = row_bytes(clustered.take(pa.array(np.arange(0, len(order), 2))))
    dense = (row_bytes(clustered.slice(0, half)) + row_bytes(clustered.slice(half))) / 2
    # Rows that lie side by side in old files are as dense as they will be.
    covered = float(np.isin(places, region) @ sample.weights / sample.weights.sum())
    doublings = covered * math.log2(max(covered * table_rows / len(order), 1.0))
    unordered = row_bytes(pa.Table.from_batches([batch]))
    before = min(table_bytes / max(table_rows, 1), unordered)
    after = before * row_bytes(clustered) / unordered
    estimate = max(after - _DAMPING * max(sparse - dense, 0.0) * doublings, _LEAST * before)
    edges = np.searchsorted(region, np.arange(layout.file_count + 1))
    counts = np.diff(edges)
    per_row = np.array([row_bytes(clustered.slice(*pair)) for pair in zip(edges[:-1], counts, strict=True)])
    relative = np.where(counts > 0, per_row / max(float(per_row @ counts) / len(order), 1e-9), 1.0).clip(0.02, 50.0)
    return Sizes(estimate, cast(Floats, relative[places]))


def _regions(sample: Sample, rows: int) -> Layout:
    """Divide the keys into some ranges, whatever partition rows are of."""
    some = slice(None, None, max(len(sample) // SAMPLED_ROWS, 1))
    few = replace(
        sample,
        columns=tuple(values[some] for values in sample.columns),
        nulls=tuple(nulls[some] for nulls in sample.nulls),
        partition=np.zeros(len(sample), np.int32)[some],
        weights=sample.weights[some],
    )
    curve = "zorder" if len(sample.fields) > 1 else "linear"
    return fit(few, np.array([_REGIONS]), partition_rows=np.array([rows]), curve=curve)
