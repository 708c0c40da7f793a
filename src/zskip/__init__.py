"""zskip makes Spark read only the files a query needs."""

__version__ = "0.1.0"
