"""Spark Connect servers in processes of their own, as clusters have: with a token, behind TLS, killed and restarted.

A server is PySpark's own distribution. Before 4.0 that lacks the server's jar, which `ZSKIP_CONNECT_JAR` names
(`mvn dependency:copy -Dartifact=org.apache.spark:spark-connect_2.12:3.5.9`).
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
JAR = os.environ.get("ZSKIP_CONNECT_JAR", "")
WITHOUT_ZSKIP = """import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "zskip":
            raise ModuleNotFoundError("executors have no zskip", name="zskip")

sys.meta_path.insert(0, Refusing())
"""
WITH_ZSKIP = f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[2] / 'src')!r})"
SECONDS = 120
"""How long a server may take to start."""


@dataclass
class Server:
    """A server on a port of this machine."""

    place: Path
    """A directory for what it says, and for what it leaves."""
    settings: Mapping[str, str] = field(default_factory=dict)
    token: str | None = None
    """What clients must authenticate with; None for anybody."""
    port: int = 0
    process: Any = None
    sessions: list[Any] = field(default_factory=list)
    python: str = WITHOUT_ZSKIP
    """What Python runs first on executors, and where it runs functions of streams."""

    def start(self) -> None:
        """Start it, again on the same port, and wait until it answers."""
        import pyspark

        from zskip.spark.jvm.java import ensure_java

        ensure_java()
        self.place.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        settings = {
            "spark.master": "local[2]",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.memory": "2g",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(self.place / "warehouse"),
        } | dict(self.settings)
        if self.token is not None:
            settings["spark.connect.authenticate.token"] = self.token
        if JAR:
            settings["spark.jars"] = ",".join(filter(None, [JAR, settings.get("spark.jars")]))
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-submit"), "--class", CLASS]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_REMOTE")}
        environment |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        (self.place / "executors").mkdir(exist_ok=True)
        (self.place / "executors" / "sitecustomize.py").write_text(self.python)
        environment["PYTHONPATH"] = str(self.place / "executors")
        with (self.place / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "spark-internal"], stdout=log, stderr=subprocess.STDOUT, cwd=self.place, env=environment
            )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("localhost", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.2)
        self.kill()
        raise AssertionError("the server does not start: " + self.log())

    def log(self) -> str:
        """The last lines of what it said."""
        return (self.place / "server.log").read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """End its process, as a machine that goes away does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """End its sessions, which ask for minutes where it went when Python ends, and then the server."""
        for session in self.sessions:
            session.stop()
        self.kill()

    def url(self, **parameters: object) -> str:
        """The address for clients, with the token where it takes one."""
        return url_of(self.port, **({"token": self.token} if self.token else {}) | parameters)

    def session(self, **parameters: object) -> Any:
        """A new session of a client in this process, which may have a classic session, too; `stop` ends it."""
        self.sessions.append(session_at(self.url(**parameters)))
        return self.sessions[-1]


def url_of(port: int, **parameters: object) -> str:
    """The address of a server on this machine."""
    return f"sc://localhost:{port}/" + "".join(f";{name}={value}" for name, value in parameters.items())


def session_at(url: str) -> Any:
    """A new session of a client in this process; `SparkSession.builder` refuses one beside a classic session."""
    from pyspark.sql.connect.session import SparkSession

    return SparkSession(url)


def free_port() -> int:
    """A port that nobody has right now, and that no program gets by asking for any, as Spark's other services do."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("localhost", port))
            return port
    raise AssertionError("no port is free")


@contextmanager
def connect_server(
    place: Path, settings: Mapping[str, str] | None = None, *, token: str | None = None, has_zskip: bool = False
) -> Iterator[Server]:
    """A running server, or a skipped test where this PySpark has none.

    token: what clients must authenticate with; before 4.0 servers know none. has_zskip: whether it is installed there,
    as only functions of streams require.
    """
    pytest.importorskip("grpc")
    pyspark = pytest.importorskip("pyspark")
    is_older = pyspark.__version__ < "4"
    if is_older and not JAR:
        pytest.skip("before Spark 4 the server is no part of PySpark: ZSKIP_CONNECT_JAR names its jar")
    python = WITH_ZSKIP if has_zskip else WITHOUT_ZSKIP
    server = Server(place, settings or {}, None if is_older else token, python=python)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def tls_in_front(server: Server) -> Iterator[tuple[int, Path]]:
    """A proxy that ends TLS, as a load balancer does for servers, which know none; its port and its certificate."""
    certificate, key = self_signed(server.place)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    loop, port = asyncio.new_event_loop(), free_port()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("localhost", server.port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer), return_exceptions=True)

    async def stop() -> None:
        listening.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        loop.stop()

    listening = loop.run_until_complete(asyncio.start_server(serve, "localhost", port, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield port, certificate
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop)
        thread.join(10)


def self_signed(place: Path) -> tuple[Path, Path]:
    """A certificate of `localhost` for one day, and its key."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    certificate, private = place / "certificate.pem", place / "key.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private
