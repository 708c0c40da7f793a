"""What is known of a table, as one page that a browser shows: summed up, drawn and written; no Spark, no input."""

from zskip.report.facts import Asked, Facts, Queries
from zskip.report.page import need_libraries, to_html
from zskip.report.picture import figure
from zskip.report.spread import Spread, spread_of

__all__ = ["Asked", "Facts", "Queries", "Spread", "figure", "need_libraries", "spread_of", "to_html"]
