"""Sketches built from files by pyarrow, in place of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sketched import computed
from states_of_sketches import build_state

from zskip.index import Index, refresh_sketches
from zskip.index.store.sketches import BuildSketches
from zskip.predicate import Columns
from zskip.records import Bools, Snapshot
from zskip.sketch import BuiltState, SketchOn, parse_sketch_on


def builder(root: Path | str, snapshot: Snapshot) -> BuildSketches:
    """What `refresh_sketches` calls to build the states of files; each file is read anew for each sketch."""

    def build(
        sketches: Sequence[SketchOn], zones: Sequence[str], lacking: Sequence[Bools]
    ) -> list[dict[int, BuiltState]]:
        assert len(sketches) == len(zones) == len(lacking)
        return [
            {i: _made(Path(root) / snapshot.paths[i], on) for i in np.flatnonzero(files).tolist()}
            for on, files in zip(sketches, lacking, strict=True)
        ]

    return build


def _made(path: Path, on: SketchOn) -> BuiltState:
    table = pq.read_table(path, partitioning=None)
    missing = [column.path[0] for column in on.columns if column.path[0] not in table.column_names]
    if missing:
        return BuiltState(None, f"the file has no column {missing[0]}")
    values = computed(on, {name: table[name].combine_chunks() for name in table.column_names})
    return build_state(on.sketch, [values], on.type)


def sketched(
    index: Index, root: Path | str, snapshot: Snapshot, add: Sequence[str] = (), drop: Sequence[str] = ()
) -> Index:
    """Bring the sketches of an index up to date, and add some."""
    columns = Columns(snapshot.fields)
    new = [parse_sketch_on(text, columns) for text in add]
    every = np.ones(len(snapshot), np.bool_)
    return refresh_sketches(index, snapshot, builder(root, snapshot), every, add=new, drop=drop)
