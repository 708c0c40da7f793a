"""Bounds of keys from both sides of the shuffle, without Spark between them: the sketches that a job would build."""

from __future__ import annotations

import numpy as np
import placing
import sketched
from states_of_sketches import build_state

from zskip.index.collect.footer_sketches import FOOTER_SKETCHES, unpack_footer_sketches
from zskip.records import Field
from zskip.sketch.kinds.matches import Matches
from zskip.sketch.kinds.ranges import Ranges
from zskip.spark.forms import curve_form, is_exact
from zskip.spark.write.key_bounds import KeyBounds, SketchedKey
from zskip.types import DataType

ROWS, FILES, FILES_A_GROUP = 600, 9, 4
INEXACT = {"decimal(38,5)", "timestamp_ntz", "interval day to second", "interval year to month"}
KINDS = [kind for kind in placing.TYPES if kind not in INEXACT]


def test_forms_that_tell_the_values() -> None:
    fields = [Field(name="f(c)", type=DataType(kind), computed=True) for kind in placing.TYPES]
    assert {field.type.name for field in fields if not is_exact(field)} == INEXACT
    # Rows lie by another expression than the one that the sketch is of.
    assert not is_exact(Field(name="collation_key(c)", type=DataType("binary"), computed=True))


def test_footers_have_the_sketches_that_a_job_would_build() -> None:
    specs = {k: (k, "matches") if k == "boolean" else (k,) for k in KINDS}
    keys = [SketchedKey(i, curve_form(DataType(k)).value, specs[k], "UTC", k) for i, k in enumerate(KINDS)]
    columns = [placing.values_of(kind, ROWS, 5) for kind in KINDS]
    files = np.random.default_rng(5).integers(2, FILES - 1, ROWS).astype(np.int32)
    files[:40:2], files[1:40:2], files[-1] = 0, 1, FILES - 1
    for kind, values in zip(KINDS, columns, strict=True):
        values[:40:2] = [None] * 20
        if kind in ("float", "double"):
            values[1:40:2] = [float("nan")] * 20
        if kind == "binary":
            values[-1] = b"\xff" * 400
    forms = [placing.forms_of(kind, values) for kind, values in zip(KINDS, columns, strict=True)]
    near = [KeyBounds(keys, FILES) for _ in range(3)]
    far = [KeyBounds(keys, FILES_A_GROUP) for _ in range(0, FILES, FILES_A_GROUP)]
    for number, rows in enumerate(np.array_split(np.arange(ROWS), 20)):
        one = near[number % 3]
        one.add_rows(files[rows], [(values[rows], nulls[rows]) for values, nulls in forms])
        if number % 4 == 0 or number > 16:
            for i, group in enumerate(far):
                group.add_packed(one.take(i * FILES_A_GROUP, FILES_A_GROUP), 0)

    def expected(first: int, end: int) -> dict[str, bytes | None]:
        rows = np.flatnonzero((files >= first) & (files < end)).tolist()
        arrays = [sketched.array([values[i] for i in rows], kind) for kind, values in zip(KINDS, columns, strict=True)]
        states = {k: build_state(Ranges(1), [a], DataType(k)).data for k, a in zip(KINDS, arrays, strict=True)}
        matches = build_state(Matches(), [arrays[KINDS.index("boolean")]], DataType("boolean")).data
        return states | {"matches": matches}

    spans = [(file, file + 1) for file in range(FILES)] + [(0, 3), (4, 8)]
    for first, end in spans:
        group = first // FILES_A_GROUP
        metadata = far[group].metadata(first - group * FILES_A_GROUP, end - group * FILES_A_GROUP)
        sketches = unpack_footer_sketches(metadata[FOOTER_SKETCHES].decode())
        wanted = expected(first, end)
        if first == FILES - 1:
            # The form has only the beginning of the greatest value, above which there is no shorter one.
            del wanted["binary"]
        assert {sketch.spec: sketch.state for sketch in sketches} == wanted
        assert all(
            sketch[1:3] == ("UTC", "boolean" if sketch.spec == "matches" else sketch.spec) for sketch in sketches
        )


def test_other_texts_have_no_sketches() -> None:
    for text in ("", "[", "{}", '[["a", "b"]]', '[["a", "b", "c", "d"]]', "7"):
        assert unpack_footer_sketches(text) == []
