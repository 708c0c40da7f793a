"""Build the sketches of files in Spark: one pass that reads the columns they need, each file in one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.predicate import Term, term_sql
from zskip.records import Bools
from zskip.sketch import BuiltState, Sketch, SketchOn, StateBuilder, compute_values
from zskip.spark.collect.statistics import FilePositions
from zskip.spark.jobs import describe_jobs
from zskip.spark.jvm import compat
from zskip.spark.scan.relation import scan_whole
from zskip.spark.schema import TableSchema
from zskip.spark.shipping import by_value
from zskip.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE = "zskip_file"
_OUT = "file string, sketch int, state binary, reason string"
_LEAST_SPLIT, _LEAST_COST = 128 << 20, 4 << 20
_TWICE = "more than one task read it"


def build_sketches(
    spark: SparkSession,
    schema: TableSchema,
    sketches: Sequence[SketchOn],
    lacking: Sequence[Bools],
    places: FilePositions,
    *,
    timezone: str,
    budget: int | None = None,
) -> list[dict[int, BuiltState]]:
    """Build what files lack of some sketches; what is made of each, by places in the snapshot.

    lacking: for each sketch (files of the snapshot,); places: of the files; timezone: of the sketches' expressions;
    budget: the most bytes of one file's state. A file in which a sketch fails has the reason instead.
    """
    kept = np.logical_or.reduce(lacking)
    largest = int(schema.snapshot.sizes[kept].max(initial=0)) + 1
    settings = {
        "spark.sql.session.timeZone": timezone,
        # Spark cuts files at the lesser of the first and of what one core gets, which the second bounds from below.
        "spark.sql.files.maxPartitionBytes": str(max(_LEAST_SPLIT, largest)),
        "spark.sql.files.openCostInBytes": str(max(_LEAST_COST, largest)),
    }
    frame = scan_whole(spark, schema, kept, settings)
    found = _made(frame, sketches, budget, f"sketch {int(kept.sum()):,} files")
    made: list[dict[int, BuiltState]] = [{} for _ in sketches]
    for row in found.to_pylist():
        place, states = places.of(row["file"]), made[row["sketch"]]
        if lacking[row["sketch"]][place]:
            # A state of some rows would lose the others.
            states[place] = BuiltState(None, _TWICE) if place in states else BuiltState(row["state"], row["reason"])
    for states, files in zip(made, lacking, strict=True):
        for place in np.flatnonzero(files).tolist():
            states.setdefault(place, BuiltState(None, "the file holds no rows"))
    return made


def _made(frame: DataFrame, sketches: Sequence[SketchOn], budget: int | None, text: str) -> pa.Table:
    from pyspark.sql import functions as F

    names: dict[str, str] = {}

    def column(term: Term) -> str:
        return names.setdefault(term_sql(term), f"v{len(names)}")

    plans = [_Plan(type(on.sketch), on.sketch.parameters, _parts_of(on.type), on.recipe(column)) for on in sketches]
    selected = [F.input_file_name().alias(_FILE), *(F.expr(sql).alias(name) for sql, name in names.items())]
    with by_value():
        out = frame.select(*selected).mapInArrow(_builder(plans, budget), _OUT)
    with describe_jobs(frame.sparkSession, text):
        return compat.collect_arrow(out)


class _Plan(NamedTuple):
    """A sketch as workers get it: all of it goes there by value, so that it must not be much.

    Records with slots do not survive that in Spark 3.5, so that they are made anew there.
    """

    kind: type[Sketch]
    parameters: tuple[Any, ...]
    type: Any
    """Name and fields of the type."""
    recipe: Any
    """Of its values."""


def _parts_of(data_type: DataType) -> Any:
    return data_type.name, [(name, _parts_of(inner)) for name, inner in data_type.fields]


def _type_of(parts: Any) -> DataType:
    name, fields = parts
    return DataType(name, tuple((inner, _type_of(rest)) for inner, rest in fields))


def _builder(plans: Sequence[_Plan], budget: int | None) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """What runs in Spark's workers; a task has whole files."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        builders: dict[str, list[StateBuilder]] = {}
        for batch in batches:
            names = batch.column(0).dictionary_encode()
            for code, name in enumerate(names.dictionary.to_pylist()):
                rows = batch if len(names.dictionary) == 1 else batch.filter(pc.equal(names.indices, code))
                if name not in builders:
                    builders[name] = [
                        StateBuilder(plan.kind(*plan.parameters), _type_of(plan.type), budget=budget) for plan in plans
                    ]
                for builder, plan in zip(builders[name], plans, strict=True):
                    builder.feed(lambda plan=plan, rows=rows: compute_values(plan.recipe, rows))  # type: ignore[misc]
        for name, file_builders in builders.items():
            states = [builder.finish() for builder in file_builders]
            yield pa.RecordBatch.from_pydict(
                {
                    "file": [name] * len(states),
                    "sketch": pa.array(range(len(states)), pa.int32()),
                    "state": pa.array([m.data for m in states], pa.binary()),
                    "reason": [m.reason for m in states],
                }
            )

    return run
