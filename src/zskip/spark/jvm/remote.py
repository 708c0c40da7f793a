"""How the session reaches S3 and HDFS, for the table formats' libraries that connect on their own."""

from __future__ import annotations

from zskip.spark.jvm.gateway import JavaObject

_SECRETS = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
}
_NAMENODE_PREFIXES = (
    "dfs.nameservices",
    "dfs.ha.",
    "dfs.namenode.rpc-address",
    "dfs.client.failover.",
    "dfs.client.use.",
)
"""Prefixes of the settings that locate the NameNodes of HDFS."""
_ENCRYPTION = "fs.s3a.encryption.algorithm"
_OF_THE_STORE = "AES256"
_ENCRYPTIONS = {
    _OF_THE_STORE: _OF_THE_STORE,
    "SSE-S3": _OF_THE_STORE,
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
}
"""How a store encrypts by itself, as S3A calls it and as others do."""
_SETTINGS = {"fs.s3a.endpoint": "aws_endpoint_url", "fs.s3a.endpoint.region": "aws_region"}


def s3_options(files: JavaObject) -> dict[str, str]:
    """The configuration of an `S3AFileSystem`, settings per bucket included, under deltalake's names.

    The libraries themselves find what Hadoop takes from elsewhere, such as the role of the machine.
    """
    options: dict[str, str] = {}
    for name, key in _SECRETS.items():
        secret = _secret(files, name)
        if secret:
            options[key] = secret
    for name, key in _SETTINGS.items():
        value = _setting(files, name)
        if value:
            options[key] = value
    endpoint = options.get("aws_endpoint_url", "")
    if endpoint and "://" not in endpoint:
        secure = (_setting(files, "fs.s3a.connection.ssl.enabled") or "true").lower() != "false"
        endpoint = options["aws_endpoint_url"] = f"{'https' if secure else 'http'}://{endpoint}"
    if endpoint.startswith("http://"):
        options["aws_allow_http"] = "true"
    encryption = _ENCRYPTIONS.get(_setting(files, _ENCRYPTION) or "")
    if encryption:
        options["aws_server_side_encryption"] = encryption
        key_id = _secret(files, "fs.s3a.encryption.key")
        if key_id and encryption != _OF_THE_STORE:
            options["aws_sse_kms_key_id"] = key_id
    return options


def is_only_for_hadoop(files: JavaObject) -> bool:
    """Whether an `S3AFileSystem` encrypts objects with keys of its own, so that others would leave them readable."""
    encryption = _setting(files, _ENCRYPTION)
    return bool(encryption) and encryption not in _ENCRYPTIONS


def _setting(files: JavaObject, name: str) -> str | None:
    """A setting of the bucket, or of all."""
    conf = files.getConf()
    value: str | None = conf.getTrimmed(_of_bucket(files, name)) or conf.getTrimmed(name)
    return value


def _secret(files: JavaObject, name: str) -> str:
    """A setting that may lie in Hadoop's store of credentials; empty where there is none."""
    conf = files.getConf()
    own = conf.getPassword(_of_bucket(files, name))
    secret = own if own is not None else conf.getPassword(name)
    return "" if secret is None else "".join(secret)


def _of_bucket(files: JavaObject, name: str) -> str:
    return name.replace("fs.s3a.", f"fs.s3a.bucket.{files.getUri().getHost()}.", 1)


def hdfs_options(files: JavaObject) -> dict[str, str]:
    """The settings of a `DistributedFileSystem` about NameNodes, under Hadoop's own names."""
    conf = files.getConf()
    settings = ((prefix, conf.getPropsWithPrefix(prefix)) for prefix in _NAMENODE_PREFIXES)
    return {f"{prefix}{rest}": str(value) for prefix, properties in settings for rest, value in properties.items()}
