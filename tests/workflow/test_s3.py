"""Push to and pull from an S3 bucket, on a local server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Checkout

pytestmark = pytest.mark.s3

KEYS: dict[str, Any] = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def endpoint() -> Iterator[str]:
    pytest.importorskip("moto", reason="moto is not installed: pip install 'moto[server]' dvc-s3")
    pytest.importorskip("dvc_s3", reason="dvc-s3 is not installed: pip install 'moto[server]' dvc-s3")
    server = Path(sys.executable).parent / "moto_server"
    port = free_port()
    process = subprocess.Popen(
        [str(server), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:
            assert process.poll() is None
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_runs_go_to_a_bucket_and_come_back(saved: Checkout, endpoint: str) -> None:
    import boto3

    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    client.create_bucket(Bucket="runs")
    saved.run("dvc", "remote", "add", "--default", "team", "s3://runs/store")
    saved.run("dvc", "remote", "modify", "team", "endpointurl", endpoint)
    saved.run("dvc", "push", **KEYS)
    before = saved.documents()
    shutil.rmtree(saved.path / "results/paper/runs")
    shutil.rmtree(saved.path / ".dvc/cache")
    shutil.rmtree(saved.path / "artifacts")
    saved.run("dvc", "pull", **KEYS)
    assert saved.documents() == before
    assert "in sync" in saved.run("dvc", "status", "--cloud", **KEYS).stdout
    # Keys stay out of what is committed.
    assert "secret" not in (saved.path / ".dvc/config").read_text().lower()
