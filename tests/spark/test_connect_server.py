"""Tables through Spark Connect servers of their own: with a token, behind TLS, and one that dies during a query.

It runs on any PySpark: `.venv/bin/python -m pytest tests/spark/test_connect_server.py` in its environment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connect_server import Server, connect_server, session_at, tls_in_front, url_of

import zskip
from zskip.errors import ZskipError

pytestmark = pytest.mark.slow  # Servers in JVMs of their own.
TOKEN = "a-token-of-the-tests"
WHERE = [("id BETWEEN 120 AND 180", 1), ("id < 250 AND v = 3", 3), ("v * id = 0 AND id > 560", 1), ("id < 0", 0)]
"""Predicates, and how many files might hold a row."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("table") / "t"
    path.mkdir()
    for i in range(6):
        ids = np.arange(i * 100, (i + 1) * 100)
        pq.write_table(pa.table({"id": ids, "v": ids % 7}), path / f"part-{i}.parquet")
    zskip.open(str(path)).index()
    return str(path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("server")
    with connect_server(place, token=TOKEN) as server:
        yield server


def check_rows(spark: Any, root: str) -> None:
    """Rows and files of a table as this session reads it."""
    table = zskip.table(spark, root)
    for where, files in WHERE:
        frame, expected = table.df(where), spark.read.parquet(root).where(where)
        assert frame.schema == expected.schema
        assert sorted(frame.collect()) == sorted(expected.collect())
        assert table.last_scan.files == files, (where, table.last_scan)
        assert len(frame.inputFiles()) <= max(files, 1)


def check_queries(spark: Any, root: str) -> None:
    """Queries as they are read fewer files, and a definition of a view does not."""
    plain = {where: sorted(spark.read.parquet(root).where(where).collect()) for where, _ in WHERE}
    zskip.enable(spark)
    for where, files in WHERE:
        frame = spark.read.parquet(root).where(where)
        assert sorted(frame.collect()) == plain[where]
        assert [scan.files for scan in zskip.scans(spark)] == [files], where
    zskip.disable(spark)
    assert sorted(spark.read.parquet(root).where(WHERE[0][0]).collect()) == plain[WHERE[0][0]]


def test_a_token(server: Server, root: str) -> None:
    spark = server.session()
    check_rows(spark, root)
    check_queries(spark, root)
    if server.token is None:
        return
    stranger = session_at(url_of(server.port, token="another"))
    with pytest.raises(ZskipError, match=r"[Tt]oken"):
        zskip.table(stranger, root).df(WHERE[0][0])
    stranger.client.close()


def test_tls(server: Server, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tls_in_front(server) as (port, certificate):
        # gRPC reads it once, when it opens the first channel with TLS.
        monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(certificate))
        spark = session_at(url_of(port, use_ssl="true", token=TOKEN))
        check_rows(spark, root)
        check_queries(spark, root)
        spark.stop()


@pytest.mark.parametrize("way", ["df", "enable"])
def test_a_server_dies_during_a_query_and_comes_back(server: Server, root: str, way: str) -> None:
    spark = server.session()
    where = "id < 250 AND v = 3"
    expected = sorted(spark.read.parquet(root).where(where).collect())
    if way == "df":
        rows = zskip.table(spark, root).df(where)
    else:
        zskip.enable(spark)
        rows = spark.read.parquet(root).where(where)
    slow = rows.selectExpr("id", "v", "java_method('java.lang.Thread', 'sleep', 4000L) AS slept")
    outcome: list[Any] = []

    def collect() -> None:
        try:
            outcome.append(sorted((row.id, row.v) for row in slow.collect()))
        except Exception as error:
            outcome.append(error)

    client = threading.Thread(target=collect, daemon=True)
    client.start()
    time.sleep(2)
    assert not outcome, outcome
    server.kill()
    server.start()
    client.join(180)
    assert not client.is_alive(), "the client waits for a server that has come back"
    # A client may ask a server again that has sent nothing yet.
    if outcome[0] != expected:
        assert type(outcome[0]).__module__.startswith(("pyspark.errors", "grpc")), outcome
    spark = server.session()
    check_rows(spark, root)
    check_queries(spark, root)
