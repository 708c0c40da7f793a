"""The questions of the JVM to Python: who may ask them, and what happens when their query is stopped."""

from __future__ import annotations

import inspect
import re
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.formats import HOME, HudiFormat
from zskip.spark.jvm.compiled import janino
from zskip.spark.jvm.compiled.janino import new_instance
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan import enable, logical
from zskip.spark.scan.bridge import callbacks
from zskip.spark.scan.bridge.callbacks import Callback, java_callback, sign
from zskip.spark.scan.rule import notes, open_index
from zskip.spark.scan.rule.bound_files import BoundFiles
from zskip.spark.scan.rule.open_index import IndexOpener
from zskip.table.read import verify

TEXT = '["refused", "hello from another process"]'


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("callbacks") / "t")
    spark.range(0, 400, 1, 4).selectExpr("id", "id % 10 AS v").write.parquet(path)
    zskip.table(spark, path).index()
    return path


@pytest.fixture
def questions(spark: SparkSession) -> Iterator[tuple[list[Any], Callable[[str, str], bytes]]]:
    """What reaches Python, and what sends messages to its port as another process would: a method and a text."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    answered: list[Any] = []
    pool = gateway.gateway_property.pool
    name = pool.put(Callback(lambda *question: answered.append(question), "secret"))
    address = ("127.0.0.1", gateway._callback_server.server_socket.getsockname()[1])
    with socket.create_connection(address, timeout=10) as connection, connection.makefile("rwb", 0) as stream:

        def send(method: str, text: str) -> bytes:
            escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
            stream.write(f"c\n{name}\n{method}\nn\ns{escaped}\ne\n".encode())
            return stream.readline()

        yield answered, send
    del pool[name]


def signed(text: str, secret: str = "secret") -> str:
    return sign(secret.encode(), text).decode() + text


def test_only_questions_with_the_secret_are_answered(
    questions: tuple[list[Any], Callable[[str, str], bytes]],
) -> None:
    answered, send = questions
    for text in ("", TEXT, "\n", "ä" * 50, signed(TEXT, "guess"), signed(TEXT) + " ", signed(TEXT)[1:]):
        assert send("apply", text).startswith(b"!x"), text
    assert not answered
    assert send("apply", signed(TEXT)) == b"!yn\n"
    assert answered == [("refused", "hello from another process")]


def test_other_attributes_are_not_reached(questions: tuple[list[Any], Callable[[str, str], bytes]]) -> None:
    answered, send = questions
    callback = Callback(print, "secret")
    for method in {*object.__dir__(callback), "_answer", "__call__", "_apply"} - {"apply", "Java"}:
        assert send(method, TEXT).startswith(b"!x"), method
    assert not answered
    assert send("apply", signed(TEXT)) == b"!yn\n", "the object is as it was"


def test_java_signs_what_it_asks(spark: SparkSession, path: str) -> None:
    """Short and long questions, with any characters."""
    table = zskip.table(spark, path)
    many = ", ".join(f"'{i} ä\N{GRINNING FACE}'" for i in range(2000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.df().where("id = 5").count() == 1
        assert table.df().where(f"concat(id, ' ä\N{GRINNING FACE}') IN ({many})").count() == 400
    assert table.last_scan is not None


def test_the_secret_is_not_shown(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret, texts = "0123456789abcdef" * 4, list[str]()
    apply = callbacks._apply

    def record(*arguments: Any) -> Any:
        texts.append(arguments[-1])
        return apply(*arguments)

    monkeypatch.setattr(callbacks.secrets, "token_hex", lambda _: secret)
    monkeypatch.setattr(callbacks, "_apply", record)
    caplog.set_level("INFO")
    frame = zskip.table(spark, path).df().where("id = 7")
    assert frame.count() == 1
    plans = frame._jdf.queryExecution().toString() + frame._jdf.queryExecution().analyzed().toJSON()
    asker = java_callback(Jvm.of(spark), print)
    shown = [plans, caplog.text, asker.toString(), *frame.inputFiles(), *texts]
    assert texts
    assert not [text for text in shown if secret in text]


def test_java_is_compiled_by_no_name_of_a_question(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[str, ...]] = []
    monkeypatch.setattr(open_index, "compile_apart", lambda _, *names: compiled.append(names))
    opener = open_index.IndexOpener(Jvm.of(spark))
    opener.answer("compile_delta")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opener.answer("compile", "../../../tmp/x", "java.lang.Object")
        opener.answer("compile_delta", "../../../tmp/x")
    assert {name for name, _ in compiled} == {"formats/delta/apart/DeltaFiles"}


@pytest.mark.parametrize(("answers", "question"), [(IndexOpener, "_open"), (BoundFiles, "prepare")])
def test_a_stream_that_is_stopped_while_zskip_answers_ends_at_once(
    spark: SparkSession, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: type, question: str
) -> None:
    asked, answer = threading.Event(), threading.Event()
    original, session = getattr(answers, question), spark.newSession()

    def wait(*arguments: Any) -> Any:
        asked.set()
        assert answer.wait(60)
        return original(*arguments)

    monkeypatch.setattr(answers, question, wait)
    with zskip.enabled(session), warnings.catch_warnings():
        warnings.simplefilter("error")
        static = session.read.parquet(path).where("id < 50")
        joined = session.readStream.format("rate").load().join(static, static.id == 3)
        query = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
        try:
            assert asked.wait(60)
            stopping = threading.Thread(target=query.stop)
            stopping.start()
            stopping.join(30)
            assert not stopping.is_alive(), "the stream waits for an answer that nobody needs"
            assert query.exception() is None
        finally:
            answer.set()


def test_a_query_whose_thread_is_interrupted_says_so(spark: SparkSession) -> None:
    """Whatever wraps an interrupt or a cancellation on its way: they are no faults of ours."""
    jvm = Jvm.of(spark)
    faults = new_instance(jvm, "FilterText").getClass().getClassLoader().loadClass("Faults")
    pass_on = faults.getMethod("passOn", jvm.array("java.lang.Class", [jvm.class_of("java.lang.Throwable")]))
    new = {
        name: jvm.find(name)
        for name in (
            "java.lang.InterruptedException",
            "java.nio.channels.ClosedByInterruptException",
            "java.net.SocketTimeoutException",
            "org.apache.spark.SparkException",
            "java.lang.IllegalStateException",
        )
    }
    interrupt, closed, timeout, canceled, fault = new.values()
    for error, stops in (
        (interrupt(), True),
        (closed(), True),
        (canceled("Job 3 cancelled part of cancelled job group 1"), True),
        (timeout("slow"), False),
        (canceled("Job aborted"), False),
        (fault("broken"), False),
    ):
        for thrown in (error, fault("wrapped", fault("twice", error))):
            arguments = jvm.array("java.lang.Object", [None])
            arguments[0] = thrown
            if not stops:
                pass_on.invoke(None, arguments)
                continue
            with pytest.raises(Exception, match=r"Interrupt|cancelled") as raised:
                pass_on.invoke(None, arguments)
            java = getattr(raised.value, "java_exception", None) or raised.value._origin  # type: ignore[attr-defined]
            assert java.equals(error) or java.getCause().equals(error), "not what wraps it"


def test_the_timer_of_key_queries_outlives_a_context_that_is_stopped(spark: SparkSession) -> None:
    jvm = Jvm.of(spark)
    loader = new_instance(jvm, "FilterText").getClass().getClassLoader()
    make = loader.loadClass("KeyQuery$Cancel").getDeclaredConstructors()[0]
    make.setAccessible(True)
    arguments = jvm.array("java.lang.Object", [None, "tag"])  # Nothing can be canceled.
    cancel = make.newInstance(arguments)
    cancel.run()


def test_java_and_python_use_the_same_words() -> None:
    """Settings, homes, kinds of notes and questions, which are written down on both sides."""
    java = janino.read_java()
    constants = re.findall(r'final String (ENABLED|EXPLAINED|HOME|LIMIT|TOP|JOIN|COUNT|CONDITION) =\s+"([^"]+)"', java)
    values = {name: {value for other, value in constants if other == name} for name, _ in constants}
    assert values["ENABLED"] == {enable.SETTING}
    assert enable.SETTING in verify._PRIVATE
    assert values["EXPLAINED"] == {logical._EXPLAINED}
    assert values["HOME"] == {HOME, HudiFormat.home}
    kinds = set().union(*(values[name] for name in ("LIMIT", "TOP", "JOIN", "COUNT", "CONDITION")))
    assert kinds == {*notes.NEEDED, *notes.REFINE}
    questions = set(re.findall(r'(?:ask|choose)\("(\w+)"', java)) | {"failed", "refused"}
    source = inspect.getsource(IndexOpener.answer) + inspect.getsource(BoundFiles.answer)
    assert not [question for question in questions - {"open"} if f'"{question}"' not in source]
