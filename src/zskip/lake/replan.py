"""Plan a table of a lake in its session, and commit one rewrite of the plan."""

from __future__ import annotations

from dataclasses import dataclass

from zskip.lake.examine import Examined, examine_in_session, make_request
from zskip.lake.ranking import Rewrite
from zskip.lake.request import LakeRequest
from zskip.records import Snapshot
from zskip.table.advice.advise import choose_columns
from zskip.table.catalog_updates import notifying_catalog
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.optimize_request import AUTO, check_request
from zskip.table.rewrite.maintain import MaintenanceProgress, merge_batches, rewrite_batches
from zskip.table.rewrite.maintenance_plan import PlannedTable
from zskip.table.rewrite.writers import choose_engine
from zskip.table.snapshot import open_reader


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plan:
    """A table's rewrites, the best first, and the plan that they are of."""

    rewrites: tuple[Rewrite, ...]
    snapshot: Snapshot
    planned: PlannedTable | None
    """None where files are only merged."""
    by: tuple[str, ...] | None
    """New clustering columns, None for the table's own or none."""


def plan_of(examined: Examined, cluster: str) -> Plan:
    """The rewrites that a call may do: with "keep" a table that was never clustered only has merges."""
    assert examined.snapshot is not None
    is_new = examined.plan is not None and not examined.health.clustered_by
    clusters = examined.plan is not None and (cluster == "auto" or not is_new)
    if clusters and is_new and sum(r.saved for r in examined.merges) >= sum(r.saved for r in examined.rewrites):
        clusters = False
    return Plan(
        rewrites=examined.rewrites if clusters else examined.merges,
        snapshot=examined.snapshot,
        planned=examined.plan if clusters else None,
        by=examined.plan.by if clusters and is_new and examined.plan is not None else None,
    )


def plan_again(
    handle: Handle, plan: Plan, request: LakeRequest, left: int | None, progress: MaintenanceProgress
) -> Plan:
    """Plan a table in its session, after others may have changed it; raises what `Table.maintain` raises.

    left: bytes of the budget. New columns are chosen by a sample of the rows, in one Spark job, the first time.
    """
    handle.need_spark("maintain()")
    choose_engine(handle, open_reader(handle))
    check_index_version(handle)
    by = plan.by
    if by is not None and not progress.batches:
        best = choose_columns(handle, check_request(by=AUTO, curve=AUTO))
        by = None if best is None else best.by
    clusters = plan.planned is not None and (plan.by is None or by is not None)
    examined = examine_in_session(handle, request.terms(left), by, clusters, progress.settled)
    return plan_of(examined, "auto" if clusters else "keep")


def commit_rewrite(
    handle: Handle, plan: Plan, rewrite: Rewrite, request: LakeRequest, progress: MaintenanceProgress
) -> None:
    """Commit one rewrite; raises ConflictError where others were faster."""
    with notifying_catalog(handle):
        if plan.planned is None or rewrite.merges:
            merge_batches(handle, plan.snapshot, rewrite.batches, progress)
        else:
            maintenance = make_request(request.terms(None), plan.by, dry_run=False)
            rewrite_batches(handle, maintenance, plan.planned, rewrite.batches, progress)
