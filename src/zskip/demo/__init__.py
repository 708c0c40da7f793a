"""The demo: cluster real TPC-H data and answer the same queries before and after."""

from zskip.demo.run import run_demo

__all__ = ["run_demo"]
