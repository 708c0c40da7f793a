"""The predicate tree: frozen nodes over bound columns and literals in the form of the column's type.

A leaf speaks of a term: a column, a monotone function of one, or an opaque one. The leaves are few. `a != 1` is
`Not(a = 1)`, `a BETWEEN 1 AND 2` is `And(a >= 1, a <= 2)`, `a <=> 1` is `And(Not(a IS NULL), a = 1)`, `isnan(a)` is
`And(Not(a IS NULL), a = NaN)`, and `a IN (1, NULL)` is `Or(a IN (1), NULL)`: each means the same in SQL's three values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zskip.types import DataType, Encoded


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct, found in a table."""

    path: tuple[str, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A monotone function of a term: null just where the term is null, and never falling (or never rising) with it."""

    function: str
    """Its name in `zskip.predicate.functions`."""
    term: Term
    arguments: tuple[int | str, ...]
    """Its other arguments, such as the unit of `date_trunc` and the time zone."""
    type: DataType
    """Of the result."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A function of which bounds say nothing: only what was found of just this expression, such as a sketch, does.

    Two of them are equal only if they have the same value in every row.
    """

    function: str
    """Its name in lower case."""
    arguments: tuple[Term | str, ...]
    """Terms, and the SQL of literals."""
    type: DataType
    """Of the result."""
    timezone: str = ""
    """In which it reads times; empty where it reads none."""


Term = Column | Call | Opaque


@dataclass(frozen=True, slots=True)
class And:
    """All children are true."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some child is true."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The child is false."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false or null (None) for every row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that zskip does not understand: it may be true, false or null for any row."""

    sql: str
    reason: str = "not supported"


@dataclass(frozen=True, slots=True)
class Compare:
    """A term against a literal: `=`, `<`, `<=`, `>` or `>=`, in Spark's order (NaN above all and equal to itself)."""

    op: str
    term: Term
    value: Encoded


@dataclass(frozen=True, slots=True)
class In:
    """A term against a list of literals, sorted, distinct and without null and NaN."""

    term: Term
    values: tuple[Encoded, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A term is null; never null itself."""

    term: Term


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A string starts with these UTF-8 bytes."""

    term: Term
    prefix: bytes


@dataclass(frozen=True, slots=True)
class EndsWith:
    """A string ends with these UTF-8 bytes."""

    term: Term
    suffix: bytes


@dataclass(frozen=True, slots=True)
class Contains:
    """A string holds these UTF-8 bytes somewhere."""

    term: Term
    part: bytes


@dataclass(frozen=True, slots=True)
class Like:
    """A string matches a pattern of SQL's LIKE that none of the leaves above can say."""

    term: Term
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class CompareTerms:
    """A term against another of the same type in the same row: `=`, `<`, `<=`, `>` or `>=`."""

    op: str
    left: Term
    right: Term


TermLeaf = Compare | In | IsNull | StartsWith | EndsWith | Contains | Like
Leaf = TermLeaf | CompareTerms
Predicate = And | Or | Not | Constant | Unknown | Leaf


def conjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """AND of any number of predicates; true where there is none."""
    return parts[0] if len(parts) == 1 else And(parts) if parts else Constant(True)


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """The parts that are all true where a predicate is; none of what is always true."""
    if isinstance(predicate, And):
        for child in predicate.children:
            yield from conjuncts(child)
    elif predicate != Constant(True):
        yield predicate


def smaller(predicate: Predicate) -> Iterator[Predicate]:
    """What a predicate may be cut down to in one step: its children, and itself without one of three or more."""
    if isinstance(predicate, And | Or):
        yield from predicate.children
        if len(predicate.children) > 2:
            for i in range(len(predicate.children)):
                yield type(predicate)(predicate.children[:i] + predicate.children[i + 1 :])
    elif isinstance(predicate, Not):
        yield predicate.child


def nodes(predicate: Predicate) -> Iterator[Predicate]:
    """The predicate and all below it, parents first."""
    todo = [predicate]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, And | Or):
            todo.extend(reversed(node.children))
        elif isinstance(node, Not):
            todo.append(node.child)


def terms_of(leaf: Leaf) -> tuple[Term, ...]:
    """The terms that a leaf looks at."""
    return (leaf.left, leaf.right) if isinstance(leaf, CompareTerms) else (leaf.term,)


def columns_under(term: Term) -> tuple[Column, ...]:
    """The columns under a term: one, but for opaque ones."""
    while isinstance(term, Call):
        term = term.term
    if isinstance(term, Column):
        return (term,)
    return tuple(column for part in term.arguments if not isinstance(part, str) for column in columns_under(part))


def is_opaque(predicate: Predicate) -> bool:
    """Whether this is a leaf about an opaque term, of which statistics of columns say nothing."""
    return isinstance(predicate, Leaf) and any(map(_is_opaque, terms_of(predicate)))


def _is_opaque(term: Term) -> bool:
    while isinstance(term, Call):
        term = term.term
    return isinstance(term, Opaque)


def is_unread(predicate: Predicate) -> bool:
    """Whether some part of a predicate is one of which statistics of columns say nothing, whatever they are."""
    return any(isinstance(node, Unknown) or is_opaque(node) for node in nodes(predicate))


def column_of(term: Term) -> Column:
    """The column under a term that is not opaque."""
    (column,) = columns_under(term)
    return column


def columns_of(predicate: Predicate) -> list[Column]:
    """The distinct columns that a predicate looks at, in order of appearance."""
    leaves = (node for node in nodes(predicate) if isinstance(node, Leaf))
    found = (columns_under(term) for leaf in leaves for term in terms_of(leaf))
    return list(dict.fromkeys(column for columns in found for column in columns))
