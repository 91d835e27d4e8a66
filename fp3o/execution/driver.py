"""NVIDIA's driver, without torch."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

YIELD = 2  # CU_CTX_SCHED_YIELD of <cuda.h>


def wake() -> None:
    """Let the driver prepare torch's GPU, where there is one. If torch is not imported yet, beside what this process
    does next, which is to import it: either takes its time.

    Where MPS runs, other threads may from now on have the processor while this process waits for the GPU; by default it
    does so wide awake. Of twelve cells of 3s5z side by side on 16 cores the slowest was 2 to 4 % faster.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        threading.Thread(target=_prepare, args=(0,)).start()
    elif torch.cuda.is_available():
        _prepare(torch.cuda.current_device())


def _prepare(number: int) -> None:
    # No GPU of NVIDIA's, another driver, torch of unknown origin.
    with contextlib.suppress(OSError, AttributeError, PackageNotFoundError):
        if version("torch").endswith("+cpu"):
            return
        driver, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), number):
            return
        if has_mps():
            driver.cuDevicePrimaryCtxSetFlags_v2(device, YIELD)
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def has_mps() -> bool:
    """Whether NVIDIA's MPS runs, by which processes use a GPU at the same time; without it they take turns."""
    return (Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")) / "control").exists()
