"""Examples of the docs, and errors of the verbs, in a session of Spark Connect; `connected_suite.py` says how."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import connected_suite
import pytest
import tiers
from connect_server import Server, connect_server

pytestmark = pytest.mark.slow  # A server in a JVM of its own.
DOCS = "tests/project/test_docs.py"
EXAMPLES = {
    "readme and recipes": (
        f"{DOCS}::test_python_blocks_run[README]",
        f"{DOCS}::test_shell_blocks_run",
        f"{DOCS}::test_recipes_run",
    ),
    "tutorial": ("tests/project/test_site.py::test_the_tutorial_prints_what_it_says",),
    "other pages": (
        *(
            f"{DOCS}::test_python_blocks_run[docs/{page}]"
            for page in ("guide", "writing", "maintenance", "lake", "sql")
        ),
        f"{DOCS}::test_commands_of_other_pages_run",
    ),
}
REWRITES = ("compact", "fitted", "foreign_directories", "keys", "maintain", "optimize", "traits")
ERRORS = {
    "bad input": ("tests/table/test_bad_input.py", "tests/sql"),
    "verbs": ("tests/table/write", "tests/table/read", "tests/table/advice", "tests/table/show"),
    "rewrites": tuple(f"tests/table/rewrite/test_{name}.py" for name in REWRITES),
    "tables": (
        *(f"tests/table/test_{name}.py" for name in ("encrypted", "index_path", "refresh_index")),
        "tests/formats",
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if pytest.importorskip("pyspark").__version__ < "4.1":
        pytest.skip("only later servers limit the bytes of batches")
    with connect_server(tmp_path_factory.mktemp("server"), has_zskip=True) as server:
        yield server


@pytest.mark.parametrize("pages", tiers.nightly(EXAMPLES))
def test_examples(server: Server, tmp_path: Path, pages: str) -> None:
    connected_suite.run(server, EXAMPLES[pages], tmp_path / "run")


@pytest.mark.parametrize("tests", tiers.nightly(ERRORS))
def test_errors(server: Server, tmp_path: Path, tests: str) -> None:
    connected_suite.run(server, ERRORS[tests], tmp_path / "run")
