"""Sketches in the footers of data files, which the rewrite through Arrow makes of the rows as it writes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from typing import NamedTuple

FOOTER_SKETCHES = b"zskip.sketches"
"""The key under which a footer has them."""


class FooterSketch(NamedTuple):
    """The state of a sketch for the rows of the file, and what it is of."""

    spec: str
    """In the form that `parse_sketch_on` reads."""
    timezone: str
    """In which its expression was computed."""
    type: str
    """As `values_type` named it for the table when the file was written."""
    state: bytes


def pack_footer_sketches(sketches: Collection[FooterSketch]) -> dict[bytes, bytes]:
    """Write sketches as metadata of a footer, which has none without any.

    >>> pack_footer_sketches([FooterSketch("ranges(1):lower(s)", "UTC", "string", b"zsk")])
    {b'zskip.sketches': b'[["ranges(1):lower(s)", "UTC", "string", "enNr"]]'}
    """
    rows = [[*sketch[:-1], base64.b64encode(sketch.state).decode()] for sketch in sketches]
    return {FOOTER_SKETCHES: json.dumps(rows).encode()} if rows else {}


def unpack_footer_sketches(text: str) -> list[FooterSketch]:
    """Undo `pack_footer_sketches`; other texts have none."""
    try:
        rows = json.loads(text or "[]")
        return [FooterSketch(spec, zone, kind, base64.b64decode(state)) for spec, zone, kind, state in rows]
    except (TypeError, ValueError):
        return []
