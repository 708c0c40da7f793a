"""URIs of tables: which bucket or container and which key, and which of them are the same place."""

from __future__ import annotations

import os
from dataclasses import dataclass

from zskip.errors import InputError

STORE_SCHEMES = ("s3", "gs", "abfss", "az")
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "azure": "az"}
"""Other names of the same schemes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectUri:
    """A directory in a bucket."""

    scheme: str
    """s3, gs, abfss or az."""
    bucket: str
    """Or container."""
    account: str = ""
    """The Azure account, if the URI names it."""
    key: str
    """Without a slash at either end; empty for the bucket itself."""

    @property
    def base(self) -> str:
        """The URI of the bucket."""
        return f"{self.scheme}://{self.bucket}{'@' + self.account if self.account else ''}"


def parse_object_uri(uri: str) -> ObjectUri | None:
    """Parse the URI of an object store; None for any other. Raises InputError if it names no bucket.

    >>> parse_object_uri("s3a://bucket/a b/t%20/")
    ObjectUri(scheme='s3', bucket='bucket', account='', key='a b/t%20')
    >>> parse_object_uri("/data/t")
    """
    scheme, separator, rest = uri.partition("://")
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    if not separator or scheme not in STORE_SCHEMES:
        return None
    authority, _, path = rest.partition("/")
    bucket, _, account = authority.partition("@")
    if not bucket:
        raise InputError(f'"{uri}" names no bucket; write {scheme}://bucket/path')
    return ObjectUri(
        scheme=scheme, bucket=bucket, account=account, key="/".join(part for part in path.split("/") if part)
    )


def normalize_location(uri: str) -> str:
    """A path or URI without what may differ between two texts of one place; reads nothing.

    >>> normalize_location("s3a://b/t/"), normalize_location("file:///data/t"), normalize_location("file:/data/t")
    ('s3://b/t', '/data/t', '/data/t')
    """
    if uri.startswith("file:"):
        return "/" + uri.removeprefix("file:").strip("/")
    scheme, separator, rest = uri.partition("://")
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    return f"{scheme}://{rest.rstrip('/')}" if separator else uri.rstrip("/") or uri


def real_location(uri: str) -> str:
    """The same text for all names of one directory; follows the links of a disk.

    >>> real_location("file:///no/t"), real_location("s3n://b/t")
    ('/no/t', 's3://b/t')
    """
    location = normalize_location(uri)
    return location if "://" in location else os.path.realpath(location)


def is_same_location(one: str, other: str) -> bool:
    """Whether two paths or URIs are the same directory.

    >>> is_same_location("s3a://b/t", "s3://b/t"), is_same_location("/t", "file:///t"), is_same_location("/t", "/u")
    (True, True, False)
    """
    return one == other or real_location(one) == real_location(other)
