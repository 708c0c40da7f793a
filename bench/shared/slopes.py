"""Slopes of figures that grow with a size: 1 grows as the size does, 0 not at all.

A series has a list of values for each name; the first name is the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Series = dict[str, list[Any]]
LARGEST = 3
"""Of so many sizes the slope is taken where larger ones are guessed: small ones show what every size costs."""


def series_of(rows: Sequence[dict[str, Any]]) -> Series:
    """The series of some rows, one for each size, whose first figure is the size."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def figures_of(series: Series) -> dict[str, float]:
    """Each figure at the largest size, and its slope."""
    figures: dict[str, float] = {}
    for name in list(series)[1:]:
        figures[name] = series[name][-1]
        exponent = slope(series, name)
        figures |= {} if exponent is None else {f"{name}_slope": round(exponent, 3)}
    return figures


def slope(series: Series, figure: str, largest: int = 0) -> float | None:
    """The exponent of the power of the size that fits best; None for fewer than four sizes with a figure above 0."""
    size = next(iter(series))
    points = [(x, y) for x, y in zip(series[size], series[figure], strict=True) if y is not None and y > 0]
    if len(points) < 4:
        return None
    sizes, values = np.log(np.array(points[-largest:], float)).T
    return float(np.polyfit(sizes, values, 1)[0])


def at(series: Series, figure: str, size: float) -> float:
    """What the largest sizes say of a figure at another one."""
    last = series[next(iter(series))][-1]
    return float(series[figure][-1]) * (size / last) ** max(slope(series, figure, LARGEST) or 0.0, 0.0)
