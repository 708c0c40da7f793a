"""Sessions of Spark Connect: their copies, and what their server is asked once."""

from __future__ import annotations

import copy
import threading
import uuid
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARALLELISM = "spark.sql.leafNodeDefaultParallelism"
"""How many partitions rows of the driver get."""
_CLONES = (4, 1)
_FACTS, _COPIES, _FOR_FILES = "_zskip_facts", "_zskip_copies", "_zskip_for_files"
"""The attributes of a session with what its server was asked once, its copies, and the one of each thread for files."""


def _once(spark: SparkSession, name: str, ask: Callable[[], Any]) -> Any:
    facts = spark.__dict__.setdefault(_FACTS, {})
    if name not in facts:
        facts[name] = ask()
    return facts[name]


def version(spark: SparkSession) -> tuple[int, int]:
    """Major and minor version of the server's Spark."""
    major, minor = _once(spark, "version", lambda: spark.version).split(".")[:2]
    return int(major), int(minor)


def cores(spark: SparkSession) -> int:
    """How many tasks run at once: into how many Spark divides what has no other number."""
    import pyspark.sql.functions as F

    def ask() -> int:
        numbers = spark.range(1 << 20).select(F.spark_partition_id().alias("last"))
        return int(numbers.agg(F.max("last").alias("last")).collect()[0]["last"]) + 1

    return int(_once(spark, "cores", ask))


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The settings that differ from Spark's own."""
    return {row.key: row.value for row in spark.sql("SET").collect()}


def set_all(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    """Change settings, unset for None; later versions of Spark may warn that they are old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in settings.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def copy_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A copy with settings of its own, and with the temporary views where the server can clone.

    It shares the channel and the tags. PySpark's own clone closes channels, and waits for them, when Python collects
    garbage.
    """
    from pyspark.sql.connect.proto import base_pb2 as protocol
    from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

    kind: Any = type(spark)
    session: Any = object.__new__(
        type(kind.__name__, (kind,), {"__module__": kind.__module__, "__del__": lambda _: None})
    )
    make_stub: Any = SparkConnectServiceStub
    client: Any = copy.copy(cast("Any", spark).client)
    for name in [name for name in vars(client) if name.startswith("_zskip_")]:
        delattr(client, name)  # Its requests are sent as they are.
    client._stub, metadata = make_stub(client._channel), client._builder.metadata()
    is_clone = version(spark) >= _CLONES and hasattr(protocol, "CloneSessionRequest")
    if is_clone:
        request = protocol.CloneSessionRequest(session_id=client._session_id, client_type="python")
        request.user_context.user_id = client._user_id or ""
        client._session_id = client._stub.CloneSession(request, metadata=metadata).new_session_id
    else:
        client._session_id = str(uuid.uuid4())
    client._server_session_id = None
    manager = type(client._artifact_manager)
    client._artifact_manager = manager(client._user_id, client._session_id, client._channel, metadata)
    session._client, session._session_id = client, client._session_id
    session.__dict__[_FACTS] = {"version": ".".join(map(str, version(spark)))}
    spark.__dict__.setdefault(_COPIES, weakref.WeakSet()).add(session)
    for name, value in {} if is_clone else settings_of(spark).items():
        if name.startswith("spark.sql."):
            with suppress(Exception):  # Some settings are of the server.
                set_all(session, {name: value})
    set_all(session, settings)
    return cast("SparkSession", session)


def copies_of(spark: SparkSession) -> list[SparkSession]:
    """The copies that are in use."""
    return list(spark.__dict__.get(_COPIES, ()))


def session_for_files(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A thread's one copy for jobs over files, one after another: executors start Python anew for each session."""
    now, of_thread = settings_of(spark), spark.__dict__.setdefault(_FOR_FILES, threading.local())
    before, session, changed = getattr(of_thread, "copy", ({}, None, ()))
    if session is None or before != now:
        session, changed = copy_session(spark, {}), ()
    set_all(session, {name: now.get(name) for name in changed} | dict(settings))
    of_thread.copy = (now, session, {*settings, PARALLELISM})
    return cast("SparkSession", session)
