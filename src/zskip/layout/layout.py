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
from zskip.layout.cells import Keys
from zskip.layout.curves import Pattern, interleave_words, pattern_widths, spread
from zskip.layout.direct import direct_words
from zskip.layout.hilbert import hilbert_bytes, hilbert_keys
from zskip.layout.pages import PageOrder
from zskip.layout.ranks import rank, rank_codes
from zskip.layout.tree.tree import Tree
from zskip.records import Bools, Field, Ints, Values
from zskip.types import DataType

CURVES = ("zorder", "hilbert", "linear")
FITTED = "fitted"
"""The tree of cuts, in place of a curve."""
BUILDS = ("sample", "direct")
_FORMAT, _FORMAT_OF_TREES = 1, 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Curve, bounds and cuts. Immutable; equal where the content is equal.

    Each Hive partition has a run of segments of the curve, and each segment one file, or several between which a run of
    one equal key too long for one file is spread. The files of one partition are numbered after those of another.
    """

    fields: tuple[Field, ...]
    curve: str
    build: str
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
    tree: Tree | None = None
    """In place of cuts: the leaves of each partition are its segments."""
    column_weights: tuple[float, ...] = ()
    """For each column how much of the workload's reads depends on it, for the order of rows; empty if unknown."""

    first_file: npt.NDArray[np.int32] = field(init=False, repr=False)
    """For each segment the id of its first file."""
    # Not by `cached_property`: before Python 3.12 its lock keeps the class from being pickled by value.
    _tables: tuple[Ints, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        widths = pattern_widths(self.pattern, len(self.fields))
        tables = []
        if self.build == "sample":
            parts = zip(self.bounds, self.null_ranks, widths, strict=True)
            tables = [rank_codes(len(bounds), null_rank, width) for bounds, null_rank, width in parts]
            if self.curve != "hilbert":
                tables = [spread(codes, self.pattern, column) for column, codes in enumerate(tables)]
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
        return self.build == "sample" and self.curve != "hilbert" and self.tree is None

    @property
    def page_order(self) -> PageOrder | None:
        """The order of the rows inside a file; None where they lie by key."""
        if self.build == "direct" or self.curve in ("hilbert", "linear"):
            return None
        return PageOrder(self.pattern, self.column_weights)

    @property
    def key_is_bytes(self) -> bool:
        """Whether keys are byte strings rather than int64."""
        return self.build == "direct"

    @property
    def cuts(self) -> tuple[Keys, ...]:
        """For each Hive partition its cuts, ascending; none in a tree."""
        if self.tree is not None:
            return (self.cut_keys,) * self.partitions
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
            raise ValueError(f"a {self.build} {self.curve} key is not an OR of table lookups")
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
        ranks = self._ranks(columns, nulls)
        keys = self._keys(columns, nulls, ranks)
        leaf = self.segment(keys, partition) if self.tree is None else self.tree.leaves(ranks, partition)
        segment = leaf + self.cut_starts[partition] + partition
        turn = (tie % self.spread[segment].astype(np.uint64)).astype(np.int32)
        return cast(npt.NDArray[np.int32], self.first_file[segment] + turn), keys

    def keys(self, columns: Sequence[Values], nulls: Sequence[Bools]) -> Keys:
        """Place rows on the curve; as `place`, without the files."""
        return self._keys(columns, nulls, self._ranks(columns, nulls))

    def _ranks(self, columns: Sequence[Values], nulls: Sequence[Bools]) -> list[Ints]:
        if self.build == "direct":
            return []
        return [rank(v, n, b) for v, n, b in zip(columns, nulls, self.bounds, strict=True)]

    def _keys(self, columns: Sequence[Values], nulls: Sequence[Bools], ranks: Sequence[Ints]) -> Keys:
        if self.build == "direct":
            parts = zip(columns, nulls, self.fields, strict=True)
            words = [direct_words(values, null, field.type) for values, null, field in parts]
            return hilbert_bytes(words) if self.curve == "hilbert" else interleave_words(words, self.pattern)
        if self.curve == "hilbert":
            codes = [table[r] for table, r in zip(self._tables, ranks, strict=True)]
            return hilbert_keys(codes, len(self.pattern) // len(codes))
        keys = np.zeros(len(ranks[0]), np.int64)
        for table, r in zip(self._tables, ranks, strict=True):
            keys |= table[r]
        return keys

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
        is there where a workload is known.
        """
        parts = zip(self.fields, self.bounds, self.null_ranks, strict=True)
        per_segment = np.split(self.spread, (self.cut_starts[1:-1] + np.arange(1, self.partitions)))
        document = {
            "zskip_layout": _FORMAT if self.tree is None else _FORMAT_OF_TREES,
            "curve": self.curve,
            "build": self.build,
            "pattern": list(self.pattern),
            "columns": [
                {"name": f.name, "type": f.type.name, "nullable": f.nullable, "null_rank": null_rank, **_write(b)}
                for f, b, null_rank in parts
            ],
            "cuts": [_write(cuts)["bounds"] for cuts in self.cuts],
            "spread": [files.tolist() for files in per_segment],
        }
        if self.tree is not None:
            document["tree"] = self.tree.to_document()
        if self.column_weights:
            document["column_weights"] = list(self.column_weights)
        return json.dumps(document, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """Read what `to_json` wrote. Raises InputError where the text is not a layout, or of another version."""
        try:
            document = json.loads(text)
            version = document["zskip_layout"]
            if version not in (_FORMAT, _FORMAT_OF_TREES):
                raise InputError(f"this layout has version {version}; this zskip reads up to {_FORMAT_OF_TREES}")
            return cls._of(document)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"not a layout of zskip: {error!r}; cluster the table again") from error

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> Layout:
        columns = document["columns"]
        pattern = tuple(int(c) for c in document["pattern"])
        key_form = f"S{len(pattern) // 8}" if document["build"] == "direct" else "int"
        cuts = [_read(key_form, cuts) for cuts in document["cuts"]]
        spread_ = [np.array(files, np.int32) for files in document["spread"]]
        files = np.concatenate(spread_)
        return cls(
            fields=tuple(Field(name=c["name"], type=DataType(c["type"]), nullable=c["nullable"]) for c in columns),
            curve=document["curve"],
            build=document["build"],
            bounds=tuple(_read(c["form"], c["bounds"]) for c in columns),
            null_ranks=tuple(bool(c["null_rank"]) for c in columns),
            pattern=pattern,
            cut_keys=cast(Keys, np.concatenate(cuts)),
            cut_starts=np.concatenate([[0], np.cumsum([len(segments) - 1 for segments in spread_])]).astype(np.int64),
            spread=files,
            tree=Tree.from_document(document["tree"]) if "tree" in document else None,
            column_weights=tuple(float(weight) for weight in document.get("column_weights", ())),
        )

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())


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
    objects = np.empty(len(decoded), object)
    objects[:] = decoded
    return objects
