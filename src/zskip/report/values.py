"""Formats values, names, and shares for people."""

from __future__ import annotations

import re

import numpy as np

from zskip.types import DataType, Encoded, Form, to_decimal, valid_text

_LONGEST = 40
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that are invisible or change the direction of the text around them."""


def clean(text: str, longest: int = 10_000) -> str:
    """Replace characters that are invisible or change the direction of text, and cut long text.

    >>> clean("a\\tb"), clean("abcdef", 4)
    ('a\ufffdb', 'abc…')
    """
    visible = _INVISIBLE.sub("\ufffd", text)
    return visible if len(visible) <= longest else visible[: longest - 1] + "…"


def show_value(value: Encoded, data_type: DataType) -> str:
    """Format an encoded value.

    >>> show_value(-719162, DataType("date")), show_value(1250, DataType("decimal(6,2)"))
    ('0001-01-01', '12.50')
    """
    name = data_type.name
    if data_type.is_decimal:
        return f"{to_decimal(value, data_type):f}"
    if isinstance(value, bytes):
        return clean(f"0x{value.hex()}" if name == "binary" else valid_text(value), _LONGEST)
    if data_type.form is Form.FLOAT:
        return f"{value:.6g}"
    if name == "date":
        return str(np.datetime64(int(value), "D"))
    if name.startswith("timestamp"):
        moment = np.datetime64(int(value), "us")
        return str(moment.astype("datetime64[s]") if int(value) % 1_000_000 == 0 else moment).replace("T", " ")
    if data_type.is_time:
        return show_value(value, DataType("timestamp_ntz")).partition(" ")[2]
    return ("false", "true")[int(value)] if name == "boolean" else f"{int(value)}"


def percent(share: float) -> str:
    """Format a share (0 to 1).

    >>> percent(0.25), percent(0.0004), percent(0)
    ('25 %', '0.04 %', '0 %')
    """
    number = 100 * share
    if number >= 9.95 or number == 0:
        return f"{number:.0f} %"
    return f"{number:.1f} %" if number >= 0.95 else f"{number:.1g} %"
