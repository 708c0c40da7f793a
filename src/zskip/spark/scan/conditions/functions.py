"""What a Python function of a user is: its module, its name, and a digest of all that its code says.

    a pickled function -> its code, constants, defaults and captured values
                       -> the functions, modules and values that it names, in the same way

Two that are equal here compute the same. Whatever cannot be told apart for sure is refused: classes, other objects,
modules of the standard library that are not known to be deterministic.
"""

from __future__ import annotations

import base64
import builtins
import dis
import hashlib
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from zskip.errors import UnsupportedError

_PURE = {
    "base64", "binascii", "bisect", "builtins", "calendar", "cmath", "collections", "datetime", "decimal",
    "difflib", "fractions", "functools", "hashlib", "hmac", "html", "ipaddress", "itertools", "json", "math",
    "numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "typing", "unicodedata",
    "urllib.parse", "zlib", "_bisect", "_collections", "_functools", "_hashlib", "_operator", "_struct"
}  # fmt: skip
"""Modules of the standard library without a state, a clock or an outside."""
_ANOTHER_TIME = {
    "now", "today", "utcnow", "random", "rand", "randn", "randint", "default_rng", "fromtimestamp", "timestamp",
    "astimezone", "strftime", "samples"
}  # fmt: skip
"""Names, in any module, of what has another value each time, or by the clock of another machine."""
_OUTSIDE = {
    "open", "input", "hash", "id", "globals", "locals", "vars", "eval", "exec", "compile", "__import__", "print",
    "breakpoint", "memoryview"
}  # fmt: skip
_CODE = ("co_code", "co_names", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount")


class UnknownFunctionError(UnsupportedError):
    """A function of which zskip cannot tell whether it is another one."""


def name_functions(described: dict[str, Any], *, strict: bool = False) -> dict[str, Any]:
    """Put the Python functions of a filter into its keys, as `FilterText.java` describes both.

    strict: raise UnknownFunctionError for a function that is not known; else its filter loses its key.
    """
    keys = dict(described.get("keys", {}))
    for number, functions in described.get("functions", {}).items():
        try:
            names = [identify(base64.b64decode(function)) for function in functions]
            keys[number] = hashlib.sha256(" ".join([keys[number], *names]).encode()).hexdigest()[:32]
        except UnknownFunctionError:
            if strict:
                raise
            del keys[number]
    return {**{name: value for name, value in described.items() if name != "functions"}, "keys": keys}


def identify(pickled: bytes) -> str:
    """Name a function as Spark sends it to workers; raises UnknownFunctionError where it may be another one."""
    from pyspark.serializers import CloudPickleSerializer

    try:
        function, result = CloudPickleSerializer().loads(pickled)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise UnknownFunctionError(f"it cannot be read back ({type(error).__name__}: {error})") from error
    digest = _Digest()
    if isinstance(function, types.FunctionType):
        digest.add_code_of("the function", function)
    else:
        digest.add("the function", function)
    # The order of a set depends on the seed.
    digest.write(repr(result), sys.version.partition(" ")[0], os.environ.get("PYTHONHASHSEED", "0"))
    return digest.hex()


class _Digest:
    """A digest of values, each with the name under which it is known."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: dict[int, tuple[int, object]] = {}

    def hex(self) -> str:
        return self._hash.hexdigest()

    def write(self, *parts: object) -> None:
        for part in parts:
            encoded = part if isinstance(part, bytes) else str(part).encode(errors="surrogatepass")
            self._hash.update(b"%d:" % len(encoded) + encoded)

    def add(self, name: str, value: object) -> None:
        """Add a value; raises UnknownFunctionError where it cannot be told from others."""
        if value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes):
            return self.write(type(value).__name__, value if isinstance(value, bytes) else repr(value))
        if id(value) in self._seen:
            return self.write("seen", self._seen[id(value)][0])
        if not isinstance(value, tuple | frozenset):  # Of which equal ones may be one object or several.
            self._seen[id(value)] = len(self._seen), value
        for kinds, add in self._KINDS:
            if type(value) in kinds:
                self.write(type(value).__name__)
                return add(self, name, value)
        if isinstance(value, type) and _is_installed(value.__module__):
            return self._add_installed(value.__module__, name, value.__qualname__)
        raise UnknownFunctionError(f"{name} is a {type(value).__name__}, whose changes zskip does not see")

    def _add_items(self, name: str, value: Any) -> None:
        self.write(len(value))
        for item in value:
            self.add(f"a value in {name}", item)

    def _add_set(self, name: str, value: Any) -> None:
        digests = []
        for item in value:
            one = _Digest()
            one.add(f"a value in {name}", item)
            digests.append(one.hex())
        self.write(*sorted(digests))

    def _add_dict(self, name: str, value: dict[Any, Any]) -> None:
        self._add_items(name, [part for pair in value.items() for part in pair])

    def _add_pattern(self, name: str, value: re.Pattern[Any]) -> None:
        self.write(value.pattern, value.flags)

    def _add_partial(self, name: str, value: partial[Any]) -> None:
        for part in (value.func, value.args, value.keywords):
            self.add(name, part)

    def _add_builtin(self, name: str, value: types.BuiltinFunctionType) -> None:
        if value.__module__ == "builtins" and value.__name__ in _OUTSIDE:
            raise UnknownFunctionError(f"{value.__name__} has another value each time, or an effect")
        if isinstance(value.__self__, types.ModuleType):
            return self._add_installed(value.__module__ or value.__self__.__name__, name, value.__qualname__)
        self._add_installed(type(value.__self__).__module__, name, value.__qualname__)
        self.add(name, value.__self__)

    def _add_method(self, name: str, value: types.MethodDescriptorType) -> None:
        self._add_installed(value.__objclass__.__module__, name, value.__qualname__)

    def _add_function(self, name: str, value: types.FunctionType) -> None:
        if _is_installed(value.__module__):
            return self._add_installed(value.__module__, name, value.__qualname__)
        self.add_code_of(name, value)

    def add_code_of(self, name: str, value: types.FunctionType) -> None:
        """Add a function by what it says, whatever its module."""
        self.write(value.__module__, value.__qualname__)
        for part in (value.__defaults__, value.__kwdefaults__, value.__dict__):
            self.add(f"a part of {name}", part)
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            if cell == types.CellType():
                raise UnknownFunctionError(f"{variable} has no value yet")
            self.add(variable, cell.cell_contents)
        self._add_code(value.__code__, value.__globals__)

    def _add_code(self, code: types.CodeType, variables: dict[str, Any]) -> None:
        self.write(*(getattr(code, part) for part in _CODE), code.co_flags, getattr(code, "co_exceptiontable", b""))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant, variables)
            else:
                self.add("a constant", constant)
        _check_names(code.co_names)
        if _formats_times(code):
            raise UnknownFunctionError("%s formats a time by the clock of the machine")
        for path in _globals_of(code):
            self._add_global(path, variables)

    def _add_global(self, path: list[str], variables: dict[str, Any]) -> None:
        """Add what a global name and the attributes after it stand for."""
        name, *attributes = path
        if name not in variables:
            builtin = getattr(builtins, name, None)
            return self.write("no value", name) if builtin is None else self.add(name, builtin)
        value = variables[name]
        while isinstance(value, types.ModuleType):
            if _is_installed(value.__name__):
                return self._add_installed(value.__name__, name, ".".join(attributes))
            if not attributes or not hasattr(value, attributes[0]):
                raise UnknownFunctionError(f"{name} is a module, whose changes zskip does not see")
            name, *attributes = attributes
            value = getattr(value, name)
        self.add(name, value)

    def _add_installed(self, module: str, name: str, inside: str = "") -> None:
        """Add something of a module that comes with Python, or of one that pip has installed, of a version."""
        _check_names(inside.split("."))
        top = module.partition(".")[0]
        is_known, version = not _ANOTHER_TIME.intersection(module.split(".")), ""
        if top in sys.stdlib_module_names:
            is_known = top in _PURE or module in _PURE
        else:
            version = str(getattr(sys.modules.get(top), "__version__", ""))
            is_known = is_known and bool(version)
        if not is_known:
            raise UnknownFunctionError(f"{name} is of {module}, which may have other values at another time")
        self.write(module, version, inside)

    _KINDS: tuple[tuple[tuple[type, ...], Callable[..., None]], ...] = (
        ((tuple, list), _add_items),
        ((set, frozenset), _add_set),
        ((dict,), _add_dict),
        ((re.Pattern,), _add_pattern),
        ((partial,), _add_partial),
        ((types.BuiltinFunctionType, type(re.compile("").search)), _add_builtin),
        ((types.MethodDescriptorType,), _add_method),
        ((types.FunctionType,), _add_function),
    )


def _globals_of(code: types.CodeType) -> Iterator[list[str]]:
    """The global names that code reads, each with the attributes that it takes of it."""
    path: list[str] = []
    for instruction in dis.get_instructions(code):
        operation, argument = instruction.opname, instruction.argval
        if operation == "STORE_GLOBAL" or (operation == "STORE_DEREF" and argument in code.co_freevars):
            raise UnknownFunctionError(f"it sets {argument}, which lives on after it")
        if path and operation in ("LOAD_ATTR", "LOAD_METHOD"):
            path.append(argument)
            continue
        if path and operation not in ("CACHE", "PUSH_NULL"):
            yield path
            path = []
        if operation == "IMPORT_NAME":
            raise UnknownFunctionError(f"it imports {argument} in its body; import it above")
        if operation in ("LOAD_GLOBAL", "LOAD_NAME"):
            path = [argument]
    if path:
        yield path


def _check_names(names: Iterable[str]) -> None:
    momentary = _ANOTHER_TIME.intersection(names)
    if momentary:
        raise UnknownFunctionError(
            f"{', '.join(sorted(momentary))} may have another value at another time, or on another machine"
        )


def _formats_times(code: types.CodeType) -> bool:
    """Whether code may format a time as the seconds since 1970, which it has by its machine's time zone."""
    if not any("%s" in constant for constant in code.co_consts if isinstance(constant, str)):
        return False
    operations = {instruction.opname for instruction in dis.get_instructions(code)}
    return "format" in code.co_names or not operations.isdisjoint(("FORMAT_VALUE", "FORMAT_WITH_SPEC"))


def _is_installed(module: str | None) -> bool:
    """Whether a module comes with Python or from pip, so that a version says what it is."""
    top = (module or "__main__").partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    if top == "__main__":  # Of which a notebook's file is that of an installed program.
        return False
    place = getattr(sys.modules.get(top), "__file__", None) or ""
    return any(f"{name}-packages" in place for name in ("site", "dist"))
