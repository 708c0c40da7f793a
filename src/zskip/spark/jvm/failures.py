"""Spark's failures as errors of zskip: one sentence with the way out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from zskip.errors import ConflictError, CorruptFileError, StorageError, UnsupportedError, ZskipError

_FULL = re.compile(r"No space left on device|Disk quota exceeded|disk quota|DSQuotaExceeded|NSQuotaExceeded", re.I)
_DENIED = re.compile(r"AccessControlException|AccessDenied|Permission denied|Read-only file system|Mkdirs failed")
_STORAGE = re.compile(
    r"ParentNotDirectory|PathIsNotDirectory|Not a directory|FileAlreadyExists|Input/output error|Stale file handle|"
    r"SafeModeException|UnknownHostException|ConnectException|NoRouteToHost|SocketTimeout"
)
_CORRUPT = re.compile(
    r"is not a Parquet file|CANNOT_READ_FILE_FOOTER|Could not read footer|ParquetDecodingException|"
    r"ParquetCryptoRuntimeException|FAILED_READ_FILE|Encountered error while reading file|corrupt|"
    r"Expected magic number|can not read class org.apache.parquet.format"
)
_CODEC = re.compile(r"Class ([\w.]+Codec) was not found")
_BROKEN = re.compile(r"SocketException|SdkClientException|S3Exception|AWS\w+Exception|Connection reset")
_MISSING = re.compile(
    r"FILE_NOT_EXIST|FileNotFound(?:Exception|Error)|NoSuchFileException|No such file|"
    r"\b(?:[Ff]ile|[Pp]ath)\b[^\n]*does not exist"
)
_MEMORY = re.compile(r"OutOfMemoryError|OUT_OF_MEMORY|SparkOutOfMemoryError|ExecutorLostFailure")
_FILE = re.compile(
    r"((?:[a-z][a-z0-9+.-]*:/|/)[^\s\"'\[\],]*?\.[a-z]*parquet|(?:while reading file|file) ([^\s\"'\[\],]+))"
)
_CAUSE = re.compile(r"^\s*Caused by: (.*)$", re.M)
_PYTHON = re.compile(r"^Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)$", re.M)
_RPC = re.compile(r'^\s*details = "(.*)"$', re.M)
_MOST_CAUSES = 20
_CLASS = re.compile(r"^(?:[a-z_$][\w$]*\.)+([A-Z][\w$]*)(?:: |$)")


def to_zskip_error(step: str, error: Exception) -> Exception:
    """Turn an error of Spark into an error of zskip; other errors are returned unchanged.

    step: the task that Spark had, such as `sample 3 columns of lineitem`.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, ZskipError) or not isinstance(error, Py4JError | PySparkException):
        return error
    return error_from_text(step, text_with_causes(error))


@contextmanager
def translated(step: str) -> Iterator[None]:
    """Raise errors of Spark as errors of zskip; step: as in `to_zskip_error`."""
    try:
        yield
    except Exception as error:
        reason = to_zskip_error(step, error)
        if reason is error:
            raise
        raise reason from error


def error_from_text(step: str, text: str) -> ZskipError:
    """Classify a failure by its text, which includes all its causes.

    >>> text = "Job aborted due to stage failure\\nCaused by: java.io.IOException: No space left on device"
    >>> str(error_from_text("rewrite 2 files of t", text))
    'no space left to rewrite 2 files of t: IOException: No space left on device; free some space, and call again'
    """
    cause = root_cause(text)
    if _FULL.search(text):
        return StorageError(f"no space left to {step}: {cause}; free some space, and call again")
    if _DENIED.search(text):
        return StorageError(f"no permission to {step}: {cause}; ask for access to the path, and call again")
    if _STORAGE.search(text):
        return StorageError(f"the file system failed to {step}: {cause}")
    if _MISSING.search(text):
        return ConflictError(
            f"a file disappeared before Spark could {step}: {cause}; call again to read the current version"
        )
    codec = _CODEC.search(text)
    if codec is not None:
        return UnsupportedError(
            f"Spark failed to {step}: it has no {codec[1]}, the codec of {_file(text) or 'a data file'}; add its jar "
            "to the session, or write the files with another codec"
        )
    if _BROKEN.search(cause):
        return StorageError(f"the store failed to {step}: {cause}; call again")
    if _CORRUPT.search(text):
        return CorruptFileError(
            f"Spark cannot read {_file(text) or 'a data file'}: {cause}; restore the file or move it out of the table"
        )
    if "EOFException" in cause:
        return StorageError(f"a file ended too soon to {step}: {cause}; call again, or restore it")
    if _MEMORY.search(text):
        return UnsupportedError(
            f"Spark ran out of memory to {step}: {cause}; give the executors (or the driver of a local session) more "
            "memory, or ask for more and smaller files"
        )
    if cause.startswith("ModuleNotFoundError"):
        cause += "; set PYSPARK_PYTHON to a Python that has NumPy and PyArrow on every executor"
    return UnsupportedError(f"Spark failed to {step}: {cause}")


def root_cause(text: str) -> str:
    """The innermost cause that a failure names, on one line.

    >>> root_cause("org.apache.spark.SparkException: Job aborted\\nCaused by: java.io.IOException: broken\\n  at x")
    'IOException: broken'
    >>> root_cause('<_InactiveRpcError of RPC that terminated with:\\n\\tdetails = "Invalid token"\\n>')
    'Invalid token'
    """
    causes = _PYTHON.findall(text) or _CAUSE.findall(text) or _RPC.findall(text)
    causes = causes or [line for line in text.splitlines() if line.strip()][:1] or ["no reason given"]
    return _CLASS.sub(lambda m: f"{m[1]}: ", causes[-1].strip())[:500].rstrip(": ")


def text_with_causes(error: BaseException) -> str:
    """The text of an error of Spark and of its causes in the JVM, the innermost last."""
    texts = [str(error)]
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None and len(texts) <= _MOST_CAUSES:
        texts.append(f"Caused by: {java.toString()}")
        java = java.getCause()
    return "\n".join(texts)


def _file(text: str) -> str | None:
    match = _FILE.search(text)
    return None if match is None else (match[2] or match[1]).rstrip(".:;")
