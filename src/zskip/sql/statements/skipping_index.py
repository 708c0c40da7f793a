"""CREATE, REFRESH, DROP and DESCRIBE SKIPPING INDEX: the sketches of a table's index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zskip.sql.statements.parser import Parser, Target
from zskip.sql.statements.text import Token

_ALWAYS = "MINMAX"
"""The index keeps it for every column anyway."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateIndex:
    """`CREATE SKIPPING INDEX ON t (col BLOOM(0.01))`, `... ON t AUTO`, and `REFRESH SKIPPING INDEX ON t`."""

    target: Target
    sketches: tuple[str, ...] = ()
    """As `Table.index` takes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DropIndex:
    """`DROP SKIPPING INDEX ON t [(col BLOOM, ...)]`."""

    target: Target
    sketches: tuple[str, ...] = ()
    """Empty for all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribeIndex:
    """`DESCRIBE SKIPPING INDEX ON t`."""

    target: Target


IndexStatement = CreateIndex | DropIndex | DescribeIndex


def _create(parser: Parser) -> CreateIndex:
    target = parser.target_after(3)
    sketches = ("auto",) if parser.accept("AUTO") else _sketches(parser)
    parser.finish("a semicolon")
    return CreateIndex(target=target, sketches=sketches)


def _drop(parser: Parser) -> DropIndex:
    target = parser.target_after(3)
    sketches = _sketches(parser) if parser.now.text == "(" else ()
    parser.finish("a list of sketches" if not sketches else "a semicolon")
    return DropIndex(target=target, sketches=sketches)


def _bare(statement: type[CreateIndex | DescribeIndex]) -> Callable[[Parser], IndexStatement]:
    """Make the reader of a statement that only names a table."""

    def read(parser: Parser) -> IndexStatement:
        target = parser.target_after(3)
        parser.finish("a semicolon")
        return statement(target=target)

    return read


INDEX_READERS: dict[str, Callable[[Parser], IndexStatement]] = {
    "CREATE": _create,
    "REFRESH": _bare(CreateIndex),
    "DROP": _drop,
    "DESCRIBE": _bare(DescribeIndex),
    "DESC": _bare(DescribeIndex),
}
"""The readers of statements by their first word, before SKIPPING INDEX; each raises PredicateError."""


def _sketches(parser: Parser) -> tuple[str, ...]:
    """`(expression KIND(parameters), ...)` as specs."""
    parser.expect("(", "AUTO, or a list such as (key BLOOM(0.01))")
    specs = []
    while True:
        spec = _spec(parser)
        specs += [spec] if spec else []
        if not parser.accept(","):
            break
    parser.expect(")", "a comma and a sketch, or )")
    return tuple(specs)


def _spec(parser: Parser) -> str | None:
    """Read one item: the last word, with optional parameters, is the kind; the column or expression precedes it."""
    item: list[Token] = []
    depth = 0
    while parser.now.kind != "end" and (depth or parser.now.text not in (",", ")")):
        depth += {"(": 1, ")": -1}.get(parser.now.text, 0)
        item.append(parser.take())
    kind = _kind_at(item)
    if kind is None or kind == 0:
        raise parser.error("expected a column or expression and a sketch, such as key BLOOM(0.01)")
    expression = parser.sql[item[0].start : item[kind - 1].end]
    if item[0].text == "(" and _closing(item, 0) == kind - 1:
        expression = parser.sql[item[0].end : item[kind - 1].start]
    written = parser.sql[item[kind].start : item[-1].end]
    return None if written.upper() == _ALWAYS else f"{written}:{expression}"


def _kind_at(item: Sequence[Token]) -> int | None:
    if not item:
        return None
    last = len(item) - 1
    if item[last].text != ")":
        return last if item[last].kind == "word" else None
    openings = [i for i in range(1, last) if item[i].text == "(" and _closing(item, i) == last]
    return openings[-1] - 1 if openings and item[openings[-1] - 1].kind == "word" else None


def _closing(item: Sequence[Token], start: int) -> int:
    """The position of the closing parenthesis."""
    depth = 0
    for i in range(start, len(item)):
        depth += {"(": 1, ")": -1}.get(item[i].text, 0)
        if depth == 0:
            return i
    return len(item)
