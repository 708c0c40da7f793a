"""What queries decode by the bounds of files and pages, without Spark: Delta's Z-order, the default, a fitted tree.

python bench/layout/decoded.py --data lineitem --scale 1 --files 64 --page-rows 2100

Each mix (bench/shared/table_data.py) trains a tree with 100 queries; others of it are measured. Delta's way is 1,000
ranges a column in Z-order, files of equal size whose rows lie in no order: its scan decodes what its files hold.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import common
from shared.table_data import MIXES, TABLES, Table, mix
from workloads import Place, share
from zskip.advisor.fitting.cross_validation import ParsedWorkload, fit_layout
from zskip.advisor.fitting.sample_statistics import Groups
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.predicate import Columns, parse
from zskip.records import Field, Sample
from zskip.types import DataType


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", data="lineitem", scale=1.0, files=64, page_rows=2_100, unseen=0.2)
    table = TABLES[options.data]
    source = table.make(options.scale)
    place = Place(read(source, table), options.files, 50_000, "fitted", options.unseen)
    delta, rows = place.as_delta(), place.target.partition_rows
    columns = Columns(place.whole.fields)
    default = fit(place.sample, place.target.files, partition_rows=rows)
    figures: dict[str, Any] = {"page_rows": options.page_rows}
    for name, weights in MIXES.items():
        train, tested = ([parse(q, columns) for q in qs] for qs in mix(source, table, weights, options.seed))
        workload = ParsedWorkload(predicates=train, weights=np.full(len(train), 1 / len(train)))
        theirs = share(delta, tested)
        figures[f"{name}_delta_pct"] = round(100 * theirs, 2)
        for which, layout in (
            ("default", default),
            ("tree", fit_layout(place.sample, place.target, workload, "fitted")),
        ):
            files, pages = divided(place, layout, options.page_rows)
            kept, decoded = share(files, tested), share(pages, tested)
            figures[f"{name}_{which}_kept_pct"] = round(100 * kept, 2)
            figures[f"{name}_{which}_decoded_pct"] = round(100 * decoded, 2)
            figures[f"{name}_{which}_decoded_over_kept"] = round(decoded / kept, 3)
            figures[f"{name}_{which}_decoded_over_delta"] = round(decoded / theirs, 3)
    common.emit(figures, options.json)


def read(source: Path, table: Table) -> Sample:
    """The clustering columns of all rows."""
    content = ds.dataset(source, format="parquet").to_table(columns=list(table.by)).combine_chunks()
    kinds = {name: content.schema.field(name).type for name in table.by}
    names = {
        name: "date" if pa.types.is_date32(kind) else "timestamp" if pa.types.is_timestamp(kind) else "long"
        for name, kind in kinds.items()
    }
    rows = content.num_rows
    return Sample(
        fields=tuple(Field(name=name, type=DataType(kind)) for name, kind in names.items()),
        columns=tuple(common._whole(content[name]) for name in table.by),
        nulls=tuple(np.zeros(rows, np.bool_) for _ in table.by),
        partition=np.zeros(rows, np.int32),
        weights=np.ones(rows),
    )


def divided(place: Place, layout: Layout, page_rows: int) -> tuple[Groups, Groups]:
    """The files of a layout, and the pages in them as the Arrow writer lays them."""
    tie = np.random.default_rng(1).integers(0, 2**63, len(place.whole), dtype=np.uint64)
    files, keys = layout.place(place.whole.columns, place.whole.nulls, 0, tie)
    order = np.argsort(files, kind="stable")
    starts = np.flatnonzero(np.diff(files[order], prepend=-1))
    ends = np.append(starts[1:], len(order))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        rows = order[start:end]
        assert layout.page_order is not None
        order[start:end] = rows[layout.page_order.sort(keys[rows], page_rows)]
    pages = np.concatenate([np.arange(start, end, page_rows) for start, end in zip(starts, ends, strict=True)])
    return tuple(  # type: ignore[return-value]
        Groups(place.table, order, first, np.diff(np.append(first, len(order))).astype(float))
        for first in (starts, pages)
    )


if __name__ == "__main__":
    main()
