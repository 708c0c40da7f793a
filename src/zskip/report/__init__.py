"""The report on a table as one HTML page: computes summaries, draws charts, writes HTML; no Spark, no input."""

from zskip.report.facts import Facts, Queries, QueryReads
from zskip.report.lake_page import LakeFacts, TableBar, lake_to_html
from zskip.report.page import need_libraries, to_html
from zskip.report.picture import figure
from zskip.report.spread import Spread, spread_of

__all__ = [
    "Facts",
    "LakeFacts",
    "Queries",
    "QueryReads",
    "Spread",
    "TableBar",
    "figure",
    "lake_to_html",
    "need_libraries",
    "spread_of",
    "to_html",
]
