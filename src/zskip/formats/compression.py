"""Compression of new files: a Parquet codec and its level."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from zskip.errors import InputError

_LEVELS: dict[str, range | None] = {
    "zstd": range(1, 23),
    "snappy": None,
    "gzip": range(1, 10),
    "lz4_raw": None,
    "uncompressed": None,
}
"""The codecs that Spark writes without more jars, and their levels."""
_ALIASES = {"none": "uncompressed", "lz4": "lz4_raw"}
_ARROW_NAMES = {"lz4_raw": "lz4", "uncompressed": "none"}
"""What pyarrow calls codecs, where that is not Parquet's name."""
_GZIP_LEVELS = ("BEST_SPEED", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "BEST_COMPRESSION")


@dataclass(frozen=True, kw_only=True, slots=True)
class Compression:
    """A Parquet codec in lower case and its level; None for the codec's default level."""

    codec: str
    level: int | None = None

    def __str__(self) -> str:
        return self.codec if self.level is None else f"{self.codec}:{self.level}"

    @property
    def settings(self) -> Mapping[str, str]:
        """The Hadoop properties that set the codec's level; empty for its default.

        >>> read_compression("gzip:1").settings
        {'zlib.compress.level': 'BEST_SPEED'}
        """
        if self.level is None:
            return {}
        if self.codec == "gzip":
            return {"zlib.compress.level": _GZIP_LEVELS[self.level - 1]}
        return {"parquet.compression.codec.zstd.level": str(self.level)}


def arrow_codec(codec: str) -> str:
    """What pyarrow calls a codec."""
    return _ARROW_NAMES.get(codec, codec)


def codec_from_arrow(name: str) -> str:
    """The codec of new files that replace those of a codec that pyarrow's metadata calls so.

    UNKNOWN is Hadoop's LZ4, which Parquet deprecates in favor of LZ4_RAW.
    """
    return "lz4_raw" if name in ("LZ4", "UNKNOWN") else name.lower()


def read_compression(text: str) -> Compression | None:
    """Parse `keep` (None), a codec, or a codec with a level.

    Raises InputError for anything else.

    >>> str(read_compression("ZSTD:3")), read_compression("keep")
    ('zstd:3', None)
    """
    if not isinstance(text, str):
        raise InputError(f'compression={text!r} is not text; write "keep", or a codec such as "zstd" or "zstd:3"')
    name, colon, level = text.strip().lower().partition(":")
    if name == "keep" and not colon:
        return None
    codec = _ALIASES.get(name, name)
    if codec not in _LEVELS:
        matches = difflib.get_close_matches(codec, ["keep", *_LEVELS], n=1)
        advice = f'did you mean "{matches[0]}"?' if matches else f'choose "keep", or one of {", ".join(_LEVELS)}'
        raise InputError(f'compression="{text}" names no codec that Spark can write without more jars; {advice}')
    if not colon:
        return Compression(codec=codec)
    levels = _LEVELS[codec]
    if levels is None:
        raise InputError(f'compression="{text}": {codec} has no levels; write "{codec}"')
    if not level.isdecimal() or int(level) not in levels:
        raise InputError(
            f'compression="{text}": the levels of {codec} are {levels[0]} to {levels[-1]}, such as "{codec}:3"'
        )
    return Compression(codec=codec, level=int(level))
