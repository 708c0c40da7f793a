"""Predicate and statistics to kept files, with reasons."""

from zskip.prune.evaluate import StatsSource, evaluate
from zskip.prune.outcomes import Decided, Outcomes
from zskip.prune.overlap import clustering
from zskip.prune.prune import outcomes, prune

__all__ = ["Decided", "Outcomes", "StatsSource", "clustering", "evaluate", "outcomes", "prune"]
