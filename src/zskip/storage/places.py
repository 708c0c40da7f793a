"""What a URI of an object store names, and how the store is reached."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zskip.errors import InputError, MissingDependencyError, StorageError
from zskip.storage.failures import cause, masked

if TYPE_CHECKING:
    from obstore.store import ObjectStore

HADOOP_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Schemes of URIs that only Hadoop has, and what everybody else calls the same place."""
_ALIASES = {**HADOOP_SCHEMES, "gcs": "gs", "abfs": "abfss", "azure": "az"}
"""Schemes that mean what another one does."""
_PREFIX = {"s3": "aws_", "gs": "google_", "abfss": "azure_", "az": "azure_"}
"""Of the options of each kind of store."""
_CLIENT = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "timeout",
    "user_agent",
)
"""Options of any store."""
_TIMES = {"timeout": "30s", "connect_timeout": "5s"}
_RETRIES = {"max_retries": 6, "retry_timeout": 60}
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m)?")
_URL = re.compile(r"https?://[^\s/]+(/\S*)?")
_ONLY_DELTALAKE = ("aws_s3_allow_unsafe_rename", "aws_s3_locking_provider", "delta_dynamo_table_name")
_KEYS = ("aws_access_key_id", "access_key_id", "aws_skip_signature", "skip_signature", "aws_web_identity_token_file")
_ROLES = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
_COMMON = {
    "aws_": (
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_region",
        "aws_endpoint_url",
        "aws_allow_http",
        "aws_profile",
        "aws_skip_signature",
        "aws_virtual_hosted_style_request",
    ),
    "google_": ("google_service_account", "google_service_account_key", "google_skip_signature"),
    "azure_": (
        "azure_storage_account_name",
        "azure_storage_account_key",
        "azure_storage_sas_token",
        "azure_storage_client_id",
        "azure_storage_client_secret",
        "azure_storage_tenant_id",
    ),
}
"""The options that an error names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A directory in a bucket."""

    scheme: str
    """s3, gs, abfss or az."""
    bucket: str
    """Or container."""
    account: str = ""
    """Of Azure, where the URI says it."""
    key: str
    """Without a slash at either end; empty for the bucket itself."""

    @property
    def base(self) -> str:
        """The URI of the bucket."""
        return f"{self.scheme}://{self.bucket}{'@' + self.account if self.account else ''}"


def parse_place(uri: str) -> Place | None:
    """Take a URI of an object store apart; None for any other. Raises InputError where no bucket is named.

    >>> parse_place("s3a://bucket/a b/t%20/")
    Place(scheme='s3', bucket='bucket', account='', key='a b/t%20')
    >>> parse_place("/data/t")
    """
    scheme, separator, rest = uri.partition("://")
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    if not separator or scheme not in _PREFIX:
        return None
    authority, _, path = rest.partition("/")
    bucket, _, account = authority.partition("@")
    if not bucket:
        raise InputError(f'"{uri}" names no bucket; write {scheme}://bucket/path')
    return Place(scheme=scheme, bucket=bucket, account=account, key="/".join(part for part in path.split("/") if part))


def same_place(one: str, other: str) -> bool:
    """Whether two roots are one place, whatever the scheme by which each names its store.

    >>> same_place("s3a://b/t", "s3://b/t"), same_place("/t", "/u")
    (True, False)
    """
    return one == other or ((place := parse_place(one)) is not None and place == parse_place(other))


def connect(place: Place, options: Mapping[str, str]) -> ObjectStore:
    """Reach a bucket; nothing is asked of it yet.

    Raises InputError for options that the store does not know, MissingDependencyError without `obstore`.
    """
    try:
        from obstore import store as stores
        from obstore.exceptions import BaseError, UnknownConfigurationKeyError
    except ImportError as error:
        raise MissingDependencyError(
            f'"{place.base}" is an object store, for which obstore is not installed; run: pip install "zskip[stores]"'
        ) from error
    prefix = _PREFIX[place.scheme]
    config, client, retries = _sorted(options, prefix)
    more: dict[str, Any] = {}
    if place.scheme == "s3":
        profile = _profile(config.pop("aws_profile", None)) if _needs_profile(config) else None
        if profile is not None:
            more["credential_provider"] = profile
            config.setdefault("aws_region", profile.region)
    if place.account:
        config.setdefault("azure_storage_account_name", place.account.partition(".")[0])
    make: Any = {"s3": stores.S3Store, "gs": stores.GCSStore}.get(place.scheme, stores.AzureStore)
    try:
        found: ObjectStore = make(
            place.bucket,
            config={key: value for key, value in config.items() if value},
            client_options={**_TIMES, **_plain_http(_endpoint(config)), **client},
            retry_config=retries,
            **more,
        )
    except UnknownConfigurationKeyError as error:
        raise _unknown(str(error), options, prefix) from error
    except (BaseError, ValueError, TypeError) as error:
        said = masked(str(error)).partition("\n")[0]
        raise InputError(f'storage_options do not open "{place.base}": {said}') from cause(error)
    return found


def with_http(place: Place, options: Mapping[str, str]) -> dict[str, str]:
    """The options, with leave for an endpoint without encryption said aloud, as deltalake wants it."""
    allowed = place.scheme == "s3" and bool(_plain_http(_endpoint({k.lower(): v for k, v in options.items()})))
    return {**({"aws_allow_http": "true"} if allowed else {}), **options}


def _plain_http(endpoint: str) -> dict[str, str]:
    """Allow what an endpoint asks for; raises InputError for what is no URL."""
    if endpoint and not _URL.fullmatch(endpoint):
        shown = endpoint.rpartition("@")[2]
        raise InputError(f'the endpoint "{shown}" is no URL; write http://host:port or https://host')
    return {"allow_http": "true"} if endpoint.startswith("http://") else {}


def _sorted(options: Mapping[str, str], prefix: str) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
    """The options of the store, of any connection, and of how often a request is tried."""
    config: dict[str, str] = {}
    client: dict[str, str] = {}
    retries: dict[str, Any] = dict(_RETRIES)
    for given, value in options.items():
        key = given.lower()
        plain = key.removeprefix(prefix)
        if key in _ONLY_DELTALAKE:
            continue
        if plain in _CLIENT:
            client[plain] = value
        elif plain in retries:
            retries[plain] = _number(given, value)
        else:
            config[key] = value
    from datetime import timedelta

    return (
        config,
        client,
        {
            "max_retries": int(retries["max_retries"]),
            "retry_timeout": timedelta(seconds=float(retries["retry_timeout"])),
        },
    )


def _number(name: str, value: str) -> float:
    found = _SECONDS.fullmatch(value.strip())
    if found is None:
        raise InputError(f"storage_options: {name}={value!r} is no number, such as 5 or 30s")
    return float(found[1]) * {"ms": 0.001, "m": 60}.get(found[2] or "", 1)


def _endpoint(config: Mapping[str, str]) -> str:
    names = ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint", "azure_endpoint")
    given = [config[name] for name in names if name in config]
    given += [os.environ[name.upper()] for name in names if name.upper() in os.environ]
    return given[0] if given else ""


def _unknown(said: str, options: Mapping[str, str], prefix: str) -> InputError:
    name = next((key for key in options if f"'{key.lower()}'" in said), "an option")
    near = difflib.get_close_matches(name.lower(), _COMMON[prefix], n=1)
    hint = f'did you mean "{near[0]}"?' if near else "those most used are " + ", ".join(_COMMON[prefix])
    return InputError(f'storage_options has no option "{name}" for this store; {hint}')


def _needs_profile(config: Mapping[str, str]) -> bool:
    """Whether neither options nor environment say who asks, so that the files below ~/.aws might."""
    if any(key in config for key in _KEYS) or any(name in os.environ for name in _ROLES):
        return False
    return not any(key.upper() in os.environ for key in _KEYS if key.startswith("aws_"))


def _profile(name: str | None) -> _Profile | None:
    """What the files of the AWS command line say; None without botocore, or where they say nothing."""
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        if name is not None:
            raise MissingDependencyError(f"aws_profile={name!r} is read by botocore; run: pip install boto3") from None
        return None
    try:
        session = Session(profile=name)
        # Of the machine's own role obstore asks itself.
        session.get_component("credential_provider").remove("iam-role")
        found = session.get_credentials()
        return None if found is None else _Profile(found, session.get_config_variable("region") or "")
    except BotoCoreError as error:
        raise StorageError(f"cannot read the credentials of AWS: {error}; give them in storage_options") from error


class _Profile:
    """Credentials that botocore keeps fresh, in the form that obstore asks for."""

    def __init__(self, credentials: Any, region: str) -> None:
        self._credentials = credentials
        self.region = region

    def __call__(self) -> dict[str, Any]:
        from datetime import datetime, timedelta, timezone

        now = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": datetime.now(timezone.utc) + timedelta(minutes=5),
        }
