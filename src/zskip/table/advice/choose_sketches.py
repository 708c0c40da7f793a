"""Choose the sketches of a table by its workload: build candidates for some files, ask them, and keep what pays."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from zskip.advisor.advice.sketch_choice import SketchTrial, choose_sketches, specs_for
from zskip.advisor.workload.queries import parse_queries
from zskip.advisor.workload.workload import Query, Workload
from zskip.errors import InputError, ZskipError, ZskipWarning
from zskip.index import BoundIndex
from zskip.index.store.sketches import BoundSketches
from zskip.predicate import Predicate, Unknown, nodes, term_sql
from zskip.records import Bools, Floats, IndexInfo, Ints, SketchChoice, Snapshot
from zskip.sketch import Matches, SketchOn, parse_sketch_on
from zskip.table.advice.read_workload import read_predicates
from zskip.table.handle import Handle
from zskip.table.index_binding import complete_in_memory
from zskip.table.optimize_request import AUTO, Given, make_repeatable
from zskip.table.refresh_index import Conditions, RefreshedIndex, build_states, refresh_index
from zskip.table.version import TableVersion, open_version
from zskip.table.workload.recording import read_reservoir, read_workload
from zskip.units import read_size

_MOST_QUERIES = 200
"""Queries to ask; of more, some are drawn by weight."""
_SAMPLED, _SAMPLED_SHARE, _MOST_SAMPLED = 4, 0.01, 16
"""Files to try sketches on: so many, or this share of all, and the most."""
_BUDGET_SHARE, _LEAST_BUDGET = 0.005, 1_000_000
"""Of the table's bytes for all sketches that are chosen, and bytes that they always may take."""
_TIME_SHARE, _LEAST_SECONDS, _REWRITTEN = 0.03, 10.0, 10_000_000
"""Of a rewrite's time for building them, seconds that this always may take, and bytes a second that a rewrite does."""

Bind = Callable[[Snapshot], BoundIndex]
"""Binds the index to some files of a version."""


def is_auto(sketches: Sequence[str] | str, workload: Given = None) -> bool:
    """Whether the workload is to choose the sketches; raises InputError for a workload that is not needed."""
    is_asked = sketches == AUTO or list(sketches) == [AUTO]
    if workload is not None and not is_asked:
        raise InputError('workload= chooses sketches only with sketches="auto"; add it, or leave workload out')
    return is_asked


def check_queries(handle: Handle, workload: Given) -> None:
    """Raise InputError where no query is given or recorded, or there is no session to build sketches."""
    handle.need_session('sketches="auto"')
    if workload is None and not read_workload(handle).queries:
        raise _no_queries(handle)


def _no_queries(handle: Handle) -> InputError:
    return InputError(
        f'sketches="auto" goes by the queries of "{handle.storage.root}", and none that can be used is recorded: call '
        'record() (zskip record), run them, and call again; or give workload=["user_id = 7"], or a file'
    )


def index_by_workload(
    refreshed: RefreshedIndex, workload: Given, budget: int | str | None = None, total_budget: int | str | None = None
) -> IndexInfo:
    """Choose sketches by the workload, and build and drop them; see `Table.index`."""
    version = refreshed.version
    choices = choose(version, refreshed.bind, make_repeatable("workload", workload), total_budget)
    added = [choice.spec for choice in choices if choice.action == "build"]
    dropped = [choice.spec for choice in choices if choice.action == "drop"]
    if added or dropped:
        refreshed = refresh_index(
            version,
            new_only=True,
            sketches=added,
            drop=dropped,
            budget=budget,
            total_budget=_budget(refreshed.bind(), total_budget)[0],
            chosen_ms=int(time.time() * 1000),
        )
    return dataclasses.replace(refreshed.bind().info(), choices=choices)


def choose_now(handle: Handle, workload: Given, *, dry_run: bool) -> tuple[SketchChoice, ...]:
    """Choose sketches for the current version of a table, and build them unless it is a dry run."""
    version = open_version(handle)
    if dry_run:
        return choose(version, partial(complete_in_memory, handle, version.snapshot), workload)
    return index_by_workload(refresh_index(version), workload).choices or ()


def choose(
    version: TableVersion,
    bind: Bind,
    workload: Given,
    total_budget: int | str | None = None,
    without: Collection[str] = (),
) -> tuple[SketchChoice, ...]:
    """Choose sketches, and write nothing.

    without: columns and expressions that need no new sketch. Raises InputError where there is no workload.
    """
    snapshot = version.snapshot
    queries, predicates = read_predicates(version.handle, snapshot, workload, most=_MOST_QUERIES)
    if not predicates:
        raise _no_queries(version.handle)
    # Spark knows a condition again that zskip does not understand.
    foreign = [any(isinstance(node, Unknown) for node in nodes(predicate)) for predicate in predicates]
    conditions, asked = None, list(predicates)
    if any(foreign) and version.handle.spark is not None:
        conditions = Conditions(version)
        for i in np.flatnonzero(foreign):
            asked[i] = conditions.read(queries.queries[i].where) or predicates[i]
    bound = bind(snapshot)
    sketches = _sketches(bound)
    scans = np.array([query.weight for query in queries.queries])
    own = bound.with_sketches(sketches.select(sketches.own))
    kept: Bools = np.array([own.prune(predicate).kept for predicate in asked])
    files = _draw(kept)
    reads = _scale(kept, scans / scans.sum(), snapshot.sizes, files)
    repeats = scans if queries.source == "recorded" else scans + 1
    specs = specs_for(predicates, scans * (kept @ snapshot.sizes), repeats)
    sample = bind(snapshot.take(files))
    built = _built(version, bound, sample, asked)
    trials = [*built, *_tried(version, bound, sample, specs, asked, files, without, conditions)]
    seconds = max(_LEAST_SECONDS, _TIME_SHARE * snapshot.bytes / _REWRITTEN)
    return choose_sketches(trials, reads, _budget(bound, total_budget)[1], seconds)


def _sketches(bound: BoundIndex) -> BoundSketches:
    assert bound.sketches is not None, "an index has sketches"
    return bound.sketches


def _budget(bound: BoundIndex, total_budget: int | str | None) -> tuple[int, int]:
    """The bytes that all sketches may take, and those of them that the user's leave to the chosen ones."""
    own = sum(info.bytes for info in _sketches(bound).info() if not info.automatic)
    spare = max(int(_BUDGET_SHARE * bound.snapshot.bytes), _LEAST_BUDGET)
    limit = own + spare if total_budget is None else read_size("total_budget", total_budget)
    return limit, limit - own


def _draw(kept: Bools) -> Ints:
    """Draw some of the files that queries read."""
    files = np.flatnonzero(kept.any(axis=0))
    most = min(max(_SAMPLED, int(_SAMPLED_SHARE * len(files))), _MOST_SAMPLED)
    return np.sort(np.random.default_rng(0).permutation(files)[:most])


def _scale(kept: Bools, weights: Floats, sizes: Ints, files: Ints) -> Floats:
    """(queries, files of the sample) the bytes that a sampled file stands for in a query that reads it."""
    sampled = (kept[:, files] * sizes[files]).astype(np.float64)
    total, part = kept @ sizes, sampled.sum(axis=1)
    factor = np.where(part > 0, weights * total / np.maximum(part, 1), 0.0)
    scaled: Floats = sampled * factor[:, None]
    return scaled


def _built(
    version: TableVersion, bound: BoundIndex, sample: BoundIndex, predicates: Sequence[Predicate]
) -> Iterator[SketchTrial]:
    """Ask the sketches that were chosen before; sample: the index of the files to ask about."""
    sketches, scans = _sketches(sample), read_reservoir(version.handle)
    sizes = {info.spec: info.bytes for info in _sketches(bound).info()}
    for record, on in _sketches(bound).sketches:
        if record.chosen_ms is not None:
            one = sample.with_sketches(sketches.select([*sketches.own, record.spec]))
            kept = _ask(one, predicates, range(len(predicates)))
            saved = _saved(version, bound, record.spec, scans.since(record.chosen_ms))
            yield SketchTrial(spec=record.spec, kept=kept, bytes=sizes[str(on)], saved=saved)


def _saved(version: TableVersion, bound: BoundIndex, spec: str, queries: Sequence[Query]) -> int:
    """The bytes of today's files that some scans would have read without a sketch."""
    most = sorted(queries, key=lambda query: -query.weight)[:_MOST_QUERIES]
    usable, predicates = parse_queries(Workload(queries=tuple(most)), version.columns)
    sketches, saved = _sketches(bound), 0.0
    others = bound.with_sketches(
        sketches.select([record.spec for record, _ in sketches.sketches if record.spec != spec])
    )
    for query, predicate in zip(usable.queries, predicates, strict=True):
        skipped = others.prune(predicate).kept & ~bound.prune(predicate).kept
        saved += query.weight * float(bound.snapshot.sizes[skipped].sum())
    return int(saved)


def _ask(sample: BoundIndex, predicates: Sequence[Predicate], numbers: Sequence[int]) -> Bools:
    """(predicates, files) the files that some predicates keep; the other predicates keep all."""
    kept: Bools = np.ones((len(predicates), len(sample.snapshot)), np.bool_)
    for i in numbers:
        kept[i] = sample.prune(predicates[i]).kept
    return kept


def _tried(
    version: TableVersion,
    bound: BoundIndex,
    sample: BoundIndex,
    specs: dict[str, list[int]],
    predicates: Sequence[Predicate],
    files: Ints,
    without: Collection[str],
    conditions: Conditions | None,
) -> Iterator[SketchTrial]:
    """Build new sketches for some files, and ask them."""
    snapshot, sketches = version.snapshot, _sketches(sample)
    known = {record.spec for record, _ in sketches.sketches}
    sketches_on: dict[SketchOn, list[int]] = {}
    for spec, numbers in specs.items():
        with suppress(ZskipError):  # its values have no order, or this expression cannot be computed
            on = parse_sketch_on(spec, version.columns, timezone=version.timezone)
            if conditions is not None and isinstance(on.sketch, Matches) and on.condition is None:
                on = conditions.describe(on)
            if str(on) not in known and not {*map(term_sql, on.terms)} & {*without}:
                sketches_on[on] = numbers
    if not sketches_on or not len(files):
        return
    count, lacking = len(sketches_on), np.isin(np.arange(len(snapshot)), files)
    zones = [version.timezone] * count
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        try:
            new = build_states(version.handle, version.reader, bound, list(sketches_on), zones, [lacking] * count, None)
        finally:
            version.reader.release()
    many = len(snapshot) / len(files)
    for (on, numbers), states in zip(sketches_on.items(), new, strict=True):
        blobs = [states[file].data if file in states else None for file in files.tolist()]
        one = sample.with_sketches(sketches.select(sketches.own, {on: blobs}))
        yield SketchTrial(
            spec=str(on),
            kept=_ask(one, predicates, numbers),
            bytes=int(many * sum(len(blob) for blob in blobs if blob is not None)),
            seconds=many * sum(state.seconds for state in states.values()),
        )
