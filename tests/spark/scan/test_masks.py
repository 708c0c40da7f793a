"""Masks of files as text."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from zskip.spark.scan.listings.masks import pack_mask, unpack_mask


@pytest.mark.parametrize("count", [0, 1, 4, 8, 9, 40])
def test_masks_come_back(count: int) -> None:
    for mask in (np.zeros(count, np.bool_), np.ones(count, np.bool_), np.arange(count) % 3 == 0):
        assert unpack_mask(pack_mask(mask), count).tolist() == mask.tolist()


def test_what_java_leaves_off_is_zero() -> None:
    for _ in range(100):
        np.ones(4, np.uint8)  # Memory that was just in use.
        assert not unpack_mask("", 4).any()
    assert unpack_mask(base64.b64encode(b"\x05").decode(), 20).tolist() == [True, False, True] + [False] * 17
