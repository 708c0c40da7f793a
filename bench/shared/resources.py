"""What a piece of work takes of the machine: processor seconds and memory of the JVM and of Spark's Python workers."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


class Resources:
    """This process and those that it has started, while a block runs.

    Python's memory is that of its largest worker without the pages of mapped files, which the system may drop.
    directory: one whose growth is watched, too.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.jvm_mb = self.python_mb = self.directory_mb = 0.0
        self._directory, self._directory_before = directory, 0.0
        self._seconds: dict[tuple[int, bool], list[float]] = {}
        self._driver_s = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def cpu_s(self) -> float:
        """The processor seconds of all together."""
        return round(self._driver_s + sum(end - start for start, end in self._seconds.values()), 1)

    def figures(self, prefix: str) -> dict[str, float]:
        """All of them, rounded, by names that begin with `prefix`."""
        jvm, python = (sum(v[1] - v[0] for (_, kind), v in self._seconds.items() if kind == k) for k in (True, False))
        values = {"driver_cpu_s": self._driver_s, "jvm_cpu_s": jvm, "python_cpu_s": python}
        values |= {"jvm_peak_mb": self.jvm_mb, "python_peak_mb": self.python_mb}
        return {f"{prefix}_{name}": round(value, 1) for name, value in values.items()}

    def _look(self, *, begins: bool) -> None:
        """Note what each process has worked so far; those that end keep what they had when last seen."""
        for pid, is_jvm in _descendants():
            try:
                fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            seconds = sum(map(int, fields[11:13])) / _TICKS
            self._seconds.setdefault((pid, is_jvm), [seconds if begins else 0.0, seconds])[1] = seconds
            if is_jvm:
                self.jvm_mb = max(self.jvm_mb, _anonymous_mb(pid))
            else:
                self.python_mb = max(self.python_mb, _anonymous_mb(pid))

        size = 0.0 if self._directory is None else _directory_mb(self._directory)
        self._directory_before = size if begins else self._directory_before
        self.directory_mb = max(self.directory_mb, size - self._directory_before)

    def _watch(self) -> None:
        while not self._done.wait(0.1 if self._directory else 0.2):
            self._look(begins=False)

    def __enter__(self) -> Resources:
        self._look(begins=True)
        self._driver_s = -time.process_time()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._driver_s += time.process_time()
        self._done.set()
        self._thread.join()
        self._look(begins=False)


def _descendants() -> list[tuple[int, bool]]:
    """The JVMs below this process and the Python workers below them, each with whether it is a JVM."""
    parents: dict[int, tuple[int, str]] = {}
    for pid in [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]:
        try:
            text = (_PROC / str(pid) / "stat").read_text()
        except OSError:
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        parents[pid] = int(rest.split()[1]), name
    found = []
    for pid, (parent, name) in parents.items():
        above = []
        while parent in parents and parent != os.getpid():
            above.append(parents[parent][1])
            parent = parents[parent][0]
        if parent == os.getpid() and (name == "java" or (name.startswith("python") and "java" in above)):
            found.append((pid, name == "java"))
    return found


def _directory_mb(directory: Path) -> float:
    total = 0
    for path, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_size
            except FileNotFoundError:
                continue
    return total / 1e6


def _anonymous_mb(pid: int) -> float:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))) * 1024 / 1e6
