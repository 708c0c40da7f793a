"""Temporary views that this client has made: a read of one becomes a read of what it was made of.

Spark has listed the files of a DataFrame's view when it was made; it reads the text of a view again for each query. So
nothing stands in its place but while its tables, the settings of the session and the view are certainly what they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zskip.spark.connect.expressions import Message, nested
from zskip.spark.connect.replacements import source_of
from zskip.spark.connect.texts import sources_of

_LEAVES_VIEWS = re.compile(
    r"\s*(?:select|with|from|values|explain|show|desc(?:ribe)?|set|reset|insert)\b", re.IGNORECASE
)
_MAKES_VIEW = re.compile(r"\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+view\s+(\w+)\s+as\s+(.+)", re.DOTALL | re.I)
_OVER_READS = {
    "project", "filter", "join", "set_op", "sort", "limit", "offset", "aggregate", "subquery_alias", "with_columns",
    "with_columns_renamed", "to_df", "drop", "drop_na", "fill_na", "deduplicate", "repartition", "hint", "range",
    "repartition_by_expression", "local_relation", "cached_local_relation",
}  # fmt: skip
"""Relations that read nothing but what is below them."""
Source = tuple[str, str]


@dataclass(frozen=True, kw_only=True, eq=False)
class _View:
    name: str
    relation: Message
    """Empty where nothing may stand in its place."""
    states: dict[Source, Any]
    epoch: int


class Views:
    """The views of one session."""

    def __init__(self, state_of: Callable[[Source], Any], is_same: Callable[[Any, Any], bool]) -> None:
        """state_of: the files of a table by its format and its path, None where they are not known."""
        self._state_of = state_of
        self._is_same = is_same
        self._views: dict[str, _View] = {}
        self._coming: dict[str, _View] = {}
        """What the latest request makes, by its operation, until its answer is complete."""

    def notice(self, method: str, request: Message, epoch: int) -> None:
        """Forget what a request may change, and see what it makes; epoch: of the settings."""
        if method == "AnalyzePlan" and (request.HasField("persist") or request.HasField("unpersist")):
            self._views.clear()
        if method != "ExecutePlan":
            return
        command = request.plan.command.WhichOneof("command_type") if request.plan.HasField("command") else None
        text = _text_of(request.plan.command.sql_command) if command == "sql_command" else ""
        if command == "create_dataframe_view":
            frame = request.plan.command.create_dataframe_view
            sources = [] if frame.is_global or not frame.replace else _sources(frame.input)
            view = self._view(frame.name, frame.input, sources, epoch)
        else:
            definition = _MAKES_VIEW.match(text)
            if request.plan.root.HasField("catalog") or (text and not (definition or _LEAVES_VIEWS.match(text))):
                self._views.clear()
            if definition is None:
                return
            relation = type(request.plan.root)()
            relation.sql.query = definition[2]
            view = self._view(definition[1], relation, sources_of(definition[2]), epoch)
        self._views.pop(view.name.lower(), None)
        self._coming = {request.operation_id: view} if view.relation.WhichOneof("rel_type") else {}

    def _view(self, name: str, relation: Message, sources: Sequence[Source | None], epoch: int) -> _View:
        states = {source: self._state_of(source) for source in sources if source is not None}
        copy = type(relation)()
        if states and None not in sources and None not in states.values():
            copy.CopyFrom(relation)
            _renumber(copy)
        return _View(name=name, relation=copy, states=states, epoch=epoch)

    def awaits(self, operation: str) -> bool:
        """Whether a request makes a view, if it ends well."""
        return operation in self._coming

    def finished(self, request: Message) -> None:
        """See that a request has made its view."""
        view = self._coming.pop(request.operation_id, None)
        if view is not None:
            self._views[view.name.lower()] = view

    def find(
        self, names: tuple[str, ...], *, epoch: int, state_of: Callable[[Source], Any], case_sensitive: bool
    ) -> Message | None:
        """The relation that stands for a view; None for other names, and where that is not certain.

        state_of: the files of a table as the query reads them.
        """
        view = self._views.get(names[0].lower()) if len(names) == 1 else None
        if view is None or view.epoch != epoch or (case_sensitive and view.name != names[0]):
            return None
        is_same = _has_same_columns if view.relation.HasField("sql") else self._is_same
        states = [(state, state_of(source)) for source, state in view.states.items()]
        is_current = all(now is not None and is_same(state, now) for state, now in states)
        return view.relation if is_current else None


def _has_same_columns(one: Any, other: Any) -> bool:
    """Whether a table has the columns that a text has named when its view was made."""
    return bool((one.fields, one.partition_fields) == (other.fields, other.partition_fields))


def _text_of(command: Message) -> str:
    """The text of a command, whose field has changed in Spark 4; of one with relations, too."""
    return str(command.sql or command.input.sql.query or command.input.with_relations.root.sql.query)


def _sources(relation: Message) -> list[Source | None]:
    """The tables that a relation reads by their paths, and None for each part that may read anything else."""
    relations = [part for part in (relation, *_below(relation)) if part.DESCRIPTOR.name == "Relation"]
    return [
        source_of(part.read) if part.HasField("read") and not part.read.is_streaming else None
        for part in relations
        if part.WhichOneof("rel_type") not in _OVER_READS
    ]


def _below(message: Message) -> Iterator[Message]:
    """All messages inside a message."""
    for child in nested(message):
        yield child
        yield from _below(child)


def _renumber(message: Message) -> None:
    """Give DataFrames other numbers, by which no column outside means them."""
    for part in (message, *_below(message)):
        if "plan_id" in part.DESCRIPTOR.fields_by_name and part.HasField("plan_id"):
            part.plan_id = ~part.plan_id
