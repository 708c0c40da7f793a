"""The main job: snapshot, sample, layout, rewrite, commit, index."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zskip.errors import ConflictError, UnsupportedError, ZskipError, ZskipWarning
from zskip.formats import Staged, into
from zskip.formats.schema import Inspection, inspect, read_footers
from zskip.index import refresh
from zskip.layout.fit import check_curve, fit
from zskip.layout.layout import Layout
from zskip.layout.predict import predict_share, share_of_boxes
from zskip.layout.sampling import ReservoirPlan, bernoulli_fraction
from zskip.overlay import Overlay
from zskip.records import Field, FileSizes, Ints, OptimizeResult, Sample
from zskip.table.clock import Clock
from zskip.table.collect import refresh_index
from zskip.table.handle import Handle
from zskip.table.request import OptimizeRequest, choose_files, clustering_fields, files_by_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.schema import TableSchema

_MOST_FOOTERS = 2_000


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Plan:
    """The files to rewrite and what is known of them before Spark starts."""

    schema: TableSchema
    """Of the files to rewrite only."""
    fields: tuple[Field, ...]
    """The clustering columns."""
    found: Inspection
    partition_rows: Ints
    """(partitions,)."""
    files: Ints
    """(partitions,) how many files each partition gets."""


def optimize(handle: Handle, request: OptimizeRequest) -> OptimizeResult:
    """Cluster the files that `request.where` selects and commit them, or change nothing."""
    spark = handle.need_spark("optimize()")
    check_curve(request.by, request.curve, request.build)
    clock = Clock()
    with clock.step("snapshot"):
        _check_format(handle, request)
        plan = _plan(spark, handle, request)
    if not plan.partition_rows.sum():
        return _result(handle, plan, request, clock)
    with _target(handle, request) as target:
        staging = target.format.stage()
        try:
            with clock.step("sample"):
                sample = _sample(spark, plan, request)
            with clock.step("fit"):
                layout = _fit(plan, sample, request)
                before = _share_before(handle, plan, sample)
            with clock.step("rewrite"):
                staged = _rewrite(spark, plan, layout, target, staging, request)
            with clock.step("commit"):
                version = _commit(target, plan, layout, staged, request)
        except BaseException:
            target.format.abort(staging)
            raise
        with clock.step("index"):
            _index(target)
    return dataclasses.replace(
        _result(handle, plan, request, clock),
        version=version,
        files_after=len(staged),
        bytes_after=sum(file.size for file in staged),
        predicted_share_before=before,
        predicted_share_after=predict_share(layout, sample),
        added=FileSizes.of([file.size for file in staged]),
        removed=FileSizes.of(plan.schema.snapshot.sizes.tolist() if request.into is None else []),
        partitions=len(np.unique(plan.schema.snapshot.partition_of)),
    )


def _check_format(handle: Handle, request: OptimizeRequest) -> None:
    if request.into is None:
        handle.format.check_replaceable()
    elif handle.format.name != "parquet":
        raise UnsupportedError(
            f'into= writes a plain Parquet table, and "{handle.storage.root}" is of the format {handle.format.name}; '
            "leave into= out: the versions of the table before the rewrite stay"
        )


def _plan(spark: SparkSession, handle: Handle, request: OptimizeRequest) -> _Plan:
    """Look at the table and check everything that can be wrong with it, before anything is written."""
    from zskip.spark.relation import scan_with_ordinals
    from zskip.spark.rewrite import check_writable

    handle.check_index()
    schema = handle.schema()
    fields = clustering_fields(request.by, schema.snapshot, case_sensitive=handle.case_sensitive)
    chosen = choose_files(handle, schema.snapshot, request.where)
    check_writable(scan_with_ordinals(spark, schema))
    found = inspect(handle.storage, chosen, merge=handle.merges_schemas or chosen.declared is not None)
    count = len(chosen.partitions)
    rows = np.bincount(chosen.partition_of, found.rows, count).astype(np.int64)
    sizes = np.bincount(chosen.partition_of, chosen.sizes, count).astype(np.int64)
    return _Plan(
        schema=dataclasses.replace(schema, snapshot=chosen),
        fields=fields,
        found=found,
        partition_rows=rows,
        files=files_by_partition(request, rows, sizes),
    )


def _sample(spark: SparkSession, plan: _Plan, request: OptimizeRequest) -> Sample:
    from zskip.spark.draw import draw_bernoulli, draw_reservoir
    from zskip.spark.relation import ORDINAL, scan_with_ordinals
    from zskip.spark.rewrite import described

    frame = scan_with_ordinals(spark, plan.schema)
    with described(spark, f"sample {len(plan.fields)} columns of {plan.schema.snapshot.root}"):
        if request.sampling == "reservoir":
            return draw_reservoir(frame, plan.fields, ORDINAL, ReservoirPlan.of, request.seed)
        fraction = bernoulli_fraction(int(plan.found.rows.sum()), int(plan.files.sum()))
        return draw_bernoulli(frame, plan.fields, ORDINAL, fraction, request.seed)


def _fit(plan: _Plan, sample: Sample, request: OptimizeRequest) -> Layout:
    return fit(
        sample,
        plan.files,
        partition_rows=plan.partition_rows,
        curve=request.curve,
        build=request.build,
        seed=request.seed,
    )


def _rewrite(
    spark: SparkSession, plan: _Plan, layout: Layout, target: Handle, staging: str, request: OptimizeRequest
) -> list[Staged]:
    """Write the new files and check that they hold every row of each partition."""
    from zskip.spark.relation import ORDINAL, scan_with_ordinals
    from zskip.spark.rewrite import WriteOptions, described, file_of, rewrite, writing_session

    session = writing_session(spark)
    options = WriteOptions(codec=plan.found.codec or "zstd", sort_within_files=request.sort_within_files)
    with described(spark, f"rewrite {len(plan.schema.snapshot)} files of {plan.schema.snapshot.root}"):
        frame = scan_with_ordinals(session, plan.schema)
        rewrite(frame, ORDINAL, layout, target.storage.uri(staging), options)
    files = target.format.staged_files(staging)
    rows = [footer.rows for footer in read_footers(target.storage, [file.path for file in files])]
    partitions = [int(layout.partition_of_file[file_of(file.path.rpartition("/")[2])]) for file in files]
    written = np.bincount(partitions, rows, len(plan.partition_rows)).astype(np.int64)
    if not np.array_equal(written, plan.partition_rows):
        worst = int(np.argmax(written != plan.partition_rows))
        raise ConflictError(
            f'partition "{plan.schema.snapshot.partitions[worst].directory}" has {plan.partition_rows[worst]} rows but '
            f"{written[worst]} were written; nothing was committed. If nobody else writes to the table, report this"
        )
    return [
        Staged(path=file.path, directory=plan.schema.snapshot.partitions[p].directory, size=file.size)
        for file, p, n in zip(files, partitions, rows, strict=True)
        if n
    ]


def _commit(target: Handle, plan: _Plan, layout: Layout, staged: Sequence[Staged], request: OptimizeRequest) -> int:
    info = {
        "operation": "optimize",
        "by": list(request.by),
        "curve": request.curve,
        "build": request.build,
        "where": request.where,
        "rows": int(plan.found.rows.sum()),
        "seed": request.seed,
    }
    chosen = plan.schema.snapshot
    replaced = np.full(len(chosen), request.into is None)
    return target.format.replace(chosen, replaced, staged, info)


def _index(target: Handle) -> None:
    """Index the new files; they are committed, so that a failure here is no failure of the rewrite."""
    try:
        refresh_index(target, new_only=True)
    except ZskipError as error:
        warnings.warn(f"the rewrite is committed, but not indexed: {error}", ZskipWarning, stacklevel=4)


@contextmanager
def _target(handle: Handle, request: OptimizeRequest) -> Iterator[Handle]:
    """Where the new files go: the table itself, or a hidden directory that gets the name of `into` at the end."""
    if request.into is None:
        yield handle
        return
    path = request.into.rstrip("/") or "/"
    parent = handle.storage_at(path.rpartition("/")[0] or ("/" if path.startswith("/") else "."))
    name = path.rpartition("/")[2]
    hidden = into.begin(parent, name)
    try:
        yield Handle(handle.storage_at(parent.uri(hidden)), handle.spark)
        into.publish(parent, hidden, name)
    except BaseException:
        parent.delete(hidden)
        raise


def _share_before(handle: Handle, plan: _Plan, sample: Sample) -> float | None:
    """Share of the rows that the synthetic workload reads from the files as they are; of some of them, if many."""
    places = np.linspace(0, len(plan.found.rows) - 1, min(len(plan.found.rows), _MOST_FOOTERS)).astype(np.int64)
    some = plan.schema.snapshot.select(np.isin(np.arange(len(plan.found.rows)), places))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        # In memory: whatever goes wrong later, this table is left as it was.
        index = refresh(Overlay(handle.storage), some).bind(some, case_sensitive=handle.case_sensitive)
    stats = [index.column((field.name,)) for field in plan.fields]
    if any(s is None or s.lower.dtype != c.dtype for s, c in zip(stats, sample.columns, strict=True)):
        return None
    known = [s for s in stats if s is not None]
    return share_of_boxes(
        sample, [s.lower for s in known], [s.upper for s in known], [s.bounded for s in known], plan.found.rows[places]
    )


def _result(handle: Handle, plan: _Plan, request: OptimizeRequest, clock: Clock) -> OptimizeResult:
    chosen = plan.schema.snapshot
    return OptimizeResult(
        path=handle.storage.root if request.into is None else request.into,
        version=chosen.version,
        curve=request.curve,
        build=request.build,
        by=request.by,
        files_before=len(chosen),
        files_after=0,
        bytes_before=chosen.bytes,
        bytes_after=0,
        rows=int(plan.found.rows.sum()),
        seconds=clock.seconds,
        predicted_share_before=None,
        predicted_share_after=None,
    )
