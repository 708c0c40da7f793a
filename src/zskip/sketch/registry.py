"""The kinds of sketches by name, and their specs as text."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from typing import TypeVar

from zskip.errors import InputError
from zskip.sketch.base import Sketch

_KINDS: dict[str, type[Sketch]] = {}
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SPEC = re.compile(r"\s*([A-Za-z]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_MOST_BYTES = 255
_Kind = TypeVar("_Kind", bound=type[Sketch])


def register(kind: _Kind) -> _Kind:
    """Register a kind of sketch by its name; a decorator for frozen dataclasses that are a `Sketch`.

    A session that reads an index needs the same kinds as the one that built it; without one, files are kept.
    """
    name = getattr(kind, "kind", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f'{kind.__name__}.kind is {name!r}; give it a name of lower-case letters, such as "bloom"')
    if not (dataclasses.is_dataclass(kind) and issubclass(kind, Sketch)) or inspect.isabstract(kind):
        raise InputError(f"{kind.__name__} is no kind of sketch: make it a frozen dataclass with all methods of Sketch")
    known = _KINDS.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise InputError(f'there is a sketch "{name}" already: {known.__module__}.{known.__qualname__}; choose another')
    _KINDS[name] = kind
    return kind


def kinds() -> list[str]:
    """Return the names of all registered kinds."""
    return sorted(_KINDS)


def parse_sketch(spec: str) -> Sketch:
    """Read a spec such as `bloom(0.01)` or `bloom`; raises InputError for any other text.

    >>> from zskip.sketch import parse_sketch
    >>> str(parse_sketch("Ranges")), str(parse_sketch("bloom(0.05)"))
    ('ranges(8)', 'bloom(0.05)')
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise InputError(f'"{spec}" is no sketch; write a name with its parameters, such as bloom(0.01) or ranges(8)')
    name = match[1].lower()
    kind = _KINDS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, _KINDS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else "register it, or take one of " + ", ".join(kinds())
        raise InputError(f'"{spec}": no sketch "{match[1]}"; {hint}')
    values = [_value(spec, text) for text in match[2].split(",")] if (match[2] or "").strip() else []
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if len(values) > len(fields):
        raise InputError(f'"{spec}": {name} takes {", ".join(fields) or "nothing"}; leave out the rest')
    try:
        sketch = kind(*values)
    except TypeError as error:
        raise InputError(f'"{spec}": {name} takes {", ".join(fields)} ({error})') from error
    if len(str(sketch).encode()) > _MOST_BYTES:
        raise InputError(f'"{spec}" is longer than {_MOST_BYTES} bytes; give shorter parameters')
    return sketch


def _value(spec: str, text: str) -> int | float | str:
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        if _NAME.fullmatch(text.lower()):
            return text
        raise InputError(f'"{spec}": "{text}" is neither a number nor a word') from None
