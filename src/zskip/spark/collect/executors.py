"""Spark's executors as workers that parse many files at once; the driver only merges their results.

They need the driver's version of pyarrow and, for tables on `s3a://`, `obstore`, on HDFS `hdfs-native`; zskip is
pickled by value. The driver itself parses the files that the executors could not.
"""

from __future__ import annotations

import itertools
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zskip.spark.jobs import describe_jobs
from zskip.spark.jvm.hadoop import HadoopStorage
from zskip.spark.shipping import by_value
from zskip.storage import FileParser, LocalStorage, Storage, Workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip.spark")
_FILES_PER_JOB = 20_000
_FILES_PER_TASK = 1_000
_TASKS_PER_CORE = 4
_THREADS_ON_DISK = 2
_THREADS_REMOTE = 16
"""A task that sends requests for each file spends most of its time waiting."""
_GIVE_UP = 20
"""This many failures before the first success are not the files' fault."""

_Part = Iterable[tuple[str, int]]


def workers_of(spark: SparkSession, storage: Storage) -> Workers | None:
    """The executors of a session; None where they run on this machine or cannot reach the storage as zskip does."""
    if str(spark.sparkContext.master).partition("[")[0] == "local":
        return None
    if isinstance(storage, LocalStorage):
        return Executors(spark, lambda: storage, _THREADS_ON_DISK)
    # An executor that cannot reach the store fails soon, so that the driver takes over.
    connect = storage.connecting(few_tries=True) if isinstance(storage, HadoopStorage) else None
    return None if connect is None else Executors(spark, connect, _THREADS_REMOTE)


class Executors:
    """`Workers` in Spark: tasks that return pickled results."""

    def __init__(self, spark: SparkSession, connect: Callable[[], Storage], threads: int) -> None:
        """connect: gives, on an executor, the storage of the files; threads: per task."""
        self._spark = spark
        self._connect = connect
        self._threads = threads

    def parse_files(
        self, task: str, make_parser: Callable[[], FileParser], files: Sequence[tuple[str, int]]
    ) -> Iterator[list[Any]]:
        """Parse files, one job after another; None stands for a file that could not be parsed."""
        from pyspark import cloudpickle

        with by_value():
            work = cloudpickle.dumps((make_parser, self._connect))  # type: ignore[no-untyped-call]
        usable = True
        for start in range(0, len(files), _FILES_PER_JOB):
            batch = files[start : start + _FILES_PER_JOB]
            results = self._run(f"{task} of {len(batch):,} files", work, batch) if usable else [None] * len(batch)
            unread = sum(result is None for result in results)
            if usable and unread:
                _log.info("the driver reads %d of %d files that the executors did not", unread, len(results))
            usable = usable and unread < len(results)
            yield results

    def _run(self, text: str, work: bytes, files: Sequence[tuple[str, int]]) -> list[Any]:
        context = self._spark.sparkContext
        tasks = max(
            -(-len(files) // _FILES_PER_TASK), min(len(files) // 50, _TASKS_PER_CORE * context.defaultParallelism)
        )
        try:
            with describe_jobs(self._spark, text), by_value():
                parts = context.parallelize(files, tasks).mapPartitions(_task(work, self._threads, pa.__version__))
                read = [pickle.loads(part) for part in parts.collect()]
            reason = next((reason for _, reason in read if reason), "")
            if reason:
                _log.info("%s on the executors: %s", text, reason)
            return list(itertools.chain.from_iterable(results for results, _ in read))
        except Exception as error:
            _log.warning("%s on the executors: %s", text, error)
            return [None] * len(files)


def _task(work: bytes, threads: int, version: str) -> Callable[[_Part], Iterator[bytes]]:
    """The function that runs on an executor: parses its files, and returns the results in their order.

    With them comes the first failure as text, for the driver's log.

    work: pickled functions that create the parser and the storage, for which the executor may lack a package; version:
    of pyarrow.
    """

    def run(part: _Part) -> Iterator[bytes]:
        files, failures, succeeded = list(part), list[str](), False

        def parse_file(file: tuple[str, int]) -> Any:
            nonlocal succeeded
            if len(failures) >= _GIVE_UP and not succeeded:
                return None
            try:
                with storage.open(*file) as stream:
                    result = parse(stream, file[1])
            except Exception as error:
                failures.append(f"{file[0]}: {type(error).__name__}: {error}")
                return None
            succeeded = True
            return result

        try:
            import pyarrow

            if pyarrow.__version__ != version:
                raise ImportError(f"pyarrow is {pyarrow.__version__} there and {version} here")
            make_parser, connect = pickle.loads(work)
            parse, storage = make_parser(), connect()
        except Exception as error:
            yield pickle.dumps(([None] * len(files), f"{type(error).__name__}: {error}"))
            return
        with ThreadPoolExecutor(threads) as pool:
            results = list(pool.map(parse_file, files))
        yield pickle.dumps((results, failures[0] if failures else ""))

    return run
