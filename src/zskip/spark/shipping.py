"""Send our own code to Spark's Python workers by value, so that executors need no zskip."""

from __future__ import annotations

import gc
import re
import sys
import threading
import zipimport
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_PYSPARK = re.compile(r"[/\\\\](pyspark|py4j[-.\w]*)[.]zip$")
_lock = threading.Lock()
_users = 0


@contextmanager
def by_value() -> Iterator[None]:
    """Pickle functions and classes of zskip by value while Spark accepts a Python function.

    A classic session pickles a function when a column or a plan is built from it, a connected one whenever it sends
    the plan: see `ship`.
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


def ship(function: Callable[[Iterable[RecordBatch]], Iterable[RecordBatch]]) -> Any:
    """A function for `mapInArrow` that Spark may pickle at any time, always as the same bytes."""
    from pyspark import cloudpickle

    with by_value():
        content = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]

    def run(batches: Any) -> Any:
        import pickle

        return pickle.loads(content)(batches)

    # What belongs there is pickled by value.
    run.__module__ = "__main__"
    return run


def lighten_worker() -> None:
    """Let the next tasks of this Python worker begin sooner; a task calls it first.

    Before each task PySpark has Python read the directories of its own archives again, once for each package in them,
    which takes longer than a small task. After each task it collects garbage among all that was ever imported.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter) and _PYSPARK.search(finder.archive):
            # An import that needs it makes it again.
            sys.path_importer_cache.pop(path, None)
    if not gc.get_freeze_count():
        gc.freeze()


def partition_number() -> int:
    """The number of the partition that a task of this worker computes; 0 outside of tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
