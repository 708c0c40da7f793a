"""What an object store answers, as errors of zskip that name the object and the way out."""

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
    (re.compile("scheme is not allowed|builder error"), "the endpoint is no URL, such as https://host:port"),
    (
        re.compile("HTTP error|error sending request|error decoding|operation timed out|Connection|connection"),
        "the store does not answer; check the endpoint and the network, and call again",
    ),
    (re.compile("empty path segment"), "zskip does not reach keys with two slashes in a row; rename the object"),
)


@contextlib.contextmanager
def explained(action: str, uri: str) -> Iterator[None]:
    """Raise what a store answers as FileNotFoundError, FileExistsError or StorageError."""
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(f'there is something already at "{uri}"') from error
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
            raise StorageError(_sentence(action, uri, error)) from cause(error)
        raise FileNotFoundError(f'cannot {action} "{uri}": there is no such object') from error
    except FileExistsError:
        raise
    except (BaseError, OSError, ValueError) as error:
        raise StorageError(_sentence(action, uri, error)) from cause(error)


def masked(text: str) -> str:
    """The text without names and passwords in URLs.

    >>> masked("http://me:pass@word@host/b and abfss://c@host/k")
    'http://***@host/b and abfss://c@host/k'
    """
    return _PASSWORD.sub("***@", text)


def cause(error: Exception) -> Exception | None:
    """What another error is raised from: none that would show a password."""
    return error if masked(str(error)) == str(error) else None


def again(read: Callable[[], _T]) -> _T:
    """What a call that changes nothing returns, called again where an answer broke off in its middle.

    `obstore` itself tries requests again, but not one whose answer had begun.
    """
    for _ in range(_TRIES - 1):
        try:
            return read()
        except Exception as error:
            if not _BROKEN.search(str(error)):
                raise
    return read()


def no_condition(error: Exception) -> bool:
    """Whether a store has answered that it knows no conditional requests."""
    from obstore.exceptions import NotSupportedError

    return isinstance(error, NotSupportedError) or "NotImplemented" in str(error)


def _sentence(action: str, uri: str, error: Exception) -> str:
    text = masked(str(error)).partition("Debug source")[0]
    advice = next((advice for pattern, advice in _ADVICE if pattern.search(text)), "see the cause above")
    region = _REGION.search(text)
    if region is not None and "region" in advice:
        advice += f" ({region[1] or region[2]})"
    return f'cannot {action} "{uri}": {_said(text)}; {advice}'


def _said(text: str) -> str:
    """The heart of an answer: the store's own code and message, or the status, or what broke the connection.

    >>> _said("Error performing GET http://h/b - Server returned non-2xx status code: 503: <Code>SlowDown</Code>")
    'SlowDown'
    """
    code, message, status = _CODE.search(text), _MESSAGE.search(text), _STATUS.search(text)
    if code is not None:
        return f"{code[1]} ({message[1].rstrip('.')})" if message is not None else code[1]
    if status is not None:
        return f"{status[1]} {status[2]}".strip()
    after = _AFTER.search(text)
    tried = f" ({after[3]} retries in {after[1]} {after[2]})" if after is not None else ""
    first = text.strip().partition("\n")[0].rpartition(" - ")[2]
    return first[:300].rstrip(". ") + tried
