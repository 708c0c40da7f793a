"""Hive's SearchArguments of predicates, made by Hive's own builder in the JVM."""

from __future__ import annotations

from typing import Any

from arrow_tables import unscaled_decimal

from zskip.predicate import And, Column, Compare, Constant, In, IsNull, Not, Or, Predicate, Unknown
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.types import DataType, decode_decimal

SARG = "org.apache.hadoop.hive.ql.io.sarg"
_TYPE, _OBJECT = f"{SARG}.PredicateLeaf$Type", "java.lang.Object"
_CLASSES = {"LONG": "java.lang.Long", "FLOAT": "java.lang.Double", "BOOLEAN": "java.lang.Boolean"}


class Building:
    """A SearchArgument that is being made; each method adds a node, as the builder's do."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm
        self.builder = jvm.call(f"{SARG}.SearchArgumentFactory", "newBuilder")()

    def leaf(self, method: str, name: str, kind: str, *literals: Any) -> Building:
        """A leaf with its literals, already objects of Java where Python has no such type."""
        jvm = self.jvm
        named = self._enum(_TYPE, kind)
        if method == "isNull":
            self.builder.isNull(name, named)
            return self
        boxed = self._objects(_CLASSES.get(kind, _OBJECT), literals)
        if method == "in":
            getattr(self.builder, "in")(name, named, boxed)
            return self
        arguments = jvm.list_of(name, named)  # no Long of it passes through Python
        arguments.addAll(jvm.call("java.util.Arrays", "asList")(boxed))
        call = jvm.call("org.apache.commons.lang3.reflect.MethodUtils", "invokeMethod")
        call(self.builder, method, arguments.toArray())
        return self

    def _objects(self, element: str, items: tuple[Any, ...]) -> JavaObject:
        """An `Object[]` of objects of one class; py4j by itself would make an Integer of a small Long."""
        if items and all(isinstance(item, str) for item in items):
            return self.jvm.strings(items).toArray()
        boxed, objects = self.jvm.array(element, items), self.jvm.array(_OBJECT, [None] * len(items))
        self.jvm.call("java.lang.System", "arraycopy")(boxed, 0, objects, 0, len(items))
        return objects

    def _enum(self, owner: str, name: str) -> JavaObject:
        return self.jvm.once(f"{owner}.{name}", lambda: getattr(self.jvm.find(owner), name))

    def constant(self, name: str) -> Building:
        self.builder.literal(self._enum(f"{SARG}.SearchArgument$TruthValue", name))
        return self

    def predicate(self, predicate: Predicate) -> Building:
        """A predicate of the nodes that a SearchArgument has, where Unknown is one of its doubtful constants."""
        leaf = _leaf(predicate)
        if leaf is not None:
            method, term, values = leaf
            self.leaf(method, term.path[0], kind_of(term.type), *[self.literal(v, term.type) for v in values])
        elif isinstance(predicate, And | Or):
            (self.builder.startAnd if isinstance(predicate, And) else self.builder.startOr)()
            for child in predicate.children:
                self.predicate(child)
            self.builder.end()
        elif isinstance(predicate, Not):
            self.builder.startNot()
            self.predicate(predicate.child)
            self.builder.end()
        elif isinstance(predicate, Constant):
            self.constant({True: "YES", False: "NO", None: "NULL"}[predicate.value])
        elif isinstance(predicate, Compare) and predicate.op in (">", ">="):
            opposite = Compare({">": "<=", ">=": "<"}[predicate.op], predicate.term, predicate.value)
            self.predicate(Not(opposite))
        else:
            assert isinstance(predicate, Unknown)
            self.constant(predicate.sql)
        return self

    def literal(self, value: Any, data_type: DataType) -> Any:
        """An encoded value as the object that the builder takes for its type."""
        jvm, name = self.jvm, data_type.name
        if data_type.is_decimal:
            plain = format(unscaled_decimal(decode_decimal(value, data_type), data_type), "f")
            return jvm.find("org.apache.hadoop.hive.serde2.io.HiveDecimalWritable")(plain)
        if name == "string":
            return value.decode()
        if name == "boolean":
            return bool(value)
        if name == "date":
            return jvm.call("java.sql.Date", "valueOf")(jvm.call("java.time.LocalDate", "ofEpochDay")(value))
        if name == "timestamp":
            made = jvm.find("java.sql.Timestamp")(value // 1000)
            made.setNanos(value % 1_000_000 * 1000)
            return made
        return value

    def build(self) -> JavaObject:
        return self.builder.build()


def _leaf(predicate: Predicate) -> tuple[str, Column, tuple[Any, ...]] | None:
    """The method of the builder that adds a predicate as one leaf, with its column and its values."""
    match predicate:
        case IsNull(Column() as column):
            return "isNull", column, ()
        case In(Column() as column, values):
            return "in", column, values
        case Compare("=" | "<" | "<=" as op, Column() as column, value):
            return {"=": "equals", "<": "lessThan", "<=": "lessThanEquals"}[op], column, (value,)
        case And((Compare(">=", Column() as column, low), Compare("<=", Column() as same, high))) if same == column:
            return "between", column, (low, high)
        case And((Not(IsNull(Column())), Compare("=", Column() as column, value))):
            return "nullSafeEquals", column, (value,)
    return None


def kind_of(data_type: DataType) -> str:
    """The type of a leaf over a column; it is LONG, too, where there is no type for the column."""
    if data_type.is_decimal:
        return "DECIMAL"
    names = {"float": "FLOAT", "double": "FLOAT"}
    names.update({name: name.upper() for name in ("string", "date", "timestamp", "boolean")})
    return names.get(data_type.name, "LONG")
