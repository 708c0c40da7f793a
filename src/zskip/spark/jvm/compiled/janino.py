"""The Java of zskip, compiled in the driver by the Janino that Spark brings along; no jar is needed."""

from __future__ import annotations

import functools
import logging
import threading
from importlib.resources import files
from typing import Any

from zskip.errors import UnsupportedError
from zskip.spark.jvm.compiled.class_cache import key_of, read_classes, write_classes
from zskip.spark.jvm.gateway import JavaObject, Jvm

_log = logging.getLogger("zskip.plans")
_lock = threading.Lock()
_KNOWN = "scan/"
"""Begins the names under which a `Jvm` knows what this module creates."""


_LIBRARIES = (
    "org.apache.spark.SparkContext",
    "org.apache.spark.sql.catalyst.expressions.Expression",
    "org.apache.spark.sql.execution.datasources.FileIndex",
    "org.apache.spark.sql.types.StructType",
    "org.apache.hadoop.fs.Path",
    "com.fasterxml.jackson.databind.ObjectMapper",
    "org.apache.commons.lang3.reflect.MethodUtils",
    "org.codehaus.janino.SimpleCompiler",
)
"""A class of each jar that the Java is compiled against, and of the compiler."""


def new_instance(jvm: Jvm, name: str, *arguments: Any) -> JavaObject:
    """An object of a class of zskip's Java. Raises UnsupportedError where Spark cannot compile it."""
    make = jvm.once(f"{_KNOWN}new {name}", lambda: _loader(jvm).loadClass(name).getConstructors()[0])
    return make.newInstance(jvm.array("java.lang.Object", arguments))


def singleton(jvm: Jvm, name: str) -> JavaObject:
    """The one object of a class of zskip's Java whose constructor takes nothing; raises what `new_instance` raises."""
    return jvm.once(f"{_KNOWN}{name}", lambda: new_instance(jvm, name))


def invoke(jvm: Jvm, target: JavaObject, name: str, *arguments: Any) -> JavaObject:
    """Call a public method of an object of zskip's Java, by reflection on its own class.

    py4j keeps methods by the names of classes, and may know a class of this name from a Python process before this
    one in the same JVM.
    """
    call = jvm.call("org.apache.commons.lang3.reflect.MethodUtils", "invokeMethod")
    return call(target, name, jvm.array("java.lang.Object", arguments))


def is_compiled(jvm: Jvm) -> bool:
    """Whether the classes were needed before."""
    return bool(_loaders(jvm))


def _loaders(jvm: Jvm) -> list[JavaObject]:
    """The class loader, once it is there."""
    loaders: list[JavaObject] = jvm.once(f"{_KNOWN}loaders", list)
    return loaders


def _loader(jvm: Jvm) -> JavaObject:
    with _lock:
        loader = jvm.once(f"{_KNOWN}loader", lambda: _compile(jvm))
    if loader is None:
        raise UnsupportedError(
            "zskip cannot compile the Java by which it reaches into this session's plans; its Spark has no Janino, or "
            "one of another version"
        )
    return loader


def compile_apart(jvm: Jvm, name: str, program: str) -> JavaObject:
    """An object of a class over those of another program, which a session may lack; fails without them.

    name: of a file below `spark`, without its ending; program: one of the other classes.
    """
    text = files("zskip.spark").joinpath(*f"{name}.java".split("/")).read_text(encoding="utf-8")
    loader = _loader(jvm)
    loader = _cook(jvm, text, loader, loader.loadClass(program))
    constructor = loader.loadClass(name.rpartition("/")[2]).getConstructors()[0]
    return constructor.newInstance(jvm.array("java.lang.Object", []))


def _compile(jvm: Jvm) -> JavaObject | None:
    """The class loader; None where Spark has no Janino, or one that cannot."""
    try:
        loader = _cook(jvm, read_java(), jvm.find("java.lang.Thread").currentThread().getContextClassLoader())
        _loaders(jvm).append(loader)
        return loader
    except Exception:
        _log.warning("the Java of zskip does not compile", exc_info=True)
        return None


def _cook(jvm: Jvm, text: str, parent: JavaObject, *libraries: JavaObject) -> JavaObject:
    """The class loader of a text's classes.

    libraries: one class of each further jar that the text needs.
    """
    nothing = jvm.array("java.lang.Class", [])
    method = jvm.class_of("org.apache.spark.sql.execution.datasources.FileIndex").getMethod("rootPaths", nothing)
    text = text.replace("import SEQ;", f"import {method.getReturnType().getName()};")
    jars = [*map(jvm.class_of, _LIBRARIES), method.getReturnType(), *libraries]
    # A text that is compiled apart needs the other one.
    key = key_of(jvm, read_java() + text, jars)
    classes = None if key is None else read_classes(jvm, key)
    if classes is None:
        compiler = jvm.find("org.codehaus.janino.SimpleCompiler")()
        compiler.setTargetVersion(8)  # for static methods of interfaces
        compiler.setParentClassLoader(parent)
        compiler.cook(text)
        classes = compiler.getBytecodes()
        if key is not None:
            write_classes(jvm, key, classes)
    return jvm.find("org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader")(classes, parent)


@functools.cache
def read_java() -> str:
    """The Java as one text, since Janino compiles one: all imports, then all classes, each named once."""
    rooms = [files("zskip.spark").joinpath(room) for room in ("jvm", "scan", "formats")]
    folders = [folder for room in rooms for folder in room.iterdir() if folder.is_dir()]
    sources = [file for folder in folders for file in folder.iterdir() if file.name.endswith(".java")]
    texts = [file.read_text(encoding="utf-8").splitlines() for file in sorted(sources, key=lambda file: file.name)]
    imports = {line: None for text in texts for line in text if line.startswith("import ")}
    return "\n".join([*imports, *(line for text in texts for line in text if not line.startswith("import "))])
