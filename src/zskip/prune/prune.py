"""Turns a predicate and statistics into the files that a query has to read, with reasons.

    each leaf -> its column's statistics (evaluate.py), then its sketches -> outcomes: may it be true, false, null?
              -> AND, OR, NOT over the outcomes -> kept files, files whose rows all match, a report for each leaf

All files are evaluated at once, as masks. An unknown may be anything, so it keeps the file.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, reduce
from operator import and_, or_

import numpy as np

from zskip.predicate import (
    And,
    Column,
    CompareTerms,
    Constant,
    Exists,
    IsNull,
    Leaf,
    Not,
    Or,
    Predicate,
    Term,
    Unknown,
    columns_under,
    implied_tests,
    is_opaque,
    nodes,
    term_sql,
    terms_of,
    to_sql,
)
from zskip.prune import monotone
from zskip.prune.evaluate import StatsSource, evaluate, evaluate_terms, presence
from zskip.prune.outcomes import Outcomes
from zskip.records import Bools, ColumnStats, LeafReport, PruneResult
from zskip.sketch import Answer, FileSketches, normal

_MOST_NODES = 1_000
"""Longer filters are not compared with the conditions of sketches."""


def prune(predicate: Predicate, stats: StatsSource, sketches: FileSketches | None = None) -> PruneResult:
    """Decide for every file whether some row might match, and whether all rows do.

    Unknowns keep the file: a column without statistics, a predicate that is not understood.
    sketches: for the same files in the same order.
    """
    evaluation = _Evaluation(stats, sketches)
    outcomes = evaluation.outcomes(predicate)
    result = PruneResult(kept=outcomes.may_true, full=outcomes.full, leaves=tuple(evaluation.leaves))
    return match_conditions(result, predicate, sketches, stats)


def match_conditions(
    result: PruneResult, predicate: Predicate, sketches: FileSketches | None, stats: StatsSource
) -> PruneResult:
    """Rule out the files without a match of a condition that the predicate implies."""
    if sketches is None or not sketches.conditions or sum(1 for _ in nodes(predicate)) > _MOST_NODES:
        return result
    may_match, reports = sketches.match(normal(predicate), lambda branch: outcomes(branch, stats).may_true)
    return replace(result, kept=result.kept & may_match, leaves=(*result.leaves, *reports))


def outcomes(predicate: Predicate, stats: StatsSource, sketches: FileSketches | None = None) -> Outcomes:
    """Find the truth values that the predicate may have among the rows of each file."""
    return _Evaluation(stats, sketches).outcomes(predicate)


class _Evaluation:
    """Evaluates a predicate from its leaves up, and reports on each leaf."""

    def __init__(self, stats: StatsSource, sketches: FileSketches | None) -> None:
        self._stats = stats
        self._sketches = sketches
        self._occupied: Bools = stats.rows != 0
        # Many leaves may share a column.
        rows = stats.rows
        self._term_stats = cache(lambda term: monotone.term_stats(term, self._column_stats))
        self._presence = cache(lambda column: presence(column, rows))
        self._unindexed = cache(lambda: int(np.count_nonzero(rows < 0)))
        self._bounded = cache(lambda column: (bool(column.bounded.any()), bool(column.bounded.all())))
        self.leaves: list[LeafReport] = []

    def outcomes(self, node: Predicate, negated: bool = False) -> Outcomes:
        if isinstance(node, And | Or):
            combine = and_ if isinstance(node, And) else or_
            empty = Outcomes.constant(isinstance(node, And), self._occupied)
            combined = reduce(combine, [self.outcomes(child, negated) for child in node.children], empty)
            result = combined.without_null() if _is_never_null(node) else combined
            return self._narrow(node, result) if isinstance(node, And) and not negated else result
        if isinstance(node, Not):
            result = ~self.outcomes(node.child, not negated)
            return result if negated else self._narrow(node, result)
        if isinstance(node, Constant):
            return Outcomes.constant(node.value, self._occupied)
        if isinstance(node, Unknown):
            return self._keep_all(node.sql, node.reason)
        return self._leaf_outcomes(node, negated)

    def _narrow(self, node: Predicate, result: Outcomes) -> Outcomes:
        """Ask the sketches, which can only rule out that a node is true."""
        for answer in self._answers(node):
            result = Outcomes(result.may_true & answer.may_match, result.may_false, result.may_null)
        return result

    def _answers(self, node: Predicate) -> list[Answer]:
        if self._sketches is None:
            return []
        # An element that passes one test says nothing of another test, so each asks alone.
        nodes_to_answer = (node.test,) if isinstance(node, Exists) else (node, *implied_tests(node))
        return [answer for part in nodes_to_answer for answer in self._sketches.answers(part)]

    def _leaf_outcomes(self, leaf: Leaf, negated: bool) -> Outcomes:
        result = self._evaluate_leaf(leaf, negated)
        answers = self._answers(Not(leaf) if negated else leaf)
        if answers:
            may_true = result.may_false if negated else result.may_true
            skipped = ~may_true | ~np.logical_and.reduce([answer.may_match for answer in answers])
            reason = "" if skipped.any() else "; ".join(answer.reason for answer in answers)
            self.leaves[-1] = replace(self.leaves[-1], skipped=int(np.count_nonzero(skipped)), reason=reason)
        return result if negated else self._narrow(leaf, result)

    def _evaluate_leaf(self, leaf: Leaf, negated: bool) -> Outcomes:
        term_stats = [self._term_stats(term) for term in terms_of(leaf)]
        sql = to_sql(Not(leaf) if negated else leaf, shorten=True)
        known = [stats for stats in term_stats if stats is not None]
        if len(known) < len(term_stats) or isinstance(leaf, Exists):
            return self._keep_all(sql, self._explain_unknown(leaf))
        if isinstance(leaf, CompareTerms):
            result = evaluate_terms(leaf, known[0], known[1], self._stats.rows)
        else:
            result = evaluate(leaf, known[0], self._presence(known[0]))
        skipped = int(np.count_nonzero(~(result.may_false if negated else result.may_true)))
        reason = "" if skipped else self._explain_no_skips(known)
        self.leaves.append(LeafReport(sql=sql, skipped=skipped, reason=reason))
        return result

    def _column_stats(self, term: Term) -> ColumnStats | None:
        stats = self._stats.column(term.path) if isinstance(term, Column) else None
        return None if stats is None or stats.type != term.type else stats

    def _explain_unknown(self, leaf: Leaf) -> str:
        if is_opaque(leaf):
            return f"no sketch of {', '.join(term_sql(term) for term in terms_of(leaf))}"
        for column in (column for term in terms_of(leaf) for column in columns_under(term)):
            stats = self._stats.column(column.path)
            if stats is None:
                return f"no statistics of {'.'.join(column.path)}"
            if stats.type != column.type:
                return f"the statistics of {'.'.join(column.path)} are of type {stats.type}, not {column.type}"
        return "not supported"

    def _keep_all(self, sql: str, reason: str) -> Outcomes:
        self.leaves.append(LeafReport(sql=sql, skipped=0, reason=reason))
        return Outcomes.unknown(self._occupied)

    def _explain_no_skips(self, known: list[ColumnStats]) -> str:
        """Explain why a leaf over known columns skips nothing."""
        unindexed, bounded = self._unindexed(), [self._bounded(stats) for stats in known]
        if unindexed:
            return f"the index is stale: it knows nothing of {unindexed} of {len(self._occupied)} files"
        if not any(some for some, _ in bounded):
            return "no file has bounds"
        if not all(every for _, every in bounded):
            return "every file's range holds a match, or is not known"
        return "every file's range holds a match"


def _is_never_null(node: And | Or) -> bool:
    """Whether this is `a IS NOT NULL AND ...` with leaves over `a` alone, such as `isnan(a)` and `a <=> 1`."""
    first = node.children[0] if isinstance(node, And) and node.children else None
    if not isinstance(first, Not) or not isinstance(first.child, IsNull):
        return False
    return all(isinstance(part, Leaf) and terms_of(part) == (first.child.term,) for part in node.children[1:])
