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
_SETTINGS = {"fs.s3a.endpoint": "aws_endpoint_url", "fs.s3a.endpoint.region": "aws_region"}


def s3_options(files: JavaObject) -> dict[str, str]:
    """The configuration of an `S3AFileSystem`, settings per bucket included, under deltalake's names.

    The libraries themselves find what Hadoop takes from elsewhere, such as the role of the machine.
    """
    conf, bucket = files.getConf(), files.getUri().getHost()
    options: dict[str, str] = {}

    def setting(name: str) -> str | None:
        own = conf.getTrimmed(name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1))
        value: str | None = own or conf.getTrimmed(name)
        return value

    for name, key in _SECRETS.items():
        own = conf.getPassword(name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1))
        secret = own if own is not None else conf.getPassword(name)
        if secret is not None and len(secret):
            options[key] = "".join(secret)
    for name, key in _SETTINGS.items():
        value = setting(name)
        if value:
            options[key] = value
    endpoint = options.get("aws_endpoint_url", "")
    if endpoint and "://" not in endpoint:
        secure = (setting("fs.s3a.connection.ssl.enabled") or "true").lower() != "false"
        endpoint = options["aws_endpoint_url"] = f"{'https' if secure else 'http'}://{endpoint}"
    if endpoint.startswith("http://"):
        options["aws_allow_http"] = "true"
    return options


def hdfs_options(files: JavaObject) -> dict[str, str]:
    """The settings of a `DistributedFileSystem` about NameNodes, under Hadoop's own names."""
    conf = files.getConf()
    settings = ((prefix, conf.getPropsWithPrefix(prefix)) for prefix in _NAMENODE_PREFIXES)
    return {f"{prefix}{rest}": str(value) for prefix, properties in settings for rest, value in properties.items()}
