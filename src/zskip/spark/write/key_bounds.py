"""The bounds of keys that are expressions in each new file: computed where rows are placed, kept in the file's footer.

    near side: forms of keys -> bounds by file -> with the batches to the far side: bounds of each file -> its footer

The state in a footer is that of the sketch `ranges(1)`, which the index would otherwise build in another pass; of a
condition, that of `matches`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from zskip.errors import ZskipError
from zskip.formats.schema import fields_from_json
from zskip.index.collect.footer_sketches import FooterSketch, pack_footer_sketches
from zskip.index.expressions import key_specs
from zskip.index.store.sketches import Versions, values_type
from zskip.predicate import Columns
from zskip.records import Bools, Field, Snapshot, Values, zeros
from zskip.sketch import parse_sketch_on
from zskip.sketch.arrays import State
from zskip.sketch.blob import pack_arrays, unpack_arrays
from zskip.sketch.kinds.matches import Matches, a_match
from zskip.sketch.kinds.ranges import Ranges
from zskip.spark.forms import PREFIX_BYTES, curve_form, is_exact
from zskip.types import Form

_NULL, _NAN, _VALUE = 1, 2, 4


class SketchedKey(NamedTuple):
    """A key whose bounds go into footers, and how these describe them."""

    number: int
    """Among the keys of the layout."""
    form: str
    specs: tuple[str, ...]
    """Each as in `FooterSketch`, as are the next."""
    timezone: str
    type: str


def sketched_keys(
    snapshot: Snapshot,
    fields: Sequence[Field],
    schema_json: str,
    timezone: str,
    *,
    case_sensitive: bool,
    versions: Versions,
) -> tuple[SketchedKey, ...]:
    """Choose the keys of which only a sketch tells the bounds, and whose forms tell what the sketch would be.

    snapshot: of the table, with its columns; fields: the keys; schema_json: the columns of the rows; the rest: of the
    session that computes the keys.
    """
    table = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=True)
    rows = Columns(fields_from_json(schema_json), case_sensitive=True)
    keys: list[SketchedKey] = []
    for number, field in enumerate(fields):
        specs = key_specs(table, field) if field.computed and is_exact(field) else []
        if not specs:
            continue
        try:
            on, on_rows = (parse_sketch_on(specs[0], columns, timezone=timezone) for columns in (table, rows))
        except ZskipError:
            continue
        # Readers may pad texts, and Iceberg's gives some columns in another type.
        if on == on_rows and on.type == field.type and not any(column.type.is_char for column in on.columns):
            form = curve_form(field.type).value
            values = values_type(snapshot, on, case_sensitive=case_sensitive, versions=versions)
            keys.append(SketchedKey(number, form, tuple(specs), timezone, values))
    return tuple(keys)


class KeyBounds:
    """The bounds of some keys in some files, and whether they have nulls and NaN."""

    def __init__(self, keys: Sequence[SketchedKey], files: int) -> None:
        self._keys = keys
        self._flags = [np.zeros(files, np.uint8) for _ in keys]
        self._lows = [zeros(Form(key.form), files) for key in keys]
        self._highs = [low.copy() for low in self._lows]

    def add_rows(self, files: npt.NDArray[np.integer], forms: Sequence[tuple[Values, Bools]]) -> None:
        """Add rows; files: of each row; forms: of all keys of the layout, values and nulls."""
        for i, key in enumerate(self._keys):
            values, nulls = forms[key.number]
            is_nan = ~nulls & np.isnan(cast("npt.NDArray[np.float64]", values)) if key.form == "float" else None
            has_value = ~nulls if is_nan is None else ~(nulls | is_nan)
            self._flags[i][files[nulls]] |= _NULL
            if is_nan is not None:
                self._flags[i][files[is_nan]] |= _NAN
            self._widen(i, files[has_value], values[has_value], values[has_value])

    def _widen(self, key: int, files: npt.NDArray[np.integer], lows: Values, highs: Values) -> None:
        """Add bounds of files, of which there may be several for one."""
        if not len(files):
            return
        order = np.argsort(files, kind="stable")
        ordered = files[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        flags, distinct = self._flags[key], ordered[starts]
        for ends, added, choose in ((self._lows[key], lows, np.minimum), (self._highs[key], highs, np.maximum)):
            widest = choose.reduceat(added[order], starts)
            known = flags[distinct] & _VALUE > 0
            widest[known] = choose(widest[known], ends[distinct[known]])
            ends[distinct] = widest
        flags[distinct] |= _VALUE

    def take(self, first: int, files: int) -> bytes:
        """Pack what is known of some files, and forget it."""
        window = slice(first, first + files)
        arrays = []
        for flags, lows, highs in zip(self._flags, self._lows, self._highs, strict=True):
            known = flags[window] & _VALUE > 0
            arrays += [flags[window].copy(), lows[window][known], highs[window][known]]
            flags[window] = 0
        return pack_arrays(arrays)

    def add_packed(self, data: bytes, first: int) -> None:
        """Add what `take` has packed; first: the first of its files here."""
        arrays = unpack_arrays(data)
        for i, (flags, lows, highs) in enumerate(zip(arrays[::3], arrays[1::3], arrays[2::3], strict=True)):
            files = first + np.arange(len(flags))
            self._flags[i][files] |= flags & (_NULL | _NAN)
            self._widen(i, files[flags & _VALUE > 0], lows, highs)

    def metadata(self, first: int, end: int) -> dict[bytes, bytes]:
        """The metadata of the footer of a file that has the rows of these files, or some of them."""
        sketches = []
        for i, key in enumerate(self._keys):
            window = slice(first, end)
            makers = (self._state, self._match)
            for spec, make in zip(key.specs, makers, strict=False):
                state = make(i, window)
                if state is not None:
                    sketches.append(FooterSketch(spec, key.timezone, key.type, state))
        return pack_footer_sketches(sketches)

    def _match(self, key: int, window: slice) -> bytes:
        """The state of `matches`: whether a condition is true in some row."""
        known = self._flags[key][window] & _VALUE > 0
        return Matches().to_bytes(a_match(bool((self._highs[key][window][known] == 1).any())))

    def _state(self, key: int, window: slice) -> bytes | None:
        """The state of the sketch; None where the forms do not tell it."""
        flags = self._flags[key][window]
        known, seen = flags & _VALUE > 0, int(np.bitwise_or.reduce(flags))
        lows, highs = self._lows[key][window][known], self._highs[key][window][known]
        if len(lows):
            lows, highs = np.minimum.reduce(lows, keepdims=True), np.maximum.reduce(highs, keepdims=True)
        sketch = Ranges(1)
        state = sketch.finish(State((lows, highs), bool(seen & _NULL), bool(seen & _NAN)))
        # A greatest text that the sketch does not shorten, and the form may have.
        is_cut = self._keys[key].form == "bytes" and any(len(end) >= PREFIX_BYTES for end in state.arrays[1])
        return None if is_cut or not seen else sketch.to_bytes(state)


MakeBounds = Callable[[int], KeyBounds]
"""Makes `KeyBounds` of so many files. Tasks get it only where keys are sketched: Spark sends all that it refers to."""
