"""What plans say of a scan: the class of its file index is called `zskip`, and its path says what is left to read.

Spark names a scan's file index by its class and its paths alone, and asks it for files when the query runs. So
`java/`, compiled in the driver by the Janino that Spark brings along, holds a class of that name, and a rule for
Spark's optimizer that gives each relation of ours the filter above it. Plans then also know how many bytes are left,
by which Spark chooses joins. Where any of this fails, scans work without it and plans name a proxy.
"""

from __future__ import annotations

import logging
import threading
from importlib.resources import files
from typing import TYPE_CHECKING

from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge import asked, file_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.scan.file_index import PrunedFileIndex

_NAME = "zskip"
_log = logging.getLogger("zskip.plans")
_lock = threading.Lock()


def planned_index(spark: SparkSession, index: PrunedFileIndex) -> JavaObject:
    """A `FileIndex` in the JVM over one in Python, by the name of zskip where Spark can compile that."""
    jvm = Jvm.of(spark)
    plain = file_index(jvm, index)
    with _lock:
        compiled = jvm.once("plans", lambda: _compile(jvm))
        if compiled is None:
            return plain
        make, rule = compiled
        try:
            _install(jvm, spark, rule)
            parts = [plain, asked(jvm, index.answer), None]
            return make.newInstance(jvm.array("java.lang.Object", parts))
        except Exception:
            _log.debug("plans will not name zskip", exc_info=True)
            return plain


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
        rule = loader.loadClass("Rule").getConstructor(nothing)
        make = loader.loadClass(_NAME).getConstructors()[0]
        return make, rule.newInstance(jvm.array("java.lang.Object", []))
    except Exception:
        _log.debug("plans will not name zskip", exc_info=True)
        return None


def _source() -> str:
    """The files of `java/` as one, since Janino compiles one: all imports, then all classes, each named once."""
    texts = [
        file.read_text(encoding="utf-8").splitlines()
        for file in sorted(files(__package__).joinpath("java").iterdir(), key=lambda file: file.name)
        if file.name.endswith(".java")
    ]
    imports = {line: None for text in texts for line in text if line.startswith("import ")}
    return "\n".join([*imports, *(line for text in texts for line in text if not line.startswith("import "))])


def _install(jvm: Jvm, spark: SparkSession, rule: JavaObject) -> None:
    """Let the session's optimizer apply the rule, after its own; rules of others stay."""
    methods = spark._jsparkSession.experimental()
    rules = methods.extraOptimizations()
    if not rules.contains(rule):
        present = jvm.to_list(rules)
        getattr(methods, "extraOptimizations_$eq")(jvm.seq_of(*(present.get(i) for i in range(present.size())), rule))
