"""Answers of an object store as errors of zskip that name the object and a way out."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from zskip.errors import StorageError

_T = TypeVar("_T")
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_REGION = re.compile(r"<Region>([^<]*)</Region>|x-amz-bucket-region: ([\w-]+)")
_STATUS = re.compile(r"status code: ([0-9]{3}) ?([A-Za-z ]*)")
_BROKEN = re.compile("body error|error decoding|end of file before message|connection closed before")
_TRIES = 4
_AFTER = re.compile(r" in ([0-9.]+)(m?s|µs), after ([0-9]+) retries")
_PASSWORD = re.compile(r"(?<=://)[^/\s@:]*:[^/\s]*@")
_CREDENTIALS = (
    "give credentials in storage_options or in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
_ADVICE = (
    (re.compile("NoSuchBucket|ContainerNotFound"), "there is no such bucket; check its name and the endpoint"),
    (re.compile("ExpiredToken|TokenRefreshRequired"), "the credentials have run out; get new ones and call again"),
    (re.compile("InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken"), f"the credentials are wrong: {_CREDENTIALS}"),
    (re.compile("RequestTimeTooSkewed"), "the clock of this machine is wrong; set it"),
    (
        re.compile("PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|status code: 301"),
        "the bucket is in another region: give it as aws_region in storage_options, or as AWS_REGION",
    ),
    (
        re.compile("169.254.169.254|/latest/api/token|metadata.google.internal|CredentialsError|credential"),
        f"no credentials: {_CREDENTIALS}",
    ),
    (re.compile("status code: 401"), _CREDENTIALS),
    (
        re.compile("AccessDenied|status code: 403"),
        "these credentials have no right to do that; use others, or keep the index elsewhere with index_path=",
    ),
    (re.compile("SlowDown|status code: (429|5..)"), "the store is overloaded or broken; call again later"),
    (re.compile("scheme is not allowed|builder error"), "the endpoint is not a URL, such as https://host:port"),
    (
        re.compile("HTTP error|error sending request|error decoding|operation timed out|Connection|connection"),
        "the store does not answer; check the endpoint and the network, and call again",
    ),
    (re.compile("empty path segment"), "zskip does not reach keys with two slashes in a row; rename the object"),
)


@contextlib.contextmanager
def translating_errors(action: str, uri: str) -> Iterator[None]:
    """Raise an object store's errors as FileNotFoundError, FileExistsError or StorageError."""
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(f'there is something already at "{uri}"') from error
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
            raise StorageError(_describe_failure(action, uri, error)) from cause_without_password(error)
        raise FileNotFoundError(f'cannot {action} "{uri}": there is no such object') from error
    except FileExistsError:
        raise
    except (BaseError, OSError, ValueError) as error:
        raise StorageError(_describe_failure(action, uri, error)) from cause_without_password(error)


def mask_passwords(text: str) -> str:
    """Remove names and passwords from the URLs in a text.

    >>> mask_passwords("http://me:pass@word@host/b and abfss://c@host/k")
    'http://***@host/b and abfss://c@host/k'
    """
    return _PASSWORD.sub("***@", text)


def cause_without_password(error: Exception) -> Exception | None:
    """The error to raise another one from; None if its text would show a password."""
    return error if mask_passwords(str(error)) == str(error) else None


def retry_broken(read: Callable[[], _T]) -> _T:
    """Call a function that changes nothing, and call it again while its answer breaks off in the middle.

    `obstore` itself retries requests, but not those whose answer has begun.
    """
    for _ in range(_TRIES - 1):
        try:
            return read()
        except Exception as error:
            if not _BROKEN.search(str(error)):
                raise
    return read()


def lacks_conditional_writes(error: Exception) -> bool:
    """Whether the error says that the store supports no conditional requests."""
    from obstore.exceptions import NotSupportedError

    return isinstance(error, NotSupportedError) or "NotImplemented" in str(error)


def _describe_failure(action: str, uri: str, error: Exception) -> str:
    text = mask_passwords(str(error)).partition("Debug source")[0]
    advice = next((advice for pattern, advice in _ADVICE if pattern.search(text)), "see the cause above")
    region = _REGION.search(text)
    if region is not None and "region" in advice:
        advice += f" ({region[1] or region[2]})"
    return f'cannot {action} "{uri}": {_extract_reason(text)}; {advice}'


def _extract_reason(text: str) -> str:
    """The core of a store's answer: its own code and message, the status, or why the connection broke.

    >>> _extract_reason("Error performing GET http://h/b - Server returned non-2xx status: <Code>SlowDown</Code>")
    'SlowDown'
    """
    code, message, status = _CODE.search(text), _MESSAGE.search(text), _STATUS.search(text)
    if code is not None:
        return f"{code[1]} ({message[1].rstrip('.')})" if message is not None else code[1]
    if status is not None:
        return f"{status[1]} {status[2]}".strip()
    after = _AFTER.search(text)
    retries = f" ({after[3]} retries in {after[1]} {after[2]})" if after is not None else ""
    first_line = text.strip().partition("\n")[0].rpartition(" - ")[2]
    return first_line[:300].rstrip(". ") + retries
