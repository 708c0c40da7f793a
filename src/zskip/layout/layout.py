"""The layout: all that is needed to place a row of a table into a file, and nothing else."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zskip.errors import InputError
from zskip.layout.builds import BUILDS, Build
from zskip.layout.cells import Keys
from zskip.layout.curves import CURVES
from zskip.layout.curves.base import Curve
from zskip.layout.pages import PageOrder
from zskip.layout.patterns import Pattern, pattern_widths
from zskip.layout.ranks import rank_codes
from zskip.records import Bools, Field, Ints, Values, objects
from zskip.types import DataType

_LATEST_FORMAT = 4
_NESTED_FORMAT, _COMPUTED_FORMAT = 3, 4
"""Of layouts by fields inside structs, and by expressions."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Curve, bounds and cuts. Immutable; equal where the content is equal.

    Each Hive partition has a run of segments of the curve, and each segment one file, or several between which a run of
    one equal key too long for one file is spread. The files of one partition are numbered after those of another.
    """

    fields: tuple[Field, ...]
    curve: Curve
    build: Build
    bounds: tuple[Values, ...]
    """For each column its distinct split values, ascending; empty where the build is direct."""
    null_ranks: tuple[bool, ...]
    """For each column whether null takes a share of the key's range."""
    pattern: Pattern
    """Columns by the bits of the key, most significant first."""
    cut_keys: Keys
    """The cuts of all partitions, each partition's ascending."""
    cut_starts: Ints
    """(partitions + 1,) where each partition's cuts start."""
    spread: npt.NDArray[np.int32]
    """For each segment the number of its files; partition p's segments start at cut_starts[p] + p."""
    column_weights: tuple[float, ...] = ()
    """For each column how much of the workload's reads depends on it, for the order of rows; empty if unknown."""

    first_file: npt.NDArray[np.int32] = field(init=False, repr=False)
    """For each segment the id of its first file."""
    # Not by `cached_property`: before Python 3.12 its lock keeps the class from being pickled by value.
    _tables: tuple[Ints, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tables = []
        if self.build.has_bounds:
            parts = zip(self.bounds, self.null_ranks, pattern_widths(self.pattern, len(self.fields)), strict=True)
            codes = [rank_codes(len(bounds), null_rank, width) for bounds, null_rank, width in parts]
            tables = [self.curve.table(column, self.pattern, i) for i, column in enumerate(codes)]
        arrays = {name: _frozen(getattr(self, name)) for name in ("cut_keys", "cut_starts", "spread")}
        arrays["first_file"] = _frozen((np.cumsum(self.spread) - self.spread).astype(np.int32))
        lists = {"bounds": tuple(map(_frozen, self.bounds)), "_tables": tuple(map(_frozen, tables))}
        for name, value in (arrays | lists).items():
            object.__setattr__(self, name, value)

    @property
    def partitions(self) -> int:
        """Number of Hive partitions, 1 for a table that has none."""
        return len(self.cut_starts) - 1

    @property
    def file_count(self) -> int:
        """Number of file ids."""
        return int(self.spread.sum())

    @property
    def is_separable(self) -> bool:
        """Whether the key is the OR of one table lookup for each column (`spread_tables`) and tells the file."""
        return self.build.has_bounds and self.curve.is_separable

    @property
    def page_order(self) -> PageOrder | None:
        """The order of the rows inside a file; None where they lie by key."""
        has_boxes = self.build.has_bounds and self.curve.has_boxes
        return PageOrder(self.pattern, self.column_weights) if has_boxes else None

    @property
    def key_is_bytes(self) -> bool:
        """Whether keys are byte strings rather than int64."""
        return not self.build.has_bounds

    @property
    def cuts(self) -> tuple[Keys, ...]:
        """For each Hive partition its cuts, ascending; none in a tree."""
        return tuple(cast(list[Keys], np.split(self.cut_keys, self.cut_starts[1:-1])))

    @property
    def partition_of_file(self) -> npt.NDArray[np.int32]:
        """(file_count,) ordinal of the Hive partition of each file."""
        segments = np.diff(self.cut_starts) + 1
        of_segment = np.repeat(np.arange(self.partitions, dtype=np.int32), segments)
        return cast(npt.NDArray[np.int32], np.repeat(of_segment, self.spread))

    def spread_tables(self) -> tuple[Ints, ...]:
        """For each column (bounds + 2,): the bits of each rank at their places in the key, null's rank last.

        Raises ValueError where the layout is not separable.
        """
        if not self.is_separable:
            raise ValueError(f"a {self.build.name} {self.curve.name} key is not an OR of table lookups")
        return self._tables

    def place(
        self,
        columns: Sequence[Values],
        nulls: Sequence[Bools],
        partition: int | npt.NDArray[np.integer[Any]],
        tie: npt.NDArray[np.uint64],
    ) -> tuple[npt.NDArray[np.int32], Keys]:
        """The file of each row of a batch, and its key.

        columns, nulls: for each column (rows,), in the order of `fields` and in the form of the type; partition: one
        ordinal for all rows, or (rows,); tie: (rows,) a hash of the row, which spreads what is longer than a file over
        several. Returns ids in [0, file_count), and int64, or byte strings where `key_is_bytes`.
        """
        codes, keys = self._codes_and_keys(columns, nulls)
        segment = self.curve.segments(codes, keys, partition, self.segment) + self.cut_starts[partition] + partition
        turn = (tie % self.spread[segment].astype(np.uint64)).astype(np.int32)
        return cast(npt.NDArray[np.int32], self.first_file[segment] + turn), keys

    def keys(self, columns: Sequence[Values], nulls: Sequence[Bools]) -> Keys:
        """Place rows on the curve; as `place`, without the files."""
        return self._codes_and_keys(columns, nulls)[1]

    def _codes_and_keys(self, columns: Sequence[Values], nulls: Sequence[Bools]) -> tuple[list[Any], Keys]:
        codes = [self.build.codes(*parts) for parts in zip(columns, nulls, self.fields, self.bounds, strict=True)]
        return codes, self.build.keys(self.curve, codes, self._tables, self.pattern)

    def segment(self, keys: Keys, partition: int | npt.NDArray[np.integer[Any]]) -> Ints:
        """Count the cuts at or below each key among those of its partition.

        keys: (rows,); partition: one ordinal for all rows, or (rows,).
        """
        if isinstance(partition, int | np.integer):
            low, high = self.cut_starts[partition], self.cut_starts[partition + 1]
            return np.searchsorted(self.cut_keys[low:high], keys, side="right").astype(np.int64)
        first = self.cut_starts[partition]
        low, high = first.copy(), self.cut_starts[partition + 1]
        while (open_ := np.flatnonzero(low < high)).size:
            middle = (low[open_] + high[open_]) >> 1
            passed = self.cut_keys[middle] <= keys[open_]
            low[open_[passed]] = middle[passed] + 1
            high[open_[~passed]] = middle[~passed]
        return cast(Ints, low - first)

    def to_json(self) -> str:
        """Write the layout as JSON text that holds every value exactly.

        `{"zskip_layout": 1, "curve", "build", "pattern": [column...], "columns": [{"name", "type", "nullable",
        "null_rank", "form", "bounds"}], "cuts": [[key...] for each partition], "spread": [[files...] ...]}`; byte
        strings are base64, infinite floats the strings "inf" and "-inf". A tree has `"zskip_layout": 2` and
        `"tree": {"columns", "cuts", "left", "right", "roots", "reasons"}` besides; `"column_weights": [weight...]`
        is there where a workload is known. A field inside structs has `"nested": [name...]`, and its layout
        `"zskip_layout": 3`; an expression has `"computed": true`, and its layout `"zskip_layout": 4`.
        """
        parts = zip(self.fields, self.bounds, self.null_ranks, strict=True)
        per_segment = np.split(self.spread, (self.cut_starts[1:-1] + np.arange(1, self.partitions)))
        document = {
            "zskip_layout": max(self.curve.format, *map(_format_of, self.fields)),
            "curve": self.curve.name,
            "build": self.build.name,
            "pattern": list(self.pattern),
            "columns": [
                {
                    **{"name": f.name, "type": f.type.name, "nullable": f.nullable, "null_rank": null_rank},
                    **({"nested": f.nested} if f.nested else {}),
                    **({"computed": True} if f.computed else {}),
                    **_write(b),
                }
                for f, b, null_rank in parts
            ],
            "cuts": [_write(cuts)["bounds"] for cuts in self.cuts],
            "spread": [files.tolist() for files in per_segment],
        }
        document |= self.curve.to_document()
        if self.column_weights:
            document["column_weights"] = list(self.column_weights)
        return json.dumps(document, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """Read what `to_json` wrote. Raises InputError where the text is not a layout, or of another version."""
        try:
            document = json.loads(text)
            version = document["zskip_layout"]
            if version not in range(1, _LATEST_FORMAT + 1):
                raise InputError(f"this layout has version {version}; this zskip reads up to {_LATEST_FORMAT}")
            return cls._of(document)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"not a layout of zskip: {error!r}; cluster the table again") from error

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> Layout:
        columns = document["columns"]
        pattern = tuple(int(c) for c in document["pattern"])
        build = BUILDS[document["build"]]
        key_form = "int" if build.has_bounds else f"S{len(pattern) // 8}"
        cuts = [_read(key_form, cuts) for cuts in document["cuts"]]
        spread_ = [np.array(files, np.int32) for files in document["spread"]]
        files = np.concatenate(spread_)
        return cls(
            fields=tuple(
                Field(
                    name=c["name"],
                    type=DataType(c["type"]),
                    nullable=c["nullable"],
                    nested=tuple(map(str, c.get("nested", ()))),
                    computed=bool(c.get("computed", False)),
                )
                for c in columns
            ),
            curve=CURVES[document["curve"]].from_document(document),
            build=build,
            bounds=tuple(_read(c["form"], c["bounds"]) for c in columns),
            null_ranks=tuple(bool(c["null_rank"]) for c in columns),
            pattern=pattern,
            cut_keys=cast(Keys, np.concatenate(cuts)),
            cut_starts=np.concatenate([[0], np.cumsum([len(segments) - 1 for segments in spread_])]).astype(np.int64),
            spread=files,
            column_weights=tuple(float(weight) for weight in document.get("column_weights", ())),
        )

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())


def _format_of(field: Field) -> int:
    return _COMPUTED_FORMAT if field.computed else _NESTED_FORMAT if field.nested else 1


def _frozen(array: Any) -> Any:
    array = array.copy()
    array.setflags(write=False)
    return array


def _write(values: Any) -> dict[str, Any]:
    if values.dtype == np.int64:
        return {"form": "int", "bounds": values.tolist()}
    if values.dtype == np.float64:
        return {"form": "float", "bounds": [v if math.isfinite(v) else str(v) for v in values.tolist()]}
    return {"form": "bytes", "bounds": [base64.b64encode(bytes(v)).decode() for v in values.tolist()]}


def _read(form: str, values: Sequence[Any]) -> Any:
    if form == "int":
        return np.array(values, np.int64)
    if form == "float":
        return np.array([float(v) for v in values], np.float64)
    decoded = [base64.b64decode(v, validate=True) for v in values]
    if form != "bytes":
        return np.array(decoded, form)
    return objects(decoded)
