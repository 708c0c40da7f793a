"""Suggest what would help besides a layout: sketches, another file size, no partition column that nobody queries."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from zskip.advisor.advice.layout_search import Question, predict_fit
from zskip.layout.curves import curve_traits, default_curve
from zskip.predicate import (
    And,
    Column,
    Compare,
    Contains,
    EndsWith,
    Exists,
    In,
    Leaf,
    Like,
    Not,
    Opaque,
    Or,
    Term,
    TermLeaf,
    Unknown,
    columns_of,
    conjuncts,
    is_opaque,
    nodes,
    term_sql,
    terms_of,
)
from zskip.predicate.elements import EXPLODE
from zskip.units import show_size

_MOST_READ = 0.5
"""Bounds do not serve a predicate that keeps more than this share of the rows."""
_LEAST_WEIGHT = 0.03
_FEW_VALUES = 1_000
_BLOOM_BITS = 9.6
"""A key, for one false answer in a hundred."""
_NGRAM_BYTES = 4_096
"""A file, about."""
_BETTER = 0.8
_ENOUGH_FILES = 4
_Key = tuple[str, str, tuple[str, ...]]
"""The kind of a sketch, its expression, and the path of the column in it."""


def suggest(question: Question, by: tuple[str, ...], curve: str) -> tuple[str, ...]:
    """Write suggestions as sentences. by, curve: the recommended layout."""
    return (
        *_suggest_sketches(question, by),
        *_suggest_file_size(question, by, curve),
        *_suggest_unpartitioning(question),
        *_describe_opaque_queries(question),
    )


def _suggest_sketches(question: Question, by: Sequence[str]) -> list[str]:
    """Suggest a sketch for each column or expression whose equalities or patterns read most of the table."""
    weights: dict[_Key, float] = defaultdict(float)
    reads_now: dict[_Key, float] = defaultdict(float)
    clustered = {name.lower() for name in by}
    expressions = {field.path: field.name for field in question.table.sample.fields if field.computed}
    parts = zip(
        question.workload.predicates, question.workload.weights.tolist(), question.today.kept.tolist(), strict=True
    )
    for predicate, weight, kept in parts:
        if kept > _MOST_READ:
            for leaf in conjuncts(predicate):
                key = _choose_sketch(leaf, expressions) if isinstance(leaf, Leaf) else None
                if key is not None and key[1].lower() not in clustered:
                    weights[key] += weight
                    reads_now[key] += weight * kept
    sentences = []
    for key in sorted(weights, key=weights.__getitem__, reverse=True):
        kind, on, column = key
        if weights[key] >= _LEAST_WEIGHT:
            sentences.append(_sketch_sentence(question, kind, on, column, weights[key], reads_now[key] / weights[key]))
    return sentences


def _choose_sketch(leaf: Leaf, expressions: Mapping[tuple[str, ...], str]) -> _Key | None:
    """Choose a sketch; None if none serves the leaf.

    expressions: the SQL of columns that stand for expressions.
    """
    term = terms_of(leaf)[0]
    columns = columns_of(leaf)
    if len(columns) != 1:
        return None
    if isinstance(leaf, Exists):
        return _choose_sketch(leaf.test, expressions) if isinstance(leaf.test, TermLeaf) else None
    if isinstance(term, Column) and term.path in expressions:
        is_equality = isinstance(leaf, In) or (isinstance(leaf, Compare) and leaf.op == "=")
        return ("bloom", expressions[term.path], term.path) if is_equality else None
    if isinstance(leaf, In) or (isinstance(leaf, Compare) and leaf.op == "="):
        return "bloom", term_sql(term), columns[0].path
    if isinstance(leaf, Contains | EndsWith | Like) and (isinstance(term, Column) or _is_element(term)):
        return "ngram", term_sql(term), columns[0].path
    return None


def _is_element(term: Term) -> bool:
    return isinstance(term, Opaque) and term.function == EXPLODE


def _sketch_sentence(
    question: Question, kind: str, on: str, column: tuple[str, ...], weight: float, kept: float
) -> str:
    order = question.table.sorted_column(column)
    files = question.files
    rows = int(question.target.partition_rows.sum())
    spec, size, reads_then = f"{kind}:{on}", files * _NGRAM_BYTES, None
    if kind == "bloom":
        distinct, sampled = _count_distinct(order)
        keys = float(rows) if distinct > 0.5 * sampled else min(float(distinct), float(rows))
        few = distinct <= _FEW_VALUES and sampled > 20 * distinct
        spec = f"values({_FEW_VALUES}):{on}" if few else f"bloom(0.01):{on}"
        in_a_file = min(keys, rows / max(files, 1))
        size = int(files * in_a_file * (8 if few else _BLOOM_BITS / 8))
        each = rows / max(keys, 1)
        reads_then = 1 - (1 - 1 / max(files, 1)) ** each
    saved = "" if reads_then is None else f" and would bring those down to about {100 * max(reads_then, 0.01):.0f} %"
    return (
        f"{100 * weight:.0f} % of the queries ask for {on} and read {100 * kept:.0f} % of the rows: "
        f'Table.index(sketches=["{spec}"]) takes about {show_size(max(size, 1))}{saved}.'
    )


def _count_distinct(order: object) -> tuple[int, int]:
    values = getattr(order, "sorted", None)
    if values is None or not len(values):
        return 0, 0
    if values.dtype == object:
        return len(set(values.tolist())), len(values)
    return int(1 + np.count_nonzero(np.diff(values))), len(values)


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
