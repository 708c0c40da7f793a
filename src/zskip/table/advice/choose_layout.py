"""The layout of an optimize: the one in the request, or one that the workload chooses."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from zskip.advisor.fitting.cross_validation import (
    ParsedWorkload,
    Target,
    best_curve,
    cross_validate,
    fit_layout,
)
from zskip.advisor.fitting.predicate_boxes import drop_unlimited, rank_boxes
from zskip.advisor.fitting.random_workload import make_up_queries
from zskip.advisor.fitting.sample_statistics import SampledTable
from zskip.errors import ZskipWarning
from zskip.layout.curves import curve_for, curves_for, default_curve
from zskip.layout.fit import check_curve, fit
from zskip.layout.layout import Layout
from zskip.layout.program import SMALLEST
from zskip.layout.workload import Workload as RankedWorkload
from zskip.predicate import columns_of
from zskip.records import Field, Ints, Sample, Snapshot
from zskip.table.advice.read_workload import describe_workload, parse_workload
from zskip.table.handle import Handle
from zskip.table.optimize_request import AUTO, Beside, OptimizeRequest

_HARDLY_ANY = 0.99
"""The share of nulls from which on a key is hardly one."""
_SMALLEST_SIZED = 0.7
"""The least weight of a file where its size is asked for, as `fit` takes it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ChosenLayout:
    """A layout, and how it was chosen."""

    layout: Layout
    curve: str
    """Its public name."""
    workload: RankedWorkload | None
    """For predicting its reads; None for the made-up workload."""
    fitted_to: str | None
    """The queries, in words, for the table's history; None without queries."""


def check_columns_and_curve(request: OptimizeRequest) -> None:
    """Check that columns and curve go together; raises as `check_curve`."""
    by = request.by or ("a", "b")
    curve = default_curve(len(by)) if request.curve == AUTO else curve_for(request.curve, len(by))
    check_curve(by, curve, request.build)


def choose_layout(
    handle: Handle,
    snapshot: Snapshot,
    sample: Sample,
    files: Ints,
    partition_rows: Ints,
    request: OptimizeRequest,
    guide: Layout | None = None,
    beside: Beside = (),
) -> ChosenLayout:
    """Fit the layout of a rewrite to its sample.

    snapshot: the files to rewrite; files, partition_rows: (partitions,) of it; guide, beside: as in `RewriteJob`.
    """
    for field, nulls in zip(sample.fields, sample.nulls, strict=True):
        warn_of_nulls(field, nulls.mean() if len(nulls) else 0.0, "sampled")
    guide = guide if _fits(guide, sample) else None
    beside = beside if _have_types(beside, sample) else ()
    smallest = SMALLEST if request.target_file_size is None else _SMALLEST_SIZED
    if not request.needs_workload:
        layout = fit(
            sample,
            files,
            partition_rows=partition_rows,
            curve=request.curve,
            build=request.build,
            beside=beside,
            like=guide,
            seed=request.seed,
            smallest=smallest,
        )
        return ChosenLayout(layout=layout, curve=request.curve, workload=None, fitted_to=None)
    workload, parsed = parse_workload(handle, snapshot, request.workload, sample.fields)
    target = Target(
        files=np.maximum(files, 1),
        partition_rows=partition_rows,
        unseen=request.unseen,
        seed=request.seed,
        smallest=smallest,
    )
    curve = curve_for(request.curve, len(request.by))
    if curve == AUTO:
        curve = _best_curve(snapshot, sample, target, parsed)
    boxes = drop_unlimited(rank_boxes(parsed.predicates, parsed.weights, sample)) if len(parsed) else None
    if boxes is not None and not len(boxes):
        _warn_of_other_columns(sample, parsed)
    if guide is not None and not guide.curve.needs_workload:
        # A layout of an older version: an order of the key's bits.
        layout = fit(sample, files, partition_rows=partition_rows, like=guide)
    else:
        layout = fit_layout(sample, target, parsed, curve, build=request.build, beside=beside, guide=guide)
    return ChosenLayout(
        layout=layout,
        curve=curve,
        workload=boxes if boxes is not None and len(boxes) else None,
        fitted_to=describe_workload(workload) if len(parsed) else None,
    )


def _fits(guide: Layout | None, sample: Sample) -> bool:
    """Whether a layout has the columns and types of a sample."""
    if guide is None:
        return False
    columns, sampled = ([(field.name, field.type) for field in fields] for fields in (guide.fields, sample.fields))
    return columns == sampled


def warn_of_nulls(field: Field, share: float, which: str) -> None:
    """Say of an expression that it hardly ever has a value, such as a path that leads nowhere.

    share: of the rows that are null, 0 to 1; which: what rows these are.
    """
    if field.computed and share >= _HARDLY_ANY:
        warnings.warn(
            f"{field.name} is null in {100 * share:.4g} % of the {which} rows, so it hardly tells rows apart; "
            "check its path and type",
            ZskipWarning,
            stacklevel=3,
        )


def _warn_of_other_columns(sample: Sample, parsed: ParsedWorkload) -> None:
    """Say that no query of a workload says anything of the clustering columns, and which columns they filter by."""
    mentioned = {column.path for predicate in parsed.predicates for column in columns_of(predicate)}
    others = sorted(".".join(path) for path in mentioned - {field.path for field in sample.fields})
    reason = f"they filter on {', '.join(others)}" if others else "bounds say nothing about their filters"
    warnings.warn(
        f"no query of the workload has a range of {', '.join(f.name for f in sample.fields)}: {reason}; the layout is "
        "fitted to made-up queries",
        ZskipWarning,
        stacklevel=2,
    )


def _have_types(beside: Beside, sample: Sample) -> bool:
    """Whether the values of the files that stay compare with those of the sample."""
    return len(beside) == len(sample.columns) and all(
        values.dtype == column.dtype for (values, _), column in zip(beside, sample.columns, strict=True)
    )


def _best_curve(snapshot: Snapshot, sample: Sample, target: Target, parsed: ParsedWorkload) -> str:
    tested = parsed.draw(1_000, target.seed) if len(parsed) else make_up_queries(sample, target.seed)
    table = SampledTable(sample, snapshot.partition_fields, snapshot.partitions)
    reads_by_curve = cross_validate(sample, table, target, tested, curves_for(len(sample.fields)))
    return best_curve(reads_by_curve, tested.weights, target.unseen)
