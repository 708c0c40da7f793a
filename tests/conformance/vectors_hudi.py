"""Data skipping by Hudi's column statistics, with cases in which it loses rows."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from question import File, Known, Question, fields

from zskip.predicate import Columns
from zskip.types import DataType, encode

PATH = Path(__file__).parents[1] / "data" / "conformance" / "hudi_skipping.json"
TYPES = {("A",): "long", ("B",): "string", ("C",): "timestamp", ("D",): "string", ("d",): "double"}


def questions() -> Iterator[Question]:
    """One for each case; of the adversarial ones Hudi's answer is the wrong one of its release 1."""
    vectors = json.loads(PATH.read_text(encoding="utf-8"))
    for case in vectors["cases"]:
        yield _question("Hudi", case, case["expected_files"], case["must_keep_for_correctness"])
    for case in vectors["adversarial_from_issues"]:
        yield _question("Hudi, adversarial", case, case["hudi_1x_result"], case["must_keep"])


def _question(suite: str, case: dict[str, Any], expected: list[str], must: list[str]) -> Question:
    names = [row["file"] for row in case["rows"]]
    held = {name for row in case["rows"] for name in row["columns"]} | {"D"}
    types = {path: DataType(kind) for path, kind in TYPES.items() if path[0] in held or path[0] in "ABC"}
    if "d" in held:
        del types["D",]
    dates = any(len(str(end)) == 10 for row in case["rows"] for end in row["columns"].get("C", {}).values())
    if dates:
        types["C",] = DataType("date")
    indexed = {name for row in case["rows"] for name in row["columns"]}
    return Question(
        suite=suite,
        name=f"{case['id']}: {case['filter_sql']}",
        sql=case["filter_sql"],
        columns=Columns(fields(types), case_sensitive=True),
        types={path: data_type for path, data_type in types.items() if path[0] in indexed},
        files=[_file(row, types) for row in case["rows"]],
        peer=[name in expected for name in names],
        must_keep=frozenset(names.index(name) for name in must),
        free=frozenset(names.index(name) for name in case.get("either_ok_contradictory_stats", ())),
    )


def _file(row: dict[str, Any], types: dict[tuple[str, ...], DataType]) -> File:
    known = {}
    for name, found in row["columns"].items():
        lower, upper = (_encoded(found[end], types[name,]) for end in ("min", "max"))
        known[name,] = Known(lower, upper, -1 if found["nullCount"] is None else found["nullCount"])
    return File(row["valueCount"], known)


def _encoded(value: Any, data_type: DataType) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return value["epoch_ms"] * 1000
    if data_type.name == "timestamp":
        return encode(dt.datetime.fromisoformat(value.replace("Z", "+00:00")), data_type)
    return encode(dt.date.fromisoformat(value) if data_type.name == "date" else value, data_type)
