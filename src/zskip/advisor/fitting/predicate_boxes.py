"""Predicates as boxes over the dense ranks of a sample, which layouts are fitted to.

What is no box (functions, patterns, NOT) leaves its column free: cuts are fitted to less then, and stay right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zskip.layout.ranks import dense_ranks
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, Workload
from zskip.predicate import And, Column, Compare, In, Or, Predicate, StartsWith, patterns
from zskip.records import Floats, Sample

_MOST_BOXES = 16
"""Of one predicate; where there are more, those of an OR or IN become one around them."""

Range = tuple[Any, Any]
"""Lowest and highest value, None where it is open."""
Box = dict[tuple[str, ...], Range]


def boxes_of(predicate: Predicate) -> list[Box]:
    """Boxes that hold all rows for which a predicate is true.

    >>> from zskip.types import DataType
    >>> a = Column(("a",), DataType("integer"))
    >>> boxes_of(And((Compare(">=", a, 3), Or((Compare("=", a, 4), Compare("=", a, 9))))))
    [{('a',): (4, 4)}, {('a',): (9, 9)}]
    """
    if isinstance(predicate, And):
        found: list[Box] = [{}]
        for child in predicate.children:
            parts = boxes_of(child)
            if len(found) * len(parts) > _MOST_BOXES:
                found, parts = ([_around(boxes)] if len(boxes) > 1 else boxes for boxes in (found, parts))
            found = [box for one in found for other in parts if (box := _both(one, other)) is not None]
        return found
    if isinstance(predicate, Or):
        found = [box for child in predicate.children for box in boxes_of(child)]
        return found if len(found) <= _MOST_BOXES else [_around(found)]
    return _of_leaf(predicate)


def _of_leaf(leaf: Predicate) -> list[Box]:
    if not isinstance(leaf, Compare | In | StartsWith) or not isinstance(leaf.term, Column):
        return [{}]
    path = leaf.term.path
    if isinstance(leaf, In):
        values = list(leaf.values)
        if len(values) > _MOST_BOXES:
            values = [values[i * (len(values) - 1) // (_MOST_BOXES - 1)] for i in range(_MOST_BOXES)]
        return [{path: (value, value)} for value in values]
    if isinstance(leaf, StartsWith):
        return [{path: (leaf.prefix, patterns.next_prefix(leaf.prefix))}]
    value: Any = leaf.value
    if value != value:
        return [{}]
    low, high = (value if leaf.op in ops else None for ops in (("=", ">", ">="), ("=", "<", "<=")))
    return [{path: (low, high)}]


def _both(one: Box, other: Box) -> Box | None:
    """The box that two boxes share; None where they do not meet."""
    found = dict(one)
    for path, (low, high) in other.items():
        below, above = found.get(path, (None, None))
        low = below if low is None else low if below is None else max(low, below)
        high = above if high is None else high if above is None else min(high, above)
        if low is not None and high is not None and low > high:
            return None
        found[path] = (low, high)
    return found


def _around(boxes: Sequence[Box]) -> Box:
    paths = set.intersection(*(set(box) for box in boxes)) if boxes else set()
    found: Box = {}
    for path in paths:
        lows, highs = zip(*(box[path] for box in boxes), strict=True)
        low = None if None in lows else min(lows)
        high = None if None in highs else max(highs)
        found[path] = (low, high)
    return found


def ranked(predicates: Sequence[Predicate], weights: Floats, sample: Sample) -> Workload:
    """The boxes of predicates over the dense ranks of a sample; a predicate's weight is shared by its boxes."""
    distinct = [dense_ranks(values, nulls)[0] for values, nulls in zip(sample.columns, sample.nulls, strict=True)]
    paths = [(field.name,) for field in sample.fields]
    lower, upper, found = [], [], []
    for predicate, weight in zip(predicates, weights.tolist(), strict=True):
        boxes = boxes_of(predicate)
        for box in boxes:
            ends = [_ranks(box.get(path), values) for path, values in zip(paths, distinct, strict=True)]
            lower.append([low for low, _ in ends])
            upper.append([high for _, high in ends])
            found.append(weight / len(boxes))
    shape = (len(found), len(paths))
    total = max(sum(found), 1e-300)
    return Workload(
        lower=np.array(lower, np.int32).reshape(shape),
        upper=np.array(upper, np.int32).reshape(shape),
        weights=np.array(found) / total,
    )


def _ranks(ends: Range | None, distinct: Any) -> tuple[int, int]:
    if ends is None:
        return ANY_LOWER, ANY_UPPER
    low, high = ends
    first = ANY_LOWER if low is None else int(np.searchsorted(distinct, _held(low, distinct), "left"))
    last = ANY_UPPER if high is None else int(np.searchsorted(distinct, _held(high, distinct), "right")) - 1
    return first, last


def _held(value: Any, like: Any) -> Any:
    """A value as an array of one: NumPy takes bare `bytes` for text that ends before its trailing zeros."""
    if like.dtype != object:
        return value
    wrapped = np.empty((), object)
    wrapped[()] = value
    return wrapped


def limiting(workload: Workload) -> Workload:
    """Without the boxes that say nothing of any column: every layout is the same to them."""
    says = ((workload.lower != ANY_LOWER) | (workload.upper != ANY_UPPER)).any(axis=1)
    if says.all():
        return workload
    weights = workload.weights[says]
    return Workload(
        lower=workload.lower[says], upper=workload.upper[says], weights=weights / max(weights.sum(), 1e-300)
    )


def mixed(workload: Workload, other: Workload, share: float) -> Workload:
    """Two workloads in one; share: the weight of the other (0 to 1)."""
    if not len(workload):
        return other
    return Workload(
        lower=np.concatenate([workload.lower, other.lower]),
        upper=np.concatenate([workload.upper, other.upper]),
        weights=np.concatenate([workload.weights * (1 - share), other.weights * share]),
    )
