"""Checkpoints: exact, the same bytes every time, whole after kill -9, refused when damaged or foreign."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from fp3o.errors import UserError
from fp3o.runs import checkpoint

METADATA = {"cell": "mpe/simple-reference/full/mappo", "seeds": [0, 1], "offsets": {"0": 17}, "nothing": None}


def content() -> dict[str, checkpoint.Array]:
    generator = torch.Generator().manual_seed(5)
    torch.rand(7, generator=generator)
    return {
        "weights": torch.linspace(-1, 1, 12).reshape(3, 4),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "parameter": torch.nn.Parameter(torch.full((2,), float("nan"))),
        "generator": generator.get_state(),
        "scalar": torch.tensor(5),
        "flags": torch.tensor([True, False]),
        "keys": np.array([0, 2**63 + 5, 2**64 - 1], dtype=np.uint64),
        "mask": np.array([[True], [False]]),
        "column_major": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "empty": np.empty((0, 4), dtype=np.float32),
        "zero_dimensional": np.array(-0.0),
        "bytes": np.arange(256, dtype=np.uint8),
    }


def raw(value: checkpoint.Array) -> tuple[str, tuple[int, ...], bytes]:
    array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
    return str(array.dtype), array.shape, array.tobytes()


def test_round_trip_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    saved = content()
    checkpoint.save(path, saved, METADATA)
    loaded, metadata = checkpoint.load(path)
    assert metadata == METADATA
    assert {name: raw(value) for name, value in loaded.items()} == {name: raw(value) for name, value in saved.items()}
    for name, value in saved.items():
        assert isinstance(loaded[name], torch.Tensor) == isinstance(value, torch.Tensor), name
    state = loaded["generator"]
    assert isinstance(state, torch.Tensor)
    again, original = torch.Generator(), torch.Generator().manual_seed(5)
    again.set_state(state)
    torch.rand(7, generator=original)
    assert torch.equal(torch.rand(3, generator=again), torch.rand(3, generator=original))


def test_numpy_generator_survives(tmp_path: Path) -> None:
    generator = np.random.Generator(np.random.Philox(key=np.array([3, 2**63 + 1], dtype=np.uint64)))
    generator.random(3)
    state: Any = generator.bit_generator.state
    checkpoint.save(tmp_path / "a", {"key": state["state"]["key"], "counter": state["state"]["counter"]}, {})
    loaded, _ = checkpoint.load(tmp_path / "a")
    assert all(np.array_equal(loaded[name], state["state"][name]) for name in ("key", "counter"))


def test_same_content_same_bytes_in_any_order_and_process(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "a", content(), METADATA)
    checkpoint.save(tmp_path / "b", dict(reversed(content().items())), dict(reversed(METADATA.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    code = (
        "import sys; from pathlib import Path; from fp3o.runs import checkpoint;"
        "tensors, metadata = checkpoint.load(Path(sys.argv[1])); checkpoint.save(Path(sys.argv[2]), tensors, metadata)"
    )
    for salt in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / "a", tmp_path / "c"],
            check=True,
            env={**os.environ, "PYTHONHASHSEED": salt},
        )
        assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes()


def test_readable_without_this_program(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "a", content(), METADATA)
    assert safetensors.numpy.load_file(tmp_path / "a")["weights"].shape == (3, 4)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_truncated_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "resume.safetensors"
    checkpoint.save(path, content(), METADATA)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"resume\.safetensors is damaged") as refused:
        checkpoint.load(path)
    assert "\n" not in str(refused.value)


def test_any_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "resume.safetensors"
    checkpoint.save(path, content(), METADATA)
    good = path.read_bytes()
    for place in random.Random(0).sample(range(len(good)), 200):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        try:
            loaded, metadata = checkpoint.load(path)
        except UserError:
            continue
        # The header's own padding and spelling carry nothing.
        assert metadata == METADATA, place
        assert {n: raw(v) for n, v in loaded.items()} == {n: raw(v) for n, v in content().items()}, place


@pytest.mark.parametrize("garbage", [b"PK\x03\x04 a zip file, as pickles are", b"\x00" * 64, b"\xff" * 64, b"{}"])
def test_garbage_is_refused(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "a").write_bytes(garbage)
    with pytest.raises(UserError, match="damaged or no checkpoint"):
        checkpoint.load(tmp_path / "a")


def test_missing_other_program_and_other_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no checkpoint at"):
        checkpoint.load(tmp_path / "missing")
    with pytest.raises(UserError, match="damaged or no checkpoint"):
        checkpoint.load(tmp_path)
    safetensors.numpy.save_file({"x": np.zeros(1)}, tmp_path / "stranger")
    with pytest.raises(UserError, match="of another program"):
        checkpoint.load(tmp_path / "stranger")
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    checkpoint.save(tmp_path / "newer", {}, {})
    monkeypatch.undo()
    with pytest.raises(UserError, match="format 99; this version reads: 1"):
        checkpoint.load(tmp_path / "newer")


def test_foreign_run_is_refused() -> None:
    path = Path("resume.safetensors")
    checkpoint.require(METADATA, {"cell": METADATA["cell"], "seeds": (0, 1)}, path)
    with pytest.raises(UserError, match=r"its seeds is \[0, 1\]; expected: \[0, 1, 2\]"):
        checkpoint.require(METADATA, {"seeds": (0, 1, 2)}, path)
    with pytest.raises(UserError, match="it has no digest; expected: abc"):
        checkpoint.require(METADATA, {"digest": "abc"}, path)


def child(work: Callable[[], None]) -> int:
    """Run in a forked process (importing torch anew would take seconds); the parent gets its id."""
    identity = os.fork()
    if identity == 0:
        try:
            work()
        finally:
            os._exit(1)
    return identity


def kill(identity: int) -> None:
    os.kill(identity, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(identity, 0)[1]) == -signal.SIGKILL


def test_kill_at_arbitrary_moments_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "resume.safetensors"
    big = torch.zeros(400_000)
    checkpoint.save(path, {"count": torch.tensor(0), "big": big}, {"count": 0})

    def save_for_ever() -> None:
        count = int(checkpoint.load(path)[1]["count"])
        while True:
            count += 1
            checkpoint.save(path, {"count": torch.tensor(count), "big": big + count}, {"count": count})

    delays = random.Random(1)
    reached = 0
    for _ in range(12):
        saver = child(save_for_ever)
        time.sleep(delays.uniform(0.01, 0.1))
        kill(saver)
        tensors, metadata = checkpoint.load(path)
        count = metadata["count"]
        assert count >= reached
        assert tensors["count"] == count
        assert (tensors["big"] == count).all()
        reached = count
    assert len(list(tmp_path.iterdir())) <= 2  # the file, and at most one that was in the making


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_killed_in_the_middle_of_a_write(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "resume.safetensors"
    checkpoint.save(path, {"x": torch.tensor(1)}, {})
    before = path.read_bytes()

    def die(*_: object) -> None:
        if moment == "write":  # half of the bytes are out
            partial = tmp_path / ".resume.safetensors.partial"
            partial.write_bytes(before[: len(before) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    def save() -> None:
        if moment == "replace":
            Path.replace = die  # type: ignore[method-assign,assignment]
        else:
            os.fsync = die  # type: ignore[assignment]
        checkpoint.save(path, {"x": torch.tensor(2)}, {})

    saver = child(save)
    assert os.waitstatus_to_exitcode(os.waitpid(saver, 0)[1]) == -signal.SIGKILL
    assert path.read_bytes() == before
    assert (tmp_path / ".resume.safetensors.partial").exists()
    checkpoint.save(path, {"x": torch.tensor(3)}, {})
    assert checkpoint.load(path)[0]["x"] == 3
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "resume.safetensors"
    checkpoint.save(path, {"x": torch.tensor(1)}, {})
    (tmp_path / ".resume.safetensors.partial").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"cannot write .*resume\.safetensors: the disk is full"):
        checkpoint.save(path, {"x": torch.tensor(2)}, {})
    assert checkpoint.load(path)[0]["x"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_disk_fails_while_synchronising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "resume.safetensors"
    checkpoint.save(path, {"x": torch.tensor(1)}, {})

    def fail(descriptor: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match="quota"):
        checkpoint.save(path, {"x": torch.tensor(2)}, {})
    monkeypatch.undo()
    assert checkpoint.load(path)[0]["x"] == 1
    assert list(tmp_path.iterdir()) == [path]
