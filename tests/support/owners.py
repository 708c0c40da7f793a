"""Records of the owners of directories: dead processes, and those of other machines."""

from __future__ import annotations

import json
from typing import Any

from zskip.formats import claims

_NOBODY = 2**22 + 1
"""More than the number of any process."""


def owner(**changes: Any) -> bytes:
    """The record of this process, with some changes."""
    return json.dumps({**json.loads(claims._owner()), **changes}).encode()


def dead_owner() -> bytes:
    """The record of a process of this machine that is dead."""
    return owner(pid=_NOBODY)
