"""Questions of `Python.java` that Python answers.

py4j gives each thread of the JVM that calls Python a connection and a thread in Python for good, and Spark asks from
whatever thread it likes: those that run queries, and those of the pools that prepare broadcasts and the stages of
adaptive plans. A long session would collect threads without end, so all questions come from a few threads that live
as long as the JVM.

py4j listens on a port of this machine and does not ask who is there. So each question is signed with a secret that
only `Python.java` and the answering object know.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from zskip.spark.jvm.compiled.janino import new_instance
from zskip.spark.jvm.gateway import JavaObject, Jvm, read_in_pieces

_THREADS = 8
_SIGNATURE_CHARS = 44
_IN_THE_BOX = "\n"
"""Begins the text of a question that is too long for one message."""


class Callback:
    """A Python function as a `java.util.function.BiFunction` of a question's box and its signed text.

    Plain answers are returned. Of objects in the JVM that would be a race: py4j lets go of the answer as soon as Python
    has returned it, which may be before the JVM looks it up. So they leave in the box, an `AtomicReference` which comes
    with the arguments.
    """

    class Java:
        """What py4j needs to know."""

        implements = ("java.util.function.BiFunction",)

    def __init__(self, answer: Callable[..., JavaObject], secret: str) -> None:
        """answer: takes the question and its arguments."""
        self.apply = functools.partial(_apply, answer, secret.encode())

    def __getattribute__(self, name: str) -> Any:
        """Hide all else from py4j, which calls any attribute that a message names: the class, too, makes objects."""
        if name in ("apply", "Java"):
            return object.__getattribute__(self, name)
        if name == "__class__":
            return object
        raise AttributeError(name)


def _apply(answer: Callable[..., JavaObject], secret: bytes, box: JavaObject, text: str) -> str | float | bool | None:
    """Answer a question; True where the answer is in the box. Raises PermissionError where it is not signed."""
    signature, text = (text[:_SIGNATURE_CHARS], text[_SIGNATURE_CHARS:]) if isinstance(text, str) else ("", "")
    if not hmac.compare_digest(signature.encode(), sign(secret, text)):
        raise PermissionError("a question to zskip that its own JVM did not ask")
    long = box.get() if text.startswith(_IN_THE_BOX) else None
    message, *filters = (text if long is None else read_in_pieces(long[0])).split("\n")
    question, *arguments = json.loads(message)
    originals = functools.cache(lambda: box.get() if long is None else long[1])
    lines = iter(filters)
    reply = answer(question, *(_argument(value, lines, originals) for value in arguments))
    if reply is None or isinstance(reply, str | float):
        return reply
    box.set(reply)
    return True


def sign(secret: bytes, text: str) -> bytes:
    """Sign a text as `Python.java` does: in two steps, so that no longer text has a signature that can be derived."""
    inner = hashlib.sha256(secret + text.encode()).digest()
    return base64.b64encode(hashlib.sha256(secret + inner).digest())


def _argument(value: Any, filters: Iterator[str], originals: Callable[[], JavaObject]) -> Any:
    """A plain value, filters, or the object in the JVM."""
    if not isinstance(value, dict):
        return value
    number = value["argument"]
    if "is_filters" not in value:
        return originals()[number]
    from zskip.spark.scan.bridge.filters import Filters

    return Filters(described=next(filters))


def java_callback(jvm: Jvm, answer: Callable[..., JavaObject]) -> JavaObject:
    """A function as a `Python` in the JVM, which alone can call it."""
    secret = secrets.token_hex(32)
    return new_instance(jvm, "Python", Callback(answer, secret), _threads(jvm), secret)


def _threads(jvm: Jvm) -> JavaObject:
    """The threads of the JVM that ask Python."""
    make = jvm.call("org.apache.spark.util.ThreadUtils", "newDaemonFixedThreadPool")
    return jvm.once("threads", lambda: make(_THREADS, "zskip"))
