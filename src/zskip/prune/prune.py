"""A predicate and what is known of the files, to the files that a query has to read, with reasons."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

import numpy as np

from zskip.predicate import And, Column, Constant, Not, Or, Predicate, Unknown, to_sql
from zskip.prune.evaluate import StatsSource, evaluate
from zskip.prune.outcomes import Outcomes
from zskip.records import Bools, ColumnStats, LeafReport, PruneResult


def prune(predicate: Predicate, stats: StatsSource) -> PruneResult:
    """Decide for every file whether some row might match, and whether all rows do.

    Whatever is not known keeps the file: a column without statistics, a predicate that is not understood.
    """
    walk = _Walk(stats)
    outcomes = walk.outcomes(predicate)
    return PruneResult(kept=outcomes.may_true, full=outcomes.full, leaves=tuple(walk.leaves))


def outcomes(predicate: Predicate, stats: StatsSource) -> Outcomes:
    """Which truth values the predicate may have among the rows of each file."""
    return _Walk(stats).outcomes(predicate)


class _Walk:
    """Evaluates a predicate from its leaves up, and takes down what each leaf did."""

    def __init__(self, stats: StatsSource) -> None:
        self._stats = stats
        self._occupied: Bools = stats.rows != 0
        self.leaves: list[LeafReport] = []

    def outcomes(self, node: Predicate, negated: bool = False) -> Outcomes:
        if isinstance(node, And | Or):
            combine = and_ if isinstance(node, And) else or_
            empty = Outcomes.constant(isinstance(node, And), self._occupied)
            return reduce(combine, [self.outcomes(child, negated) for child in node.children], empty)
        if isinstance(node, Not):
            return ~self.outcomes(node.child, not negated)
        if isinstance(node, Constant):
            return Outcomes.constant(node.value, self._occupied)
        if isinstance(node, Unknown):
            return self._kept_all(node.sql, node.reason)
        found = self._column(node.column)
        if found is None:
            return self._kept_all(to_sql(node, shorten=True), f"no statistics of {'.'.join(node.column.path)}")
        result = evaluate(node, found, self._stats.rows)
        self._report(to_sql(Not(node) if negated else node, shorten=True), ~result if negated else result)
        return result

    def _column(self, column: Column) -> ColumnStats | None:
        found = self._stats.column(column.path)
        return None if found is None or found.type != column.type else found

    def _kept_all(self, sql: str, reason: str) -> Outcomes:
        self.leaves.append(LeafReport(sql=sql, skipped=0, reason=reason))
        return Outcomes.unknown(self._occupied)

    def _report(self, sql: str, result: Outcomes) -> None:
        skipped = int(np.count_nonzero(~result.may_true))
        reason = "" if skipped else "every file's range holds a match"
        self.leaves.append(LeafReport(sql=sql, skipped=skipped, reason=reason))
