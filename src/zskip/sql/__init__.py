"""`sql`: statements about clustering and skipping, and any other SQL with zskip's tables in it."""

from zskip.sql.entry import sql

__all__ = ["sql"]
