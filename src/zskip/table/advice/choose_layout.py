"""The layout of an optimize: as it was asked for, or chosen by and fitted to the workload."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from zskip.advisor.fitting.cross_validation import (
    FITTED,
    Asked,
    Target,
    best_curve,
    fitted,
    held_out,
    plain_curve,
    safe_curves,
)
from zskip.advisor.fitting.predicate_boxes import ranked
from zskip.advisor.fitting.random_workload import made_up
from zskip.advisor.fitting.sample_statistics import SampledTable
from zskip.layout.fit import check_curve, fit
from zskip.layout.layout import Layout
from zskip.layout.workload import Workload as RankedWorkload
from zskip.records import Ints, Sample, Snapshot
from zskip.table.advice.advise import asked_of, choose_columns, described
from zskip.table.handle import Handle
from zskip.table.optimize_request import AUTO, OptimizeRequest


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Chosen:
    """A layout, and how it came about."""

    layout: Layout
    curve: str
    """As users name it."""
    workload: RankedWorkload | None
    """By which its reads are predicted; None for the made-up one."""
    fitted_to: str | None
    """Queries, in words, for the table's history; None where there were none."""


def checked(request: OptimizeRequest) -> None:
    """Check that columns and curve go together; raises as `check_curve`."""
    curve = request.curve
    if curve in (AUTO, FITTED):
        curve = plain_curve(len(request.by))
    check_curve(request.by or ("a", "b"), curve, request.build)


def with_columns(handle: Handle, request: OptimizeRequest) -> OptimizeRequest | None:
    """The request with the columns that the workload asks for; None where the table should stay as it is."""
    advised = choose_columns(handle, request.workload, request.files, request.target_file_size, request.seed)
    if advised is None:
        return None
    curve = "linear" if len(advised.by) == 1 else request.curve
    return dataclasses.replace(request, by=advised.by, curve=curve)


def choose_layout(
    handle: Handle, snapshot: Snapshot, sample: Sample, files: Ints, partition_rows: Ints, request: OptimizeRequest
) -> Chosen:
    """Fit the layout of a rewrite to its sample.

    snapshot: the files to rewrite; files, partition_rows: (partitions,) of it.
    """
    if not request.chooses:
        layout = fit(
            sample,
            files,
            partition_rows=partition_rows,
            curve=request.curve,
            build=request.build,
            beside=request.beside if _of_types(request, sample) else (),
            seed=request.seed,
        )
        return Chosen(layout=layout, curve=request.curve, workload=None, fitted_to=None)
    given, asked = asked_of(handle, snapshot, request.workload)
    target = Target(
        files=np.maximum(files, 1),
        partition_rows=partition_rows,
        sort_within_files=request.sort_within_files,
        seed=request.seed,
    )
    curve = request.curve
    if curve == AUTO:
        curve = _best_curve(snapshot, sample, target, asked)
    elif curve == FITTED and len(request.by) == 1:
        curve = "linear"
    return Chosen(
        layout=fitted(sample, target, asked, curve, build=request.build),
        curve=curve,
        workload=ranked(asked.predicates, asked.weights, sample) if len(asked) else None,
        fitted_to=described(given) if len(asked) else None,
    )


def _of_types(request: OptimizeRequest, sample: Sample) -> bool:
    """Whether the values of the files that stay compare with those of the sample."""
    return len(request.beside) == len(sample.columns) and all(
        values.dtype == column.dtype for (values, _), column in zip(request.beside, sample.columns, strict=True)
    )


def _best_curve(snapshot: Snapshot, sample: Sample, target: Target, asked: Asked) -> str:
    tested = asked.drawn(1_000, target.seed) if len(asked) else made_up(sample, target.seed)
    table = SampledTable(sample, snapshot.partition_fields, snapshot.partitions)
    found = held_out(sample, table, target, tested, safe_curves(sample, target, tested))
    return best_curve(found, tested.weights)
