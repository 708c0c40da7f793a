"""What plans say of a scan: the class of its file index is called `zskip`, and its path says what is left to read.

Spark names a scan's file index by its class and its paths alone, and asks it for files when the query runs. So
the Java of this room, compiled in the driver by Spark's Janino, holds a class of that name, and a rule for Spark's
optimizer that gives each relation of ours the filter above it. Plans then also know how many bytes are left,
by which Spark chooses joins. Where any of this fails, scans work without it and plans name a proxy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING

from zskip.errors import UnsupportedError
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.callbacks import Asked, file_index, threads
from zskip.spark.scan.rule.indexed import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.scan.rule.file_index import PrunedFileIndex

_NAME = "zskip"
_log = logging.getLogger("zskip.plans")
_lock = threading.Lock()


def planned_index(spark: SparkSession, index: PrunedFileIndex) -> JavaObject:
    """A `FileIndex` in the JVM over one in Python, by the name of zskip where Spark can compile that."""
    jvm = Jvm.of(spark)
    plain = file_index(jvm, index)
    compiled = _compiled(jvm)
    if compiled is None:
        return plain
    try:
        install(spark)
        parts = [plain, _twin(jvm, index.answer), threads(jvm)]
        return compiled[0].newInstance(jvm.array("java.lang.Object", parts))
    except Exception:
        _log.debug("plans will not name zskip", exc_info=True)
        return plain


def install(spark: SparkSession) -> bool:
    """Let the session's optimizer apply the rule, after its own; rules of others stay. False where there is no rule."""
    jvm = Jvm.of(spark)
    compiled = _compiled(jvm)
    if compiled is None:
        return False
    with _lock:
        rule, methods = compiled[1], spark._jsparkSession.experimental()
        rules = methods.extraOptimizations()
        if not rules.contains(rule):
            present = jvm.to_list(rules)
            others = [present.get(i) for i in range(present.size())]
            # Another rule of ours, of a Python process before this one, would keep what scans did to itself.
            others = [other for other in others if other.getClass().getName() != rule.getClass().getName()]
            getattr(methods, "extraOptimizations_$eq")(jvm.seq_of(*others, rule))
    return True


def rule_of(jvm: Jvm) -> JavaObject | None:
    """The rule, where it was needed before."""
    compiled = _compiled(jvm)
    return None if compiled is None else compiled[1]


def _compiled(jvm: Jvm) -> tuple[JavaObject, JavaObject] | None:
    with _lock:
        return jvm.once("plans", lambda: _compile(jvm))


def instance_of(jvm: Jvm, name: str) -> JavaObject:
    """The one object of a class of the room's Java. Raises UnsupportedError where Spark cannot compile them."""
    return jvm.once(f"java/{name}", lambda: _instance_of(jvm, name))


def _instance_of(jvm: Jvm, name: str) -> JavaObject:
    compiled = _compiled(jvm)
    if compiled is None:
        raise UnsupportedError("Spark has no Janino that compiles zskip's classes")
    loader = compiled[0].getDeclaringClass().getClassLoader()
    make = loader.loadClass(name).getConstructor(jvm.array("java.lang.Class", []))
    return make.newInstance(jvm.array("java.lang.Object", []))


def _compile(jvm: Jvm) -> tuple[JavaObject, JavaObject] | None:
    """The constructor of the index, and the rule; None where Spark has no Janino, or one that cannot."""
    try:
        nothing = jvm.array("java.lang.Class", [])
        method = jvm.class_of("org.apache.spark.sql.execution.datasources.FileIndex").getMethod("rootPaths", nothing)
        compiler = jvm.find("org.codehaus.janino.SimpleCompiler")()
        compiler.setTargetVersion(8)  # for static methods of interfaces
        compiler.setParentClassLoader(jvm.find("java.lang.Thread").currentThread().getContextClassLoader())
        compiler.cook(_source().replace("import SEQ;", f"import {method.getReturnType().getName()};"))
        loader = compiler.getClassLoader()
        make = loader.loadClass(_NAME).getConstructors()[0]
        directory = Directory(jvm, lambda session: _session(jvm, session))
        parts = jvm.array("java.lang.Object", [_twin(jvm, directory.answer), threads(jvm)])
        return make, loader.loadClass("Rule").getConstructors()[0].newInstance(parts)
    except Exception:
        _log.debug("plans will not name zskip", exc_info=True)
        return None


def _twin(jvm: Jvm, answer: Callable[..., JavaObject]) -> JavaObject:
    """What answers in Python, as an object in the JVM."""
    return jvm.call("java.util.Objects", "requireNonNull")(Asked(answer))


def _session(jvm: Jvm, session: JavaObject) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    assert context is not None, "a session has a context"
    return SparkSession(context, session)


def _source() -> str:
    """The room's Java as one text, since Janino compiles one: all imports, then all classes, each named once."""
    room = files("zskip.spark.scan")
    sources = [file for folder in room.iterdir() if folder.is_dir() for file in folder.iterdir()]
    texts = [
        file.read_text(encoding="utf-8").splitlines()
        for file in sorted(sources, key=lambda file: file.name)
        if file.name.endswith(".java")
    ]
    imports = {line: None for text in texts for line in text if line.startswith("import ")}
    return "\n".join([*imports, *(line for text in texts for line in text if not line.startswith("import "))])
