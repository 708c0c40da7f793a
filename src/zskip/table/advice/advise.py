"""Advice for a table: its workload, one sample of its rows, and the layouts that are compared on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zskip.advisor.advice.advice import WORTH, Advice, Candidate
from zskip.advisor.advice.layout_search import Question, as_it_is, best_by_number, candidates, usable_columns
from zskip.advisor.advice.suggestions import suggestions
from zskip.advisor.fitting.cross_validation import (
    Asked,
    Reads,
    Target,
    chosen_columns,
    curves_for,
    in_proportion,
    read_shares,
)
from zskip.advisor.fitting.random_workload import made_up
from zskip.advisor.fitting.sample_statistics import SampledTable
from zskip.advisor.workload.queries import read_text, understood
from zskip.advisor.workload.workload import Workload, drawn
from zskip.errors import InputError, UnsupportedError
from zskip.index import BoundIndex, refresh
from zskip.layout.pages import MOST_ROWS
from zskip.layout.sampling import LARGEST_SAMPLE, ROWS_PER_FILE, SMALLEST_SAMPLE
from zskip.predicate import Predicate, columns_of
from zskip.records import Field, Ints, Partition, Sample, Snapshot
from zskip.spark.schema import TableSchema
from zskip.storage.overlay import Overlay
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.optimize_request import AUTO, Given, check_request, clustering_fields, files_by_partition, rows_a_page
from zskip.table.predicates import table_columns
from zskip.table.read.info import last_layout
from zskip.table.session import is_case_sensitive, time_zone
from zskip.table.snapshot import check_files_are_rows, read_table_schema
from zskip.table.workload.recording import read_workload

_MOST_FILES = 4_000
"""That a sample is drawn from."""
_MOST_FOOTERS = 20_000
"""That are read for advice where there is no index."""
_MOST_QUERIES = 400
"""That are looked at; of more, some are drawn by weight."""
_MOST_SAMPLED = 24
"""Columns."""
_PAGE_SAMPLES, _MOST_ROWS = 40, 200_000
"""Rows of the sample for a page, and for all of them."""
_MOST_FITTED, _FITTED_OF_MORE = 512, 256
"""Files of a layout that is only looked at; where more are wanted, so many, each cut into several along its order."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Studied:
    """All that is known of a table and its workload before layouts are compared."""

    question: Question
    workload: Workload
    names: tuple[str, ...]
    """Columns to cluster by, the most asked for first."""
    snapshot: Snapshot
    layout: tuple[str, ...]
    """Columns by which the table was last clustered."""


def advise(
    handle: Handle,
    workload: Given = None,
    *,
    columns: Sequence[str] | None = None,
    files: int | None = None,
    target_file_size: int | str | None = None,
    seed: int = 0,
) -> Advice:
    """Compare layouts for a table; as `Table.advise` says."""
    study = studied(handle, workload, columns=columns, files=files, target_file_size=target_file_size, seed=seed)
    by_number = best_by_number(study.question, study.names)
    found = candidates(study.question, min(by_number, key=lambda c: c.kept).by)
    known = {(c.by, c.curve) for c in found}
    found = sorted([*found, *(c for c in by_number if (c.by, c.curve) not in known)], key=lambda c: c.kept)
    return Advice(
        path=handle.storage.root,
        workload=described(study.workload),
        current=as_it_is(study.question, study.layout, len(study.snapshot)),
        candidates=tuple(found),
        by_number_of_columns=tuple(by_number),
        suggestions=suggestions(study.question, found[0].by, found[0].curve),
        problems=study.workload.problems,
    )


def what_if(
    handle: Handle,
    by: Sequence[str] | str,
    *,
    curve: str = AUTO,
    files: int | None = None,
    target_file_size: int | str | None = None,
    workload: Given = None,
) -> Candidate:
    """Say what one layout would do; as `Table.what_if` says."""
    names = (by,) if isinstance(by, str) else tuple(by)
    curves = curves_for(len(names))
    if curve not in (AUTO, *curves):
        raise InputError(
            f'curve="{curve}" is not possible by {len(names)} columns; choose "auto" or one of {", ".join(curves)}'
        )
    study = studied(handle, workload, columns=names, files=files, target_file_size=target_file_size)
    return candidates(study.question, study.names, None if curve == AUTO else (curve,))[0]


def studied(
    handle: Handle,
    given: Given,
    *,
    columns: Sequence[str] | None,
    files: int | None = None,
    target_file_size: int | str | None = None,
    seed: int = 0,
) -> Studied:
    """Read the workload, draw the sample, and ask what the queries read today."""
    handle.need_spark("advice")
    request = check_request(
        by=("x",), curve="linear", build="sample", files=files, target_file_size=target_file_size, where=None,
        into=None, sort_within_files=True, sampling="bernoulli", seed=seed,
    )  # fmt: skip
    schema = read_table_schema(handle)
    snapshot = schema.snapshot
    check_files_are_rows(snapshot)
    if snapshot.reader is not None:
        raise UnsupportedError(f'there is no advice for "{snapshot.root}", which uses {snapshot.reader}')
    fields = _clusterable(handle, snapshot, columns)
    if not fields:
        raise InputError(f'"{snapshot.root}" has no column of an orderable type to cluster by')
    workload, predicates = read_asked(handle, snapshot, given, most=_MOST_QUERIES, seed=seed)
    stats = _known(handle, snapshot)
    rows = np.bincount(snapshot.partition_of, stats.rows, len(snapshot.partitions)).astype(np.int64)
    sizes = np.bincount(snapshot.partition_of, snapshot.sizes, len(snapshot.partitions)).astype(np.int64)
    if not rows.sum():
        raise InputError(f'"{snapshot.root}" has no rows')
    wanted = files_by_partition(request, rows, sizes)
    many = int(wanted.sum()) > _MOST_FITTED
    asked = _weighted(workload, predicates)
    usable = usable_columns([f.name for f in fields], asked)
    names = [f.name for f in fields] if columns is not None else usable
    target = Target(
        files=in_proportion(wanted, _FITTED_OF_MORE) if many else wanted,
        partition_rows=rows,
        file_rows=float(rows.sum() / wanted.sum()) if many else None,
        page_rows=rows_a_page(handle.storage, snapshot, rows, [f for f in fields if f.name in names]),
        seed=seed,
    )
    sampled = _to_sample(snapshot, names, predicates)
    sample, file_of, row_of = _draw(handle, schema, stats, sampled, target, seed)
    table = SampledTable(sample, snapshot.partition_fields, snapshot.partitions)
    if not len(asked):
        asked = made_up(chosen(sample, names), seed)
        workload = dataclasses.replace(workload, source="made up")
    texts = [q.where for q in workload.queries] if workload.queries else [""] * len(asked)
    now = _now(stats, table, file_of, row_of, dataclasses.replace(target, page_rows=MOST_ROWS, file_rows=None), asked)
    question = Question(
        table=table, target=target, asked=asked, texts=texts, now=now, bytes=snapshot.bytes, files=int(wanted.sum())
    )
    layout = last_layout(handle, snapshot)
    return Studied(
        question=question,
        workload=workload,
        names=tuple(names),
        snapshot=snapshot,
        layout=() if layout is None else layout.by,
    )


def choose_columns(handle: Handle, workload: Given, files: int | None, size: int | None, seed: int) -> Candidate | None:
    """The layout that is advised; None where the table should stay as it is."""
    study = studied(handle, workload, columns=None, files=files, target_file_size=size, seed=seed)
    now = as_it_is(study.question, study.layout, len(study.snapshot))
    columns = min(best_by_number(study.question, study.names), key=lambda c: c.kept).by
    best = candidates(study.question, columns)[0]
    return best if best.kept < WORTH * now.kept else None


def asked_of(handle: Handle, snapshot: Snapshot, given: Given) -> tuple[Workload, Asked]:
    """The workload as what layouts are fitted to; raises as `read_asked`."""
    workload, predicates = read_asked(handle, snapshot, given)
    return workload, _weighted(workload, predicates)


def read_asked(
    handle: Handle, snapshot: Snapshot, given: Given, *, most: int = 10_000, seed: int = 0
) -> tuple[Workload, list[Predicate]]:
    """The workload that is meant, and the predicates in it that can be used.

    most: queries, of which a larger recorded workload is drawn by weight. Raises InputError where one was given and
    nothing of it can be used.
    """
    if isinstance(given, str | Path):
        storage = handle.storage_at(str(given).rpartition("/")[0] or ".")
        try:
            given = read_text(storage.read(str(given).rpartition("/")[2]).decode(), str(given))
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise InputError(f'workload="{given}" is no file of queries ({error}); give a list, or a file') from error
    workload = read_workload(handle) if given is None else given if isinstance(given, Workload) else Workload.of(given)
    if workload.source == "recorded":
        workload = dataclasses.replace(workload, queries=drawn(workload.queries, most, seed))
    root = handle.storage.root
    names = [root, root.rpartition("/")[2], f"parquet.{root}", f"delta.{root}"]
    zone = "UTC" if workload.source == "recorded" else time_zone(handle)
    used, predicates = understood(workload, table_columns(handle, snapshot), names=names, timezone=zone)
    if given is not None and not predicates:
        said = f": {used.problems[0]}" if used.problems else ""
        raise InputError(f"no query of the workload can be used{said}")
    return used, predicates


def described(workload: Workload) -> str:
    """Where the queries of a workload are from, in words."""
    if workload.source == "made up":
        return "made-up queries, since no workload was recorded or given (ranges on one or two columns)"
    since = "" if workload.since is None else f" since {workload.since:%Y-%m-%d}"
    scans = f" of {workload.scans:,} scans{since}" if workload.scans else ""
    return f"{len(workload):,} {workload.source} predicates{scans}"


def _weighted(workload: Workload, predicates: Sequence[Predicate]) -> Asked:
    weights = np.array([query.weight for query in workload.queries], np.float64)
    return Asked(predicates=predicates, weights=weights / max(float(weights.sum()), 1e-300))


def _clusterable(handle: Handle, snapshot: Snapshot, columns: Sequence[str] | None) -> list[Field]:
    if columns is not None:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        return list(clustering_fields(names, snapshot, case_sensitive=is_case_sensitive(handle)))
    apart = {*(field.name for field in snapshot.partition_fields), *snapshot.grouped_by}
    return [field for field in snapshot.fields if field.type.form is not None and field.name not in apart]


def _known(handle: Handle, snapshot: Snapshot) -> BoundIndex:
    """What is known of the files; footers are read into memory where there is no index."""
    stats = bind_index(handle, snapshot, warn=False)
    if (stats.rows >= 0).all():
        return stats
    if len(snapshot) > _MOST_FOOTERS:
        raise InputError(
            f"the index knows nothing of {int((stats.rows < 0).sum()):,} of the {len(snapshot):,} files of "
            f'"{snapshot.root}"; bring it up to date with Table.index() first'
        )
    found = refresh(Overlay(handle.storage), snapshot, workers=handle.workers)
    return found.bind(snapshot, case_sensitive=is_case_sensitive(handle))


def _to_sample(snapshot: Snapshot, names: Sequence[str], predicates: Sequence[Predicate]) -> list[Field]:
    """The columns to cluster by, and those that filters speak of besides."""
    asked = {column.path[0].lower() for predicate in predicates for column in columns_of(predicate)}
    apart = {field.name for field in snapshot.partition_fields}
    orderable = [field for field in snapshot.fields if field.type.form is not None and field.name not in apart]
    wanted = {name.lower() for name in names}
    first = [field for field in orderable if field.name.lower() in wanted]
    first.sort(key=lambda field: names.index(field.name))
    more = [field for field in orderable if field.name.lower() in asked - wanted]
    return [*first, *more][:_MOST_SAMPLED]


def chosen(sample: Sample, names: Sequence[str]) -> Sample:
    """The columns of a sample that were named, as far as they were drawn."""
    held = {field.name for field in sample.fields}
    return chosen_columns(sample, [name for name in names if name in held])


def _draw(
    handle: Handle, schema: TableSchema, stats: BoundIndex, fields: Sequence[Field], target: Target, seed: int
) -> tuple[Sample, Ints, Ints]:
    """A sample of rows, the file of each and its place in the file; one Spark job."""
    from zskip.spark.scan.relation import ORDINAL, scan_with_ordinals
    from zskip.spark.write.draw import draw_with_places
    from zskip.spark.write.rewrite import describe_jobs

    snapshot = schema.snapshot
    places = np.arange(len(snapshot))
    if len(places) > _MOST_FILES:
        places = np.sort(np.random.default_rng(seed).permutation(len(places))[:_MOST_FILES])
    some = snapshot.take(places)
    apart = dataclasses.replace(
        some,
        partitions=tuple(Partition(directory=str(i)) for i in range(len(places))),
        partition_of=np.arange(len(places), dtype=np.int32),
    )
    rows = int(stats.rows[places].sum())
    pages = rows / target.page_rows
    wanted = max(ROWS_PER_FILE * int(target.files.sum()), SMALLEST_SAMPLE, min(int(_PAGE_SAMPLES * pages), _MOST_ROWS))
    wanted = min(wanted, LARGEST_SAMPLE)
    spark = handle.need_spark("advice")
    frame = scan_with_ordinals(spark, dataclasses.replace(schema, snapshot=apart))
    with describe_jobs(spark, f"sample {len(fields)} columns of {snapshot.root}"):
        sample, row_of = draw_with_places(frame, fields, ORDINAL, min(1.0, wanted / max(rows, 1)), seed)
    file_of = sample.partition.astype(np.int64)
    partition = some.partition_of[file_of].astype(np.int32)
    return dataclasses.replace(sample, partition=partition), file_of, row_of


def _now(stats: BoundIndex, table: SampledTable, file_of: Ints, row_of: Ints, target: Target, asked: Asked) -> Reads:
    """What the queries read today: of the files by the index, of the pages by the sample."""
    total = max(int(stats.rows.sum()), 1)
    kept = np.array([stats.rows[stats.prune(p).kept].sum() / total for p in asked.predicates])
    order = np.lexsort((row_of, file_of))
    found = read_shares(table, file_of[order], order, target, asked.predicates)
    return Reads(kept=kept, decoded=np.minimum(found.decoded, kept))
