"""An object store in memory that speaks enough of S3 to be measured: it waits, counts, and forgets at its end.

Run as a process of its own: `python bench/stores/memory_store.py MILLISECONDS` prints its port. `GET /requests` tells
and forgets what was asked; `PUT /delay?MILLISECONDS` changes how long an answer takes; `PUT /copies?COUNT` fills `t/`
with files made of the body, which `copy_of` tells apart.
"""

from __future__ import annotations

import bisect
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

_PAGE = 1000
ROWS = 100
FIRST, LAST = 0x0123456789ABCDEF, 0x0FEDCBA987654321
"""What a file to copy has for the least and the greatest number of its first column."""


def copy_of(data: bytes, number: int) -> bytes:
    """A file whose footer says that its first column holds `ROWS` numbers that no other copy has."""
    for value, own in ((FIRST, number * ROWS), (LAST, (number + 1) * ROWS - 1)):
        data = data.replace(value.to_bytes(8, "little"), own.to_bytes(8, "little"))
    return data


def tag_of(size: int, when: float) -> str:
    """The ETag of an object."""
    return f'"{size}-{when:.0f}"'


@contextmanager
def running(milliseconds: float = 0.0) -> Iterator[str]:
    """The endpoint of a store that runs while the block does."""
    command = [sys.executable, __file__, str(milliseconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def requests(endpoint: str) -> dict[str, int]:
    """How many there were of each kind since the last time."""
    with urllib.request.urlopen(f"{endpoint}/requests") as answer:
        return dict(json.load(answer))


class Store:
    """Objects of one bucket by key, in the order of their keys."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.lock = threading.Lock()
        self.objects: dict[str, tuple[bytes | int, float]] = {}
        """Content and time; of a copy its number."""
        self.copied = b""
        self.order: list[str] = []
        self.counts: Counter[str] = Counter()

    def put(self, key: str, data: bytes, if_none: bool) -> bool:
        with self.lock:
            if key in self.objects:
                if if_none:
                    return False
            else:
                bisect.insort(self.order, key)
            self.objects[key] = (data, float(int(time.time())))
            return True

    def copies(self, count: int, data: bytes) -> None:
        with self.lock:
            self.copied, now = data, float(int(time.time()))
            self.objects.update((f"t/part-{i:08}.parquet", (i, now)) for i in range(count))
            self.order = sorted(self.objects)

    def content(self, key: str) -> tuple[bytes, float] | None:
        found = self.objects.get(key)
        if found is None:
            return None
        data, when = found
        return copy_of(self.copied, data) if isinstance(data, int) else data, when

    def size(self, key: str) -> tuple[int, float]:
        data, when = self.objects[key]
        return len(self.copied if isinstance(data, int) else data), when

    def delete(self, key: str) -> None:
        with self.lock:
            if self.objects.pop(key, None) is not None:
                del self.order[bisect.bisect_left(self.order, key)]

    def page(self, prefix: str, delimiter: str, after: str) -> tuple[list[str], list[str], str]:
        """Keys, common prefixes, and where the next page begins; empty at the end."""
        keys: list[str] = []
        prefixes: list[str] = []
        with self.lock:
            i = bisect.bisect_right(self.order, after) if after else bisect.bisect_left(self.order, prefix)
            i = max(i, bisect.bisect_left(self.order, prefix))
            while i < len(self.order) and self.order[i].startswith(prefix):
                if len(keys) + len(prefixes) == _PAGE:
                    return keys, prefixes, self.order[i - 1]
                rest = self.order[i][len(prefix) :]
                if delimiter and delimiter in rest:
                    prefixes.append(prefix + rest.split(delimiter)[0] + delimiter)
                    i = bisect.bisect_left(self.order, prefixes[-1] + "\U0010ffff")
                else:
                    keys.append(self.order[i])
                    i += 1
        return keys, prefixes, ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, format: str, *args: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(6, 1, 1)  # answers leave at once

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} x", f"Content-Length: {headers.pop('length', str(len(body)))}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + (b"" if self.command == "HEAD" else body))

    def asked(self, kind: str) -> tuple[str, dict[str, list[str]]]:
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        if kind == "GET" and "list-type" in query:
            kind = "LIST"
        with self.store.lock:
            self.store.counts[kind] += 1
        if self.store.delay:
            time.sleep(self.store.delay)
        return unquote(url.path).partition("/")[2].partition("/")[2], query

    def body(self) -> bytes:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "x-amz-decoded-content-length" not in self.headers:
            return data
        # Each chunk has its size in a line before it; the last one is empty.
        parts, start = [], 0
        while size := int(data[start : (end := data.index(b"\r\n", start))].partition(b";")[0], 16):
            parts.append(data[end + 2 : end + 2 + size])
            start = end + 2 + size + 2
        return b"".join(parts)

    def do_GET(self) -> None:
        if self.path == "/requests":
            with self.store.lock:
                said = json.dumps(self.store.counts).encode()
                self.store.counts.clear()
            return self.answer(200, said)
        key, query = self.asked("GET")
        if "list-type" in query:
            return self.listing(query)
        found = self.store.content(key)
        if found is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        data, when = found
        told = {"ETag": tag_of(len(data), when), "Last_Modified": formatdate(when, usegmt=True)}
        wanted = self.headers.get("Range", "")
        if not wanted:
            return self.answer(200, data, **told)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(data)), len(data) - 1)
        self.answer(206, data[start : end + 1], Content_Range=f"bytes {start}-{end}/{len(data)}", **told)

    def listing(self, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        keys, prefixes, following = self.store.page(prefix, delimiter, after)
        parts = []
        for key in keys:
            size, when = self.store.size(key)
            tag = escape(tag_of(size, when))
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(when))
            parts.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{stamp}</LastModified><ETag>{tag}</ETag>"
                f"<Size>{size}</Size></Contents>"
            )
        parts += [f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in prefixes]
        if following:
            parts.append(f"<NextContinuationToken>{escape(following)}</NextContinuationToken>")
        more = "true" if following else "false"
        self.answer(
            200, f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{''.join(parts)}</ListBucketResult>".encode()
        )

    def do_HEAD(self) -> None:
        key, _ = self.asked("HEAD")
        if key not in self.store.objects:
            return self.answer(404)
        size, when = self.store.size(key)
        self.answer(200, length=str(size), ETag=tag_of(size, when), Last_Modified=formatdate(when, usegmt=True))

    def do_PUT(self) -> None:
        if self.path.startswith("/delay?"):
            self.store.delay = float(self.path.partition("?")[2]) / 1000
            return self.answer(200)
        if self.path.startswith("/copies?"):
            self.store.copies(int(self.path.partition("?")[2]), self.body())
            return self.answer(200)
        source = unquote(self.headers.get("x-amz-copy-source", ""))
        key, _ = self.asked("COPY" if source else "PUT")
        data = self.body()
        if source:
            found = self.store.content(source.lstrip("/").partition("/")[2])
            if found is None:
                return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            self.store.put(key, found[0], False)
            tag = escape(tag_of(*self.store.size(key)))
            return self.answer(200, f"<CopyObjectResult><ETag>{tag}</ETag></CopyObjectResult>".encode())
        if not self.store.put(key, data, self.headers.get("If-None-Match") == "*"):
            return self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        self.answer(200, ETag=tag_of(*self.store.size(key)))

    def do_DELETE(self) -> None:
        key, _ = self.asked("DELETE")
        self.store.delete(key)
        self.answer(204)

    def do_POST(self) -> None:
        self.asked("DELETE")
        keys = [part.partition("</Key>")[0] for part in self.body().decode().split("<Key>")[1:]]
        for key in keys:
            self.store.delete(unescape(key))
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


if __name__ == "__main__":
    Handler.store = Store(float(sys.argv[1]) / 1000)
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
