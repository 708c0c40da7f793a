"""Write the rows of a DataFrame, placed by a layout, into a staging directory, from which a format commits them.

partitions -> sample -> layout -> write in Spark -> check the rows of each partition
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zskip.errors import ConflictError
from zskip.formats import StagedFile, list_data_files
from zskip.formats.compression import Compression
from zskip.formats.hive import infer_partitions
from zskip.formats.schema import read_footers
from zskip.layout.layout import Layout
from zskip.layout.pages import MOST_ROWS, page_rows
from zskip.layout.predict import predict_share
from zskip.layout.sampling import ReservoirPlan
from zskip.records import Field, FileSizes, Ints, Sample, Snapshot
from zskip.table.advice.choose_layout import ChosenLayout, choose_layout
from zskip.table.handle import Handle
from zskip.table.optimize_request import OptimizeRequest, files_per_partition
from zskip.table.rewrite.step_timer import StepTimer
from zskip.table.write.incoming import Incoming, number_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INPUT_ORDER = "input order"
"""In place of a curve: the rows as they came."""
_FIRST_ROWS = 20_000
"""Rows that tell the bytes of a row."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WritePlan:
    """How new rows are written."""

    snapshot: Snapshot
    """The files that are live, and the table's columns and partition columns."""
    fields: tuple[Field, ...]
    """The clustering columns."""
    request: OptimizeRequest | None
    """None for rows in input order."""
    row_size: float | None
    """Bytes of a row; None where only the rows tell."""
    compression: Compression
    page_rows: int | None
    """The most rows of a page; None where only the rows tell."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StagedRows:
    """Rows in a staging directory, ready to be committed."""

    files: tuple[StagedFile, ...]
    rows: int
    chosen: ChosenLayout | None
    """None for rows in input order."""
    predicted_share: float | None
    """Mean share of these rows (0 to 1) that a query reads."""

    @property
    def curve(self) -> str:
        """The public name of the rows' order."""
        return INPUT_ORDER if self.chosen is None else self.chosen.curve

    @property
    def sizes(self) -> FileSizes:
        """Of the new files."""
        return FileSizes.of([file.size for file in self.files])


def stage_rows(
    handle: Handle, spark: SparkSession, frame: DataFrame, plan: WritePlan, staging: str, timer: StepTimer
) -> StagedRows:
    """Write all rows of a DataFrame that has the columns of the table, partition columns last.

    staging: a directory of the format. Raises ConflictError if the new files do not hold the rows that Spark has read.
    """
    from zskip.spark.write.rewrite import writing_session

    session = writing_session(spark)
    # Columns of a DataFrame may carry the ids of another table; new files are read by the names of their columns.
    session.conf.set("spark.sql.parquet.fieldId.write.enabled", "false")
    with timer.step("partitions"):
        incoming = number_partitions(session, frame, plan.snapshot)
    if not incoming.directories:
        return StagedRows(files=(), rows=0, chosen=None, predicted_share=None)
    chosen, share = None, None
    request = plan.request
    if request is not None:
        with timer.step("sample"):
            plan = _measure_rows(incoming, plan)
            sample = _draw(incoming, plan, request)
        with timer.step("fit"):
            chosen = _choose(handle, plan, request, sample, incoming)
            share = predict_share(chosen.layout, sample, chosen.workload) if len(sample) else None
    with timer.step("write"):
        rows = _write(incoming, None if chosen is None else chosen.layout, plan, handle.storage.uri(staging))
    files = _check_staged(handle, staging, None if chosen is None else chosen.layout, incoming, rows)
    return StagedRows(files=files, rows=rows, chosen=chosen, predicted_share=share)


def _measure_rows(incoming: Incoming, plan: WritePlan) -> WritePlan:
    """Learn the bytes of a row from the first rows where no files tell."""
    from zskip.spark.jvm.compat import collect_arrow
    from zskip.spark.scan.relation import ORDINAL

    if plan.row_size is not None and plan.page_rows is not None:
        return plan
    first = incoming.frame.drop(ORDINAL).limit(_FIRST_ROWS)
    try:
        rows = collect_arrow(first)
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression=plan.compression.codec.replace("uncompressed", "none"))
        metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    except (pa.ArrowException, TypeError, ValueError):
        # Types that Arrow does not know.
        return dataclasses.replace(plan, row_size=float(first._jdf.schema().defaultSize()), page_rows=MOST_ROWS)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    size = sum(group.column(i).total_compressed_size for group in groups for i in range(group.num_columns))
    return dataclasses.replace(
        plan,
        row_size=size / max(rows.num_rows, 1),
        # zstd takes a column without its dictionary in as few bytes; with other codecs, large pages keep dictionaries.
        page_rows=page_rows(size, rows.num_rows, rows.num_columns) if plan.compression.codec == "zstd" else MOST_ROWS,
    )


def _draw(incoming: Incoming, plan: WritePlan, request: OptimizeRequest) -> Sample:
    from zskip.spark.scan.relation import ORDINAL
    from zskip.spark.write.draw import draw_reservoir

    return draw_reservoir(incoming.frame, plan.fields, ORDINAL, ReservoirPlan.of, request.seed)


def _choose(
    handle: Handle, plan: WritePlan, request: OptimizeRequest, sample: Sample, incoming: Incoming
) -> ChosenLayout:
    """Choose the layout, and as many files as the rows are worth."""
    partition_rows = incoming.rows
    if partition_rows is None:
        partition_rows = np.rint(np.bincount(sample.partition, sample.weights, 1)).astype(np.int64)
    sizes = (partition_rows * (plan.row_size or 0.0)).astype(np.int64)
    files: Ints = files_per_partition(request, partition_rows, sizes)
    snapshot = plan.snapshot
    if incoming.rows is not None:
        # The numbers of the sample's partitions are those of the new rows.
        names, partitions = infer_partitions(incoming.directories)
        snapshot = dataclasses.replace(snapshot, partition_fields=names, partitions=partitions)
    return choose_layout(handle, snapshot, sample, files, partition_rows, request)


def _write(incoming: Incoming, layout: Layout | None, plan: WritePlan, directory: str) -> int:
    """Write the rows; returns how many Spark has read."""
    import pyspark.sql.functions as F
    from pyspark.sql import Observation

    from zskip.spark.scan.relation import ORDINAL
    from zskip.spark.write.rewrite import WriteOptions, routed, write_rows
    from zskip.spark.write.routing import route

    observation = Observation()
    counted = incoming.frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    if layout is not None:
        sorts = plan.request is None or plan.request.sort_within_files
        rows = routed(counted, ORDINAL, layout, sort=sorts)
    elif len(incoming.directories) > 1:
        rows = route(counted, ORDINAL, len(incoming.directories)).drop(ORDINAL)
    else:
        rows = counted.drop(ORDINAL)
    write_rows(rows, directory, WriteOptions(compression=plan.compression, page_rows=plan.page_rows or MOST_ROWS))
    return int(observation.get["rows"])


def _check_staged(
    handle: Handle, staging: str, layout: Layout | None, incoming: Incoming, rows: int
) -> tuple[StagedFile, ...]:
    """The new files that hold rows; raises ConflictError unless they hold every row that Spark has read."""
    from zskip.spark.write.rewrite import file_of

    files = list_data_files(handle.storage, staging)
    counts = [f.rows for f in read_footers(handle.storage, [(f.path, f.size) for f in files], handle.workers)]
    numbers = np.array([file_of(file.path.rpartition("/")[2]) for file in files], np.int64)
    partitions: Ints
    if layout is not None:
        partitions = layout.partition_of_file[numbers].astype(np.int64)
    else:
        partitions = numbers if len(incoming.directories) > 1 else np.zeros(len(numbers), np.int64)
    written = np.bincount(partitions, counts, max(len(incoming.directories), 1)).astype(np.int64)
    if sum(counts) != rows or (incoming.rows is not None and not np.array_equal(written, incoming.rows)):
        expected = rows if incoming.rows is None else int(incoming.rows.sum())
        raise ConflictError(
            f"the DataFrame gave {expected} rows, but {sum(counts)} were written to "
            f'"{handle.storage.root}"; nothing was committed. If its plan gives other rows each time it runs, persist '
            "it first"
        )
    return tuple(
        StagedFile(path=file.path, directory=incoming.directories[int(partition)], size=file.size)
        for file, partition, count in zip(files, partitions.tolist(), counts, strict=True)
        if count
    )
