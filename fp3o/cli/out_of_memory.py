"""What to say when the memory of a GPU, of the machine, or of a job's part of it is full. Imports no torch."""

from __future__ import annotations

import errno
import re
import sys

from fp3o.errors import causes

# CUDA and its libraries take memory besides that of torch's tensors, and their errors are plain RuntimeErrors.
_GPU_SAID = re.compile(r"CUDA\b.*out of memory|CU\w+_STATUS_ALLOC_FAILED")
# As torch says it: "GPU 0 has a total capacity of 139.80 GiB of which 1.50 GiB is free."
_CAPACITY = re.compile(r"total capacity of ([\d.]+ \w+) of which ([\d.]+ \w+) is free")


def full_gpu(error: BaseException) -> str | None:
    """A message if the error, or one it was raised from, is that a GPU's memory is full; None for any other error."""
    kind = getattr(sys.modules.get("torch"), "OutOfMemoryError", ())
    for link in causes(error):
        if isinstance(link, kind) or (isinstance(link, RuntimeError) and _GPU_SAID.search(str(link))):
            seen = _CAPACITY.search(str(link))
            sizes = f" ({seen[1]} in all, {seen[2]} free)" if seen else ""
            return (
                f"the GPU's memory is full{sizes}; train fewer cells on it at once "
                "(snakemake: --config jobs_per_gpu=…), or on the CPU (--device cpu)"
            )
    return None


# Torch, the dynamic loader, Python's threads, LLVM: each says it in its own words, mostly in a plain RuntimeError.
_SAID = (
    "can't allocate memory",
    "not enough memory",
    "Cannot allocate memory",
    "std::bad_alloc",
    "can't start new thread",
    "failed to map segment",
    "Unable to allocate",
)


def full_memory(error: BaseException) -> str | None:
    """A message if the error, or one it was raised from, is that no memory was left; None for any other error."""
    for link in causes(error):
        full = isinstance(link, MemoryError) or (isinstance(link, OSError) and link.errno == errno.ENOMEM)
        if full or any(words in str(link) for words in _SAID):
            return (
                "the memory of this machine, or what this process may have of it (ulimit, a job's limit), is full; "
                "train fewer seeds or cells at once"
            )
    return None
