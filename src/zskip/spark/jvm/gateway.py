"""The driver's JVM as Python sees it: one lookup per class, and one call for work on many objects.

A call through py4j takes about 0.1 ms and a lookup of `jvm.a.b.c` takes several calls, so nothing here loops over
elements in Python: `compiled` has Java that does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JavaObject: TypeAlias = Any
"""An object in the JVM."""

_CACHE = "_zskip_jvm"
_PIECE_CHARS = 4_000
"""ASCII characters; py4j sends some of them as two."""
_WIDEST_TUPLE = 22
"""Of Scala's."""
T = TypeVar("T")


def read_in_pieces(text: JavaObject) -> str:
    """Fetch a long ASCII text from the JVM.

    py4j sends more than 8,192 bytes in several writes, and each write waits some 40 ms until the last one is
    acknowledged. Pieces avoid that. text: `StringBuilder` or `StringBuffer`.
    """
    length = text.length()
    return "".join(text.substring(i, min(i + _PIECE_CHARS, length)) for i in range(0, length, _PIECE_CHARS))


class Jvm:
    """The classes of one JVM; use `Jvm.of(spark)`."""

    def __init__(self, gateway: JavaObject) -> None:
        self._gateway = gateway
        self._view = gateway.jvm
        self._cache: dict[str, Any] = {}

    @classmethod
    def of(cls, spark: SparkSession) -> Jvm:
        """The JVM of a session; cached lookups live as long as the JVM's gateway."""
        gateway: Any = spark.sparkContext._gateway
        jvm: Jvm | None = gateway.__dict__.get(_CACHE)
        return gateway.__dict__.setdefault(_CACHE, cls(gateway)) if jvm is None else jvm

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Call `make` the first time, and return its cached result under this name from then on.

        Threads that ask at the same time may call it more than once, and all get the same result: no lock is held
        while the JVM works, since it may ask Python.
        """
        value: T = self._cache[name] if name in self._cache else self._cache.setdefault(name, make())
        return value

    def find(self, name: str) -> JavaObject:
        """A class by its full name, to call its constructors; use `call` for its static methods."""
        return self.once(name, lambda: getattr(self._view, name))

    def call(self, name: str, method: str) -> Callable[..., JavaObject]:
        """A static method of a class."""
        function: Callable[..., JavaObject] = self.once(f"{name}::{method}", lambda: getattr(self.find(name), method))
        return function

    def module(self, name: str) -> JavaObject:
        """A Scala object by its full name, without the trailing `$`."""
        return self.once(f"{name}$.MODULE$", lambda: getattr(getattr(self._view, f"{name}$"), "MODULE$"))

    def class_of(self, name: str) -> JavaObject:
        """The `java.lang.Class` of a class."""
        return self.once(f"{name}.class", lambda: self._class_of(name))

    def _class_of(self, name: str) -> JavaObject:
        return self._view.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)

    def array(self, element: str, items: Sequence[Any]) -> JavaObject:
        """An array of a few objects, or of `int`, in the JVM."""
        if 2 < len(items) <= _WIDEST_TUPLE and not any(isinstance(item, int | float) for item in items):
            # A constructor takes all items in one call, where an array takes each by one or two, and makes numbers fit.
            every = self.find(f"scala.Tuple{len(items)}")(*items).productIterator()
            return every.toArray(self.once(f"{element} tag", lambda: self._class_tag(element)))
        array = self._gateway.new_array(self.find(element), len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def _class_tag(self, element: str) -> JavaObject:
        return self.module("scala.reflect.ClassTag").apply(self.class_of(element))

    def longs(self, values: npt.ArrayLike) -> JavaObject:
        """A `java.nio.LongBuffer` with the values."""
        return self._buffer(np.ascontiguousarray(values, ">i8").tobytes()).asLongBuffer()

    def doubles(self, values: npt.ArrayLike) -> JavaObject:
        """A `java.nio.DoubleBuffer` with the values."""
        return self._buffer(np.ascontiguousarray(values, ">f8").tobytes()).asDoubleBuffer()

    def ints(self, values: npt.ArrayLike) -> JavaObject:
        """A `java.nio.IntBuffer` with the values."""
        return self._buffer(np.ascontiguousarray(values, ">i4").tobytes()).asIntBuffer()

    def _buffer(self, data: bytes) -> JavaObject:
        return self.call("java.nio.ByteBuffer", "wrap")(data)

    def strings(self, items: Sequence[str | None] | Sequence[Sequence[str | None]]) -> JavaObject:
        """A `java.util.List` of strings or of lists of strings, with any characters."""
        return self._mapper().readValue(json.dumps(items), self.class_of("java.util.ArrayList"))

    def read(self, value: JavaObject) -> Any:
        """Fetch lists and arrays of strings, numbers and nulls from the JVM."""
        writer = self.find("java.io.StringWriter")()
        self._mapper().writeValue(writer, value)
        return json.loads(read_in_pieces(writer.getBuffer()))

    def _mapper(self) -> JavaObject:
        return self.once("mapper", self._new_mapper)

    def _new_mapper(self) -> JavaObject:
        """A mapper that writes ASCII only, which may be cut anywhere."""
        mapper = self.find("com.fasterxml.jackson.databind.ObjectMapper")()
        ascii_only = self.find("com.fasterxml.jackson.core.JsonGenerator$Feature").ESCAPE_NON_ASCII
        mapper.getFactory().configure(ascii_only, True)
        return mapper

    def seq(self, items: JavaObject) -> JavaObject:
        """A Scala Seq from a `java.util.List`."""
        return self.call("org.apache.spark.api.python.PythonUtils", "toSeq")(items)

    def seq_of(self, *items: Any) -> JavaObject:
        """A Scala Seq of a few items."""
        return self.seq(self.list_of(*items))

    def list_of(self, *items: Any) -> JavaObject:
        """A `java.util.List` of a few items."""
        array_list = self.find("java.util.ArrayList")()
        for item in items:
            array_list.add(item)
        return array_list

    def to_list(self, seq: JavaObject) -> JavaObject:
        """A `java.util.List` from a Scala Seq."""
        return self.call("scala.collection.JavaConverters", "seqAsJavaList")(seq)

    def items(self, seq: JavaObject) -> list[JavaObject]:
        """The few items of a Scala Seq; py4j's own iterators end in an exception, which takes a hundred calls."""
        items = self.to_list(seq)
        return [items.get(i) for i in range(items.size())]

    @property
    def none(self) -> JavaObject:
        """Scala's None."""
        return self.once("none", lambda: self.call("scala.Option", "empty")())

    def some(self, value: Any) -> JavaObject:
        """Scala's Some."""
        return self.call("scala.Option", "apply")(value)

    @property
    def empty_map(self) -> JavaObject:
        """An empty immutable Scala Map."""
        return self.once("empty_map", lambda: self.module("scala.collection.immutable.Map").empty())
