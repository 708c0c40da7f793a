"""The rule in a session's optimizer: it binds indexes to relations, and notes for each scan what its query needs.

Spark names a scan's file index by its class and its paths alone, and asks it for files when the query runs. So the
file index is of a class called `zskip`, and its paths say what is left to read. Plans also know how many bytes are
left, by which Spark chooses joins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from zskip.spark.jvm.compat import check_session
from zskip.spark.jvm.compiled.janino import invoke, new_instance
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.callbacks import java_callback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.scan.rule.open_index import IndexOpener

_lock = threading.Lock()


class _Answers:
    """What the rule asks; what answers is imported in a thread meanwhile, since that takes longer than all else."""

    def __init__(self, jvm: Jvm) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="zskip-imports")
        self._opener = self._thread.submit(_import_opener, jvm)
        self._last: Future[Any] = self._opener

    def begin(self, work: Callable[[], object]) -> None:
        """Do some work in the thread, for which questions from now on wait."""
        self._last = self._thread.submit(work)

    def answer(self, question: str, *arguments: Any) -> JavaObject:
        """Answer a question; raises ImportError."""
        self._last.exception()
        return self._opener.result().answer(question, *arguments)


def _import_opener(jvm: Jvm) -> IndexOpener:
    from zskip.spark.scan.rule.open_index import IndexOpener

    return IndexOpener(jvm)


def install(spark: SparkSession, beside: Callable[[], object] | None = None) -> JavaObject:
    """Let the session's optimizer apply the rule after its own, and return the rule; rules of others stay.

    beside: done in a thread, before the rule's next question is answered. Raises UnsupportedError where Spark cannot
    compile the rule, and what `check_session` raises.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    check_session(spark)
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm = Jvm.of(spark)
    with _lock:
        answers = jvm.once("scan/answers", lambda: _Answers(jvm))
        rule = jvm.once("scan/rule", lambda: _new_rule(jvm, answers))
        methods = spark._jsparkSession.experimental()
        rules = methods.extraOptimizations()
        if not rules.contains(rule):
            # Another rule of ours, of a Python process before this one, would keep what scans did to itself.
            others = [other for other in jvm.items(rules) if other.getClass().getName() != rule.getClass().getName()]
            getattr(methods, "extraOptimizations_$eq")(jvm.seq_of(*others, rule))
            invoke(jvm, rule, "install", spark._jsparkSession)
    if beside is not None:
        answers.begin(beside)
    return rule


def _new_rule(jvm: Jvm, answers: _Answers) -> JavaObject:
    return new_instance(jvm, "Rule", java_callback(jvm, answers.answer))
