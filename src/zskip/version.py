"""The version of zskip."""

__version__ = "0.4.0"
