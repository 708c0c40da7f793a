"""Tell Spark's catalog of a table's new files, and of new tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from zskip.formats import DEFAULT_FORMAT
from zskip.table.address import is_session_name
from zskip.table.handle import Handle, storage_at


@contextmanager
def notifying_catalog(handle: Handle) -> Iterator[Handle]:
    """Tell the session's catalog of the table's new files when the body ends, however far that came."""
    spark, table = handle.spark, handle.catalog_table
    if spark is None:
        try:
            yield handle
        finally:
            if handle.connected is not None:
                with suppress(Exception):
                    handle.connected.catalog.refreshByPath(handle.address)
        return
    from zskip.spark.jvm.catalog import forget_listings, notify_catalog

    # Tables of the catalog may lie at a path, too.
    notify = partial(forget_listings, spark)
    if table is not None:
        notify = partial(notify_catalog, spark, table, handle.format.snapshot)
    try:
        yield handle
    except BaseException:
        with suppress(Exception):
            notify()
        raise
    notify()


@contextmanager
def registering_new_table(into: str | None, handle: Handle, format_name: str = DEFAULT_FORMAT) -> Iterator[str | None]:
    """Give the path of a new table made from `handle`, and register it in the catalog once it is there.

    into: its path, or a name like "db.t".

    Raises InputError for the name of a table that exists, or of another catalog than the session's own.
    """
    spark = handle.spark
    if into is None or spark is None or "." not in into or not is_session_name(into):
        yield into
        return
    from zskip.spark.jvm.catalog import create_statement, default_path, register_table, split_name

    parts = split_name(spark, into)
    root = None if storage_at(into, spark).stat("") is not None else default_path(spark, parts)
    if root is None:
        yield into
        return
    creation = create_statement(spark, parts, root, handle.catalog_table, format_name)
    yield storage_at(root, spark).root
    register_table(spark, parts, creation)
