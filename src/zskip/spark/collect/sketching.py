"""Build sketches in Spark: one pass over the columns that they need, each file in one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.predicate import Term, is_condition, opaque, term_sql
from zskip.records import Bools, Snapshot
from zskip.sketch import BuiltState, Sketch, SketchOn, StateBuilder
from zskip.spark.collect.statistics import FilePositions
from zskip.spark.forms import free_name
from zskip.spark.jobs import describe_jobs
from zskip.spark.jvm import compat
from zskip.spark.shipping import ship
from zskip.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FILE = "zskip_file"
_OUT = "file string, sketch int, state binary, reason string, seconds double"
_LEAST_SPLIT, _LEAST_COST = 128 << 20, 4 << 20
_SEVERAL_TASKS = "more than one task read it"


def build_sketches(
    snapshot: Snapshot,
    read: Callable[[Bools, Mapping[str, str]], DataFrame],
    sketches: Sequence[SketchOn],
    lacking: Sequence[Bools],
    positions: FilePositions,
    *,
    timezone: str,
    budget: int | None = None,
) -> list[dict[int, BuiltState]]:
    """Build the sketches that files lack; returns for each sketch its states by index in the snapshot.

    read: reads some files of the snapshot, (files,), under settings; lacking: one mask of (files,) per sketch;
    timezone: of the sketches' expressions; budget: the most bytes for one file's state. Where a sketch fails for a
    file, the reason replaces its state.
    """
    kept = np.logical_or.reduce(lacking)
    largest = int(snapshot.sizes[kept].max(initial=0)) + 1
    settings = {
        "spark.sql.session.timeZone": timezone,
        # Spark splits files at the first size or at one core's share, whichever is less; the second bounds that share.
        "spark.sql.files.maxPartitionBytes": str(max(_LEAST_SPLIT, largest)),
        "spark.sql.files.openCostInBytes": str(max(_LEAST_COST, largest)),
    }
    frame = read(kept, settings)
    rows = _collect_states(frame, sketches, budget, f"sketch {int(kept.sum()):,} files")
    all_states: list[dict[int, BuiltState]] = [{} for _ in sketches]
    for row in rows.to_pylist():
        i, states = positions.find(row["file"]), all_states[row["sketch"]]
        if lacking[row["sketch"]][i]:
            # A state that covers only some rows would lose the others.
            state = BuiltState(row["state"], row["reason"], row["seconds"])
            states[i] = BuiltState(None, _SEVERAL_TASKS) if i in states else state
    for states, files in zip(all_states, lacking, strict=True):
        for i in np.flatnonzero(files).tolist():
            states.setdefault(i, BuiltState(None, "the file holds no rows"))
    return all_states


def _collect_states(frame: DataFrame, sketches: Sequence[SketchOn], budget: int | None, text: str) -> pa.Table:
    from pyspark.sql import functions as F

    names: dict[Term, str] = {}

    def column(term: Term) -> str:
        return names.setdefault(term, f"v{len(names)}")

    plans = [_Plan(type(on.sketch), on.sketch.parameters, _to_parts(on.type), on.recipe(column)) for on in sketches]
    # Text is parsed under the settings of the active session.
    with compat.active_session(frame.sparkSession):
        columns = (_column(frame, term).alias(name) for term, name in names.items())
        file = F.input_file_name()
        if any(map(is_condition, names)):
            # Beside a Python function, which reads rows ahead, it would be the file of a later row.
            name = free_name(_FILE, frame.columns)
            frame, file = frame.select("*", file.alias(name)), F.col(name)
        out = frame.select(file.alias(_FILE), *columns).mapInArrow(ship(_builder(plans, budget)), _OUT)
    with describe_jobs(frame.sparkSession, text):
        return compat.collect_arrow(out)


def _column(frame: DataFrame, term: Term) -> Column:
    from pyspark.sql import functions as F

    collated = opaque.collated_column(term)
    if collated is None:
        return F.expr(term_sql(term))
    return compat.collation_key(frame.sparkSession, F.expr(term_sql(collated)))


class _Plan(NamedTuple):
    """A sketch in the form in which it is sent to workers: by value, so it has to be small.

    Spark 3.5 cannot pickle records with slots by value, so the workers rebuild them.
    """

    kind: type[Sketch]
    parameters: tuple[Any, ...]
    type: Any
    """Name and fields of the type."""
    recipe: Any
    """How to compute its values."""


def _to_parts(data_type: DataType) -> Any:
    return data_type.name, [(name, _to_parts(inner)) for name, inner in data_type.fields]


def _from_parts(parts: Any) -> DataType:
    name, fields = parts
    return DataType(name, tuple((inner, _from_parts(rest)) for inner, rest in fields))


def _builder(plans: Sequence[_Plan], budget: int | None) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """The function that runs in Spark's workers; each task has whole files."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        builders: dict[str, list[StateBuilder]] = {}
        for batch in batches:
            names = batch.column(0).dictionary_encode()
            for code, name in enumerate(names.dictionary.to_pylist()):
                rows = batch if len(names.dictionary) == 1 else batch.filter(pc.equal(names.indices, code))
                if name not in builders:
                    builders[name] = [
                        StateBuilder(plan.kind(*plan.parameters), _from_parts(plan.type), budget=budget)
                        for plan in plans
                    ]
                for builder, plan in zip(builders[name], plans, strict=True):
                    builder.feed(lambda plan=plan, rows=rows: plan.recipe(rows))  # type: ignore[misc]
        for name, file_builders in builders.items():
            states = [builder.finish() for builder in file_builders]
            yield pa.RecordBatch.from_pydict(
                {
                    "file": [name] * len(states),
                    "sketch": pa.array(range(len(states)), pa.int32()),
                    "state": pa.array([m.data for m in states], pa.binary()),
                    "reason": [m.reason for m in states],
                    "seconds": [builder.seconds for builder in file_builders],
                }
            )

    return run
