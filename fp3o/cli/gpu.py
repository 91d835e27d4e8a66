"""What to say when a GPU's memory is full. Imports no torch: an error of torch comes with it."""

from __future__ import annotations

import re
import sys

from fp3o.errors import causes

# CUDA and its libraries take memory besides that of torch's tensors, and their errors are plain RuntimeErrors.
_SAID = re.compile(r"CUDA\b.*out of memory|CU\w+_STATUS_ALLOC_FAILED")
# As torch says it: "GPU 0 has a total capacity of 139.80 GiB of which 1.50 GiB is free."
_CAPACITY = re.compile(r"total capacity of ([\d.]+ \w+) of which ([\d.]+ \w+) is free")


def full_gpu(error: BaseException) -> str | None:
    """A message if the error, or one it was raised from, is that a GPU's memory is full; None for any other error."""
    kind = getattr(sys.modules.get("torch"), "OutOfMemoryError", ())
    for link in causes(error):
        if isinstance(link, kind) or (isinstance(link, RuntimeError) and _SAID.search(str(link))):
            seen = _CAPACITY.search(str(link))
            sizes = f" ({seen[1]} in all, {seen[2]} free)" if seen else ""
            return (
                f"the GPU's memory is full{sizes}; train fewer cells on it at once "
                "(snakemake: --config jobs_per_gpu=…), or on the CPU (--device cpu)"
            )
    return None
