"""URIs of object stores: which bucket or container, and which key."""

from __future__ import annotations

from dataclasses import dataclass

from zskip.errors import InputError

HADOOP_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Schemes that only Hadoop uses, and the common name for the same store."""
STORE_SCHEMES = ("s3", "gs", "abfss", "az")
_ALIASES = {**HADOOP_SCHEMES, "gcs": "gs", "abfs": "abfss", "azure": "az"}
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


def is_same_location(one: str, other: str) -> bool:
    """Whether two roots are the same directory, under any of the scheme's names.

    >>> is_same_location("s3a://b/t", "s3://b/t"), is_same_location("/t", "/u")
    (True, False)
    """
    return one == other or ((uri := parse_object_uri(one)) is not None and uri == parse_object_uri(other))
