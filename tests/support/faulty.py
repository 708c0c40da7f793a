"""A proxy before an object store that counts requests and breaks them as it is told to."""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

Fault = Callable[[str, str, random.Random], "str | None"]
"""Given the method and the path with its query: how the request goes wrong, None for not at all.

"slow" answers 503, "reset" cuts the connection before an answer, "late" after the store has done what was asked,
"torn" in the middle of the body, "short" gives half of the body as if it were all, "forbidden" answers 403, "lagging"
what a listing said when it was asked for last.
"""


class Proxy:
    """Answers on a port of its own what the store answers, after `delay` seconds, unless `fault` says otherwise."""

    def __init__(self, endpoint: str, seed: int = 0) -> None:
        self._target = urlsplit(endpoint)
        self._lock = threading.Lock()
        self.random = random.Random(seed)
        self.delay = 0.0
        self.fault: Fault = lambda method, path, chance: None
        self.requests: list[tuple[str, str]] = []
        self.broken: Counter[str] = Counter()
        self._said: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do(self) -> None:
                outer._handle(self)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def forget(self) -> None:
        """Count from here on."""
        with self._lock:
            self.requests.clear()
            self.broken.clear()

    def kinds(self) -> Counter[str]:
        """How many requests there were of each kind: LIST, HEAD, GET, PUT, COPY, DELETE."""
        with self._lock:
            return Counter(kind for kind, _ in self.requests)

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = _body(handler)
        handler.close_connection = False
        with self._lock:
            self.requests.append((_kind(handler), handler.path))
            wrong = self.fault(handler.command, handler.path, self.random)
            if wrong is not None:
                self.broken[wrong] += 1
        if self.delay:
            time.sleep(self.delay)
        if wrong in ("slow", "forbidden"):
            return _answer(handler, *_ERRORS[wrong])
        if wrong == "reset":
            return _cut(handler)
        status, headers, content = self._ask(handler, body)
        if wrong == "lagging":
            status, headers, content = self._said.get(handler.path, (status, headers, content))
        elif handler.command == "GET" and "list-type" in handler.path:
            self._said[handler.path] = status, headers, content
        if wrong == "late":
            return _cut(handler)
        if wrong == "short" and handler.command == "GET":
            content = content[: len(content) // 2]
            headers = [(k, v) for k, v in headers if k.lower() != "content-length"]
        _answer(handler, status, content, headers, torn=wrong == "torn")

    def _ask(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(str(self._target.hostname), self._target.port, timeout=60)
        try:
            skipped = ("host", "content-length", "transfer-encoding", "connection", "expect")
            headers = {k: v for k, v in handler.headers.items() if k.lower() not in skipped}
            connection.request(handler.command, handler.path, body or None, headers | {"Host": self._target.netloc})
            answer = connection.getresponse()
            content = answer.read()
            given = [(k, v) for k, v in answer.getheaders() if k.lower() not in ("transfer-encoding", "connection")]
            return answer.status, given, content
        finally:
            connection.close()


_XML = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{0}</Code><Message>{1}</Message></Error>"
_ERRORS = {
    "slow": (503, _XML.format("SlowDown", "Please reduce your request rate.").encode()),
    "forbidden": (403, _XML.format("ExpiredToken", "The provided token has expired.").encode()),
}


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("Transfer-Encoding", "").lower() == "chunked":
        parts = []
        while size := int(handler.rfile.readline().split(b";")[0], 16):
            parts.append(handler.rfile.read(size))
            handler.rfile.readline()
        handler.rfile.readline()
        return b"".join(parts)
    return handler.rfile.read(int(handler.headers.get("Content-Length", 0)))


def _kind(handler: BaseHTTPRequestHandler) -> str:
    url = urlsplit(handler.path)
    query = parse_qs(url.query, keep_blank_values=True)
    if handler.command == "PUT" and "x-amz-copy-source" in handler.headers:
        return "COPY"
    if handler.command == "POST" and "delete" in query:
        return "DELETE"
    if handler.command == "GET" and ("list-type" in query or url.path.count("/") < 2):
        return "LIST"
    return handler.command


def _answer(
    handler: BaseHTTPRequestHandler,
    status: int,
    content: bytes,
    headers: list[tuple[str, str]] | None = None,
    *,
    torn: bool = False,
) -> None:
    handler.send_response_only(status)
    told = {name.lower() for name, _ in headers or []}
    for name, value in headers or []:
        handler.send_header(name, value)
    if "content-length" not in told:
        handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(content[: len(content) // 2] if torn else content)
    handler.wfile.flush()
    if torn:
        _cut(handler)


def _cut(handler: BaseHTTPRequestHandler) -> None:
    """End the connection as a machine does that goes away."""
    handler.close_connection = True
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    handler.connection.close()
