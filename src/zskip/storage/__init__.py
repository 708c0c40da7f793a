"""The few file operations that zskip needs: on disks, in object stores, on HDFS, and on top of another storage."""

from collections.abc import Mapping

from zskip.errors import InputError
from zskip.storage.base import MANY_FILES, FileInfo, Kind, Look, Storage, Workers, expect
from zskip.storage.failures import again
from zskip.storage.local import LocalStorage
from zskip.storage.places import HADOOP_SCHEMES, parse_place, same_place

__all__ = [
    "HADOOP_SCHEMES",
    "MANY_FILES",
    "FileInfo",
    "Kind",
    "LocalStorage",
    "Look",
    "Storage",
    "Workers",
    "again",
    "check_options",
    "expect",
    "is_remote",
    "parse_place",
    "same_place",
    "storage_for",
]


def check_options(given: object) -> dict[str, str]:
    """Options of a store as text, True and False too; raises InputError for what is no mapping of such.

    No value is named: any may be a secret.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InputError(
            f"storage_options of type {type(given).__name__} is no mapping of names to text, such as "
            '{"aws_region": "eu-west-1"}'
        )
    wrong = [key for key, value in given.items() if not isinstance(value, (str, bool, int))]
    if wrong:
        raise InputError(f'storage_options["{wrong[0]}"] is of type {type(given[wrong[0]]).__name__}; give text')
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}


def is_remote(path: str) -> bool:
    """Whether a path names a place that is reached across a network without Spark, and by options.

    >>> is_remote("s3a://b/t"), is_remote("hdfs://nn/t"), is_remote("/t"), is_remote("dbfs://t")
    (True, True, False, False)
    """
    return _is_hdfs(path) or parse_place(path) is not None


def _is_hdfs(path: str) -> bool:
    return path[:7].lower() == "hdfs://"


def storage_for(path: str, options: Mapping[str, str]) -> Storage:
    """A directory as it is reached without Spark: on a disk, in an object store, or on HDFS.

    options: of the object store, as deltalake and Polars name them, or settings of Hadoop for HDFS. Raises InputError
    for a scheme that only Spark reaches and for options that cannot be right.
    """
    if _is_hdfs(path):
        from zskip.storage.hdfs import HdfsStorage

        return HdfsStorage(path, options)
    place = parse_place(path)
    if place is not None:
        from zskip.storage.objects import ObjectStorage

        return ObjectStorage(place, options)
    scheme, separator, _ = path.partition("://")
    if separator and scheme.isalnum() and scheme != "file":
        raise InputError(
            f'"{path}" has the scheme {scheme}, which only Spark reaches: open it with zskip.table(spark, "{path}"). '
            "Without Spark there are local paths, s3://, gs://, abfss:// and hdfs://"
        )
    if options:
        raise InputError(
            f'storage_options are for object stores and HDFS, and "{path}" is a local path; leave them out'
        )
    return LocalStorage(path)
