"""Manifests of the index as bytes, to be read and forged without zskip."""

from __future__ import annotations

import json
import zlib
from typing import Any


def body(data: bytes) -> dict[str, Any]:
    """What a manifest says."""
    return dict(json.loads(data))


def forged(content: dict[str, Any]) -> bytes:
    """A manifest that says something else, with the checksum that goes with it."""
    rest = json.dumps({name: value for name, value in content.items() if name != "crc"}).encode()[1:]
    return b'{"crc": "%08x", ' % zlib.crc32(rest) + rest


def with_format(data: bytes, version: int) -> bytes:
    """A manifest as another version of the format would begin."""
    return forged({**body(data), "format": version})
