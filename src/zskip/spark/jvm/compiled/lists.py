"""Methods of many objects in the JVM, called at once."""

from __future__ import annotations

from typing import Any

from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.gateway import JavaObject, Jvm


def get_each(jvm: Jvm, items: JavaObject, getters: str) -> JavaObject:
    """A `java.util.List` of what a method without parameters, or several in a row, return for each item of a list.

    getters: such as `getPath.toString`. Calls the items of lists and of Scala's options themselves; null stays null.
    """
    return invoke(jvm, singleton(jvm, "Lists"), "get", items, getters)


def read_columns(jvm: Jvm, items: JavaObject, *columns: str) -> list[list[Any]]:
    """Fetch what several getters return for each item of a list, one list for each of them, as in `get_each`."""
    values: list[list[Any]] = jvm.read(jvm.list_of(*(get_each(jvm, items, getters) for getters in columns)))
    return values
