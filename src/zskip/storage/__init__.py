"""The few file operations that zskip needs: on the local disk, and on top of another storage."""

from zskip.storage.base import FileInfo, Storage, expect
from zskip.storage.local import LocalStorage

__all__ = ["FileInfo", "LocalStorage", "Storage", "expect"]
