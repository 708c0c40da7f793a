"""`geo(cells)`: the places on earth of a file's rows, as cells of a quad tree.

It uses only the protocol, as a user's own sketch would: a state, its bytes, and an answer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from zskip.errors import IndexFormatError, InputError
from zskip.predicate import Compare, Opaque, Term, TermLeaf
from zskip.predicate.opaque import literal_value
from zskip.records import Bools, Floats
from zskip.sketch.base import Answer, LeftOut, Part, Sketch, counted
from zskip.sketch.blob import pack_arrays, seal, unpack_arrays, unseal
from zskip.types import DataType

_LEVELS = 24
"""The level of the finest cells: 2**24 side by side, each about 2 m wide."""
_SLACK = 1e-9
"""Degrees by which cells are enlarged to make up for rounding."""
_HEAD = "<BB"
RADIUS = 6_371_008.8
"""Radius of the earth as a sphere, in meters."""
_EVERYWHERE = (-90.0, 90.0, -180.0, 180.0)


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of the rows of one file."""

    level: int
    """There are 4**level cells."""
    codes: Any
    """The cells in ascending order, uint64: the interleaved bits of latitude and longitude."""
    odd: bool
    """Whether some row has only one coordinate, or a point that is not on the earth."""


@dataclass(frozen=True, eq=False)
class GeoStack:
    """The cells of many files as rectangles in degrees, concatenated."""

    known: Bools
    odd: Bools
    file: Any
    """(cells,) the file of each cell."""
    south: Floats
    north: Floats
    west: Floats
    east: Floats


@dataclass(frozen=True)
class Geo(Sketch):
    """At most `cells` cells of a quad tree over latitude and longitude in degrees, as fine as they can be.

    It answers all parts of an AND on both together: boxes, and circles such as
    `geo_distance(lat, lon, 52.5, 13.4) < 1000`.
    """

    kind: ClassVar[str] = "geo"
    arity: ClassVar[int] = 2
    cells: int = 64

    def __post_init__(self) -> None:
        if isinstance(self.cells, bool) or not isinstance(self.cells, int) or not 4 <= self.cells <= 65536:
            raise InputError(f"geo({self.cells}): give the most cells of a file, from 4 to 65536: geo(64)")

    def refusal(self, data_type: DataType) -> str | None:
        if len(data_type.fields) == 2 and all(field.name in ("float", "double") for _, field in data_type.fields):
            return None
        return "geo takes two columns of floats or doubles: latitude and longitude in degrees"

    def build(self, values: pa.Array, data_type: DataType) -> Cells:
        """See `Sketch`; the values are a struct of latitude and longitude."""
        if self.refusal(data_type) is not None or not pa.types.is_struct(values.type) or values.type.num_fields != 2:
            raise LeftOut("geo takes a struct of latitude and longitude")
        whole = pa.chunked_array([values]).combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        columns = [column.cast(pa.float64()) for column in whole.flatten()]
        nulls = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
        latitude, longitude = (column.to_numpy(zero_copy_only=False) for column in columns)
        on_earth = (np.abs(latitude) <= 90) & (np.abs(longitude) <= 180)
        odd = bool(np.any(~on_earth & ~(nulls[0] & nulls[1])))
        codes = np.unique(_interleave(_cell_number(latitude[on_earth], 90), _cell_number(longitude[on_earth], 180)))
        return self._coarsen(_LEVELS, codes, odd)

    def _coarsen(self, level: int, codes: Any, odd: bool) -> Cells:
        """Merge cells into larger ones until there are few enough."""
        while len(codes) > self.cells:
            level, codes = level - 1, np.unique(codes >> np.uint64(2))
        return Cells(level, codes, odd)

    def merge(self, states: Sequence[Cells]) -> Cells:
        level = min(state.level for state in states)
        codes = np.unique(np.concatenate([state.codes >> np.uint64(2 * (state.level - level)) for state in states]))
        return self._coarsen(level, codes, any(state.odd for state in states))

    def to_bytes(self, state: Cells) -> bytes:
        steps = np.diff(state.codes, prepend=np.uint64(0))
        return seal(str(self), struct.pack(_HEAD, state.level, state.odd) + pack_arrays([steps]))

    def from_bytes(self, data: bytes) -> Cells:
        payload = unseal(str(self), data)
        arrays = unpack_arrays(payload[struct.calcsize(_HEAD) :])
        if len(arrays) != 1 or arrays[0].dtype != np.uint64 or payload[0] > _LEVELS:
            raise IndexFormatError(f"a damaged {self} sketch; build the index again")
        level, odd = struct.unpack_from(_HEAD, payload)
        return Cells(level, np.cumsum(arrays[0], dtype=np.uint64), bool(odd))

    def stack(self, states: Sequence[Cells | None]) -> GeoStack:
        present = [(i, state) for i, state in enumerate(states) if state is not None]
        edges = [_rectangles(state) for _, state in present]
        south, north, west, east = (
            np.concatenate([edge[side] for edge in edges]) if edges else np.zeros(0) for side in range(4)
        )
        return GeoStack(
            known=np.array([state is not None for state in states], np.bool_),
            odd=np.array([state is None or state.odd for state in states], np.bool_),
            file=np.repeat([i for i, _ in present], [len(state.codes) for _, state in present]).astype(np.int64),
            south=south,
            north=north,
            west=west,
            east=east,
        )

    def might_match(self, leaf: TermLeaf, stack: GeoStack) -> Answer | None:
        """Return None: a single leaf does not describe a place; see `might_match_all`."""
        return None

    def might_match_all(self, parts: Sequence[Part], terms: Sequence[Term], stack: GeoStack) -> Answer | None:
        """See `Sketch`; terms: latitude and longitude."""
        if not stack.known.any():
            return None
        compared = [part for part in parts if isinstance(part, Compare)]
        box, hit = _box(compared, terms), np.ones(len(stack.file), np.bool_)
        if box != _EVERYWHERE:
            hit &= _inside(box, stack)
        circles = [circle for leaf in compared if (circle := _circle(leaf, terms)) is not None]
        for circle in circles:
            hit &= _near(*circle, stack)
        return self._answer(hit, stack) if circles or box != _EVERYWHERE else None

    def _answer(self, hit: Bools, stack: GeoStack) -> Answer:
        may_match = stack.odd.copy()
        may_match[stack.file[hit]] = True
        return counted(self, may_match, stack.known)


def geo_distance(latitude: Any, longitude: Any, to_latitude: float, to_longitude: float) -> Floats:
    """Return the distance along the surface of a sphere in meters, as the predicate function of this name."""
    up, aside = np.radians(latitude - to_latitude), np.radians(longitude - to_longitude)
    narrow = np.cos(np.radians(latitude)) * np.cos(np.radians(to_latitude))
    square = np.sin(up / 2) ** 2 + narrow * np.sin(aside / 2) ** 2
    meters: Floats = 2 * RADIUS * np.arcsin(np.sqrt(np.clip(square, 0, 1)))
    return meters


def least_distance(latitude: float, longitude: float, stack: GeoStack) -> Floats:
    """(cells,) a lower bound of the distance from the point to the cell."""
    up = np.radians(np.maximum(np.maximum(stack.south - latitude, latitude - stack.north), 0))
    ahead = np.mod(stack.west - longitude, 360)
    behind = np.mod(longitude - stack.east, 360)
    inside = np.mod(longitude - stack.west, 360) <= stack.east - stack.west
    aside = np.radians(np.where(inside, 0.0, np.minimum(np.minimum(ahead, behind), 180)))
    narrow = np.minimum(np.cos(np.radians(stack.south)), np.cos(np.radians(stack.north)))
    square = np.sin(up / 2) ** 2 + np.cos(np.radians(latitude)) * np.maximum(narrow, 0) * np.sin(aside / 2) ** 2
    meters: Floats = 2 * RADIUS * np.arcsin(np.sqrt(np.clip(square, 0, 1)))
    return meters


def _inside(box: tuple[float, float, float, float], stack: GeoStack) -> Bools:
    """Find the cells that meet a box."""
    south, north, west, east = box
    return (stack.north >= south) & (stack.south <= north) & (stack.east >= west) & (stack.west <= east)


def _near(latitude: float, longitude: float, meters: float, stack: GeoStack) -> Bools:
    """Find the cells that meet a circle, with more slack than rounding needs."""
    return np.asarray(least_distance(latitude, longitude, stack) <= meters * (1 + 1e-9) + 0.5)


def _circle(leaf: Compare, terms: Sequence[Term]) -> tuple[float, float, float] | None:
    """Read `geo_distance(latitude, longitude, 52.5, 13.4) < 1000` as latitude, longitude, meters; else None."""
    term = leaf.term
    if not isinstance(term, Opaque) or term.function != "geo_distance" or term.arguments[:2] != tuple(terms):
        return None
    latitude, longitude = (float(literal_value(str(text))) for text in term.arguments[2:])
    if leaf.op not in ("<", "<=", "=") or leaf.value != leaf.value or not abs(latitude) <= 90:
        return None
    return latitude, longitude, float(leaf.value)


def _box(leaves: Sequence[Compare], terms: Sequence[Term]) -> tuple[float, float, float, float]:
    """Intersect the comparisons to a box: south, north, west, east."""
    low, high = [-90.0, -180.0], [90.0, 180.0]
    for leaf in leaves:
        value = float(leaf.value) if isinstance(leaf.value, int | float) else float("nan")
        for axis, term in enumerate(terms):
            if leaf.term == term and value == value:
                if leaf.op in ("=", ">", ">="):
                    low[axis] = max(low[axis], value)
                if leaf.op in ("=", "<", "<="):
                    high[axis] = min(high[axis], value)
    return low[0], high[0], low[1], high[1]


def _cell_number(degrees: Floats, most: int) -> Any:
    """Return the number of the finest cell along one axis."""
    cells = 1 << _LEVELS
    return np.clip((degrees + most) / (2 * most) * cells, 0, cells - 1).astype(np.uint64)


def _rectangles(state: Cells) -> tuple[Floats, Floats, Floats, Floats]:
    """Return south, north, west and east of each cell, slightly enlarged."""
    edges: list[Floats] = []
    for shift, most in ((1, 90), (0, 180)):
        size = 2 * most / (1 << state.level)
        low = _gather(state.codes >> np.uint64(shift)) * size - most
        edges += [low - _SLACK, low + size + _SLACK]
    return edges[0], edges[1], edges[2], edges[3]


_STEPS = ((1, 0x3333333333333333), (2, 0x0F0F0F0F0F0F0F0F), (4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF))


def _interleave(rows: Any, columns: Any) -> Any:
    """Interleave the bits of two numbers; those of the first come higher."""
    return (_spread(rows) << np.uint64(1)) | _spread(columns)


def _spread(numbers: Any) -> Any:
    masks = (0x00000000FFFFFFFF, 0x0000FFFF0000FFFF, 0x00FF00FF00FF00FF, 0x0F0F0F0F0F0F0F0F, 0x3333333333333333)
    for shift, mask in zip((16, 8, 4, 2, 1), (*masks[1:], 0x5555555555555555), strict=True):
        numbers = (numbers | (numbers << np.uint64(shift))) & np.uint64(mask)
    return numbers


def _gather(codes: Any) -> Floats:
    """Gather every second bit, from the lowest."""
    numbers = codes & np.uint64(0x5555555555555555)
    for shift, mask in (*_STEPS, (16, 0x00000000FFFFFFFF)):
        numbers = (numbers | (numbers >> np.uint64(shift))) & np.uint64(mask)
    return np.asarray(numbers, np.float64)
