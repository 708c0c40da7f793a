"""Bring a table's index up to date: from footers, and from rows where footers lack statistics."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from zskip.errors import IndexFormatError, InputError, UnsupportedError, ZskipError, ZskipWarning
from zskip.formats.footers.footer import read_footers
from zskip.formats.footers.inspection import check_not_encrypted
from zskip.index import (
    BoundIndex,
    CountedColumn,
    Counting,
    DamagedIndexError,
    Gaps,
    Index,
    has_plain_days,
    key_specs,
    refresh,
    refresh_sketches,
)
from zskip.index.collect.footer_sketches import unpack_footer_sketches
from zskip.index.store.sketches import values_type
from zskip.predicate import Column, Columns, Predicate, Term, from_filters, is_condition, opaque, term_sql
from zskip.records import Bools, Field, Ints, Snapshot
from zskip.sketch import BuiltState, Matches, SketchOn, are_same, parse_sketch_on
from zskip.sketch.kinds.ranges import Ranges
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_loaded, load_index
from zskip.table.predicates import other_meaning, table_columns
from zskip.table.session import describe_condition, find_misread, session_time_zone, session_versions
from zskip.table.version import TableVersion, file_positions
from zskip.terminal import bar
from zskip.units import read_size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from zskip.spark.formats import Reader

COLLECTORS = ("auto", "footers", "scan")
GRANULARITIES = ("file", "row_group")
_MOST_CONDITIONS = 1_000
"""Of `matches` in an index: each has a file of its own there, and a query may look at all."""


@dataclass(frozen=True, slots=True, eq=False)
class RefreshedIndex:
    """An index that knows all files of a version."""

    index: Index
    version: TableVersion

    def bind(self, files: Snapshot | None = None) -> BoundIndex:
        """Bind it to some files of the version, by default to all."""
        return bind_loaded(self.version.handle, self.index, self.version.snapshot if files is None else files)


def refresh_index(
    version: TableVersion,
    collect: str = "auto",
    *,
    new_only: bool = False,
    sketches: Sequence[str] = (),
    drop: Sequence[str] = (),
    budget: int | str | None = None,
    total_budget: int | str | None = None,
    granularity: str | None = None,
    chosen_ms: int | None = None,
) -> RefreshedIndex:
    """Read the footers of files without a valid entry, count what footers lack, and build sketches.

    See `Table.index`; new_only: count only in files that had no entry; chosen_ms: as in `refresh_sketches`.
    """
    handle, metadata = version.handle, version.metadata
    if collect not in COLLECTORS:
        raise InputError(f'collect="{collect}" is not one of {", ".join(COLLECTORS)}')
    if granularity is not None and granularity not in GRANULARITIES:
        raise InputError(f'granularity="{granularity}" is not one of {", ".join(GRANULARITIES)}')
    file_budget = None if budget is None else read_size("budget", budget)
    all_files_budget = None if total_budget is None else read_size("total_budget", total_budget)
    if collect == "scan":
        handle.need_session('collect="scan"')
        version.reader.check_rows()
    reader = version.reader if handle.session is not None and version.reader.reads_rows else None
    metadata.check_indexable()
    snapshot, counting, counts_all = metadata.snapshot, None, collect == "scan"
    if collect != "footers" and reader is not None:
        counting = Counting(
            count=lambda gaps: _count(handle, reader, gaps, strict=counts_all), new_only=new_only, everything=counts_all
        )
    added, dropped = _read_sketches(version, reader, sketches, drop)
    case_sensitive, versions = version.case_sensitive, session_versions(handle)
    if added:
        check_not_encrypted(handle.storage, snapshot)
    try:
        if added and reader is not None and len(snapshot):
            for text in _find_misread(reader, np.arange(len(snapshot)) == 0, added, version.timezone):
                raise UnsupportedError(other_meaning(text))
        with bar("read footers", "files") as progress_bar:
            index = refresh(
                handle.home,
                snapshot,
                counting=counting,
                case_sensitive=case_sensitive,
                check=not new_only,
                progress=progress_bar.update,
                index_storage=handle.index_storage,
                row_groups=None if granularity is None else granularity == "row_group",
                workers=handle.workers,
            )
        if index.manifest.sketches or added:

            def build(
                sketches: Sequence[SketchOn], zones: Sequence[str], lacking: Sequence[Bools]
            ) -> list[dict[int, BuiltState]]:
                assert reader is not None, "only Spark reads files"
                bound = index.bind(snapshot, case_sensitive=case_sensitive, versions=versions)
                return build_states(handle, reader, bound, sketches, zones, lacking, file_budget, added)

            index = refresh_sketches(
                index,
                snapshot,
                build,
                np.full(len(snapshot), reader is not None),
                add=added,
                drop=dropped,
                timezone=version.timezone,
                case_sensitive=case_sensitive,
                versions=versions,
                total_budget=all_files_budget,
                chosen_ms=chosen_ms,
            )
    finally:
        if reader is not None:
            reader.release()
    return RefreshedIndex(index, version)


def index_new_files(version: TableVersion, keys: Sequence[Field] = ()) -> RefreshedIndex | None:
    """Index the new files of a commit, if an index can tell of them; a failure costs a warning only.

    version: the one that it made; keys: what they are clustered by. Of expressions whose bounds no column tells, the
    index gets sketches.
    """
    try:
        if not version.snapshot.reading.opaque:
            specs = [spec for field in keys for spec in key_specs(version.columns, field)]
            return refresh_index(version, new_only=True, sketches=specs)
    except ZskipError as error:
        warnings.warn(f"the rewrite is committed, but not indexed: {error}", ZskipWarning, stacklevel=4)
    return None


def _read_sketches(
    version: TableVersion, reader: Reader | None, sketches: Sequence[str], drop: Sequence[str]
) -> tuple[list[SketchOn], list[str]]:
    """Read the sketches to add and the specs of those to drop, before anything is written."""
    if isinstance(sketches, str) or isinstance(drop, str):
        raise InputError("give sketches and drop as lists, such as ['bloom(0.01):l_comment']")
    if sketches:
        version.handle.need_session("building sketches")
        version.reader.check_rows()

    def read(text: str) -> SketchOn:
        return parse_sketch_on(text, version.columns, timezone=version.timezone)

    known, dropped = _indexed_sketches(version.handle) if drop else set(), []
    for text in drop:
        spec = text if text in known else str(read(text))
        if spec not in known:
            raise InputError(f'the index has no sketch "{text}"; it has {", ".join(sorted(known)) or "none"}')
        dropped.append(spec)
    added = [read(text) for text in sketches]
    if reader is None or not any(map(_is_condition, added)):
        return added, dropped
    specs = _indexed_sketches(version.handle) | set(map(str, added))
    if sum(spec.startswith((f"{Matches.kind}:", f"{Matches.kind}(")) for spec in specs) > _MOST_CONDITIONS:
        raise InputError(f"an index keeps at most {_MOST_CONDITIONS:,} conditions; drop others, or give fewer")
    partitions = version.snapshot.partition_names
    for on in filter(_is_condition, added):
        name = next((column.path[0] for column in on.columns if column.path[0] in partitions), None)
        if name is not None:
            raise InputError(f'{on}: files are apart by "{name}" already; leave that part of the condition out')
    frame = _some_rows(reader, version.timezone)
    return [_describe(frame, version.columns, on) if _is_condition(on) else on for on in added], dropped


def _is_condition(on: SketchOn) -> bool:
    return isinstance(on.sketch, Matches)


def _some_rows(reader: Reader, zone: str) -> DataFrame:
    return reader.stored_rows(np.arange(len(reader.snapshot)) == 0, {"spark.sql.session.timeZone": zone})


class Conditions:
    """Conditions on a table's rows as its session understands them, which has to be a classic one."""

    def __init__(self, version: TableVersion) -> None:
        self._version = version
        self._rows = _some_rows(version.reader, version.timezone)

    def read(self, where: str) -> Predicate | None:
        """A filter as the scans of the session are handed it; None where it does not tell."""
        with suppress(ZskipError):
            filters = json.loads(describe_condition(self._rows, where))
            return from_filters(filters, self._version.columns.fields, case_sensitive=self._version.case_sensitive)
        return None

    def describe(self, on: SketchOn) -> SketchOn:
        """Add to `matches` what the session makes of its condition; raises InputError where that is not certain."""
        return _describe(self._rows, self._version.columns, on)


def _describe(frame: DataFrame, columns: Columns, on: SketchOn) -> SketchOn:
    """Add to `matches` what a frame's session makes of its condition; raises InputError where that is not certain."""
    described = describe_condition(frame, term_sql(on.terms[0]))
    zone = session_time_zone(frame.sparkSession)
    result = parse_sketch_on(str(on), columns, timezone=zone, described=described)
    if result.condition is None:
        raise InputError(f"{on}: zskip cannot tell this condition from others in this session; take another one")
    return result


def _indexed_sketches(handle: Handle) -> set[str]:
    """The specs of the sketches in the index; none where it is damaged and will be rebuilt."""
    try:
        index = load_index(handle)
    except DamagedIndexError:
        index = None
    return set() if index is None else {record.spec for record in index.manifest.sketches}


def build_states(
    handle: Handle,
    reader: Reader,
    bound: BoundIndex,
    sketches: Sequence[SketchOn],
    zones: Sequence[str],
    lacking: Sequence[Bools],
    budget: int | None,
    added: Collection[SketchOn] = (),
) -> list[dict[int, BuiltState]]:
    """Take sketches from footers, and build the others with Spark, one job for each time zone.

    Leaves out those of expressions that mean something else in the session, and conditions that Spark cannot compute,
    and warns of them; added: those whose failure is an error.
    """
    from zskip.spark.collect.sketching import build_sketches
    from zskip.spark.jvm.failures import to_zskip_error

    snapshot = reader.snapshot
    states_by_sketch = _states_in_footers(handle, snapshot, sketches, zones, lacking, budget)
    remaining = [files.copy() for files in lacking]
    for files, states in zip(remaining, states_by_sketch, strict=True):
        files[list(states)] = False
    pending = [i for i, files in enumerate(remaining) if files.any()]
    try:
        for zone in dict.fromkeys(zones[i] for i in pending):
            in_zone = [i for i in pending if zones[i] == zone]
            lacking_one = np.logical_or.reduce([remaining[i] for i in in_zone])
            misread = _find_misread(reader, lacking_one, [sketches[i] for i in in_zone], zone)
            misread += _find_other_conditions(bound, reader, [sketches[i] for i in in_zone], zone)
            if misread:
                warnings.warn(f"sketches were not built: {other_meaning(misread[0])}", ZskipWarning, stacklevel=4)
                in_zone = [i for i in in_zone if not {*map(term_sql, _computed(sketches[i]))} & {*misread}]

            def build(numbers: Sequence[int], zone: str = zone) -> None:
                built = build_sketches(
                    snapshot,
                    reader.stored_rows,
                    [sketches[i] for i in numbers],
                    [remaining[i] for i in numbers],
                    file_positions(handle, snapshot),
                    timezone=zone,
                    budget=budget,
                )
                for i, states in zip(numbers, built, strict=True):
                    states_by_sketch[i] |= states

            old_conditions = [i for i in in_zone if _is_condition(sketches[i]) and sketches[i] not in added]
            for i in _build_apart(build, in_zone, old_conditions, sketches):
                failed = BuiltState(None, "Spark could not compute the condition")
                states_by_sketch[i] |= dict.fromkeys(np.flatnonzero(remaining[i]).tolist(), failed)
    except Exception as error:
        raise to_zskip_error(f"sketch {len(sketches)} columns or expressions", error) from error
    return [_drop_ancient_days(on, states, bound) for on, states in zip(sketches, states_by_sketch, strict=True)]


def _build_apart(
    build: Callable[[Sequence[int]], None],
    numbers: Sequence[int],
    conditions: Sequence[int],
    sketches: Sequence[SketchOn],
) -> list[int]:
    """Build sketches in one job; if it fails, some conditions in one each. Returns those that fail, with a warning."""
    if not numbers:
        return []
    try:
        build(numbers)
        return []
    except Exception:
        if not conditions:
            raise
    others, failed = [i for i in numbers if i not in conditions], []
    if others:
        build(others)
    for i in conditions:
        try:
            build([i])
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            text = (
                f"{sketches[i]}: Spark could not compute the condition in the new files, which queries read: {reason}"
            )
            warnings.warn(text, ZskipWarning, stacklevel=4)
            failed.append(i)
    return failed


def _computed(on: SketchOn) -> list[Term]:
    """The expressions in a sketch that Spark computes."""
    terms: list[Term] = []
    on.recipe(lambda term: terms.append(term) or "")  # type: ignore[func-returns-value]
    return [term for term in terms if not isinstance(term, Column)]


def _find_misread(reader: Reader, files: Bools, sketches: Sequence[SketchOn], zone: str) -> list[str]:
    """The expressions of sketches that mean something else to the session that reads some files."""
    of_values = [on for on in sketches if not _is_condition(on)]
    computed = (term for on in of_values for term in _computed(on) if opaque.collated_column(term) is None)
    # Only the planner of rewrites asks for the bounds of conditions.
    terms = {term_sql(term): None if is_condition(term) else term for term in computed}
    if not terms:
        return []
    snapshot = reader.snapshot
    frame = reader.stored_rows(files, {"spark.sql.session.timeZone": zone})
    return find_misread(frame, terms, (*snapshot.fields, *snapshot.partition_fields))


def _find_other_conditions(bound: BoundIndex, reader: Reader, sketches: Sequence[SketchOn], zone: str) -> list[str]:
    """The conditions of `matches` that mean something else to the session than to the one that added them."""
    conditions, others, snapshot = [on for on in sketches if _is_condition(on)], list[str](), bound.snapshot
    frame = _some_rows(reader, zone) if conditions else None
    columns = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=bound.case_sensitive)
    for on in conditions:
        with suppress(ZskipError):
            assert frame is not None
            if are_same(on.condition, _describe(frame, columns, on).condition):
                continue
        others.append(term_sql(on.terms[0]))
    return others


def _may_be_in_footers(on: SketchOn) -> bool:
    return _is_condition(on) or (on.sketch == Ranges(1) and not isinstance(on.terms[0], Column))


def _states_in_footers(
    handle: Handle,
    snapshot: Snapshot,
    sketches: Sequence[SketchOn],
    zones: Sequence[str],
    lacking: Sequence[Bools],
    budget: int | None,
) -> list[dict[int, BuiltState]]:
    """Read the states that zskip makes of the rows that it writes: of keys that are expressions."""
    states: list[dict[int, BuiltState]] = [{} for _ in sketches]
    of_keys = [i for i, on in enumerate(sketches) if _may_be_in_footers(on)]
    if not of_keys:
        return states
    numbers = {str(sketches[i]): i for i in of_keys}
    files = np.flatnonzero(np.logical_or.reduce([lacking[i] for i in of_keys])).tolist()
    listed = [(snapshot.paths[file], int(snapshot.sizes[file])) for file in files]
    columns, versions = table_columns(handle, snapshot), session_versions(handle)
    types = [values_type(snapshot, on, case_sensitive=columns.case_sensitive, versions=versions) for on in sketches]

    @lru_cache
    def is_same_in(zone: str, i: int) -> bool:
        on = sketches[i]
        if _is_condition(on):  # Of which the text alone may tell less than the session that added it.
            return are_same(parse_sketch_on(str(on), columns, timezone=zone).condition, on.condition)
        return zone == zones[i] or parse_sketch_on(str(on), columns, timezone=zone) == on

    # What cannot be read here is left to the job, which says why.
    with suppress(ZskipError):
        for file, footer in zip(files, read_footers(handle.storage, listed, handle.workers), strict=True):
            for spec, zone, data_type, state in unpack_footer_sketches(footer.sketches):
                i = numbers.get(spec, -1)
                if i < 0 or not lacking[i][file] or (budget is not None and len(state) > budget):
                    continue
                if data_type == types[i] and is_same_in(zone, i):
                    with suppress(IndexFormatError):
                        sketches[i].sketch.from_bytes(state)
                        states[i][file] = BuiltState(state)
    return states


def _count(
    handle: Handle, reader: Reader, gaps: Gaps, *, strict: bool
) -> tuple[Ints, Mapping[tuple[str, ...], CountedColumn]]:
    """Count with Spark, in one aggregation by file; a failure costs a warning only, unless `strict`."""
    from zskip.spark.collect.statistics import count_values
    from zskip.spark.jvm.failures import to_zskip_error

    def check(texts: Collection[str]) -> None:
        for text in find_misread(rows, dict.fromkeys(texts)):
            raise UnsupportedError(other_meaning(text))

    step = f"count what {int(gaps.files.sum()):,} files hold of {len(gaps.columns):,} columns"
    try:
        positions = file_positions(handle, reader.snapshot)
        rows = reader.stored_rows(gaps.files, {})
        return count_values(rows, gaps.columns, positions, step, check)
    except Exception as error:
        failure = to_zskip_error(step, error)
        if strict or not isinstance(failure, ZskipError):
            raise failure from error
        warnings.warn(f"the index knows only the statistics of footers: {failure}", ZskipWarning, stacklevel=4)
        return np.full(len(gaps.files), -1, np.int64), {}


def _drop_ancient_days(on: SketchOn, states: dict[int, BuiltState], bound: BoundIndex) -> dict[int, BuiltState]:
    """Drop the states of files that may hold days before 1900, whose meaning depends on the reader's calendar."""
    sure = has_plain_days(bound, on.columns)
    early = BuiltState(None, "it may hold days before 1900, which calendars read differently")
    return {i: state if sure[i] else early for i, state in states.items()}
