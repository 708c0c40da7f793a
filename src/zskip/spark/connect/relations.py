"""Walks a plan of the protocol from its reads up, and gives each read the conditions that its rows must meet."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from sqlglot import exp

from zskip.errors import ZskipError
from zskip.predicate import Predicate, conjunction, parse
from zskip.predicate.columns import name_parts
from zskip.records import Field
from zskip.spark.connect.expressions import (
    CALLED,
    KEYWORDS,
    Dialect,
    Message,
    attribute_parts,
    condition_texts,
    nested,
)
from zskip.spark.connect.replacements import path_of
from zskip.spark.connect.scopes import CROSS, Output, ReadColumns, Scope, joined, restricted_by_join
from zskip.spark.connect.texts import Opener, QueryScopes, Reference, changed, names_in, read_query

_VOLATILE = {
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
    "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length",
}  # fmt: skip
"""Functions that depend on more than the values of a row."""
_OF_COLUMNS = {*KEYWORDS, "isnotnull", "like", "rlike", "ilike", "getitem", "power", "case"}
"""Functions of rows that are methods of columns or syntax, and no functions in `pyspark.sql.functions`."""
_NAME = re.compile(r"\s*(?!(?:true|false|null)\b)([A-Za-z_]\w*(?:\.\w+)*)(?:\s+as\s+(\w+))?\s*", re.IGNORECASE)
_WINDOW = re.compile(r"\b(?:over|select)\b", re.IGNORECASE)
_INLINE = "common_inline_user_defined_function"
_ROWWISE = {
    "literal", "unresolved_attribute", "cast", "alias", "unresolved_extract_value", "update_fields", "lambda_function",
    "unresolved_named_lambda_variable", "unresolved_star",
}  # fmt: skip
GROUP_BY = 1
Condition = Callable[..., Predicate]
"""Binds a condition to the columns of a table, in a time zone."""


@dataclass(kw_only=True, eq=False)
class Read:
    """A read of a table that zskip knows."""

    relation: Message
    """Where it stands in the plan, which may be changed."""
    table: Any
    fields: Sequence[Field]
    conditions: list[tuple[Condition, Scope]] = field(default_factory=list)

    def predicate(self, number: int, timezone: str) -> Predicate:
        """What is true of all rows that the query needs, as far as it is understood."""
        parts = []
        for condition, scope in self.conditions:
            try:
                parts.append(condition(ReadColumns(self.fields, scope, number), timezone=timezone))
            except (ZskipError, ValueError, ArithmeticError, RecursionError):
                continue
        return conjunction(tuple(parts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A table under a read."""

    table: Any
    fields: Sequence[Field]
    in_order: bool
    """Whether the fields are in the order of the table's columns."""


class Plan:
    """The reads of one plan."""

    def __init__(
        self,
        root: Message,
        open_read: Callable[[Message], Opened | None],
        dialect: Dialect,
        *,
        case_sensitive: bool,
        find_view: Callable[[tuple[str, ...]], Message | None] = lambda _: None,
        persisted: Set[tuple[str, ...]] = frozenset(),
    ) -> None:
        """open_read: the table of a message of a read; find_view: the relation of a view; None where it is not known.

        persisted: the paths of reads, and the texts, whose rows the session keeps: with fewer files they would be read
        again.
        """
        self.reads: list[Read] = []
        self._texts: list[tuple[Message, Message | None, list[Reference]]] = []
        self._open_read = open_read
        self._find_view = find_view
        self._persisted = persisted
        self._dialect = dialect
        self._plans: dict[int, list[Scope]] = {}
        self._nothing = Scope(case_sensitive=case_sensitive, plans=self._plans)
        self._visit(root, False)

    def _visit(self, relation: Message, is_filtered: bool) -> Scope:
        """The columns of a relation; is_filtered: whether a condition stands above."""
        kind = relation.WhichOneof("rel_type")
        visit = _VISITS.get(kind, Plan._others)
        scope = visit(self, relation if kind in ("read", "sql") else getattr(relation, kind), is_filtered)
        if relation.common.HasField("plan_id"):
            self._plans.setdefault(relation.common.plan_id, []).append(scope)
        return scope

    def _others(self, node: Message, is_filtered: bool) -> Scope:
        """A relation of which nothing is known but that it takes all rows of those below."""
        for child in nested(node):
            if child.DESCRIPTOR.name == "Relation":
                self._visit(child, False)
            elif child.DESCRIPTOR.name != "Expression":
                self._others(child, False)
        return self._nothing

    def _read(self, relation: Message, is_filtered: bool) -> Scope:
        named = relation.read.named_table
        if named.unparsed_identifier and not named.options:
            return self._view(relation, tuple(name_parts(named.unparsed_identifier)), is_filtered)
        is_left = relation.read.is_streaming or tuple(relation.read.data_source.paths) in self._persisted
        opened = self._open_read(relation.read) if is_filtered and not is_left else None
        if opened is None:
            return self._nothing
        number = len(self.reads)
        self.reads.append(Read(relation=relation, table=opened.table, fields=opened.fields))
        outputs = [Output(name=f.name, origins={number: (f.name,)}, type=str(f.type)) for f in opened.fields]
        return self._nothing.with_outputs(outputs, is_complete=opened.in_order)

    def _view(self, relation: Message, names: tuple[str, ...], is_filtered: bool) -> Scope:
        """Put what a view stands for in the place of a relation; nothing is known of other names."""
        view = self._find_view(names)
        if view is None:
            return self._nothing
        relation.subquery_alias.input.CopyFrom(view)
        relation.subquery_alias.alias = names[-1]
        return self._alias(relation.subquery_alias, is_filtered)

    def _restrict(self, condition: Message, scope: Scope, reads: frozenset[int]) -> None:
        for text in condition_texts(condition, self._dialect) if reads else ():
            self._require(partial(parse, text), scope, reads)

    def _require(self, condition: Condition, scope: Scope, reads: frozenset[int]) -> None:
        for number in reads:
            self.reads[number].conditions.append((condition, scope))

    def _filter(self, node: Message, is_filtered: bool) -> Scope:
        scope = self._visit(node.input, True)
        self._restrict(node.condition, scope, scope.reads)
        return scope

    def _same(self, node: Message, is_filtered: bool) -> Scope:
        return self._visit(node.input, is_filtered)

    def _alias(self, node: Message, is_filtered: bool) -> Scope:
        return self._visit(node.input, is_filtered).qualified(*node.qualifier, node.alias)

    def _column(self, node: Message, scope: Scope, names: Sequence[str] = ()) -> Output | None:
        """The column of an expression; None where its name is not known."""
        kind, name = node.WhichOneof("expr_type"), next(iter(names), None)
        if kind == "alias":
            return self._column(node.alias.expr, scope, node.alias.name)
        parts: list[str] = []
        if kind == "unresolved_attribute":
            parts = attribute_parts(node.unresolved_attribute)
        elif kind == "expression_string" and (text := _NAME.fullmatch(node.expression_string.expression)):
            parts, name = text[1].split("."), name or text[2]
        return scope.column(parts, name)

    def _project(self, node: Message, is_filtered: bool) -> Scope:
        if not node.HasField("input"):
            return self._nothing
        scope = self._visit(node.input, is_filtered)
        if not all(map(_is_rowwise, node.expressions)):
            return self._nothing
        outputs: list[Output] = []
        is_complete = True
        for expression in node.expressions:
            if _is_star(expression):
                outputs += scope.outputs
                is_complete &= scope.is_complete
            elif (output := self._column(expression, scope)) is not None:
                outputs.append(output)
            else:
                is_complete = False
        return scope.with_outputs(outputs, is_complete=is_complete)

    def _with_columns(self, node: Message, is_filtered: bool) -> Scope:
        scope = self._visit(node.input, is_filtered)
        if not all(_is_rowwise(alias.expr) for alias in node.aliases):
            return self._nothing
        added = []
        for alias in node.aliases:
            output = self._column(alias.expr, scope, alias.name)
            added += [output] if output is not None and len(alias.name) == 1 else [Output(name=n) for n in alias.name]
        others = [output for output in scope.outputs if not scope.names(output, [one.name for one in added])]
        # A column that is replaced keeps its place, so the order is not that of the outputs.
        is_complete = scope.is_complete and len(others) == len(scope.outputs)
        return scope.with_outputs([*others, *added], is_complete=is_complete)

    def _renamed(self, node: Message, is_filtered: bool) -> Scope:
        scope = self._visit(node.input, is_filtered)
        renames = {one.col_name: one.new_col_name for one in getattr(node, "renames", ())} or node.rename_columns_map

        def rename(output: Output) -> Output:
            for old, new in renames.items():
                if scope.is_same(output.name, old):
                    output = replace(output, name=new, qualifiers=())
            return output

        return scope.map(rename)

    def _to_df(self, node: Message, is_filtered: bool) -> Scope:
        scope = self._visit(node.input, is_filtered)
        if not scope.is_complete or len(scope.outputs) != len(node.column_names):
            return self._nothing
        pairs = zip(scope.outputs, node.column_names, strict=True)
        return scope.with_outputs(replace(output, name=name, qualifiers=()) for output, name in pairs)

    def _drop(self, node: Message, is_filtered: bool) -> Scope:
        scope = self._visit(node.input, is_filtered)
        columns = [column.unresolved_attribute for column in node.columns]
        names = [*node.column_names, *(attribute_parts(column)[-1] for column in columns if column.ListFields())]
        if any(not column.ListFields() for column in columns):
            return self._nothing
        outputs = [output for output in scope.outputs if not scope.names(output, names)]
        return scope.with_outputs(outputs, is_complete=scope.is_complete and not columns)

    def _deduplicate(self, node: Message, is_filtered: bool) -> Scope:
        scope = self._visit(node.input, is_filtered)
        if node.all_columns_as_keys:
            return scope
        return scope.map(lambda output: output if scope.names(output, node.column_names) else output.blocked())

    def _aggregate(self, node: Message, is_filtered: bool) -> Scope:
        scope = self._visit(node.input, is_filtered)
        if node.group_type != GROUP_BY or not node.grouping_expressions:
            return self._nothing
        keys = [self._column(key, scope) for key in node.grouping_expressions]
        is_rowwise = all(map(_is_rowwise, node.grouping_expressions))
        values = [Output(name=name) for value in node.aggregate_expressions for name in value.alias.name]
        return scope.with_outputs([*(k for k in keys if k and is_rowwise), *values], is_complete=False)

    def _set_operation(self, node: Message, is_filtered: bool) -> Scope:
        left, right = self._visit(node.left_input, is_filtered), self._visit(node.right_input, is_filtered)
        if not left.is_complete or not right.is_complete or len(left.outputs) != len(right.outputs):
            return self._nothing
        others: Sequence[Output | None] = right.outputs
        if node.by_name:
            by_name = {o.name: [p for p in right.outputs if right.is_same(o.name, p.name)] for o in left.outputs}
            others = [pair[0] if len(pair := by_name[o.name]) == 1 else None for o in left.outputs]
        outputs = []
        for one, other in zip(left.outputs, others, strict=True):
            is_alike = other is not None and None is not one.type == other.type and one.origins and other.origins
            origins = {**one.origins, **other.origins} if is_alike and other is not None else {}
            outputs.append(replace(one, qualifiers=(), origins=origins))
        return left.with_outputs(outputs)

    def _join(self, node: Message, is_filtered: bool) -> Scope:
        kind, has_condition = node.join_type, node.HasField("join_condition")
        is_filtered = is_filtered or has_condition
        left, right = self._visit(node.left, is_filtered), self._visit(node.right, is_filtered)
        if has_condition:
            both = joined(left, right, CROSS, ())
            self._restrict(node.join_condition, both, restricted_by_join(left, right, kind))
        return joined(left, right, kind, node.using_columns)

    def _with_relations(self, node: Message, is_filtered: bool) -> Scope:
        if node.root.HasField("sql"):
            return self._sql(node.root, is_filtered, node)
        for reference in node.references:
            self._visit(reference, False)
        return self._visit(node.root, is_filtered)

    def _sql(self, relation: Message, is_filtered: bool, owner: Message | None = None) -> Scope:
        """The columns of a text; owner: the relation that brings along what names in it mean."""
        is_left = (relation.sql.query,) in self._persisted or not hasattr(relation, "with_relations")
        query = None if is_left else read_query(relation.sql, self._dialect)
        own = {} if owner is None else {one.subquery_alias.alias: one for one in owner.references}
        used = [] if query is None else names_in(query)
        needs_few = is_filtered or (query is not None and query.tree.find(exp.Where, exp.Join) is not None)
        for name, reference in own.items():
            if used.count((name,)) != 1:
                self._visit(reference, False)
        if query is None:
            return self._nothing

        def open_table(names: tuple[str, ...]) -> tuple[Message | None, Scope] | None:
            reference = own.get(names[0]) if len(names) == 1 else None
            if reference is not None:
                return (None, self._visit(reference, True)) if used.count(names) == 1 else None
            table, reads = type(relation)(), len(self.reads)
            source = path_of(names)
            if source is None:
                scope = self._view(table, names, needs_few)
            else:
                table.read.data_source.format = source[0]
                table.read.data_source.paths.append(source[1])
                scope = self._visit(table, needs_few)
            return (table, scope) if len(self.reads) > reads else None

        scopes = QueryScopes(query, Opener(open=open_table, restrict=self._require), self._nothing)
        self._texts.append((relation, owner, scopes.references))
        return scopes.scope

    def finish(self) -> None:
        """Give texts other names for the reads that were changed."""
        for relation, owner, references in self._texts:
            text, renamed = changed(relation.sql.query, references)
            if not renamed:
                continue
            relation.sql.query = text
            if owner is None:
                relation.with_relations.root.CopyFrom(type(relation)(sql=relation.sql))
            brings = relation.with_relations if owner is None else owner
            for reference in renamed:
                named = brings.references.add().subquery_alias
                named.alias = reference.name
                named.input.CopyFrom(reference.relation)


_VISITS: dict[str, Callable[[Plan, Message, bool], Scope]] = {
    "read": Plan._read,
    "filter": Plan._filter,
    **dict.fromkeys(("sort", "hint", "repartition", "repartition_by_expression", "drop_na"), Plan._same),
    "subquery_alias": Plan._alias,
    "project": Plan._project,
    "with_columns": Plan._with_columns,
    "with_columns_renamed": Plan._renamed,
    "to_df": Plan._to_df,
    "drop": Plan._drop,
    "deduplicate": Plan._deduplicate,
    "aggregate": Plan._aggregate,
    "set_op": Plan._set_operation,
    "join": Plan._join,
    "with_relations": Plan._with_relations,
    "sql": Plan._sql,
}


def _is_star(node: Message) -> bool:
    """Whether an expression is all columns."""
    return (node.HasField("unresolved_star") and not node.unresolved_star.ListFields()) or (
        node.expression_string.expression.strip() == "*"
    )


def _is_rowwise(node: Message) -> bool:
    """Whether an expression certainly depends on the values of one row alone."""
    kind = node.WhichOneof("expr_type")
    if kind == "expression_string":
        text = node.expression_string.expression
        return not _WINDOW.search(text) and all(map(_is_of_a_row, CALLED.findall(text)))
    if kind in ("unresolved_function", "call_function"):
        if not _is_of_a_row(getattr(node, kind).function_name):
            return False
    elif kind == _INLINE:
        if not node.common_inline_user_defined_function.deterministic:
            return False
    elif kind not in _ROWWISE:
        return False
    children = [child for child in nested(getattr(node, kind)) if child.DESCRIPTOR.name == "Expression"]
    return all(map(_is_rowwise, children))


def _is_of_a_row(function: str) -> bool:
    name = function.lower()
    return not name.isidentifier() or name in _OF_COLUMNS or (name in _builtin() and name not in _VOLATILE)


@cache
def _builtin() -> frozenset[str]:
    from pyspark.sql import functions

    return frozenset(name.lower() for name in dir(functions))
