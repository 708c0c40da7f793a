"""The option `--remote` of all commands that may start a session, and the session of Spark Connect that it names."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zskip.errors import InputError, MissingDependencyError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE: ContextVar[str | None] = ContextVar("remote", default=None)
"""The server that this command names; None for a session of its own."""
_OPTION = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Spark Connect server to use instead of a local Spark, such as sc://localhost:15002."
    ),
]
_SECONDS = 15
"""How long a server may take to answer; PySpark alone tries again for ten minutes."""


def add_remote(app: typer.Typer) -> None:
    """Give `--remote` to all commands of an application but `demo`, which is about a Spark of its own."""
    for info in app.registered_commands:
        if info.callback is not None and info.callback.__name__ != "demo":
            info.callback = _with_remote(info.callback)


def _with_remote(command: Callable[..., Any]) -> Callable[..., None]:
    def run(*, remote: str | None, **given: Any) -> None:
        REMOTE.set(remote)
        command(**given)

    annotations = {**typing.get_type_hints(command, include_extras=True), "remote": _OPTION}
    parameter = inspect.Parameter("remote", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_OPTION)
    parameters = [p.replace(annotation=annotations[p.name]) for p in inspect.signature(command).parameters.values()]
    run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, annotations
    run.__signature__ = inspect.Signature([*parameters, parameter])  # type: ignore[attr-defined]
    return run


def remote_session(url: str) -> SparkSession:
    """The session of a Spark Connect server.

    Raises InputError for an address that is none, MissingDependencyError without the client's packages, and
    StorageError where nothing answers.
    """
    import atexit

    if not url.startswith("sc://"):
        raise InputError(f'"{url}" of --remote or SPARK_REMOTE names no Spark Connect server; write sc://host:port')
    try:
        import grpc
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client import core
    except ImportError as error:
        raise MissingDependencyError(
            '--remote needs the client of Spark Connect; run: pip install "pyspark[connect]"'
        ) from error
    from zskip.spark.jvm.failures import translated

    # Before 4.0 there is one class.
    builder: Any = getattr(core, "DefaultChannelBuilder", core.ChannelBuilder)
    try:
        channel = builder(url).toChannel()
    except (PySparkException, ValueError) as error:
        raise InputError(f"--remote: {error}") from error
    address = url.partition(";")[0].rstrip("/")  # What follows may have a token.
    try:
        grpc.channel_ready_future(channel).result(timeout=_SECONDS)
    except grpc.FutureTimeoutError as error:
        raise StorageError(
            f"no Spark Connect server answers at {address} within {_SECONDS} s; check the host and the port, start the "
            "server (sbin/start-connect-server.sh), or add /;use_ssl=true if it speaks TLS"
        ) from error
    finally:
        channel.close()
    with translated(f"connect to {address}"):
        spark = SparkSession.builder.remote(url).getOrCreate()
        spark.version  # noqa: B018 (the first call, which a wrong token fails)
    # Else PySpark asks the server at the end, for minutes if it is gone.
    atexit.register(spark.stop)
    return spark
