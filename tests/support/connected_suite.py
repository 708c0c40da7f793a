"""What of this suite holds in a session of Spark Connect, too: the examples of the docs, and errors of the verbs.

`tests/spark/test_connected_suite.py` runs these tests in a process of their own: once a process has had a classic
session, its `pyspark.sql.functions` make classic columns. There `SPARK_REMOTE`, PySpark's own variable, names the
server, this module is a plugin of pytest, and the fixture `spark` is a connected session.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from connect_server import Server

ROOT = Path(__file__).resolve().parents[2]
CLASSIC_LINES = r"(?m)^.*EXPLAIN SKIPPING.*\n"
"""Lines of examples that need a classic session, as docs/platforms.md says: the statement asks Spark's optimizer."""
_NAMES = "the client does not know the names of the server's catalogs"
_JARS = "the server reads these tables by jars that the quick tier does without"
CLASSIC = {
    "test_address.py": _NAMES,
    "sql/test_sql.py": _NAMES,
    "test_a_table_by_its_name": _NAMES,
    "test_a_table_of_the_sessions_catalog": _NAMES,
    "test_statements_refuse_what_is_no_table[none_": _NAMES,
    "test_partitions[delta]": _JARS,
    "test_a_file_that_is_gone_is_named[delta]": _JARS,
    "test_a_file_that_is_gone_is_named[iceberg]": _JARS,
    "test_a_table_by_its_path": _JARS,
    "test_a_table_that_the_rows_come_from_is_not_overwritten[delta]": _JARS,
    "test_a_table_that_the_rows_come_from_is_not_overwritten[iceberg]": _JARS,
    "hudi": "only Hudi's own code reads and writes its tables",
    "rand() < 0.5": "the optimizer knows which functions are random; refused for another reason",
    "test_what_is_not_understood_is_not_run": "explain(analyze=True) asks the optimizer",
    "test_a_scheme_without_a_file_system": "the client has no file systems of Hadoop; refused for that reason",
    "test_mixed_schemas_are_refused_unless_the_session_merges": "refused where the session merges schemas, too",
    "test_directories_that_spark_does_not_read_are_named": "index() asks no server, which refuses to read them",
    "test_a_type_that_the_session_does_not_read_is_named": "the server says so itself, in other words",
    "test_a_damaged_index_costs_speed_not_rows": "queries of df() and enable() read all files without a warning",
    "test_a_plan_that_gives_other_rows_is_refused": "it counts in an accumulator of the SparkContext",
    "test_a_new_table": "it counts Spark's jobs",
    "test_a_stream_killed_after_a_commit": "the server calls functions of streams, in a process of its own",
}
"""Tests of errors that need a classic session, by parts of their names, and why."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests that are named, and of whole files those about errors of a session."""
    if not any("::" in name for name in config.args):
        items[:] = [
            item for item in items if _is_about_errors(item) and not any(part in item.nodeid for part in CLASSIC)
        ]


def _is_about_errors(item: pytest.Item) -> bool:
    is_of_session = isinstance(item, pytest.Function) and "spark" in item.fixturenames
    return is_of_session and "pytest.raises(" in inspect.getsource(item.function)


def run(server: Server, tests: Sequence[str], place: Path) -> None:
    """Run tests in a session of a server; fail with what they print."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", __name__]
    paths = (ROOT / "src", ROOT / "tests" / "support", os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {
        "SPARK_REMOTE": server.url(),
        "ZSKIP_TIER": "quick",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    done = subprocess.run(
        [*command, f"--basetemp={place}", *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}{done.stderr}\nCLASSIC names what needs a classic session"
