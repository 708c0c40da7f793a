"""The rows of a plan, as other engines read them."""

from __future__ import annotations

from typing import Any

import duckdb

from zskip.table.read.plan import ScanPlan

ENGINES = ["duckdb", "polars"]


def rows(plan: ScanPlan, engine: str, columns: str = "*") -> list[tuple[Any, ...]]:
    """The rows of a plan as an engine reads them, in some order that is always the same."""
    if engine == "duckdb":
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'Asia/Tokyo'")
            return sorted(plan.to_duckdb(connection).project(columns).fetchall(), key=repr)
    frame = plan.to_polars()
    names = frame.collect_schema().names() if columns == "*" else columns.split(", ")
    return sorted(frame.select(names).collect().rows(), key=repr)
