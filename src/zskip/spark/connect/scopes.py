"""The columns that a relation of a plan gives, and the columns of reads that they are unchanged.

A condition above a relation may restrict a read below only through such columns. Names are found as Spark finds them;
a name that might be another one's is not found, and its part of a condition stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from zskip.errors import ColumnError
from zskip.predicate import Column, Columns
from zskip.records import Field
from zskip.spark.connect.expressions import plan_of

Path = tuple[str, ...]
INNER, FULL, LEFT, RIGHT, ANTI, SEMI, CROSS = range(1, 8)
"""Kinds of joins, as the protocol numbers them."""
_COMPARED_ALIKE = ("byte", "short", "integer", "long", "date", "string", "timestamp")
"""Types whose equal values are the same ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """One column of a relation."""

    name: str
    qualifiers: Path = ()
    """Names of the table, the last one the closest."""
    origins: Mapping[int, Path] = field(default_factory=dict)
    """Which column of each read it is, by the number of the read; a condition on it may restrict these."""
    type: str | None = None
    """None where it is not known."""

    def blocked(self) -> Output:
        """The column, where conditions on it must not reach the reads."""
        return replace(self, origins={})


@dataclass(frozen=True, kw_only=True, eq=False)
class Scope:
    """The columns of a relation."""

    outputs: tuple[Output, ...] = ()
    is_complete: bool = False
    """Whether there are no other columns, and these are in order."""
    case_sensitive: bool = False
    plans: Mapping[int, Sequence[Scope]] = field(default_factory=dict)
    """The columns of DataFrames by their numbers: of each place where one stands."""

    @cached_property
    def reads(self) -> frozenset[int]:
        """The reads that conditions may restrict."""
        return frozenset(read for output in self.outputs for read in output.origins)

    def with_outputs(self, outputs: Iterable[Output], *, is_complete: bool | None = None) -> Scope:
        """The same place with other columns."""
        complete = self.is_complete if is_complete is None else is_complete
        return replace(self, outputs=tuple(outputs), is_complete=complete)

    def map(self, change: Callable[[Output], Output]) -> Scope:
        """The same columns, each changed."""
        return self.with_outputs(map(change, self.outputs))

    def is_same(self, one: str, other: str) -> bool:
        """Whether two names are the same to the session."""
        return one == other if self.case_sensitive else one.lower() == other.lower()

    def names(self, output: Output, names: Iterable[str]) -> bool:
        """Whether some of the names are that of a column."""
        return any(self.is_same(output.name, name) for name in names)

    def find(self, parts: list[str]) -> tuple[Output, Path] | None:
        """The column of a name, and the fields inside it that the name goes on with; None where that is not certain."""
        plan, parts = plan_of(parts)
        if plan is None:
            return self._find_by_name(parts)
        scopes = self.plans.get(plan, ())
        match = scopes[0].find(parts) if len(scopes) == 1 else None
        if match is None:
            return None
        # The DataFrame's column itself must have come up to here, under its name.
        target, fields = match
        outputs = [
            output
            for output in self.outputs
            if self.is_same(output.name, target.name) and target.origins.items() <= output.origins.items()
        ]
        return (outputs[0], fields) if target.origins and len(outputs) == 1 else None

    def column(self, parts: list[str], name: str | None = None) -> Output | None:
        """The column of a name, under another one if there is one; None where none is known."""
        match = self.find(parts) if parts else None
        if match is None:
            return Output(name=name or parts[-1]) if name or parts else None
        output, fields = match
        origins = {read: (*path, *fields) for read, path in output.origins.items()}
        qualifiers = () if name or fields else output.qualifiers
        data_type = None if fields else output.type
        return Output(name=name or parts[-1], qualifiers=qualifiers, origins=origins, type=data_type)

    def qualified(self, *qualifiers: str) -> Scope:
        """The same columns under an alias."""
        return self.map(lambda output: replace(output, qualifiers=qualifiers))

    def _find_by_name(self, parts: list[str]) -> tuple[Output, Path] | None:
        matches = [
            (output, tuple(parts[k + 1 :]))
            for k in range(1, len(parts))
            for output in self.outputs
            if self.is_same(output.name, parts[k]) and self._is_qualifier(parts[:k], output.qualifiers)
        ]
        if not matches and (self.is_complete or len(parts) == 1):
            matches = [(output, tuple(parts[1:])) for output in self.outputs if self.is_same(output.name, parts[0])]
        return matches[0] if len(matches) == 1 else None

    def _is_qualifier(self, parts: Sequence[str], qualifiers: Path) -> bool:
        ends = qualifiers[-len(parts) :]
        return len(ends) == len(parts) and all(map(self.is_same, parts, ends))


def restricted_by_join(left: Scope, right: Scope, kind: int | None) -> frozenset[int]:
    """The reads whose rows a join needs only where its condition is true."""
    reads = left.reads if kind in (INNER, CROSS, SEMI, RIGHT) else frozenset[int]()
    return reads | right.reads if kind in (INNER, CROSS, SEMI, LEFT, ANTI) else reads


def joined(left: Scope, right: Scope, kind: int | None, using: Sequence[str]) -> Scope:
    """The columns of a join, of which those that both sides name come once; None for an unknown kind."""
    if kind in (SEMI, ANTI):
        return left
    if kind not in (INNER, CROSS, LEFT, RIGHT, FULL):
        return replace(left, outputs=(), is_complete=False)
    of_left = left if kind in (INNER, CROSS, LEFT) else left.map(Output.blocked)
    of_right = right if kind in (INNER, CROSS, RIGHT) else right.map(Output.blocked)
    first, second = (of_right, of_left) if kind == RIGHT else (of_left, of_right)
    keys = [key for name in using if (key := _key(name, first, second, kind)) is not None]
    others = [output for output in (*of_left.outputs, *of_right.outputs) if not left.names(output, using)]
    is_complete = left.is_complete and right.is_complete and not using
    return left.with_outputs([*keys, *others], is_complete=is_complete)


def _key(name: str, first: Scope, second: Scope, kind: int) -> Output | None:
    """A column that a join gives once; first: the side whose column it is."""
    one, other = (scope.find([name]) for scope in (first, second))
    if one is None:
        return None
    output = one[0].blocked() if kind == FULL else one[0]
    is_equal = kind == INNER and other is not None and other[0].type == output.type
    if is_equal and other is not None and output.type in _COMPARED_ALIKE:
        output = replace(output, origins={**output.origins, **other[0].origins})
    return output


class ReadColumns(Columns):
    """The columns of one read under the names that they have in a scope."""

    def __init__(self, fields: Sequence[Field], scope: Scope, read: int) -> None:
        super().__init__(fields, case_sensitive=True)
        self._scope = scope
        self._read = read
        self._columns = Columns(fields, case_sensitive=scope.case_sensitive)

    def find(self, parts: Sequence[str]) -> Column | None:
        """Find the column of a name; None for columns of other reads, and where that is not certain."""
        match = self._scope.find(list(parts))
        path = None if match is None else match[0].origins.get(self._read)
        if match is None or path is None:
            return None
        try:
            column = self._columns.find([*path, *match[1]])
        except ColumnError:
            return None
        return column if column is not None and column.path[: len(path)] == path else None
