"""Turns a predicate and statistics into kept files, with reasons."""

from zskip.prune.boxes import cover
from zskip.prune.evaluate import StatsSource, evaluate
from zskip.prune.order import Order, enough_files, top_files
from zskip.prune.outcomes import Outcomes
from zskip.prune.overlap import clustering
from zskip.prune.prune import outcomes, prune
from zskip.prune.tally import Tally
