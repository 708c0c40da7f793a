"""Questions of `Python.java` that Python answers.

py4j gives each thread of the JVM that calls Python a connection and a thread in Python for good, and Spark asks from
whatever thread it likes: those that run queries, and those of the pools that prepare broadcasts and the stages of
adaptive plans. A long session would collect threads without end, so all questions come from a few threads that live
as long as the JVM.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

from zskip.spark.jvm.gateway import JavaObject, Jvm, read_in_pieces

_THREADS = 8


class Callback:
    """A Python function as a `java.util.function.BiFunction` of a question's box and its text.

    Plain answers are returned. Of objects in the JVM that would be a race: py4j lets go of the answer as soon as Python
    has returned it, which may be before the JVM looks it up. So they leave in the box, an `AtomicReference` which comes
    with the arguments.
    """

    class Java:
        """What py4j needs to know."""

        implements = ("java.util.function.BiFunction",)

    def __init__(self, answer: Callable[..., JavaObject]) -> None:
        """answer: takes the question and its arguments."""
        self._answer = answer

    def apply(self, box: JavaObject, text: str) -> str | float | bool | None:
        """Answer a question; True where the answer is in the box."""
        long = None if text else box.get()
        asked, *filters = (text if long is None else read_in_pieces(long[0])).split("\n")
        question, *arguments = json.loads(asked)
        originals = functools.cache(lambda: box.get() if long is None else long[1])
        lines = iter(filters)
        answer = self._answer(question, *(_argument(value, lines, originals) for value in arguments))
        if answer is None or isinstance(answer, str | float):
            return answer
        box.set(answer)
        return True


def _argument(value: Any, filters: Iterator[str], originals: Callable[[], JavaObject]) -> Any:
    """A plain value, filters, or the object in the JVM."""
    if not isinstance(value, dict):
        return value
    number = value["argument"]
    if "is_filters" not in value:
        return originals()[number]
    from zskip.spark.scan.bridge.filters import Filters

    return Filters(described=next(filters), expressions=lambda: originals()[number])


def java_callback(jvm: Jvm, answer: Callable[..., JavaObject]) -> JavaObject:
    """A function as an object in the JVM."""
    return jvm.call("java.util.Objects", "requireNonNull")(Callback(answer))


def threads(jvm: Jvm) -> JavaObject:
    """The threads of the JVM that ask Python."""
    make = jvm.call("org.apache.spark.util.ThreadUtils", "newDaemonFixedThreadPool")
    return jvm.once("threads", lambda: make(_THREADS, "zskip"))
