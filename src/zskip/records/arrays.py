"""The types of NumPy arrays that hold values, counts and masks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from zskip.types import ZEROS, Form

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.int64] | npt.NDArray[np.float64] | npt.NDArray[np.object_]
"""Values in the form of their type: int64, float64, or objects that are `bytes`."""


_DTYPES = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: np.object_}


def zeros(form: Form, count: int) -> Values:
    """Make an array of a form, for values to come."""
    array: Values = np.full(count, ZEROS[form], _DTYPES[form])
    return array


def objects(values: Collection[Any]) -> npt.NDArray[np.object_]:
    """Convert values to an array of objects: NumPy would make texts of `bytes`, without their trailing zeros."""
    array = np.empty(len(values), np.object_)
    array[:] = list(values)
    return array
