"""The file operations that zskip needs, for local disks, object stores, HDFS, and storages that wrap another one."""

from collections.abc import Mapping

from zskip.errors import InputError
from zskip.storage.base import MANY_FILES, FileInfo, FileParser, Kind, Storage, Workers, leads_out, prefetch
from zskip.storage.failures import retry_broken
from zskip.storage.local import LocalStorage
from zskip.storage.object_uri import is_same_location, normalize_location, parse_object_uri, real_location


def check_options(options: object) -> dict[str, str]:
    """Check a store's options and return them as text, booleans included; raises InputError if they are no mapping.

    No value is named: any may be a secret.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise InputError(
            f"storage_options of type {type(options).__name__} is not a mapping of names to text, such as "
            '{"aws_region": "eu-west-1"}'
        )
    wrong = [key for key, value in options.items() if not isinstance(value, (str, bool, int))]
    if wrong:
        raise InputError(f'storage_options["{wrong[0]}"] is of type {type(options[wrong[0]]).__name__}; give text')
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def is_remote(path: str) -> bool:
    """Whether a path is reached over a network without Spark, and so may need options.

    >>> is_remote("s3a://b/t"), is_remote("hdfs://nn/t"), is_remote("/t"), is_remote("dbfs://t")
    (True, True, False, False)
    """
    return _is_hdfs(path) or parse_object_uri(path) is not None


def _is_hdfs(path: str) -> bool:
    return path[:7].lower() == "hdfs://"


def storage_for(path: str, options: Mapping[str, str]) -> Storage:
    """The storage of a directory that is reached without Spark: on a disk, in an object store, or on HDFS.

    options: of the object store, as deltalake and Polars name them, or Hadoop settings for HDFS. Raises InputError for
    a scheme that only Spark reaches and for invalid options.
    """
    if _is_hdfs(path):
        from zskip.storage.hdfs import HdfsStorage

        return HdfsStorage(path, options)
    uri = parse_object_uri(path)
    if uri is not None:
        from zskip.storage.objects import ObjectStorage

        return ObjectStorage(uri, options)
    scheme, separator, _ = path.partition("://")
    if separator and scheme.isalnum() and scheme != "file":
        raise InputError(
            f'"{path}" has the scheme {scheme}, which only Spark reaches: open it in a classic session, with '
            f'zskip.table(spark, "{path}"). Without one there are local paths, s3://, gs://, abfss:// and hdfs://'
        )
    if options:
        raise InputError(
            f'storage_options are for object stores and HDFS, and "{path}" is a local path; leave them out'
        )
    return LocalStorage(path)
