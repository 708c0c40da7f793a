"""A random workload as predicates, for tables whose queries are unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from zskip.advisor.fitting.cross_validation import ParsedWorkload
from zskip.layout.predict import sample_ranks
from zskip.layout.ranks import dense_ranks
from zskip.layout.workload import ANY_UPPER, synthetic_workload
from zskip.predicate import Column, Compare, Predicate, conjunction
from zskip.records import Sample

_QUERIES = 200


def make_up_queries(sample: Sample, seed: int) -> ParsedWorkload:
    """Make up ranges of 0.1 to 20 % of the rows on one or two columns of a sample."""
    workload = synthetic_workload(sample_ranks(sample), queries=_QUERIES, seed=seed)
    distinct: list[Any] = [dense_ranks(v, n)[0] for v, n in zip(sample.columns, sample.nulls, strict=True)]
    predicates: list[Predicate] = []
    for low, high in zip(workload.lower.tolist(), workload.upper.tolist(), strict=True):
        parts: list[Predicate] = []
        for field, values, first, last in zip(sample.fields, distinct, low, high, strict=True):
            if last != ANY_UPPER and first >= 0:
                column, ends = Column(field.path, field.type), (values[first], values[last])
                lower, upper = (end if isinstance(end, bytes) else np.asarray(end).item() for end in ends)
                parts += [Compare(">=", column, lower), Compare("<=", column, upper)]
        predicates.append(conjunction(tuple(parts)))
    return ParsedWorkload(predicates=predicates, weights=workload.weights)
