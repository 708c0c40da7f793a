"""Opens Delta tables with `deltalake`, whose errors become errors of zskip."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from zskip.errors import MissingDependencyError, StorageError, TableNotFoundError, UnsupportedError
from zskip.formats.schema import first_line
from zskip.storage import Storage, normalize_location, retry_broken

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FEATURE = re.compile("[Uu]nsupported|not supported|catalog-managed")
"""In deltalake's errors about an unknown protocol."""
_REMOTE = {"max_retries": "4", "retry_timeout": "30s"}
"""Options of an object store, so that missing credentials or networks fail within seconds."""


def open_table(storage: Storage, *, skip_stats: bool = False, version: int | None = None) -> DeltaTable:
    """Open a table in a version, by default the newest.

    skip_stats: without the statistics of files. Raises MissingDependencyError, TableNotFoundError, StorageError, and
    UnsupportedError for logs that deltalake does not read.
    """
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise MissingDependencyError(
            f'"{storage.root}" is a Delta table, for which deltalake is not installed; run: pip install "zskip[delta]"'
        ) from error
    uri = _uri(storage.root)
    options = None if uri.startswith("file:") else {**_REMOTE, **storage.options}
    with translating_errors(storage.root):
        return retry_broken(lambda: DeltaTable(uri, version, options, skip_stats=skip_stats))


def _uri(root: str) -> str:
    """The table's root in deltalake's form; raises UnsupportedError for roots that it cannot reach."""
    location = normalize_location(root)
    scheme, separator, rest = location.partition("://")
    if not separator:
        if "%" in location:
            raise UnsupportedError(f'deltalake cannot open a table below a path with "%", as "{root}" is; rename it')
        return "file://" + quote(location)
    if scheme == "hdfs" and quote(rest, safe="/:") != rest:
        raise UnsupportedError(
            f'deltalake finds no table on HDFS below a path with spaces, "%" or the like, as "{root}" is; rename it'
        )
    return location


@contextlib.contextmanager
def translating_errors(root: str) -> Iterator[None]:
    """Raise deltalake's errors about a log as zskip's errors."""
    from deltalake.exceptions import DeltaError
    from deltalake.exceptions import TableNotFoundError as NoTable

    try:
        yield
    except NoTable as error:
        raise TableNotFoundError(f'"{root}" has no whole Delta log ({first_line(error)}); check the path') from error
    except DeltaError as error:
        reason = first_line(error)
        if _FEATURE.search(reason):
            raise UnsupportedError(
                f'zskip cannot read the Delta table "{root}": {reason}; work on it with Delta Lake itself. '
                "Nothing was written"
            ) from error
        raise StorageError(f'cannot read the log of the Delta table "{root}": {reason}') from error
    except OSError as error:
        reason = " ".join(re.sub(r"\x1b\[[0-9;]*m|↳", " ", str(error)).split())
        raise StorageError(
            f'cannot reach the log of the Delta table "{root}" ({reason[:300]}); check the network, and give the '
            "credentials in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
