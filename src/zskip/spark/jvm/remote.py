"""How the session reaches S3 and HDFS, for the libraries of table formats that go there themselves."""

from __future__ import annotations

from zskip.spark.jvm.gateway import JavaObject

_SECRETS = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
}
_CLUSTER = ("dfs.nameservices", "dfs.ha.", "dfs.namenode.rpc-address", "dfs.client.failover.", "dfs.client.use.")
"""What settings begin with that say where the NameNodes of HDFS are."""
_PLAIN = {"fs.s3a.endpoint": "aws_endpoint_url", "fs.s3a.endpoint.region": "aws_region"}


def s3_options(files: JavaObject) -> dict[str, str]:
    """What an `S3AFileSystem` is configured with, per bucket too, in the words of deltalake.

    What Hadoop takes from elsewhere, such as the role of the machine, the libraries find there themselves.
    """
    conf, bucket = files.getConf(), files.getUri().getHost()
    found: dict[str, str] = {}

    def told(name: str) -> str | None:
        own = conf.getTrimmed(name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1))
        value: str | None = own or conf.getTrimmed(name)
        return value

    for name, key in _SECRETS.items():
        own = conf.getPassword(name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1))
        secret = own if own is not None else conf.getPassword(name)
        if secret is not None and len(secret):
            found[key] = "".join(secret)
    for name, key in _PLAIN.items():
        value = told(name)
        if value:
            found[key] = value
    endpoint = found.get("aws_endpoint_url", "")
    if endpoint and "://" not in endpoint:
        secure = (told("fs.s3a.connection.ssl.enabled") or "true").lower() != "false"
        endpoint = found["aws_endpoint_url"] = f"{'https' if secure else 'http'}://{endpoint}"
    if endpoint.startswith("http://"):
        found["aws_allow_http"] = "true"
    return found


def hdfs_options(files: JavaObject) -> dict[str, str]:
    """What a `DistributedFileSystem` is told of NameNodes, by Hadoop's own names."""
    conf = files.getConf()
    found = ((start, conf.getPropsWithPrefix(start)) for start in _CLUSTER)
    return {f"{start}{rest}": str(value) for start, properties in found for rest, value in properties.items()}
