"""Advice for a table: compare layouts on a sample of its rows and its workload."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from zskip.advisor.advice.advice import WORTH, Advice, Candidate
from zskip.advisor.advice.layout_search import (
    Question,
    add_conditions,
    compare_column_counts,
    compare_curves,
    evaluate_current,
    find_queried_columns,
)
from zskip.advisor.advice.sketch_choice import conditions_in, describe_choice
from zskip.advisor.advice.suggestions import suggest
from zskip.advisor.fitting.cross_validation import (
    ParsedWorkload,
    Reads,
    Target,
    measure_reads,
    scale_down,
    take_columns,
)
from zskip.advisor.fitting.random_workload import make_up_queries
from zskip.advisor.fitting.sample_statistics import SampledTable
from zskip.advisor.workload.workload import Workload
from zskip.errors import ColumnError, InputError
from zskip.index import BoundIndex
from zskip.layout.curves import curves_for, default_curve
from zskip.layout.fit import MOST_COLUMNS
from zskip.layout.pages import MOST_ROWS
from zskip.layout.sampling import LARGEST_SAMPLE, ROWS_PER_FILE, SMALLEST_SAMPLE
from zskip.predicate import (
    Call,
    Columns,
    Compare,
    In,
    Predicate,
    StartsWith,
    columns_of,
    is_opaque,
    nodes,
    term_sql,
    to_sql,
)
from zskip.records import Field, Ints, Sample, SketchChoice, Snapshot
from zskip.table.advice.choose_sketches import choose
from zskip.table.advice.read_workload import describe_workload, normalize_weights, read_predicates
from zskip.table.handle import Handle
from zskip.table.index_binding import complete_in_memory
from zskip.table.optimize_request import (
    AUTO,
    OptimizeRequest,
    files_per_partition,
    rows_per_page,
)
from zskip.table.predicates import name_keys
from zskip.table.read.info import last_layout
from zskip.table.version import TableVersion, open_version

if TYPE_CHECKING:
    from zskip.spark.formats import Reader

_MOST_FILES = 4_000
"""Files to draw a sample from."""
_MOST_FOOTERS = 20_000
"""Footers to read for advice where there is no index."""
_MOST_QUERIES = 400
"""Queries to use; of more, some are drawn by weight."""
_MOST_EXPRESSIONS, _MOST_CONDITIONS = 8, 4
"""Expressions and conditions to try as keys."""
_MOST_TEXTS = 20
"""Conditions to look at, not all of which can be keys."""
_MOST_SAMPLED = 24
"""Columns in the sample."""
_PAGE_SAMPLES, _MOST_ROWS = 40, 200_000
"""Sampled rows for each page, and the most for all pages."""
_MOST_FITTED, _FITTED_OF_MORE = 512, 256
"""The most files to fit exactly; beyond that, the fewer files to fit and then cut along their order."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Study:
    """A table and its workload before layouts are compared."""

    question: Question
    workload: Workload
    names: tuple[str, ...]
    """Columns to cluster by, the most queried first."""
    snapshot: Snapshot
    layout: tuple[str, ...]
    """The columns of the table's last layout."""


def advise(handle: Handle, request: OptimizeRequest) -> Advice:
    """Compare layouts for a table, by the columns of the request or by all; see `Table.advise`."""
    version = open_version(handle)
    study = study_table(version, request)
    by_number = compare_column_counts(study.question, study.names)
    layouts = compare_curves(study.question, min(by_number, key=lambda c: c.kept).by)
    known = {(c.by, c.curve) for c in layouts}
    others = [*layouts[1:], *(c for c in by_number if (c.by, c.curve) not in known)]
    layouts = [layouts[0], *sorted(others, key=lambda c: c.kept)]
    sketches: tuple[SketchChoice, ...] = ()
    if study.workload.source != "made up":
        bind = partial(complete_in_memory, handle, version.snapshot)
        sketches = choose(version, bind, request.workload, without=layouts[0].by)
    return Advice(
        path=handle.storage.root,
        workload=describe_workload(study.workload),
        current=evaluate_current(study.question, study.layout, len(study.snapshot)),
        candidates=tuple(layouts),
        by_number_of_columns=tuple(by_number),
        suggestions=(*map(describe_choice, sketches), *suggest(study.question, layouts[0].by, layouts[0].curve)),
        problems=study.workload.problems,
    )


def what_if(handle: Handle, request: OptimizeRequest) -> Candidate:
    """Predict what one layout would do; see `Table.what_if`."""
    curves = curves_for(len(request.by))
    if request.curve not in (AUTO, *curves):
        raise InputError(
            f'curve="{request.curve}" is not possible by {len(request.by)} columns; choose "auto" or one of '
            f"{', '.join(curves)}"
        )
    study = study_table(open_version(handle), request)
    return compare_curves(study.question, study.names, None if request.curve == AUTO else (request.curve,))[0]


def study_table(version: TableVersion, request: OptimizeRequest) -> Study:
    """Read the workload, draw the sample, and measure what the queries read today."""
    handle = version.handle
    handle.need_session("advice")
    reader = version.reader
    reader.check()
    reader.check_indexable()
    snapshot = version.snapshot
    fields = _clusterable(version, request.by)
    if not fields:
        raise InputError(f'"{snapshot.root}" has no column of an orderable type to cluster by')
    workload, predicates = read_predicates(handle, snapshot, request.workload, most=_MOST_QUERIES, seed=request.seed)
    bound = _bind_complete_index(version)
    rows = np.bincount(snapshot.partition_of, bound.rows, len(snapshot.partitions)).astype(np.int64)
    sizes = np.bincount(snapshot.partition_of, snapshot.sizes, len(snapshot.partitions)).astype(np.int64)
    if not rows.sum():
        raise InputError(f'"{snapshot.root}" has no rows; append some before you ask for advice')
    file_counts = files_per_partition(request, rows, sizes)
    is_large = int(file_counts.sum()) > _MOST_FITTED
    if not request.by:
        fields += _find_expressions(version, predicates)
    parsed = normalize_weights(workload, name_keys(handle, snapshot, fields, predicates))
    if not request.by:
        fields = find_queried_columns(fields, parsed)
    names = [field.name for field in fields]
    target = Target(
        files=scale_down(file_counts, _FITTED_OF_MORE) if is_large else file_counts,
        partition_rows=rows,
        file_rows=float(rows.sum() / file_counts.sum()) if is_large else None,
        page_rows=rows_per_page(handle.storage, snapshot, rows, fields),
        unseen=request.unseen,
        seed=request.seed,
    )
    sampled = _choose_sampled(version.columns, snapshot, fields, parsed.predicates)
    sample, file_of, row_of = _draw(reader, bound, sampled, target)
    table = SampledTable(sample, snapshot.partition_fields, snapshot.partitions)
    if not len(parsed):
        parsed = make_up_queries(select_columns(sample, names), request.seed)
        predicates = list(parsed.predicates)
        workload = dataclasses.replace(workload, source="made up")
    texts = [q.where for q in workload.queries] if workload.queries else [""] * len(parsed)
    now = dataclasses.replace(target, page_rows=MOST_ROWS, file_rows=None)
    today = _measure_today(bound, predicates, table, file_of, row_of, now, parsed)
    question = Question(
        table=table,
        target=target,
        workload=parsed,
        texts=texts,
        today=today,
        bytes=snapshot.bytes,
        files=int(file_counts.sum()),
    )
    layout = last_layout(version)
    return Study(
        question=question,
        workload=workload,
        names=tuple(names),
        snapshot=snapshot,
        layout=() if layout is None else layout.by,
    )


def choose_keys(version: TableVersion, request: OptimizeRequest) -> OptimizeRequest | None:
    """Let the workload choose what the request leaves to it: the columns, and conditions as cuts of a tree.

    None where the table should stay as it is.
    """
    chosen = request if request.by else _choose_columns(version, request)
    if chosen is None or not chosen.takes_conditions:
        return chosen
    workload, predicates = read_predicates(version.handle, version.snapshot, chosen.workload, most=_MOST_QUERIES)
    weights: dict[str, float] = defaultdict(float)
    for query, predicate in zip(workload.queries, predicates, strict=True):
        for part in conditions_in(predicate):
            weights[to_sql(part)] += query.weight
    often = sorted(weights, key=lambda text: -weights[text])[:_MOST_TEXTS]
    fields = _keys_of(version, often)
    most = min(_MOST_CONDITIONS, MOST_COLUMNS - len(chosen.by))
    conditions = [field.name for field in fields if field.name not in chosen.by][: max(most, 0)]
    if not conditions:
        return chosen
    study = study_table(version, dataclasses.replace(chosen, by=(*chosen.by, *conditions)))
    return dataclasses.replace(chosen, by=add_conditions(study.question, chosen.by, conditions))


def _choose_columns(version: TableVersion, request: OptimizeRequest) -> OptimizeRequest | None:
    """Choose the columns by the workload; None where the table should stay as it is."""
    study = study_table(version, request)
    today = evaluate_current(study.question, study.layout, len(study.snapshot))
    columns = min(compare_column_counts(study.question, study.names), key=lambda c: c.kept).by
    best = compare_curves(study.question, columns)[0]
    if best.kept >= WORTH * today.kept:
        return None
    return dataclasses.replace(request, by=best.by, curve=default_curve(1) if len(best.by) == 1 else request.curve)


def _clusterable(version: TableVersion, by: Sequence[str]) -> list[Field]:
    if by:
        return list(version.find_keys(by))
    names = version.snapshot.partition_names
    return [field for field in version.columns.orderable() if field.path[0] not in names]


def _find_expressions(version: TableVersion, predicates: Sequence[Predicate]) -> list[Field]:
    """Find the expressions in queries that rows can be clustered by, where bounds of columns tell nothing of them."""
    texts: dict[str, None] = {}
    for node in (node for predicate in predicates for node in nodes(predicate)):
        if isinstance(node, Compare | In | StartsWith) and is_opaque(node):
            term = node.term
            while isinstance(term, Call):
                term = term.term
            texts[term_sql(term)] = None
    return _keys_of(version, texts)[:_MOST_EXPRESSIONS]


def _keys_of(version: TableVersion, texts: Iterable[str]) -> list[Field]:
    fields: list[Field] = []
    for text in texts:
        with contextlib.suppress(ColumnError):
            fields += _clusterable(version, [text])
    return fields


def _bind_complete_index(version: TableVersion) -> BoundIndex:
    """Bind the index, or footers read into memory where it does not know all files."""
    bound, snapshot = version.index, version.snapshot
    if (bound.rows >= 0).all():
        return bound
    if len(snapshot) > _MOST_FOOTERS:
        raise InputError(
            f"the index knows nothing of {int((bound.rows < 0).sum()):,} of the {len(snapshot):,} files of "
            f'"{snapshot.root}"; bring it up to date with Table.index() first'
        )
    return complete_in_memory(version.handle, snapshot)


def _choose_sampled(
    columns: Columns, snapshot: Snapshot, fields: Sequence[Field], predicates: Sequence[Predicate]
) -> list[Field]:
    """Choose the columns to cluster by, then the others that predicates mention."""
    mentioned = {column.path for predicate in predicates for column in columns_of(predicate)}
    mentioned -= {field.path for field in (*fields, *snapshot.partition_fields)}
    return [*fields, *(field for field in columns.orderable() if field.path in mentioned)][:_MOST_SAMPLED]


def select_columns(sample: Sample, names: Sequence[str]) -> Sample:
    """Select the named columns that the sample has."""
    sampled = {field.name for field in sample.fields}
    return take_columns(sample, [name for name in names if name in sampled])


def _draw(reader: Reader, bound: BoundIndex, fields: Sequence[Field], target: Target) -> tuple[Sample, Ints, Ints]:
    """Draw a sample of rows, with the file and the position in it of each row, in one Spark job."""
    from zskip.spark.jobs import describe_jobs
    from zskip.spark.write.draw import draw_with_positions

    snapshot = reader.snapshot
    numbers = np.arange(len(snapshot))
    if len(numbers) > _MOST_FILES:
        numbers = np.sort(np.random.default_rng(target.seed).permutation(len(numbers))[:_MOST_FILES])
    files = snapshot.take(numbers)
    rows = int(bound.rows[numbers].sum())
    pages = rows / target.page_rows
    size = max(ROWS_PER_FILE * int(target.files.sum()), SMALLEST_SAMPLE, min(int(_PAGE_SAMPLES * pages), _MOST_ROWS))
    size = min(size, LARGEST_SAMPLE)
    try:
        frame, file, row = reader.select(files).numbered_rows(fields)
        with describe_jobs(frame.sparkSession, f"sample {len(fields)} columns of {snapshot.root}"):
            fraction = min(1.0, size / max(rows, 1))
            sample, row_of = draw_with_positions(frame, fields, file, row, fraction, target.seed)
    finally:
        reader.release()
    file_of = sample.partition.astype(np.int64)
    partition = files.partition_of[file_of].astype(np.int32)
    return dataclasses.replace(sample, partition=partition), file_of, row_of


def _measure_today(
    bound: BoundIndex,
    predicates: Sequence[Predicate],
    table: SampledTable,
    file_of: Ints,
    row_of: Ints,
    target: Target,
    parsed: ParsedWorkload,
) -> Reads:
    """Measure what the queries read today: files by the index, pages by the sample.

    predicates: as the index knows them; parsed: as the sample has them.
    """
    total = max(int(bound.rows.sum()), 1)
    kept = np.array([bound.rows[bound.prune(p).kept].sum() / total for p in predicates])
    order = np.lexsort((row_of, file_of))
    shares = measure_reads(table, file_of[order], order, target, parsed.predicates)
    return Reads(kept=kept, decoded=np.minimum(shares.decoded, kept))
