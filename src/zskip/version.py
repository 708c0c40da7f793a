"""The version of zskip."""

__version__ = "0.1.0"
