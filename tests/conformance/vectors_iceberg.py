"""The metrics evaluators of Iceberg: inclusive (may some row match) and strict (do all rows match)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from question import File, Known, Question, fields

from zskip.predicate import Columns
from zskip.types import DataType, encode

PATH = Path(__file__).parents[1] / "data" / "conformance" / "iceberg_metrics.json"
_TYPES = {"int": "integer"}


def questions() -> Iterator[Question]:
    """One for each case."""
    for case in json.loads(PATH.read_text(encoding="utf-8"))["cases"]:
        yield _question(case)


def _question(case: dict[str, Any]) -> Question:
    strict = case["evaluator"] == "strict"
    types = {
        tuple(name.split(".")): DataType(_TYPES.get(kind["type"], kind["type"]))
        for name, kind in case["schema"].items()
    }
    required = {tuple(name.split(".")) for name, kind in case["schema"].items() if kind["required"]}
    rows = case["file"]["record_count"]
    known = {
        path: _known(case["file"]["columns"].get(".".join(path), {}), data_type, path in required)
        for path, data_type in types.items()
    }
    return Question(
        suite="Iceberg, strict" if strict else "Iceberg, inclusive",
        name=f"{case['id']}: {case['predicate'][:80]}",
        sql=case["predicate"],
        columns=Columns(fields(types), case_sensitive=case["case_sensitive"]),
        types=types,
        files=[File(rows, known)],
        peer=[case["expected"] in ("read", "all_rows_match")],
        strict=strict,
    )


def _known(found: dict[str, Any], data_type: DataType, required: bool) -> Known:
    lower, upper = (
        None if found.get(end) is None or data_type.form is None else encode(found[end], data_type)
        for end in ("lower", "upper")
    )
    nans, values = found.get("nan_count", -1), found.get("value_count", -1)
    no_nulls = required or values == nans >= 0
    return Known(lower, upper, found.get("null_count", 0 if no_nulls else -1), nans, values)
