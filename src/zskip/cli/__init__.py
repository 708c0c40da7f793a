"""The command line: each command is one call of the library."""

from zskip.cli import workload
from zskip.cli.app import app, main

__all__ = ["app", "main", "workload"]
