"""Spark's executors as the workers that look at many files at once: the driver only puts together what they say.

They need the driver's version of pyarrow and, for tables on `s3a://`, `obstore`, on HDFS `hdfs-native`; zskip goes
there by value. Whatever goes wrong there leaves the files to the driver, which then reads them itself.
"""

from __future__ import annotations

import itertools
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from zskip.spark.jobs import describe_jobs
from zskip.spark.jvm.hadoop import HadoopStorage
from zskip.spark.shipping import by_value
from zskip.storage import FileParser, LocalStorage, Storage, Workers, parse_object_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip.spark")
_FILES_A_JOB = 20_000
_FILES_A_TASK = 1_000
_TASKS_A_CORE = 4
_THREADS_NEAR = 2
_THREADS_FAR = 16
"""Where each file is a request, a task waits for most of the time."""
_GIVE_UP = 20
"""So many failures before the first success are no fault of the files."""

_BRIEF = {"max_retries": "2", "retry_timeout": "10s"}
_BRIEF_ON_HDFS = {"dfs.client.failover.max.attempts": "2"}
"""An executor that does not reach the store says so soon: the driver has its turn."""

_Open = Callable[[str, int], BinaryIO]
_Part = Iterable[tuple[str, int]]


def workers_of(spark: SparkSession, storage: Storage) -> Workers | None:
    """The executors of a session; None where they are this machine, or do not reach the storage as zskip does."""
    if str(spark.sparkContext.master).partition("[")[0] == "local":
        return None
    if isinstance(storage, LocalStorage):
        return Executors(spark, storage, _opener_on_disk, _THREADS_NEAR)
    if isinstance(storage, HadoopStorage) and storage.root.startswith("s3a://"):
        return Executors(spark, storage, _opener_in_store(storage.root, storage.options), _THREADS_FAR)
    if isinstance(storage, HadoopStorage) and storage.root.startswith("hdfs://"):
        return Executors(spark, storage, _opener_on_hdfs(storage.root, storage.options), _THREADS_FAR)
    return None


class Executors:
    """`Workers` in the terms of Spark: tasks whose results are bytes that only this process understands."""

    def __init__(self, spark: SparkSession, storage: Storage, reach: Callable[[], _Open], threads: int) -> None:
        """reach: makes, on an executor, what opens a file by the name that the tasks get; threads: of a task."""
        self._spark = spark
        self._storage = storage
        self._reach = reach
        self._threads = threads

    def parse_files(
        self, task: str, make_parser: Callable[[], FileParser], files: Sequence[tuple[str, int]]
    ) -> Iterator[list[Any]]:
        """What each file says, one job after another; None for a file that nothing was learned of."""
        from pyspark import cloudpickle

        named = isinstance(self._storage, LocalStorage)
        with by_value():
            work = cloudpickle.dumps((make_parser, self._reach))  # type: ignore[no-untyped-call]
        usable = True
        for start in range(0, len(files), _FILES_A_JOB):
            batch = files[start : start + _FILES_A_JOB]
            asked = [(self._storage.uri(path) if named else path, size) for path, size in batch]
            found = self._run(f"{task} of {len(batch):,} files", work, asked) if usable else [None] * len(batch)
            unread = sum(told is None for told in found)
            if usable and unread:
                _log.info("the driver reads %d of %d files that the executors did not", unread, len(found))
            usable = usable and unread < len(found)
            yield found

    def _run(self, text: str, work: bytes, asked: Sequence[tuple[str, int]]) -> list[Any]:
        context = self._spark.sparkContext
        tasks = max(-(-len(asked) // _FILES_A_TASK), min(len(asked) // 50, _TASKS_A_CORE * context.defaultParallelism))
        try:
            with describe_jobs(self._spark, text), by_value():
                parts = context.parallelize(asked, tasks).mapPartitions(_task(work, self._threads, pa.__version__))
                return list(itertools.chain.from_iterable(map(pickle.loads, parts.collect())))
        except Exception as error:
            _log.warning("%s on the executors: %s", text, error)
            return [None] * len(asked)


def _task(work: bytes, threads: int, version: str) -> Callable[[_Part], Iterator[bytes]]:
    """What runs on an executor: looks at its files, and gives what they say in their order.

    work: what makes the look and what opens files, of which the executor may lack a package; version: of pyarrow.
    """

    def run(part: _Part) -> Iterator[bytes]:
        files, failed, learned = list(part), 0, False

        def one(file: tuple[str, int]) -> Any:
            nonlocal failed, learned
            if failed >= _GIVE_UP and not learned:
                return None
            try:
                with opened(*file) as stream:
                    told = look(stream, file[1])
            except Exception:
                failed += 1
                return None
            learned = True
            return told

        try:
            import pyarrow

            if pyarrow.__version__ != version:
                raise ImportError(pyarrow.__version__)
            make, reach = pickle.loads(work)
            look, opened = make(), reach()
        except Exception:
            yield pickle.dumps([None] * len(files))
            return
        with ThreadPoolExecutor(threads) as pool:
            yield pickle.dumps(list(pool.map(one, files)))

    return run


def _opener_on_disk() -> _Open:
    return lambda path, size: open(path, "rb")


def _opener_in_store(root: str, options: Mapping[str, str]) -> Callable[[], _Open]:
    """root: the URI of a place in an object store."""
    from zskip.storage.objects import ObjectStorage

    given = {**_BRIEF, **options}

    def reach() -> _Open:
        place = parse_object_uri(root)
        assert place is not None, root
        return ObjectStorage(place, given).open

    return reach


def _opener_on_hdfs(root: str, options: Mapping[str, str]) -> Callable[[], _Open]:
    from zskip.storage.hdfs import HdfsStorage

    given = {**options, **_BRIEF_ON_HDFS}
    return lambda: HdfsStorage(root, given).open
