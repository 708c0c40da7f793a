"""Suggest what would help besides a layout: sketches, another file size, no partition column that nobody queries."""

from __future__ import annotations

import dataclasses

import numpy as np

from zskip.advisor.advice.layout_search import Question, predict_fit
from zskip.layout.curves import curve_traits, default_curve
from zskip.predicate import (
    And,
    Not,
    Or,
    Unknown,
    columns_of,
    is_opaque,
    nodes,
)
from zskip.units import show_size

_BETTER = 0.8
_ENOUGH_FILES = 4


def suggest(question: Question, by: tuple[str, ...], curve: str) -> tuple[str, ...]:
    """Write suggestions as sentences. by, curve: the recommended layout."""
    return (
        *_suggest_file_size(question, by, curve),
        *_suggest_unpartitioning(question),
        *_describe_opaque_queries(question),
    )


def _suggest_file_size(question: Question, by: tuple[str, ...], curve: str) -> list[str]:
    if question.target.file_rows is not None:
        return []
    quick = question.draw_queries(150)

    def kept(factor: float) -> float:
        files = np.maximum(np.rint(quick.target.files * factor), (quick.target.files > 0)).astype(np.int64)
        target = dataclasses.replace(quick.target, files=files)
        # A tree of cuts takes long to fit.
        fitted_curve = default_curve(len(by)) if curve_traits(curve).needs_workload else curve
        reads = predict_fit(dataclasses.replace(quick, target=target), by, fitted_curve)
        return float(reads.kept @ quick.workload.weights)

    size = question.bytes / max(int(question.target.files.sum()), 1)
    now, twice = kept(1), kept(2)
    if twice < _BETTER * now and len(question.table.sample) > 400 * question.target.files.sum():
        return [
            f"Files of half the size ({show_size(size / 2)}) would bring the rows in files that a query reads from "
            f"{100 * now:.1f} % to {100 * twice:.1f} %."
        ]
    if question.target.files.sum() >= _ENOUGH_FILES * int(np.count_nonzero(question.target.files)):
        half = kept(0.5)
        if half < now / 0.95:
            return [
                f"Files of twice the size ({show_size(2 * size)}) would read no more: {100 * half:.1f} % instead of "
                f"{100 * now:.1f} %."
            ]
    return []


def _describe_opaque_queries(question: Question) -> list[str]:
    """Describe the queries that no layout can serve, as far as zskip understands them."""
    opaque = [
        all(isinstance(node, Unknown | And | Or | Not) or is_opaque(node) for node in nodes(predicate))
        for predicate in question.workload.predicates
    ]
    share = float(question.workload.weights[np.array(opaque, np.bool_)].sum()) if len(question.workload) else 0.0
    if share < 0.005:
        return []
    return [
        f"{100 * share:.0f} % of the queries read all files under any layout: bounds say nothing about their filters."
    ]


def _suggest_unpartitioning(question: Question) -> list[str]:
    if not len(question.workload):
        return []
    query_weights = dict.fromkeys((f.name.lower() for f in question.table.partition_fields), 0.0)
    for predicate, weight in zip(question.workload.predicates, question.workload.weights.tolist(), strict=True):
        for column in columns_of(predicate):
            if column.path[0].lower() in query_weights:
                query_weights[column.path[0].lower()] += weight
    names = {field.name.lower(): field.name for field in question.table.partition_fields}
    return [
        f'No query filters by the partition column "{names[name]}": without it files could be clustered across its '
        f"{len(question.table.partitions):,} partitions."
        for name, weight in query_weights.items()
        if weight < 0.01
    ]
