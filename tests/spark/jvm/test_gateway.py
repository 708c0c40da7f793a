"""What passes between Python and the JVM arrives as it was."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from zskip.spark.jvm.gateway import Jvm, read_in_pieces


def test_threads_that_ask_at_the_same_time_share_what_is_made_once() -> None:
    gateway: Any = SimpleNamespace(jvm=None)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway))
    threads, meet = 4, Barrier(4, timeout=30)

    def make() -> object:
        meet.wait()
        return object()

    def ask(_: int) -> tuple[Jvm, object]:
        meet.wait()
        jvm = Jvm.of(session)
        return jvm, jvm.once("name", make)

    with ThreadPoolExecutor(threads) as pool:
        assert len(set(pool.map(ask, range(threads)))) == 1


@pytest.mark.parametrize("count", [0, 1, 700, 30_000])
def test_texts_of_any_length_and_script(spark: SparkSession, count: int) -> None:
    texts = [f"{i} é 日本 😀𝒳 \\ \" ' \n\r\t\u2028 \\u00e9 {chr(0x10000 + i)}" for i in range(count)]
    jvm = Jvm.of(spark)
    assert jvm.read(jvm.strings(texts)) == texts


def test_pieces_are_cut_at_any_place(spark: SparkSession) -> None:
    jvm = Jvm.of(spark)
    for length in range(3990, 4010):
        text = "a" * length + "😀" * 3
        assert jvm.read(jvm.list_of(text, None, 7)) == [text, None, 7]


def test_no_piece_of_a_long_text_is_more_than_py4j_sends_at_once() -> None:
    asked = []

    class LongText:
        def length(self) -> int:
            return 5_000_000

        def substring(self, start: int, end: int) -> str:
            asked.append(end - start)
            return "a" * (end - start)

    assert read_in_pieces(LongText()) == "a" * 5_000_000
    assert max(asked) <= 8_192
