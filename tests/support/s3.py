"""An S3-compatible server on loopback, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import boto3

from tests.support.scratch import free_port, wait_until

ROOT = Path(__file__).parents[2]
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class S3Server:
    """moto's server."""

    def __init__(self, *words: str) -> None:
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._buckets = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.s3_server", str(self.port), *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @classmethod
    @contextmanager
    def running(cls, *words: str) -> Iterator[Self]:
        """Start a server and clear it away afterwards."""
        server = cls(*words)
        try:
            wait_until(server._answers, what=f"an S3 server answers at {server.endpoint}", seconds=60)
            yield server
        finally:
            server._process.communicate(timeout=60)

    def new_bucket(self) -> str:
        """Make an empty bucket."""
        self._buckets += 1
        name = f"bucket-{os.getpid()}-{self._buckets}"
        self.client().create_bucket(Bucket=name)
        return name

    def client(self) -> Any:  # noqa: ANN401  # boto3 makes its classes as it goes
        """Return a client past the gate."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def _answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        with suppress(OSError):
            connection.request("GET", "/")
            answered = connection.getresponse().status > 0
            connection.close()
            return answered
        return False
