"""NVIDIA's driver is asked to prepare the GPU, in a way that suits processes side by side where MPS runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from fp3o.execution import driver


class Driver:
    """Takes note of what it is asked for."""

    def __init__(self, gpus: int) -> None:
        self.asked: list[str] = []
        self._gpus = gpus

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*_: object) -> int:
            self.asked.append(name)
            return 0 if self._gpus else 100  # CUDA_ERROR_NO_DEVICE

        return call


@pytest.mark.parametrize(
    ("gpus", "mps", "asked"),
    [
        (1, False, ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]),
        (1, True, ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxRetain"]),
        (0, True, ["cuInit"]),
    ],
)
def test_what_the_driver_is_asked_for(
    gpus: int, mps: bool, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    if mps:
        (tmp_path / "control").touch()
    fake = Driver(gpus)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: fake)
    monkeypatch.setattr(driver, "version", lambda package: "2.13.0+cpu")
    driver._prepare(0)
    assert fake.asked == []
    monkeypatch.setattr(driver, "version", lambda package: "2.13.0")
    driver._prepare(0)
    assert fake.asked == asked


def test_without_a_driver_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(driver, "version", lambda package: "2.13.0")
    driver._prepare(0)
