"""An S3 server on this machine, with an empty bucket named hospital."""

from collections.abc import Generator
from typing import Any

import pytest

SECRET = "very-secret-key-0123456789"


def bucket(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """The client of a server that is told where it is, and who one is there, by the environment."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    import boto3
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket="hospital")
    yield client
    for entry in client.list_objects_v2(Bucket="hospital").get("Contents", []):
        client.delete_object(Bucket="hospital", Key=entry["Key"])
    client.delete_bucket(Bucket="hospital")
    server.stop()
    s3fs.S3FileSystem.clear_instance_cache()


def keys(client: Any) -> list[str]:
    """What is in the bucket."""
    return sorted(entry["Key"] for entry in client.list_objects_v2(Bucket="hospital").get("Contents", []))
