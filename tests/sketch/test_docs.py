"""The code of docs/sketches.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
from sketched import computed
from states_of_sketches import ask_on, build_state

from zskip.predicate import Columns, opaque, parse
from zskip.records import Field
from zskip.sketch import kinds, parse_sketch, parse_sketch_on, read_states, registry
from zskip.types import DataType

PAGE = (Path(__file__).parents[2] / "docs" / "sketches.md").read_text()
COLUMNS = Columns([Field(name="email", type=DataType("string")), Field(name="id", type=DataType("long"))])


def kept(on: str, where: str, name: str, files: list[list[object]]) -> list[bool]:
    sketch_on = parse_sketch_on(on, COLUMNS)
    states = []
    for file in files:
        values = computed(sketch_on, {column.path[0]: pa.array(file) for column in sketch_on.columns})
        states.append(build_state(sketch_on.sketch, [values], sketch_on.type))
    assert all(state.data is not None for state in states), states
    stacked = read_states(sketch_on.sketch, [state.data for state in states])
    answer = ask_on(sketch_on, [parse(where, COLUMNS)], stacked, len(files))
    assert answer is not None
    return list(answer.may_match.tolist())


def run(code: str) -> None:
    exec(compile(code, "sketches.md", "exec", dont_inherit=True), {"__name__": __name__})


def test_the_code_of_the_page_runs() -> None:
    function, *_, sketch = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    before = kinds()
    try:
        run(function)
        files: list[list[object]] = [["a@example.org", None], ["b@x.y"]]
        assert kept("values(100):domain(email)", "domain(email) = 'example.org'", "email", files) == [True, False]
        run(sketch)
        assert kept("last_digits:id", "id = 17", "id", [[1, 27], [3], [7]]) == [True, False, True]
        state = parse_sketch("last_digits")
        assert build_state(state, [pa.array(["x"])], DataType("string")).reason == "last_digits takes integers"
    finally:
        opaque._USER_FUNCTIONS.pop("domain", None)
        for kind in {*kinds()} - {*before}:
            registry._KINDS.pop(kind)


def test_the_page_has_all_kinds_and_functions() -> None:
    for kind in kinds():
        assert f"`{parse_sketch(kind)}`" in PAGE
    for name in opaque._BUILT_IN:
        assert name in PAGE or name in opaque._ALIASES
