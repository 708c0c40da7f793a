"""The engine-neutral predicate tree and its translations."""

from zskip.predicate import patterns
from zskip.predicate.columns import Attributes, Columns
from zskip.predicate.from_pyarrow import from_pyarrow
from zskip.predicate.parse_sql import parse, parse_many
from zskip.predicate.to_iceberg import to_iceberg
from zskip.predicate.to_pyarrow import to_pyarrow
from zskip.predicate.to_sql import to_sql
from zskip.predicate.tree import (
    And,
    Call,
    Column,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNull,
    Leaf,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
    TermLeaf,
    Unknown,
    column_of,
    columns_of,
    conjunction,
    nodes,
    terms_of,
)

__all__ = [
    "And",
    "Attributes",
    "Call",
    "Column",
    "Columns",
    "Compare",
    "CompareTerms",
    "Constant",
    "Contains",
    "EndsWith",
    "In",
    "IsNull",
    "Leaf",
    "Like",
    "Not",
    "Or",
    "Predicate",
    "StartsWith",
    "Term",
    "TermLeaf",
    "Unknown",
    "column_of",
    "columns_of",
    "conjunction",
    "from_pyarrow",
    "nodes",
    "parse",
    "parse_many",
    "patterns",
    "terms_of",
    "to_iceberg",
    "to_pyarrow",
    "to_sql",
]
