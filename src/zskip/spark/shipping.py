"""Send our own code to Spark's Python workers by value, so that executors need no zskip."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_users = 0


@contextmanager
def by_value() -> Iterator[None]:
    """Pickle functions and classes of zskip by value while Spark accepts a Python function.

    Spark pickles a function when a column or a plan is built from it, so no query has to run in this context.
    """
    from pyspark import cloudpickle

    zskip = sys.modules[__name__.partition(".")[0]]
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            cloudpickle.register_pickle_by_value(zskip)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                cloudpickle.unregister_pickle_by_value(zskip)  # type: ignore[no-untyped-call]
