"""The predicate tree: frozen nodes over bound columns and literals in the form of the column's type.

A leaf is about a term: a column, a monotone function of a term, or an opaque function. There are few kinds of leaves.
`a != 1` is `Not(a = 1)`, `a BETWEEN 1 AND 2` is `And(a >= 1, a <= 2)`, `a <=> 1` is `And(Not(a IS NULL), a = 1)`,
`isnan(a)` is `And(Not(a IS NULL), a = NaN)`, and `a IN (1, NULL)` is `Or(a IN (1), NULL)`. Each pair agrees in SQL's
three-valued logic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from zskip.types import DataType, Encoded


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, or a field of a struct."""

    path: tuple[str, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A monotone function of a term: null only where the term is null, and never falling (or never rising) with it."""

    function: str
    """Its name in `zskip.predicate.functions`."""
    term: Term
    arguments: tuple[int | str, ...]
    """The other arguments, such as the unit of `date_trunc` and the time zone."""
    type: DataType
    """The type of the result."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A function that bounds tell nothing about; only a sketch of this very expression can answer for it.

    Two opaque terms are equal only if they have the same value in every row.
    """

    function: str
    """Its name in lower case."""
    arguments: tuple[Term | str, ...]
    """Terms, and the SQL of literals."""
    type: DataType
    """The type of the result."""
    timezone: str = ""
    """The time zone in which it reads times; empty if it reads none."""


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
    """A part that zskip does not understand: it may be true, false, or null for any row."""

    sql: str
    reason: str = "not supported"
    key: str = field(default="", repr=False, compare=False)
    """Names the condition: those of one key are true in the same rows. Empty where Spark does not tell."""


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
    """A string contains these UTF-8 bytes."""

    term: Term
    part: bytes


@dataclass(frozen=True, slots=True)
class Like:
    """A string matches a pattern of SQL's LIKE that none of the leaves above can express."""

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


@dataclass(frozen=True, slots=True)
class Exists:
    """Some element of an array makes a test true."""

    term: Opaque
    """`explode(array)`, an element."""
    test: Predicate
    """A leaf about the element, the negation of one, or an AND of such."""


Leaf = TermLeaf | CompareTerms | Exists
Predicate = And | Or | Not | Constant | Unknown | Leaf


def conjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """Join any number of predicates with AND; true for none."""
    return parts[0] if len(parts) == 1 else And(parts) if parts else Constant(True)


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the parts that must all be true for the predicate to be; nothing for what is always true."""
    if isinstance(predicate, And):
        for child in predicate.children:
            yield from conjuncts(child)
    elif predicate != Constant(True):
        yield predicate


def smaller(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the predicate shrunk by one step: its children, and itself without one of three or more children."""
    if isinstance(predicate, And | Or):
        yield from predicate.children
        if len(predicate.children) > 2:
            for i in range(len(predicate.children)):
                yield type(predicate)(predicate.children[:i] + predicate.children[i + 1 :])
    elif isinstance(predicate, Not):
        yield predicate.child


def nodes(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the predicate and everything below it, parents first."""
    todo = [predicate]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, And | Or):
            todo.extend(reversed(node.children))
        elif isinstance(node, Not):
            todo.append(node.child)


def terms_of(leaf: Leaf) -> tuple[Term, ...]:
    """Return the terms of a leaf."""
    return (leaf.left, leaf.right) if isinstance(leaf, CompareTerms) else (leaf.term,)


def replace_terms(predicate: Predicate, terms: Mapping[Term, Term]) -> Predicate:
    """Replace terms by others of the same types, also inside monotone functions.

    >>> a, b = (Column((name,), DataType("long")) for name in "ab")
    >>> replace_terms(Not(IsNull(a)), {a: b}) == Not(IsNull(b))
    True
    """
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(replace_terms(child, terms) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(replace_terms(predicate.child, terms))
    if isinstance(predicate, CompareTerms):
        left, right = (_replace_term(term, terms) for term in (predicate.left, predicate.right))
        return replace(predicate, left=left, right=right)
    if isinstance(predicate, TermLeaf):
        return replace(predicate, term=_replace_term(predicate.term, terms))
    return predicate


def _replace_term(term: Term, terms: Mapping[Term, Term]) -> Term:
    if term in terms:
        return terms[term]
    return replace(term, term=_replace_term(term.term, terms)) if isinstance(term, Call) else term


def parts_of(term: Term) -> Iterator[Term]:
    """Yield a term and all terms in it."""
    yield term
    inner = (term.term,) if isinstance(term, Call) else term.arguments if isinstance(term, Opaque) else ()
    for part in inner:
        if not isinstance(part, str):
            yield from parts_of(part)


def columns_under(term: Term) -> tuple[Column, ...]:
    """Return the columns of a term; only an opaque term may have more than one."""
    while isinstance(term, Call):
        term = term.term
    if isinstance(term, Column):
        return (term,)
    return tuple(column for part in term.arguments if not isinstance(part, str) for column in columns_under(part))


def is_opaque(predicate: Predicate) -> bool:
    """Whether this is a leaf about an opaque term, which column statistics tell nothing about."""
    return isinstance(predicate, Leaf) and any(map(_is_opaque, terms_of(predicate)))


def _is_opaque(term: Term) -> bool:
    while isinstance(term, Call):
        term = term.term
    return isinstance(term, Opaque)


def is_unread(predicate: Predicate) -> bool:
    """Whether column statistics can tell nothing about some part of the predicate."""
    return any(isinstance(node, Unknown) or is_opaque(node) for node in nodes(predicate))


def column_of(term: Term) -> Column:
    """Return the column of a term that is not opaque."""
    (column,) = columns_under(term)
    return column


def columns_of(predicate: Predicate) -> list[Column]:
    """Return the distinct columns of a predicate, in order of appearance."""
    leaves = (node for node in nodes(predicate) if isinstance(node, Leaf))
    per_term = (columns_under(term) for leaf in leaves for term in terms_of(leaf))
    return list(dict.fromkeys(column for columns in per_term for column in columns))
