"""The connection to an object store: its options, credentials and client."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zskip.errors import InputError, MissingDependencyError, StorageError
from zskip.storage.failures import cause_without_password, mask_passwords
from zskip.storage.object_uri import ObjectUri

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PREFIX = {"s3": "aws_", "gs": "google_", "abfss": "azure_", "az": "azure_"}
"""The prefix of each store's options."""
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
"""Options that apply to every store."""
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
"""The options that an error message suggests."""


def connect(uri: ObjectUri, options: Mapping[str, str]) -> ObjectStore:
    """Make the client of a bucket; sends no request yet.

    Raises InputError for options that the store does not know, MissingDependencyError without `obstore`.
    """
    try:
        from obstore import store as stores
        from obstore.exceptions import BaseError, UnknownConfigurationKeyError
    except ImportError as error:
        raise MissingDependencyError(
            f'"{uri.base}" is an object store, for which obstore is not installed; run: pip install "zskip[stores]"'
        ) from error
    prefix = _PREFIX[uri.scheme]
    config, client, retries = _split_options(options, prefix)
    extra: dict[str, Any] = {}
    if uri.scheme == "s3":
        profile = _read_profile(config.pop("aws_profile", None)) if _needs_profile(config) else None
        if profile is not None:
            extra["credential_provider"] = profile
            config.setdefault("aws_region", profile.region)
    if uri.account:
        config.setdefault("azure_storage_account_name", uri.account.partition(".")[0])
    make_store: Any = {"s3": stores.S3Store, "gs": stores.GCSStore}.get(uri.scheme, stores.AzureStore)
    try:
        store: ObjectStore = make_store(
            uri.bucket,
            config={key: value for key, value in config.items() if value},
            client_options={**_TIMES, **_plain_http(_endpoint(config)), **client},
            retry_config=retries,
            **extra,
        )
    except UnknownConfigurationKeyError as error:
        raise _unknown_option(str(error), options, prefix) from error
    except (BaseError, ValueError, TypeError) as error:
        reason = mask_passwords(str(error)).partition("\n")[0]
        raise InputError(f'storage_options do not open "{uri.base}": {reason}') from cause_without_password(error)
    return store


def allow_plain_http(uri: ObjectUri, options: Mapping[str, str]) -> dict[str, str]:
    """Add the option that deltalake needs for an endpoint without encryption."""
    allowed = uri.scheme == "s3" and bool(_plain_http(_endpoint({k.lower(): v for k, v in options.items()})))
    return {**({"aws_allow_http": "true"} if allowed else {}), **options}


def _plain_http(endpoint: str) -> dict[str, str]:
    """The client option for an endpoint without encryption; raises InputError for an invalid URL."""
    if endpoint and not _URL.fullmatch(endpoint):
        without_password = endpoint.rpartition("@")[2]
        raise InputError(f'the endpoint "{without_password}" is not a URL; write http://host:port or https://host')
    return {"allow_http": "true"} if endpoint.startswith("http://") else {}


def _split_options(options: Mapping[str, str], prefix: str) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
    """Split the options into those of the store, of any connection, and of retries."""
    config: dict[str, str] = {}
    client: dict[str, str] = {}
    retries: dict[str, Any] = dict(_RETRIES)
    for name, value in options.items():
        key = name.lower()
        plain = key.removeprefix(prefix)
        if key in _ONLY_DELTALAKE:
            continue
        if plain in _CLIENT:
            client[plain] = value
        elif plain in retries:
            retries[plain] = _parse_seconds(name, value)
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


def _parse_seconds(name: str, value: str) -> float:
    match = _SECONDS.fullmatch(value.strip())
    if match is None:
        raise InputError(f"storage_options: {name}={value!r} is not a number, such as 5 or 30s")
    return float(match[1]) * {"ms": 0.001, "m": 60}.get(match[2] or "", 1)


def _endpoint(config: Mapping[str, str]) -> str:
    names = ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint", "azure_endpoint")
    endpoints = [config[name] for name in names if name in config]
    endpoints += [os.environ[name.upper()] for name in names if name.upper() in os.environ]
    return endpoints[0] if endpoints else ""


def _unknown_option(message: str, options: Mapping[str, str], prefix: str) -> InputError:
    name = next((key for key in options if f"'{key.lower()}'" in message), "an option")
    matches = difflib.get_close_matches(name.lower(), _COMMON[prefix], n=1)
    hint = f'did you mean "{matches[0]}"?' if matches else "those most used are " + ", ".join(_COMMON[prefix])
    return InputError(f'storage_options has no option "{name}" for this store; {hint}')


def _needs_profile(config: Mapping[str, str]) -> bool:
    """Whether neither the options nor the environment hold credentials, so that ~/.aws may."""
    if any(key in config for key in _KEYS) or any(name in os.environ for name in _ROLES):
        return False
    return not any(key.upper() in os.environ for key in _KEYS if key.startswith("aws_"))


def _read_profile(name: str | None) -> _Profile | None:
    """Credentials from the AWS command line's files; None without botocore, or if they hold none."""
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        if name is not None:
            raise MissingDependencyError(f"aws_profile={name!r} is read by botocore; run: pip install boto3") from None
        return None
    try:
        session = Session(profile=name)
        # obstore itself asks for the machine's own role.
        session.get_component("credential_provider").remove("iam-role")
        credentials = session.get_credentials()
        return None if credentials is None else _Profile(credentials, session.get_config_variable("region") or "")
    except BotoCoreError as error:
        raise StorageError(f"cannot read the credentials of AWS: {error}; give them in storage_options") from error


class _Profile:
    """Credentials that botocore keeps fresh, in the form that obstore expects."""

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
