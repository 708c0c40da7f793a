"""`sql`: statements about clustering and skipping, any other SQL with zskip's tables in it, and a session's switch."""

from zskip.sql.entry import disable, enable, enabled, scans, sql

__all__ = ["disable", "enable", "enabled", "scans", "sql"]
