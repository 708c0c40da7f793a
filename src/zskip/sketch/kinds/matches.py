"""`matches`: whether any row of a file makes a condition true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.errors import IndexFormatError
from zskip.predicate import TermLeaf
from zskip.sketch.base import Answer, Sketch
from zskip.sketch.blob import seal, unseal
from zskip.sketch.registry import register
from zskip.types import DataType


@register
@dataclass(frozen=True)
class Matches(Sketch):
    """Whether some value is true, which a query uses whose filter implies the condition (`implication.py`)."""

    kind: ClassVar[str] = "matches"

    def __str__(self) -> str:
        return self.kind

    def refusal(self, data_type: DataType) -> str | None:
        return None if data_type.name == "boolean" else "matches is of conditions"

    def build(self, values: pa.Array, data_type: DataType) -> bool:
        return bool(pc.any(values).as_py())

    def merge(self, states: Sequence[bool]) -> bool:
        return any(states)

    def to_bytes(self, state: bool) -> bytes:
        return seal(str(self), bytes([state]))

    def from_bytes(self, data: bytes) -> bool:
        payload = unseal(str(self), data)
        if payload not in (b"\0", b"\1"):
            raise IndexFormatError("a damaged matches sketch; build the index again")
        return payload == b"\1"

    def stack(self, states: Sequence[bool | None]) -> Any:
        """(files,) whether a row may make the condition true."""
        return np.array([state is not False for state in states], np.bool_)

    def might_match(self, leaf: TermLeaf, stack: Any) -> Answer | None:
        return None
