"""The rule in a session's optimizer: it binds indexes to relations, and notes for each scan what its query needs.

Spark names a scan's file index by its class and its paths alone, and asks it for files when the query runs. So the
file index is of a class called `zskip`, and its paths say what is left to read. Plans also know how many bytes are
left, by which Spark chooses joins.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zskip.spark.jvm.compat import check_session
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.callbacks import java_callback, threads
from zskip.spark.scan.bridge.janino import OBJECT, invoke, new_instance
from zskip.spark.scan.rule.open_index import IndexOpener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock = threading.Lock()


def install(spark: SparkSession) -> JavaObject:
    """Let the session's optimizer apply the rule after its own, and return the rule; rules of others stay.

    Raises UnsupportedError where Spark cannot compile it, and what `check_session` raises.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    check_session(spark)
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm = Jvm.of(spark)
    with _lock:
        rule, methods = jvm.once("scan/rule", lambda: _new_rule(jvm)), spark._jsparkSession.experimental()
        rules = methods.extraOptimizations()
        if not rules.contains(rule):
            # Another rule of ours, of a Python process before this one, would keep what scans did to itself.
            others = [other for other in jvm.items(rules) if other.getClass().getName() != rule.getClass().getName()]
            getattr(methods, "extraOptimizations_$eq")(jvm.seq_of(*others, rule))
            invoke(jvm, rule, "install", [OBJECT], spark._jsparkSession)
    return rule


def _new_rule(jvm: Jvm) -> JavaObject:
    return new_instance(jvm, "Rule", java_callback(jvm, IndexOpener(jvm).answer), threads(jvm))
