"""A catalog of Iceberg's REST protocol on loopback, as far as tables are loaded and committed to; SQLite keeps it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableRequest, Table


@contextmanager
def served(uri: str, warehouse: str) -> Iterator[tuple[str, list[str]]]:
    """Where it answers, and what it was asked; one thread, in which SQLite stays."""
    asked: list[str] = []
    found: list[HTTPServer] = []
    ready = threading.Event()

    def run() -> None:
        catalog = SqlCatalog("behind", uri=uri, warehouse=warehouse)
        server = HTTPServer(("127.0.0.1", 0), handler(catalog, asked))
        found.append(server)
        ready.set()
        server.serve_forever(0.05)
        server.server_close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(60)
    yield f"http://127.0.0.1:{found[0].server_address[1]}", asked
    found[0].shutdown()
    thread.join()


def handler(catalog: SqlCatalog, asked: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def answer(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def refuse(self, status: int, error: Exception) -> None:
            told = {"message": str(error), "type": type(error).__name__, "code": status}
            self.answer(status, {"error": told})

        def table(self) -> Table:
            parts = urlsplit(self.path).path.split("/")
            return catalog.load_table((unquote(parts[3]), unquote(parts[5])))

        def tell(self, table: Table) -> None:
            metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
            self.answer(200, {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}})

        def do_GET(self) -> None:
            asked.append(f"GET {self.path}")
            if urlsplit(self.path).path == "/v1/config":
                return self.answer(200, {"defaults": {}, "overrides": {}})
            try:
                self.tell(self.table())
            except NoSuchTableError as error:
                self.refuse(404, error)

        def do_POST(self) -> None:
            asked.append(f"POST {self.path}")
            given = CommitTableRequest.model_validate_json(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                table = self.table()
                catalog.commit_table(table, given.requirements, given.updates)
                self.tell(self.table())
            except CommitFailedException as error:
                self.refuse(409, error)

    return Handler
