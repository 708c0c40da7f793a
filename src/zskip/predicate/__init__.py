"""The engine-neutral predicate tree and its translations."""

from zskip.predicate.columns import Attributes, Columns
from zskip.predicate.parse_sql import parse, parse_many
from zskip.predicate.to_sql import to_sql
from zskip.predicate.tree import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Leaf,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    columns_of,
    conjunction,
    nodes,
)

__all__ = [
    "And",
    "Attributes",
    "Column",
    "Columns",
    "Compare",
    "Constant",
    "In",
    "IsNull",
    "Leaf",
    "Not",
    "Or",
    "Predicate",
    "StartsWith",
    "Unknown",
    "columns_of",
    "conjunction",
    "nodes",
    "parse",
    "parse_many",
    "to_sql",
]
