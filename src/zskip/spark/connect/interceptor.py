"""The requests of a client, each of which may be changed before it leaves; and where versions of the client differ."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import grpc

from zskip.spark.connect.expressions import Message

_log = logging.getLogger("zskip.scan")
_MOST_SENT = 64


class Queries(Protocol):
    """What knows the queries of a session."""

    def change(self, method: str, request: Message) -> Message:
        """Give the request to send in place of one."""

    def awaits(self, operation: str) -> bool:
        """Whether `finished` is to be called."""

    def finished(self, request: Message) -> None:
        """See that a request has ended well."""


_ATTRIBUTE = "_zskip_interceptor"
_lock = threading.Lock()


class Interceptor(grpc.UnaryStreamClientInterceptor, grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Changes requests; whatever fails leaves them as they are. Its own thread's requests pass while it works."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries
        self._has_warned = False
        self._own = threading.local()
        self._sent: OrderedDict[str, Message] = OrderedDict()
        """The latest plans that were changed, by their operations: a retry sends the same one."""

    def intercept_unary_stream(self, proceed: Any, details: Any, request: Message) -> Any:
        """Pass on a request with many answers."""
        answers = proceed(details, self._changed(details.method, request))
        operation = getattr(request, "operation_id", "")
        return self._watched(answers, request) if self.queries.awaits(operation) else answers

    def _watched(self, answers: Any, request: Message) -> Iterator[Message]:
        for answer in answers:
            if answer.HasField("result_complete"):
                self.queries.finished(request)
            yield answer

    def intercept_unary_unary(self, proceed: Any, details: Any, request: Message) -> Any:
        """Pass on a request with one answer."""
        return proceed(details, self._changed(details.method, request))

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Let the requests of this thread pass as they are."""
        self._own.depth = getattr(self._own, "depth", 0) + 1
        try:
            yield
        finally:
            self._own.depth -= 1

    def _changed(self, method: str | bytes, request: Message) -> Message:
        if getattr(self._own, "depth", 0):
            return request
        name = (method.decode() if isinstance(method, bytes) else method).rpartition("/")[2]
        operation = request.operation_id if name == "ExecutePlan" else ""
        try:
            if operation in self._sent:
                return self._sent[operation]
            with self.passing():
                changed = self.queries.change(name, request)
        except Exception:
            _log.log(logging.DEBUG if self._has_warned else logging.WARNING, "a query is sent as it is", exc_info=True)
            self._has_warned = True
            return request
        if operation and changed is not request:
            self._sent[operation] = changed
            while len(self._sent) > _MOST_SENT:
                self._sent.popitem(last=False)
        return changed


def interceptor_of(spark: Any, queries: Callable[[], Queries]) -> Interceptor:
    """The interceptor of a session's client, put there at the first call; queries: makes what it calls."""
    from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

    client, make_stub = spark.client, cast(Any, SparkConnectServiceStub)
    with _lock:
        interceptor: Interceptor | None = getattr(client, _ATTRIBUTE, None)
        if interceptor is None:
            interceptor = Interceptor(queries())
            client._stub = make_stub(grpc.intercept_channel(client._channel, interceptor))
            setattr(client, _ATTRIBUTE, interceptor)
        return interceptor


def find_interceptor(spark: Any) -> Interceptor | None:
    """The interceptor of a session's client, if it has one."""
    return getattr(spark.client, _ATTRIBUTE, None)
