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
from stores import CELL, dvc, git, publish

from fp3o.runs import store
from fp3o.runs.records import CHECKPOINT
from fp3o.workflow import pulling, saving

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


def make_bucket(endpoint: str) -> None:
    import boto3

    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    client.create_bucket(Bucket="runs")


def test_runs_go_to_a_bucket_and_come_back(saved: Checkout, endpoint: str) -> None:
    make_bucket(endpoint)
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


def test_a_bucket_for_checkpoints(clone: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/workflow.md says: keys in the environment."""
    make_bucket(endpoint)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    dvc("remote", "add", "checkpoints", "s3://runs/checkpoints")
    dvc("remote", "modify", "checkpoints", "endpointurl", endpoint)
    folders = [publish(CELL, seed, suite="preview") for seed in range(3)]
    before = {folder: (folder / CHECKPOINT).read_bytes() for folder in folders}
    assert saving.save("Preview", ["preview"]).problems == []
    assert "preview/checkpoints.csv" in git("show", "--name-only")
    shutil.rmtree(".dvc/cache")
    shutil.rmtree(store.runs_folder("preview"))
    outcome = pulling.pull([CELL], ["preview"], checkpoints=True)
    assert (outcome.lines[-1], outcome.problems) == ("3 checkpoints brought, 0 were here", [])
    assert {folder: (folder / CHECKPOINT).read_bytes() for folder in folders} == before
