"""Kept files of statistics and predicates, from tests/fixtures/prune.txt.

A table is `table <name> <type>` and one line for each file: rows, nulls, lower and upper bound as SQL literals (`~` for
blanks), and `nan` if it may hold NaN; `?` is unknown. Then come predicates, each with one letter per file: `F` if every
row matches, `K` if some row may, `-` if the file is skipped. The reasons of the leaves that skipped nothing follow `:`.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from zskip.predicate import Columns, Compare, parse
from zskip.prune import prune
from zskip.records import ALL_NULL, ColumnStats, Field
from zskip.types import DataType, Form

PATH = Path(__file__).parents[1] / "fixtures" / "prune.txt"


def number(text):
    return {"?": -1, "all": ALL_NULL}.get(text) if text in ("?", "all") else int(text)


def table(name, type_name, files):
    data_type = DataType(type_name)
    columns = Columns([Field(name=name, type=data_type), Field(name="other", type=DataType("long"))])
    dtype = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: object}[data_type.form]
    blank = {Form.INT: 0, Form.FLOAT: 0.0, Form.BYTES: b""}[data_type.form]
    ends = np.empty((2, len(files)), dtype)
    for i, file in enumerate(files):
        for end in (0, 1):
            ends[end, i] = blank if file[2] == "?" else bound(name, file[2 + end], columns)
    stats = ColumnStats(
        type=data_type,
        lower=ends[0],
        upper=ends[1],
        bounded=np.array([file[2] != "?" for file in files]),
        nulls=np.array([number(file[1]) for file in files]),
        may_nan=np.array([file[4:] == ["nan"] for file in files]),
    )
    rows = np.array([number(file[0]) for file in files])
    return columns, SimpleNamespace(rows=rows, column=lambda path: stats if path == (name,) else None)


def bound(name, text, columns):
    leaf = parse(f"{name} = {text}", columns)
    assert isinstance(leaf, Compare)
    return leaf.value


def cases():
    head, files = [], []
    for line in PATH.read_text(encoding="utf-8").splitlines():
        if line.startswith("table "):
            head, files = line.split()[1:], []
        elif " -> " in line:
            sql, expected = line.split(" -> ")
            yield pytest.param(*head, tuple(files), sql, expected, id=sql)
        elif line and not line.startswith("#"):
            files.append([part.replace("~", " ") for part in line.split()])


@pytest.mark.parametrize(("name", "type_name", "files", "sql", "expected"), list(cases()))
def test_kept(name, type_name, files, sql, expected):
    columns, source = table(name, type_name, files)
    result = prune(parse(sql, columns), source)
    letters = ["-" if not kept else "F" if full else "K" for kept, full in zip(result.kept, result.full, strict=True)]
    reasons = [leaf.reason for leaf in result.leaves if leaf.reason]
    assert " ".join(["".join(letters), *([f": {'; '.join(reasons)}"] if reasons else [])]) == expected
