"""The code of docs/sketches.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
from sketched import computed

from zskip.predicate import Columns, opaque, parse
from zskip.records import Field
from zskip.sketch import kinds, make, parse_sketch, parse_sketch_on, read, registry
from zskip.types import DataType

PAGE = (Path(__file__).parents[2] / "docs" / "sketches.md").read_text()
COLUMNS = Columns([Field(name="email", type=DataType("string")), Field(name="id", type=DataType("long"))])


def kept(on: str, where: str, name: str, files: list[list[object]]) -> list[bool]:
    found = parse_sketch_on(on, COLUMNS)
    made = []
    for file in files:
        values = computed(found, {column.path[0]: pa.array(file) for column in found.columns})
        made.append(make(found.sketch, [values], found.type))
    assert all(m.data is not None for m in made), made
    answer = found.ask([parse(where, COLUMNS)], read(found.sketch, [m.data for m in made]), len(files))  # type: ignore[list-item]
    assert answer is not None
    return list(answer.may_match.tolist())


def run(code: str) -> None:
    exec(compile(code, "sketches.md", "exec", dont_inherit=True), {"__name__": __name__})


def test_the_code_of_the_page_runs() -> None:
    function, sketch = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    before = kinds()
    try:
        run(function)
        files: list[list[object]] = [["a@example.org", None], ["b@x.y"]]
        assert kept("values(100):domain(email)", "domain(email) = 'example.org'", "email", files) == [True, False]
        run(sketch)
        assert kept("last_digits:id", "id = 17", "id", [[1, 27], [3], [7]]) == [True, False, True]
        state = parse_sketch("last_digits")
        assert make(state, [pa.array(["x"])], DataType("string")).reason == "last_digits takes integers"
    finally:
        opaque._USER_FUNCTIONS.pop("domain", None)
        for kind in {*kinds()} - {*before}:
            registry._KINDS.pop(kind)


def test_the_page_has_all_kinds_and_functions() -> None:
    for kind in kinds():
        assert f"`{parse_sketch(kind)}`" in PAGE
    for name in opaque._BUILT_IN:
        assert name in PAGE or name in opaque._ALIASES
