"""The command line: each command is one call of the library."""

# Importing a module registers its commands; `--help` lists them in this order.
from zskip.cli import rewriting, writing, querying, reporting, workload, lake  # isort: skip
from zskip.cli.app import app, main
from zskip.cli.remote import add_remote

for group in (app, lake.lake_app, workload.workload_app):
    add_remote(group)

__all__ = ["app", "lake", "main", "querying", "reporting", "rewriting", "workload", "writing"]
