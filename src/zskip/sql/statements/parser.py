"""The tokens of a statement, read from left to right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zskip.errors import PredicateError
from zskip.layout.curves import CURVES as LAYOUT_CURVES
from zskip.predicate import Column, term_sql
from zskip.sql.statements.text import Token, name_of, string_of, syntax_error, tokens
from zskip.types import NESTED

CURVES = {name.upper(): name for name in (*LAYOUT_CURVES, "auto")}

_OPEN, _OPERATORS = ("(", "["), (":", ".", "%", "+", "-", "*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The table that a statement is about: a name of some parts, or a path."""

    parts: tuple[str, ...] = ()
    path: str | None = None

    def __str__(self) -> str:
        return self.path if self.path is not None else ".".join(self.parts)


class Parser:
    """The tokens of a statement, read from left to right."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._tokens = tokens(sql)
        self._at = 0

    @property
    def now(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._at]

    def ahead(self, count: int) -> Token:
        """The token `count` after the next one, or the end."""
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Step over the next token."""
        token = self.now
        self._at += token.kind != "end"
        return token

    def accept(self, *words: str) -> bool:
        """Step over these words or symbols if they come next."""
        ahead = self._tokens[self._at : self._at + len(words)]
        same = [token.upper or token.text for token in ahead if token.kind in ("word", "symbol")] == list(words)
        if same:
            self._at += len(words)
        return same

    def expect(self, word: str, instead: str = "") -> None:
        """Step over this word or symbol, or fail."""
        if not self.accept(word):
            raise self.error(f"expected {instead or word}")

    def target_after(self, words: int) -> Target:
        """Step over some words and ON, and read the table."""
        for _ in range(words):
            self.take()
        self.expect("ON")
        return self.target()

    def error(self, expected: str) -> PredicateError:
        """The syntax error at the next token."""
        return syntax_error(self.sql, self.now, expected)

    def finish(self, expected: str) -> None:
        """Fail unless only semicolons are left."""
        while self.accept(";"):
            pass
        if self.now.kind != "end":
            raise self.error(f"expected {expected} or the end of the statement")

    def part(self, what: str) -> str:
        """One name."""
        if self.now.kind not in ("word", "quoted", "number") or self.now.text == "``":
            raise self.error(f"expected {what}")
        return name_of(self.take())

    def parts(self, what: str) -> tuple[str, ...]:
        """A name of one or more parts."""
        parts = [self.part(what)]
        while self.accept("."):
            parts.append(self.part(f"the rest of {what}"))
        return tuple(parts)

    def target(self) -> Target:
        """A table's name or path."""
        if self.now.kind == "string":
            return Target(path=string_of(self.take().text))
        return Target(parts=self.parts("a table: its name, 'path' or parquet.`path`"))

    def keys(self) -> tuple[str, ...]:
        """Columns, fields inside structs, or expressions, with commas between, in parentheses or not."""
        return self._list(self._key)

    def partition_fields(self) -> tuple[str, ...]:
        """Columns, and calls such as `bucket(8, id)` as they are written; as in `columns`."""
        return self._list(self._partition_field)

    def _key(self) -> str:
        """A name as SQL writes it, a column's without quotes unless it could be taken for several, or an expression."""
        start = self.now.start
        parts = () if self.now.text in _OPEN else self.parts("a column")
        if self.now.text not in (*_OPEN, *_OPERATORS):
            return parts[0] if len(parts) == 1 and not set(".`") & set(parts[0]) else term_sql(Column(parts, NESTED))
        while self.now.text in (*_OPEN, *_OPERATORS):
            if self.now.text in _OPEN:
                self._take_group()
                continue
            while self.now.text in _OPERATORS:
                self.take()
            if self.now.kind == "end":
                raise self.error("expected the rest of an expression")
            if self.now.text not in _OPEN:
                self.take()
        return self.sql[start : self._tokens[self._at - 1].end]

    def _take_group(self) -> None:
        """Step over a parenthesis or bracket and all that it holds."""
        depth = 0
        while True:
            if self.now.kind == "end":
                raise self.error("expected )")
            text = self.take().text
            depth += (text in _OPEN) - (text in (")", "]"))
            if not depth:
                return

    def _list(self, read: Callable[[], str]) -> tuple[str, ...]:
        bare = not self.accept("(")
        items = [read()]
        while self.accept(","):
            items.append(read())
        if not bare:
            self.expect(")", "a comma and a column, or )")
        return tuple(items)

    def _column(self) -> str:
        return ".".join(self.parts("a column"))

    def _partition_field(self) -> str:
        start = self.now.start
        name = self._column()
        if not self.accept("("):
            return name
        while not self.accept(")"):
            if self.now.kind == "end":
                raise self.error("expected )")
            self.take()
        return self.sql[start : self._tokens[self._at - 1].end]

    def predicate(self) -> tuple[str | None, int]:
        """After WHERE the text up to the next clause or the end of the statement, and its offset."""
        if not self.accept("WHERE"):
            return None, 0
        start, depth = self.now.start, 0
        end = start
        while self.now.kind != "end" and (depth or not self._at_clause()):
            depth += {"(": 1, ")": -1}.get(self.now.text, 0)
            end = self.take().end
        if end == start:
            raise self.error("expected a predicate")
        return self.sql[start:end], start

    def _at_clause(self) -> bool:
        following = self._tokens[self._at + 1] if self.now.kind != "end" else self.now
        if self.now.upper in CURVES:
            return following.upper == "BY"
        return self.now.text == ";" or (self.now.upper == "WITH" and following.text == "(")
