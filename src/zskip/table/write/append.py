"""Append the rows of a DataFrame to a table, in the order of the table's own layout.

    columns and types -> partitions -> sample -> layout -> write in Spark -> the format's append -> index

Nothing changes before the commit; a failure after it costs only the index.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ConflictError, InputError, UnsupportedError
from zskip.formats import BatchId, StagedFile, list_data_files
from zskip.formats.compression import Compression
from zskip.formats.schema import read_footers
from zskip.layout.fit import fit
from zskip.layout.layout import FITTED, Layout
from zskip.layout.sampling import ReservoirPlan
from zskip.records import Field, FileSizes, Ints, LayoutInfo, Operation, Sample, Snapshot, WriteResult
from zskip.table.advice.choose_layout import choose_layout
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.journal import Clustering, read_clustering, read_journal, record_operation
from zskip.table.optimize_request import (
    DEFAULT_FILE_SIZE,
    OptimizeRequest,
    check_request,
    clustering_fields,
    files_per_partition,
    rows_per_page,
)
from zskip.table.read.info import layout_of
from zskip.table.refresh_index import index_new_files
from zskip.table.rewrite.step_timer import StepTimer
from zskip.table.session import is_case_sensitive
from zskip.table.snapshot import check_files_are_rows, read_table_schema
from zskip.table.write.incoming import Incoming, align, check_frame, number_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.schema import TableSchema

INPUT_ORDER = "input order"
"""In place of a curve: the rows as they came."""
_MOST_FOOTERS = 20
"""Files whose footers tell the bytes of a row and the codec."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Target:
    """What zskip knows of the table before Spark starts."""

    schema: TableSchema
    fields: tuple[Field, ...]
    """The clustering columns; none where the table was never clustered."""
    layout: LayoutInfo | None
    clustering: Clustering | None
    file_size: int
    """Bytes of a new file."""
    row_size: float
    """Bytes of a row."""
    compression: Compression
    page_rows: int


def read_batch(batch: object) -> BatchId | None:
    """Read the argument `batch`; raises InputError."""
    if batch is None:
        return None
    if isinstance(batch, Sequence) and not isinstance(batch, str) and len(batch) == 2:
        name, version = batch
        if isinstance(name, str) and name and isinstance(version, int) and not isinstance(version, bool):
            return BatchId(application=name, version=version)
    raise InputError(f'batch={batch!r}: give the name of the writer and the number of the batch, as in ("orders", 7)')


def append(handle: Handle, df: DataFrame, batch: BatchId | None = None) -> WriteResult:
    """Append rows and commit them, or change nothing."""
    from zskip.spark.write.rewrite import check_writable, describe_jobs, writing_session

    check_frame(df)
    spark = handle.need_spark("append()")
    timer, jobs_before = StepTimer(), _count_jobs(spark)
    handle.format.check_appendable()
    with timer.step("check"):
        check_index_version(handle)
        schema = read_table_schema(handle)
        aligned = align(df, schema, case_sensitive=is_case_sensitive(handle))
        check_writable(aligned)
        if batch is not None and _is_committed(handle, batch):
            return _result(handle, None, schema.snapshot, timer, jobs=0)
        target = _read_target(handle, schema)
    staging = handle.format.stage()
    try:
        session = writing_session(spark)
        # Columns of a DataFrame may carry the ids of another table; new files are read by the names of their columns.
        session.conf.set("spark.sql.parquet.fieldId.write.enabled", "false")
        with describe_jobs(spark, f"append to {handle.storage.root}"):
            with timer.step("partitions"):
                incoming = number_partitions(session, aligned, schema)
            layout, curve = None, INPUT_ORDER
            if target.fields and incoming.directories:
                with timer.step("sample"):
                    sample = _draw(incoming, target)
                with timer.step("fit"):
                    layout, curve = _choose(handle, target, sample, incoming)
            with timer.step("write"):
                rows = _write(incoming, layout, target, handle.storage.uri(staging))
        staged = _check_staged(handle, staging, layout, incoming, rows)
        info = _describe(target, curve, rows)
        with timer.step("commit"):
            version = handle.format.append(schema.snapshot, staged, info, batch) if staged else None
        if version is None:
            handle.format.abort(staging)
            return _result(handle, target, schema.snapshot, timer, jobs=_count_jobs(spark) - jobs_before)
    except BaseException:
        handle.format.abort(staging)
        raise
    sizes = [file.size for file in staged]
    result = dataclasses.replace(
        _result(handle, target, schema.snapshot, timer, jobs=0),
        version=version,
        rows=rows,
        files=len(staged),
        bytes=sum(sizes),
        curve=curve,
    )
    _record(handle, result, layout, target, staged)
    with timer.step("index"):
        index_new_files(handle, by_engine=False)
    return dataclasses.replace(result, jobs=_count_jobs(spark) - jobs_before)


def _is_committed(handle: Handle, batch: BatchId) -> bool:
    last = handle.format.last_batch(batch.application)
    return last is not None and last >= batch.version


def _count_jobs(spark: SparkSession) -> int:
    """The jobs that Spark has run so far."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def _read_target(handle: Handle, schema: TableSchema) -> _Target:
    snapshot = schema.snapshot
    check_files_are_rows(snapshot)
    if snapshot.reader is not None:
        raise UnsupportedError(
            f'zskip does not append to "{snapshot.root}", which uses {snapshot.reader}; append with its own writer, '
            "and let optimize() put the rows in order. Nothing was written"
        )
    clustering = read_clustering(read_journal(handle.home), snapshot)
    layout = layout_of(handle, snapshot, clustering)
    fields: tuple[Field, ...] = ()
    if layout is not None:
        fields = clustering_fields(layout.by, snapshot, case_sensitive=is_case_sensitive(handle))
    size = None if clustering is None else clustering.newest.target_file_size
    numbers = np.linspace(0, max(len(snapshot) - 1, 0), min(len(snapshot), _MOST_FOOTERS)).astype(np.int64)
    some = snapshot.take(numbers)
    footers = list(
        read_footers(handle.storage, list(zip(some.paths, some.sizes.tolist(), strict=True)), handle.workers)
    )
    rows = np.array([footer.rows for footer in footers], np.int64)
    codecs = [footer.codec for footer in footers if footer.codec]
    compression = Compression(codec=max(set(codecs), key=codecs.count, default="zstd"))
    partition_rows = np.bincount(some.partition_of, rows, len(some.partitions)).astype(np.int64)
    return _Target(
        schema=schema,
        fields=fields,
        layout=layout,
        clustering=clustering,
        file_size=size or DEFAULT_FILE_SIZE,
        row_size=some.bytes / max(int(rows.sum()), 1),
        compression=compression,
        page_rows=rows_per_page(handle.storage, some, partition_rows, fields, compression),
    )


def _draw(incoming: Incoming, target: _Target) -> Sample:
    from zskip.spark.scan.relation import ORDINAL
    from zskip.spark.write.draw import draw_reservoir

    return draw_reservoir(incoming.frame, target.fields, ORDINAL, ReservoirPlan.of, 0)


def _choose(handle: Handle, target: _Target, sample: Sample, incoming: Incoming) -> tuple[Layout, str]:
    """Place the rows on the table's own curve, between its bounds, or by its tree; returns the curve's name, too."""
    assert target.layout is not None, "the table is clustered"
    partition_rows = incoming.rows
    if partition_rows is None:
        partition_rows = np.rint(np.bincount(sample.partition, sample.weights, 1)).astype(np.int64)
    request = _request(target)
    files: Ints = files_per_partition(request, partition_rows, (partition_rows * target.row_size).astype(np.int64))
    own = None if target.clustering is None else target.clustering.largest_run.layout()
    if own is not None and [(f.name, f.type) for f in own.fields] != [(f.name, f.type) for f in sample.fields]:
        own = None
    if target.layout.curve == FITTED:
        request = dataclasses.replace(request, guide=own)
        chosen = choose_layout(handle, target.schema.snapshot, sample, files, partition_rows, request)
        return chosen.layout, chosen.curve
    has_bounds = own is not None and own.tree is None and own.build == "sample"
    layout = fit(
        sample,
        files,
        partition_rows=partition_rows,
        curve=target.layout.curve,
        build=target.layout.build,
        bounds=own.bounds if own is not None and has_bounds else None,
    )
    return layout, target.layout.curve


def _request(target: _Target) -> OptimizeRequest:
    assert target.layout is not None, "the table is clustered"
    return check_request(
        by=[field.name for field in target.fields],
        curve=target.layout.curve,
        build=target.layout.build,
        files=None,
        target_file_size=target.file_size,
        where=None,
        into=None,
        sort_within_files=True,
        sampling="reservoir",
        seed=0,
    )


def _write(incoming: Incoming, layout: Layout | None, target: _Target, directory: str) -> int:
    """Write the rows; returns how many Spark has read."""
    import pyspark.sql.functions as F
    from pyspark.sql import Observation

    from zskip.spark.scan.relation import ORDINAL
    from zskip.spark.write.rewrite import WriteOptions, routed, write_rows
    from zskip.spark.write.routing import route

    if not incoming.directories:
        return 0
    observation = Observation()
    counted = incoming.frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    if layout is not None:
        rows = routed(counted, ORDINAL, layout, sort=True)
    elif len(incoming.directories) > 1:
        rows = route(counted, ORDINAL, len(incoming.directories)).drop(ORDINAL)
    else:
        rows = counted.drop(ORDINAL)
    write_rows(rows, directory, WriteOptions(compression=target.compression, page_rows=target.page_rows))
    return int(observation.get["rows"])


def _check_staged(
    handle: Handle, staging: str, layout: Layout | None, incoming: Incoming, rows: int
) -> list[StagedFile]:
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
    return [
        StagedFile(path=file.path, directory=incoming.directories[int(partition)], size=file.size)
        for file, partition, count in zip(files, partitions.tolist(), counts, strict=True)
        if count
    ]


def _describe(target: _Target, curve: str, rows: int) -> dict[str, Any]:
    """The description in the commit."""
    info: dict[str, Any] = {"operation": "append", "rows": rows}
    if target.layout is not None:
        info |= {"by": [field.name for field in target.fields], "curve": curve, "build": target.layout.build}
    return info


def _result(handle: Handle, target: _Target | None, snapshot: Snapshot, timer: StepTimer, jobs: int) -> WriteResult:
    """The result of an append of no rows."""
    return WriteResult(
        path=handle.storage.root,
        version=snapshot.version,
        rows=0,
        files=0,
        bytes=0,
        by=() if target is None else tuple(field.name for field in target.fields),
        curve=INPUT_ORDER if target is None or target.layout is None else target.layout.curve,
        predicted_share=None,
        seconds=timer.seconds,
        jobs=jobs,
    )


def _record(
    handle: Handle, result: WriteResult, layout: Layout | None, target: _Target, staged: Sequence[StagedFile]
) -> None:
    added = FileSizes.of([file.size for file in staged])
    operation = Operation(
        version=result.version,
        time_ms=int(1000 * time.time()),
        operation="append",
        by=result.by,
        curve=result.curve if result.by else None,
        build=None if target.layout is None else target.layout.build,
        rows=result.rows,
        files_removed=0,
        files_added=added.files,
        bytes_removed=0,
        bytes_added=added.bytes,
        seconds=round(sum(result.seconds.values()), 3),
    )
    names = tuple(file.path.rpartition("/")[2] for file in staged)
    record_operation(handle, operation, names=names, layout=layout, target_file_size=target.file_size)
