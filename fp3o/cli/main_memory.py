"""What to say when the machine's memory, or a job's part of it, is full."""

from __future__ import annotations

import errno

from fp3o.errors import causes

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
