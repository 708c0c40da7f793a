"""Which conditions a filter implies: where it is true, they are.

    a filter's conjuncts, NOT pushed to the leaves -> for each part of a condition, an equal leaf or a narrower one

Nothing is said of where either is false or null.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from zskip.predicate import (
    And,
    Call,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
    TermLeaf,
    Unknown,
    nodes,
    patterns,
    term_sql,
    terms_of,
)
from zskip.types import Encoded

_OPPOSITES = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_EXCHANGED = {">": "<", ">=": "<="}


def normal(predicate: Predicate, *, negated: bool = False) -> Predicate:
    """Push NOT to the leaves, and give each leaf one form.

    >>> from zskip.predicate import Column
    >>> from zskip.types import DataType
    >>> least = Compare("<", Column(("a",), DataType("long")), 3)
    >>> normal(Not(Or((least, Not(least)))))
    And(children=(Compare(op='>=', term=Column(path=('a',), type=DataType(name='long')), value=3), \
Compare(op='<', term=Column(path=('a',), type=DataType(name='long')), value=3)))
    """
    if isinstance(predicate, Not):
        return normal(predicate.child, negated=not negated)
    if isinstance(predicate, And | Or):
        kind = And if isinstance(predicate, And) != negated else Or
        return kind(tuple(normal(child, negated=negated) for child in predicate.children))
    if isinstance(predicate, Constant) and negated and predicate.value is not None:
        return Constant(not predicate.value)
    if isinstance(predicate, Compare) and negated and predicate.op in _OPPOSITES:
        return replace(predicate, op=_OPPOSITES[predicate.op])
    leaf = _one_form(predicate)
    return Not(leaf) if negated else leaf


def _one_form(leaf: Predicate) -> Predicate:
    if isinstance(leaf, Unknown):
        return Unknown(leaf.key, key=leaf.key)
    if isinstance(leaf, CompareTerms):
        is_later = term_sql(leaf.left) > term_sql(leaf.right)
        if leaf.op in _EXCHANGED or (leaf.op == "=" and is_later):
            return CompareTerms(_EXCHANGED.get(leaf.op, "="), leaf.right, leaf.left)
    if isinstance(leaf, Compare) and leaf.value != leaf.value:
        return replace(leaf, value=math.nan)  # The one that equals itself among parts of others.
    if isinstance(leaf, In) and len(leaf.values) == 1:
        return Compare("=", leaf.term, leaf.values[0])
    return leaf


def is_exact(predicate: Predicate) -> bool:
    """Whether it is known of each part what it is, so that equal ones are true in the same rows."""
    return all(part.key for part in nodes(predicate) if isinstance(part, Unknown))


def implies(facts: Sequence[Predicate], goal: Predicate) -> bool:
    """Whether a goal is true of each row of which all facts are; both as `normal` gives them.

    >>> from zskip.predicate import Column
    >>> from zskip.types import DataType
    >>> a = Column(("a",), DataType("long"))
    >>> implies([Compare(">", a, 3), Compare("<", a, 9)], And((Compare(">=", a, 2), Not(IsNull(a)))))
    True
    """
    if isinstance(goal, And):
        return all(implies(facts, part) for part in goal.children)
    if goal == Constant(True) or any(_fact_implies(fact, goal) for fact in facts):
        return True
    return isinstance(goal, Or) and any(implies(facts, part) for part in goal.children)


def are_same(one: Predicate | None, other: Predicate | None) -> bool:
    """Whether each of two conditions, as `normal` gives them, implies the other; None is of what is not known."""
    return one is not None and other is not None and implies([one], other) and implies([other], one)


def _fact_implies(fact: Predicate, goal: Predicate) -> bool:
    if isinstance(fact, Or):
        return all(implies([choice], goal) for choice in fact.children)
    if isinstance(fact, And):
        return implies(fact.children, goal)
    if fact == goal:
        return is_exact(goal)
    inner, outer = (part.child if isinstance(part, Not) else part for part in (fact, goal))
    if isinstance(inner, IsNull) or not isinstance(inner, TermLeaf | CompareTerms) or not isinstance(outer, TermLeaf):
        return False
    if isinstance(outer, IsNull):
        is_value = isinstance(goal, Not)
        return is_value and any(outer.term in _terms_inside(term) for term in terms_of(inner))
    if isinstance(fact, Not | CompareTerms) or not isinstance(fact, TermLeaf) or fact.term != outer.term:
        return False
    if isinstance(fact, In) or (isinstance(fact, Compare) and fact.op == "="):
        values = fact.values if isinstance(fact, In) else (fact.value,)
        return all(_is_true(goal, value) for value in values)
    return _is_narrower(fact, goal)


def _terms_inside(term: Term) -> Iterator[Term]:
    """The term and those inside it that are null only where it is."""
    yield term
    while isinstance(term, Call):
        term = term.term
        yield term


def _is_true(leaf: Predicate, value: Encoded) -> bool:
    """Whether a value that is neither null nor NaN is sure to make a leaf or the negation of one true."""
    if value != value:
        return False
    if isinstance(leaf, Not):
        return _truth(leaf.child, value) is False
    return _truth(leaf, value) is True


def _truth(leaf: Predicate, value: Encoded) -> bool | None:
    """The truth of a leaf for a value; None where it is not certain."""
    if isinstance(leaf, Compare):
        limit = leaf.value
        if limit != limit:
            return None
        order = (value > limit) - (value < limit)  # type: ignore[operator]
        return {"=": order == 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[leaf.op]
    if isinstance(leaf, In):
        return value in leaf.values
    if isinstance(value, bytes) and isinstance(leaf, StartsWith):
        return value.startswith(leaf.prefix)
    if isinstance(value, bytes) and isinstance(leaf, EndsWith | Contains | Like):
        return patterns.test(leaf)(value)
    return None


def _is_narrower(fact: TermLeaf, goal: Predicate) -> bool:
    """Whether a range lies within another one, or a part of a text is part of a longer one."""
    if isinstance(fact, Compare) and isinstance(goal, Compare):
        if fact.value != fact.value:
            return False
        is_end = fact.value == goal.value and (fact.op != goal.op and "=" in fact.op)
        is_same_side = fact.op[0] == goal.op[0] and goal.op != "="
        return is_same_side and not is_end and _truth(replace(goal, op=f"{goal.op[0]}="), fact.value) is True
    if isinstance(fact, StartsWith) and isinstance(goal, StartsWith):
        return fact.prefix.startswith(goal.prefix)
    if isinstance(fact, EndsWith) and isinstance(goal, EndsWith):
        return fact.suffix.endswith(goal.suffix)
    if not isinstance(goal, Contains) or not isinstance(fact, StartsWith | EndsWith | Contains):
        return False
    text = fact.part if isinstance(fact, Contains) else fact.prefix if isinstance(fact, StartsWith) else fact.suffix
    return goal.part in text


def subjects(predicate: Predicate) -> frozenset[Hashable]:
    """What its leaves are about; see `goal_subjects`."""
    parts: set[Hashable] = set()
    for part in nodes(predicate):
        if isinstance(part, TermLeaf):
            parts.update(_terms_inside(part.term))
        elif isinstance(part, Unknown):
            parts.add(part.key)
        elif not isinstance(part, And | Or | Not | Constant):
            parts.add(_one_form(part))
            if isinstance(part, CompareTerms):  # Which says of both that they are not null.
                parts.update(_terms_inside(part.left), _terms_inside(part.right))
    return frozenset(parts - {""})


def goal_subjects(goal: Predicate) -> frozenset[Hashable]:
    """Subjects of which each filter that implies a condition has at least one."""
    parts = goal.children if isinstance(goal, And) else (goal,)
    return subjects(next((part for part in parts if not _is_not_null(part)), parts[0]))


def _is_not_null(part: Predicate) -> bool:
    return isinstance(part, Not) and isinstance(part.child, IsNull)
