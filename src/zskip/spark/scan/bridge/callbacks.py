"""A `FileIndex` in the JVM that asks Python for one thing: which files a scan reads.

Spark calls a file index from whatever thread it likes: those that run queries, and those of the pools that prepare
broadcasts and the stages of adaptive plans. py4j gives each thread of the JVM that calls Python a connection and a
thread in Python for good, so a long session would collect them without end. Everything that is known beforehand is
therefore answered in the JVM, and the two questions that are not are asked from a few threads that live as long as
the JVM.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zskip.spark.jvm.gateway import JavaObject, Jvm, read_in_pieces
from zskip.spark.scan.filters.catalyst import Filters, Handed

if TYPE_CHECKING:
    from zskip.spark.scan.rule.file_index import PrunedFileIndex

_THREADS = 8
_OBJECT = "java.lang.Object"
_ARGUMENTS = "java.lang.Object[]"
_STRING = "java.lang.String"
_FUNCTION = "java.util.function.Function"
_BOX = "java.util.concurrent.atomic.AtomicReference"
_FUTURE = "java.util.concurrent.CompletableFuture"
_FILE_INDEX = "org.apache.spark.sql.execution.datasources.FileIndex"
_HANDLER = "java.lang.reflect.InvocationHandler"


class Question:
    """A method of a Python object, as a `java.util.function.BiConsumer` of a call's box and nothing.

    The box, an `AtomicReference`, comes with the arguments and leaves with the answer. A plain return value would
    be a race: py4j lets go of the answer as soon as Python has returned it, which may be before the JVM looks it up.
    """

    class Java:
        """What py4j needs to know."""

        implements = ("java.util.function.BiConsumer",)

    def __init__(self, answer: Callable[..., JavaObject]) -> None:
        self._answer = answer

    def accept(self, box: JavaObject, _: object) -> None:
        """Answer a call."""
        box.set(self._answer(*(box.get() or ())))


class Asked:
    """A Python function that answers `Python.java`, as a `BiConsumer` of a call's box and of its text."""

    class Java:
        """What py4j needs to know."""

        implements = ("java.util.function.BiConsumer",)

    def __init__(self, answer: Callable[..., JavaObject]) -> None:
        """answer: takes the question and its arguments."""
        self._answer = answer

    def accept(self, box: JavaObject, text: str) -> None:
        """Answer a call."""
        long = None if text else box.get()
        question, *arguments = json.loads(text if long is None else read_in_pieces(long[0]))
        held = functools.cache(lambda: box.get() if long is None else long[1])
        box.set(self._answer(question, *(_argument(value, held) for value in arguments)))


class NoNotes:
    """An empty `java.util.Map`."""

    def isEmpty(self) -> bool:
        """It is."""
        return True

    def get(self, _: str) -> None:
        """There is nothing."""


def _argument(value: Any, held: Callable[[], JavaObject]) -> Any:
    """A plain value, filters, or whatever else it is in the JVM."""
    if not isinstance(value, dict):
        return value
    place = value["at"]
    if "sql" in value:
        filters = Filters(
            sql=tuple(value["sql"]),
            columns=value["columns"],
            timezone=value["zone"],
            foreign=frozenset(value["foreign"]),
        )
        return Handed(filters=filters, held=lambda: held()[place])
    return NoNotes() if value.get("empty") else held()[place]


def file_index(jvm: Jvm, index: PrunedFileIndex) -> JavaObject:
    """A `FileIndex` in the JVM over one in Python."""
    answers = jvm.find("java.util.HashMap")()
    for method, kind, value in (
        ("rootPaths", _OBJECT, index.root_paths),
        ("sizeInBytes", "long", index.size),
        ("partitionSchema", _OBJECT, index.partition_schema),
        ("metadataOpsTimeNs", _OBJECT, jvm.none),
        ("isTimeTravel", "boolean", False),
        ("refresh", _OBJECT, None),
        ("toString", _OBJECT, index.name),
        ("hashCode", "int", index.hash_code),
    ):
        constant = jvm.handles.drop(jvm.handles.constant(kind, value), 0, _OBJECT)
        answers.put(method, jvm.handles.function(constant))
    answers.put("equals", _same_text(jvm, index.name))
    answers.put("listFiles", asked(jvm, index.list_files))
    answers.put("inputFiles", asked(jvm, index.input_files))
    make = jvm.call("java.lang.reflect.Proxy", "newProxyInstance")
    interface = jvm.class_of(_FILE_INDEX)
    return make(interface.getClassLoader(), jvm.array("java.lang.Class", [interface]), _handler(jvm, answers))


def _handler(jvm: Jvm, answers: JavaObject) -> JavaObject:
    """An `InvocationHandler` that looks a method's answer up by its name."""
    handles = jvm.handles
    name = handles.virtual("java.lang.reflect.Method", "getName", _STRING)
    find = handles.virtual("java.util.Map", "get", _OBJECT, _OBJECT).bindTo(answers)
    apply = handles.virtual(_FUNCTION, "apply", _OBJECT, _OBJECT)
    answer = handles.feed(apply, 0, handles.cast(handles.chain(name, find), _FUNCTION))
    answer = handles.drop(answer, 0, _OBJECT)
    return handles.implement(
        _HANDLER, answer.asType(handles.type(_OBJECT, _OBJECT, "java.lang.reflect.Method", _ARGUMENTS))
    )


def _same_text(jvm: Jvm, text: str) -> JavaObject:
    """A Function that says whether the first argument's text is this one."""
    handles = jvm.handles
    first = handles.bind(handles.element(_ARGUMENTS), 1, 0)
    text_of = handles.static(_STRING, "valueOf", _STRING, _OBJECT)
    equals = handles.virtual(_STRING, "equals", "boolean", _OBJECT).bindTo(text)
    return handles.function(handles.chain(first, text_of, equals))


def asked(jvm: Jvm, answer: Callable[..., JavaObject]) -> JavaObject:
    """A Function of an array of arguments that hands a call to one of our threads and waits for Python's answer."""
    handles = jvm.handles
    twin = jvm.call("java.util.Objects", "requireNonNull")(Question(answer))
    ask = jvm.once("ask", lambda: _ask(jvm))
    return handles.function(handles.bind(ask, 1, twin, threads(jvm)))


def _ask(jvm: Jvm) -> JavaObject:
    """(arguments, question, executor) -> answer."""
    handles = jvm.handles
    boxed = handles.constructor(_BOX, _OBJECT)
    started = handles.chain(boxed, handles.static(_FUTURE, "completedFuture", _FUTURE, _OBJECT))
    asked = handles.virtual(
        _FUTURE, "whenCompleteAsync", _FUTURE, "java.util.function.BiConsumer", "java.util.concurrent.Executor"
    )
    joined = handles.cast(handles.virtual(_FUTURE, "join", _OBJECT), _BOX)
    answer = handles.feed(handles.chain(joined, handles.virtual(_BOX, "get", _OBJECT)), 0, asked)
    return handles.feed(answer, 0, started)


def threads(jvm: Jvm) -> JavaObject:
    """The threads of the JVM that ask Python."""
    make = jvm.call("org.apache.spark.util.ThreadUtils", "newDaemonFixedThreadPool")
    return jvm.once("threads", lambda: make(_THREADS, "zskip"))
