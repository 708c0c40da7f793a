"""Read the workload of a table: given, in a file, or recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zskip.advisor.fitting.cross_validation import ParsedWorkload
from zskip.advisor.workload.queries import parse_queries, read_text
from zskip.advisor.workload.workload import Workload, draw, shape
from zskip.errors import InputError
from zskip.predicate import Predicate
from zskip.records import Field, Snapshot
from zskip.table.handle import Handle
from zskip.table.optimize_request import Given
from zskip.table.predicates import name_keys, table_columns
from zskip.table.session import time_zone
from zskip.table.workload.recording import read_workload


def parse_workload(
    handle: Handle, snapshot: Snapshot, queries: Given, keys: Sequence[Field] = ()
) -> tuple[Workload, ParsedWorkload]:
    """Parse a workload so that layouts can be fitted to it; raises as `read_predicates`.

    keys: conditions on those that are expressions become conditions on columns of their names.
    """
    workload, predicates = read_predicates(handle, snapshot, queries)
    return workload, normalize_weights(workload, name_keys(handle, snapshot, keys, predicates))


def read_predicates(
    handle: Handle, snapshot: Snapshot, queries: Given, *, most: int = 10_000, seed: int = 0
) -> tuple[Workload, list[Predicate]]:
    """Read a workload and its usable predicates.

    most: queries; a larger recorded workload is sampled by weight. Raises InputError where none of the given queries
    is usable.
    """
    if isinstance(queries, str | Path):
        storage = handle.storage_at(str(queries).rpartition("/")[0] or ".")
        try:
            queries = read_text(storage.read(str(queries).rpartition("/")[2]).decode(), str(queries))
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise InputError(f'workload="{queries}" is not a file of queries ({error}); give one, or a list') from error
    workload = (
        read_workload(handle) if queries is None else queries if isinstance(queries, Workload) else Workload.of(queries)
    )
    if workload.source == "recorded":
        workload = dataclasses.replace(workload, queries=draw(workload.queries, most, seed))
    root = handle.storage.root
    names = [root, root.rpartition("/")[2], f"parquet.{root}", f"delta.{root}"]
    zone = "UTC" if workload.source == "recorded" else time_zone(handle)
    usable, predicates = parse_queries(workload, table_columns(handle, snapshot), names=names, timezone=zone)
    if queries is not None and not predicates:
        problem = f": {usable.problems[0]}" if usable.problems else ""
        raise InputError(f"no query of the workload can be used{problem}")
    return usable, predicates


def describe_workload(workload: Workload) -> str:
    """Say where the queries of a workload come from."""
    if workload.source == "made up":
        return "made-up queries, since no workload was recorded or given (ranges on one or two columns)"
    since = "" if workload.since is None else f" since {workload.since:%Y-%m-%d}"
    scans = f" of {workload.scans:,} scans{since}" if workload.scans else ""
    return f"{len(workload):,} {workload.source} predicates{scans}"


def normalize_weights(workload: Workload, predicates: Sequence[Predicate]) -> ParsedWorkload:
    """Pair the predicates of a workload's queries with weights that add up to 1."""
    weights = np.array([query.weight for query in workload.queries], np.float64)
    return ParsedWorkload(
        predicates=predicates,
        weights=weights / max(float(weights.sum()), 1e-300),
        texts=[shape(query.where) for query in workload.queries],
    )
