"""The few file operations that zskip needs: on disks, in object stores, and on top of another storage."""

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
    "parse_place",
    "same_place",
    "storage_for",
]


def check_options(given: object) -> dict[str, str]:
    """The options of an object store as text, True and False too; raises InputError for what is no mapping of such.

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


def storage_for(path: str, options: Mapping[str, str]) -> Storage:
    """A directory as it is reached without Spark: on a disk, or in an object store.

    options: of the object store, as deltalake and Polars name them. Raises InputError for a scheme that only Spark
    reaches and for options that cannot be right.
    """
    place = parse_place(path)
    if place is not None:
        from zskip.storage.objects import ObjectStorage

        return ObjectStorage(place, options)
    scheme, separator, _ = path.partition("://")
    if separator and scheme.isalnum() and scheme != "file":
        raise InputError(
            f'"{path}" has the scheme {scheme}, which only Spark reaches: open it with zskip.table(spark, "{path}"). '
            "Without Spark there are local paths, s3://, gs:// and abfss://"
        )
    if options:
        raise InputError(f'storage_options are for object stores, and "{path}" is a local path; leave them out')
    return LocalStorage(path)
