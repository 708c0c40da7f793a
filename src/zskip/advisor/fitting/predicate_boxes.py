"""Predicates as boxes over the dense ranks of a sample, which layouts are fitted to.

A function of a column whose range is known gives ranges of the column. What is no box (patterns, NOT) leaves its column
free: cuts are fitted to less then, and stay right.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from zskip.advisor.fitting.preimages import preimage
from zskip.layout.ranks import dense_ranks, position
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, Workload
from zskip.predicate import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    columns_of,
    is_opaque,
    nodes,
    patterns,
    terms_of,
)
from zskip.records import Floats, Sample
from zskip.types import Form

_MOST_BOXES = 16
"""Of one predicate; where there are more, those of an OR or IN become one around them."""

_FAR = 2**63 - 1
MADE_UP = "made-up queries"
Range = tuple[Any, Any]
"""Lowest and highest value, None where it is open; no range holds nulls."""
ONLY_NULLS: Range = (..., ...)
"""In place of a range, where a query asks for nulls."""
Box = dict[tuple[str, ...], Range]


def boxes_of(predicate: Predicate) -> list[Box]:
    """Boxes that hold all rows for which a predicate is true.

    >>> from zskip.types import DataType
    >>> a = Column(("a",), DataType("integer"))
    >>> boxes_of(And((Compare(">=", a, 3), Or((Compare("=", a, 4), Compare("=", a, 9))))))
    [{('a',): (4, 4)}, {('a',): (9, 9)}]
    """
    if isinstance(predicate, And):
        boxes: list[Box] = [{}]
        for child in predicate.children:
            parts = boxes_of(child)
            if len(boxes) * len(parts) > _MOST_BOXES:
                boxes, parts = ([_around(several)] if len(several) > 1 else several for several in (boxes, parts))
            boxes = [box for one in boxes for other in parts if (box := _both(one, other)) is not None]
        return boxes
    if isinstance(predicate, Or):
        boxes = [box for child in predicate.children for box in boxes_of(child)]
        return boxes if len(boxes) <= _MOST_BOXES else [_around(boxes)]
    return _of_leaf(predicate)


def _of_leaf(leaf: Predicate) -> list[Box]:
    term = terms_of(leaf)[0] if isinstance(leaf, Compare | In | StartsWith | IsNull) else None
    if isinstance(leaf, Not) and isinstance(leaf.child, IsNull) and isinstance(leaf.child.term, Column):
        return [{leaf.child.term.path: (None, None)}]
    if not isinstance(term, Column):
        return _of_function(leaf)
    path = term.path
    if isinstance(leaf, IsNull):
        return [{path: ONLY_NULLS}]
    if isinstance(leaf, In):
        values = list(leaf.values)
        if len(values) > _MOST_BOXES:
            values = [values[i * (len(values) - 1) // (_MOST_BOXES - 1)] for i in range(_MOST_BOXES)]
        return [{path: (value, value)} for value in values]
    if isinstance(leaf, StartsWith):
        return [{path: (leaf.prefix, patterns.next_prefix(leaf.prefix))}]
    return _of_comparison(leaf) if isinstance(leaf, Compare) else [{}]


def _of_function(leaf: Predicate) -> list[Box]:
    """The boxes of a condition on a function of one column, such as a cast."""
    columns = set(columns_of(leaf))
    if len(columns) != 1 or any(isinstance(node, Unknown) or is_opaque(node) for node in nodes(leaf)):
        return [{}]
    column = columns.pop()
    ranges = preimage(leaf, column)
    if ranges is None:
        return [{}]
    boxes: list[Box] = [{column.path: ends} for ends in ranges]
    return boxes if len(boxes) <= _MOST_BOXES else [_around(boxes)]


def _of_comparison(leaf: Compare) -> list[Box]:
    value: Any = leaf.value
    form = leaf.term.type.form if isinstance(leaf.term, Column) else None
    if value != value or form is None:
        return [{}]
    low = {"=": value, ">=": value, ">": _next(value, form)}.get(leaf.op)
    high = {"=": value, "<=": value, "<": _previous(value, form)}.get(leaf.op)
    return [{path: (low, high)} for path in (column.path for column in columns_of(leaf))]


def _next(value: Any, form: Form) -> Any:
    """The least value above another."""
    if form is Form.BYTES:
        return value + b"\0"
    return math.floor(value) + 1 if form is Form.INT and math.isfinite(value) else float(np.nextafter(value, np.inf))


def _previous(value: Any, form: Form) -> Any:
    """The largest value below another; of bytes the same, since there is none."""
    if form is Form.BYTES:
        return value
    return math.ceil(value) - 1 if form is Form.INT and math.isfinite(value) else float(np.nextafter(value, -np.inf))


def _both(one: Box, other: Box) -> Box | None:
    """The box that two boxes share; None where they do not meet."""
    shared = dict(one)
    for path, (low, high) in other.items():
        if path in shared and (shared[path] is ONLY_NULLS) != (other[path] is ONLY_NULLS):
            return None
        if other[path] is ONLY_NULLS:
            shared[path] = ONLY_NULLS
            continue
        below, above = shared.get(path, (None, None))
        low = below if low is None else low if below is None else max(low, below)
        high = above if high is None else high if above is None else min(high, above)
        if low is not None and high is not None and low > high:
            return None
        shared[path] = (low, high)
    return shared


def _around(boxes: Sequence[Box]) -> Box:
    paths = set.intersection(*(set(box) for box in boxes)) if boxes else set()
    shared: Box = {}
    for path in paths:
        ranges = [box[path] for box in boxes]
        if ONLY_NULLS in ranges:
            if ranges.count(ONLY_NULLS) == len(ranges):
                shared[path] = ONLY_NULLS
            continue
        lows, highs = zip(*ranges, strict=True)
        low = None if None in lows else min(lows)
        high = None if None in highs else max(highs)
        shared[path] = (low, high)
    return shared


def rank_boxes(predicates: Sequence[Predicate], weights: Floats, sample: Sample, texts: Sequence[str] = ()) -> Workload:
    """The boxes of predicates over the dense ranks of a sample; a predicate's weight is shared by its boxes.

    texts: what kind of query each is, in words.
    """
    distinct = [dense_ranks(values, nulls)[0] for values, nulls in zip(sample.columns, sample.nulls, strict=True)]
    paths = [field.path for field in sample.fields]
    lower, upper, nulls, shares, owners = [], [], [], [], []
    ends: list[list[tuple[Any, float]]] = [[] for _ in paths]
    for owner, (predicate, weight) in enumerate(zip(predicates, weights.tolist(), strict=True)):
        boxes = boxes_of(predicate)
        share = weight / max(len(boxes), 1)
        for box in boxes:
            ranges = [_ranks(box.get(path), values) for path, values in zip(paths, distinct, strict=True)]
            lower.append([low for low, _ in ranges])
            upper.append([high for _, high in ranges])
            nulls.append([box.get(path) is ONLY_NULLS for path in paths])
            shares.append(share)
            owners.append(owner)
            for path, field, column_ends in zip(paths, sample.fields, ends, strict=True):
                column_ends += [(end, share) for end in _ends(box.get(path), field.type.form)]
    shape = (len(shares), len(paths))
    total = max(sum(shares), 1e-300)
    return Workload(
        lower=np.array(lower, np.int32).reshape(shape),
        upper=np.array(upper, np.int32).reshape(shape),
        weights=np.array(shares) / total,
        owners=np.array(owners, np.int64),
        nulls=np.array(nulls, np.bool_).reshape(shape),
        ends=tuple(_weighted(of_column, values) for of_column, values in zip(ends, distinct, strict=True)),
        texts=tuple(texts[owner] for owner in owners) if texts else (),
    )


def _ranks(ends: Range | None, distinct: Any) -> tuple[int, int]:
    if ends is None or ends is ONLY_NULLS:
        return ANY_LOWER, ANY_UPPER
    low, high = ends
    first = 0 if low is None else position(distinct, low, "left")
    return first, (len(distinct) if high is None else position(distinct, high, "right")) - 1


def _ends(ends: Range | None, form: Form | None) -> list[Any]:
    """The first value of a range and the first beyond it, as far as the form of the column has them."""
    if ends is None or ends is ONLY_NULLS or form is None:
        return []
    low, high = ends
    values = [value for value in (low, None if high is None else _next(high, form)) if value is not None]
    if form is Form.INT:
        return [math.ceil(value) for value in values if abs(value) < _FAR]
    return values


def _weighted(ends: Sequence[tuple[Any, float]], like: Any) -> tuple[Any, Floats]:
    """Different values, ascending, and the weight of each."""
    weights: dict[Any, float] = {}
    for value, weight in ends:
        weights[value] = weights.get(value, 0.0) + weight
    values = np.empty(len(weights), like.dtype)
    values[:] = sorted(weights)
    return values, np.array([weights[value] for value in sorted(weights)])


def drop_unlimited(workload: Workload) -> Workload:
    """Without the boxes that say nothing of any column: every layout is the same to them."""
    says = ((workload.lower != ANY_LOWER) | (workload.upper != ANY_UPPER)).any(axis=1)
    if workload.nulls is not None:
        says |= workload.nulls.any(axis=1)
    if says.all():
        return workload
    # A query of which one part reads everything reads everything.
    starts = workload.starts
    lengths = np.diff(np.append(starts, len(workload)))
    says = np.repeat(np.logical_and.reduceat(says, starts), lengths)
    weights = workload.weights[says]
    return dataclasses.replace(
        workload,
        lower=workload.lower[says],
        upper=workload.upper[says],
        weights=weights / max(weights.sum(), 1e-300),
        owners=None if workload.owners is None else workload.owners[says],
        nulls=None if workload.nulls is None else workload.nulls[says],
        texts=tuple(itertools.compress(workload.texts, says.tolist())),
    )


def mix_workloads(workload: Workload, other: Workload, share: float) -> Workload:
    """Two workloads in one; share: the weight of the other (0 to 1)."""
    if not len(workload):
        return other
    return dataclasses.replace(
        workload,
        lower=np.concatenate([workload.lower, other.lower]),
        upper=np.concatenate([workload.upper, other.upper]),
        weights=np.concatenate([workload.weights * (1 - share), other.weights * share]),
        owners=None
        if workload.owners is None
        else np.append(workload.owners, _FAR - len(other) + np.arange(len(other))),
        nulls=None
        if workload.nulls is None
        else np.concatenate([workload.nulls, np.zeros_like(other.lower, np.bool_)]),
        texts=(*workload.texts, *[MADE_UP] * len(other)) if workload.texts else (),
    )
