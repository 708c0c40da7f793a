"""Functions that bounds tell nothing about, but whose values an index may sketch: `lower(email)`.

Each is deterministic, returns a value or null for all arguments without an error, and depends on no setting of the
session but its time zone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot.dialects.dialect import Dialect

from zskip.errors import InputError
from zskip.predicate.tree import Call, Column, Opaque, Term
from zskip.predicate.type_names import named_type
from zskip.types import UTF8_LCASE, DataType, Form

Arguments = tuple[Term | str, ...]
"""Terms, and the SQL of literals."""

COLLATION_KEY = "collation_key"
CONDITION = "a condition"
"""The function of a term that is a condition: of its SQL text, and of its columns."""
_STRING, _INT, _LONG, _DOUBLE = (DataType(name) for name in ("string", "integer", "long", "double"))
_BUILT_IN: dict[str, tuple[str, DataType]] = {
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "reverse"), ("s", _STRING)),
    **dict.fromkeys(("length", "octet_length", "char_length"), ("s", _INT)),
    **dict.fromkeys(("md5", "sha"), ("[sb]", _STRING)),
    "sha2": ("[sb]N", _STRING),
    "crc32": ("[sb]", _LONG),
    "get_json_object": ("sL", _STRING),
    "substring_index": ("sLN", _STRING),
    "concat": ("[sL]*s[sL]*", _STRING),
    **dict.fromkeys(("hour", "minute", "second"), ("[tp]", _INT)),
    **dict.fromkeys(
        ("quarter", "month", "day", "weekofyear", "dayofweek", "dayofyear", "weekday"),
        ("d", _INT),
    ),
    COLLATION_KEY: ("k", DataType("binary")),
    "geo_distance": ("[fi][fi][NF][NF]", _DOUBLE),
    "hash": ("[sbofipdt]+", _INT),
    "xxhash64": ("[sbofipdt]+", _LONG),
}
"""The arguments of a function, as a regex over the letters of `_letter`, and its result type."""
_ALIASES = {
    "lcase": "lower",
    "ucase": "upper",
    "len": "length",
    "character_length": "length",
    "char_length": "length",
    "sha1": "sha",
    "dayofmonth": "day",
}
_EXTRACTIONS = {
    **dict.fromkeys(("element_at", "try_element_at"), "element_at"),
    **dict.fromkeys(("variant_get", "try_variant_get"), "try_variant_get"),
    "pmod": "pmod",
}
NAMES = {**{name: name for name in _BUILT_IN if name != "trim"}, **_ALIASES, **_EXTRACTIONS}
"""The function that each name means, in lower case; `trim` has a syntax of its own."""
OF_DATES = {"quarter", "month", "day", "weekofyear", "dayofweek", "dayofyear", "weekday"}
"""Functions that take dates; timestamps are cast to dates."""
OF_BYTES = {"md5", "sha", "sha2", "crc32"}
"""Functions that take the bytes of a string."""
OF_TYPES = {"hash", "xxhash64"}
"""Functions whose values depend on the types of their arguments, too."""


_VARIANT = DataType("variant")
_PATH = re.compile(r"""\.(\w+)|\[(\d+)\]|\[(?:'([^'\\]*)'|"([^"\\]*)")\]""")
_VARIANT_TYPES = {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "date"}
"""Of what is taken out of a variant; decimals are besides."""
_TYPE_NAMES = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT"}
_OF_ZONES = ("string", "date")
"""Types that the time zone of a session decides, where a variant holds a timestamp."""
_TEXT_CASTS = ("DOUBLE", "DATE", "BOOLEAN")
"""Casts of texts that mean the same in all modes of a session, or fail, as those to decimals do."""
_STRICT_CASTS = ("INT", "BIGINT")
"""Casts of texts that cut 1.5 to 1 where a session does not follow ANSI."""


@dataclass(frozen=True, slots=True)
class _UserFunction:
    """A user's function."""

    result: DataType
    evaluate: Callable[..., Any]


_USER_FUNCTIONS: dict[str, _UserFunction] = {}


def call(function: str, arguments: Arguments, timezone: str) -> Opaque | None:
    """Make an opaque term; None if there is no such function of these arguments."""
    if function in _USER_FUNCTIONS:
        has_term = any(not isinstance(argument, str) for argument in arguments)
        return Opaque(function, arguments, _USER_FUNCTIONS[function].result) if has_term else None
    if function not in _BUILT_IN:
        return None
    pattern, result = _BUILT_IN[function]
    letters = "".join(map(_letter, arguments))
    zoned = "t" in letters
    return Opaque(function, arguments, result, timezone if zoned else "") if re.fullmatch(pattern, letters) else None


def collation_key(term: Term) -> Opaque | None:
    """Make the term of the bytes by whose order a text compares in its collation; None for other terms.

    Spark's expression `CollationKey`, which SQL has no name for.
    """
    return call(COLLATION_KEY, (term,), "") if isinstance(term, Column) else None


def collated_column(term: Term) -> Column | None:
    """The column whose key a term is; None for other terms."""
    column = term.arguments[0] if isinstance(term, Opaque) and term.function == COLLATION_KEY else None
    return column if isinstance(column, Column) else None


def lower_case_key(text: str) -> bytes | None:
    """Return the key of a text in the collation UTF8_LCASE, as Spark's `lowerCaseCodePoints` computes it.

    None for characters that are younger than Unicode 3.2, which versions of Python and Spark may know or not.

    >>> lower_case_key("ΟΔΟΣ").decode(), lower_case_key("οδος").decode()
    ('οδοσ', 'οδοσ')
    """
    if any(unicodedata.ucd_3_2_0.category(character) in ("Cn", "Cs") for character in text):
        return None
    # One by one: the lower case of a whole text depends on where in a word a sigma stands.
    return "".join("σ" if character == "ς" else character.lower() for character in text).encode()


def is_condition(term: Term | None) -> bool:
    """Whether the values of a term are those of a condition."""
    return isinstance(term, Opaque) and term.function == CONDITION


def element_at(value: Term, key: str) -> Opaque | None:
    """Make the term of a map's value; None for other types. key: the SQL of a text."""
    keys, data_type = value.type.keys, value.type.values
    if keys != _STRING or data_type is None or data_type.form is None or not key.startswith("'"):
        return None
    return Opaque("element_at", (value, key), data_type)


def remainder(name: str, term: Term, number: int) -> Opaque | None:
    """Make the term of `pmod` or `mod` of an integer by a positive number of its type; None for others."""
    if number <= 0 or not term.type.is_integer:
        return None
    return Opaque(name, (term, f"{number}{'L' * (term.type.name == 'long')}"), term.type)


def variant_get(value: Term, path: str, target: str, timezone: str) -> Opaque | None:
    """Make the term of what a path leads to in a variant, null where that is no value of the type.

    path: the SQL of a text; target: a type's name in SQL, or VARIANT. None for paths and types that are not known.
    """
    steps = _normal_path(str(literal_value(path))) if path.startswith("'") else None
    if value.type != _VARIANT or steps is None:
        return None
    name = _TYPE_NAMES.get(target.upper(), target.upper()).replace(" ", "")
    if name == _VARIANT.name.upper():
        return Opaque("try_variant_get", (value, steps, "'variant'"), _VARIANT)
    data_type = named_type(name)
    if data_type.form is None or not (data_type.name in _VARIANT_TYPES or data_type.is_decimal):
        return None
    zone = timezone if data_type.name in _OF_ZONES else ""
    return Opaque("try_variant_get", (value, steps, f"'{name.lower()}'"), data_type, zone)


def cast(term: Term, target: str, timezone: str, *, strict: bool = False) -> Opaque | None:
    """Cast a variant, or a text where all modes of a session agree; null where that fails. None for other casts.

    strict: as in `cast_term`. A text such as 12:30 is a TIMESTAMP of today, another one each day.
    """
    if term.type == _VARIANT:
        parts = term.arguments[:2] if isinstance(term, Opaque) else (term, "'$'")
        value, path = parts
        is_known = not isinstance(value, str) and isinstance(path, str)
        return variant_get(value, path, target, timezone) if is_known else None  # type: ignore[arg-type]
    is_known = target in _TEXT_CASTS or target.startswith("DECIMAL(") or (strict and target in _STRICT_CASTS)
    if isinstance(term, Opaque) and term.type == _STRING and is_known:
        return Opaque("try_cast", (term, target.replace(" ", "")), named_type(target))
    return None


def _normal_path(path: str) -> str | None:
    """A path into a variant as SQL writes the text, in its normal form; None for what is none."""
    steps, end = ["$"], 1
    while end < len(path):
        match = _PATH.match(path, end)
        if match is None:
            return None
        name = next((part for part in (match[1], match[3], match[4]) if part is not None), None)
        if name is None:
            steps.append(f"[{int(match[2])}]")
        else:
            steps.append(f".{name}" if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f'["{name}"]')
        end = match.end()
    return f"'{''.join(steps)}'" if path.startswith("$") else None


def register_function(name: str, result: str, evaluate: Callable[..., Any]) -> None:
    """Let predicates and indexes use a function of Arrow arrays: `where="my_cell(lat, lon) = 7"`.

    result: the name of the result type in Spark's schemas, such as `string` or `long`. evaluate: takes an Arrow array
    for each column and a Python value for each literal, and returns an Arrow array of the same length. It must be
    deterministic.
    """
    lowered = name.lower()
    if not re.fullmatch(r"[a-z_]\w*", lowered, re.ASCII):
        raise InputError(f'"{name}" is no name for a function; take letters, digits and underscores')
    if is_in_sql(lowered):
        raise InputError(f'"{name}" is a function of SQL already; choose another name')
    result_type = DataType(result)
    if result_type.form is None:
        raise InputError(f'"{result}" is no type that can be indexed; take one such as string, long or double')
    _USER_FUNCTIONS[lowered] = _UserFunction(result_type, evaluate)


def evaluator(function: str) -> Callable[..., Any] | None:
    """Return the Python function behind a user's function; None if there is none of that name."""
    user_function = _USER_FUNCTIONS.get(function)
    return None if user_function is None else user_function.evaluate


def argument_types(term: Term) -> Iterator[DataType]:
    """Yield the types of arguments that decide about the values of a term: of hashes and of users' functions."""
    if isinstance(term, Call):
        yield from argument_types(term.term)
    if isinstance(term, Opaque):
        parts = [part for part in term.arguments if not isinstance(part, str)]
        if term.function in (*OF_TYPES, CONDITION) or term.function in _USER_FUNCTIONS:
            yield from (part.type for part in parts)
        for part in parts:
            yield from argument_types(part)


def literal_value(text: str) -> str | int | float | bool:
    """Return the value of a literal argument.

    >>> literal_value("'it\\\\'s'"), literal_value("1.50BD"), literal_value("7")
    ("it's", 1.5, 7)
    """
    if text.startswith("'"):
        return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    if text in ("true", "false"):
        return text == "true"
    return float(text.rstrip("BD")) if text.endswith("D") else int(text)


def is_in_sql(name: str) -> bool:
    """Whether sqlglot knows a function, in lower case, and may read it as something other than a call by name."""
    parser = Dialect.get_or_raise("spark").parser()
    return name in NAMES or name.upper() in parser.FUNCTIONS or name.upper() in parser.FUNCTION_PARSERS


_LETTERS = {"string": "s", "binary": "b", "date": "d", "timestamp": "t", "timestamp_ntz": "p", UTF8_LCASE: "k"}


def _letter(argument: Term | str) -> str:
    """Return the letter for the kind of an argument."""
    if isinstance(argument, str):
        return (
            "L" if argument.startswith("'") else "F" if argument[-1] == "D" else "N" if argument[-1].isdigit() else "x"
        )
    if collated_column(argument) is not None:
        return "x"
    data_type = argument.type
    if data_type.is_integer:
        return "i"
    if data_type.form is Form.FLOAT:
        return "f"
    return _LETTERS.get(data_type.name, "x")
