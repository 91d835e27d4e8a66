"""Freed memory is kept where the C library is GNU's; elsewhere nothing happens."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from fp3o.execution.allocator import reuse_freed_memory


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert reuse_freed_memory() is False


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library can be told")
def test_freed_memory_is_not_taken_from_the_system_again() -> None:
    code = """
import random, resource, time
from fp3o.execution.allocator import reuse_freed_memory
import torch
assert reuse_freed_memory() is True
source = random.Random(0)
def usage():
    (held,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt * resource.getpagesize(), int(held) * 1024
held, taken = [], 0
faults, memory = usage()
for _ in range(240):  # eight at a time, as activations: 1.5 to 27 MiB
    held.append(torch.ones(source.choice([400_000, 1_200_000, 2_000_000, 7_000_000])))
    taken += held[-1].nbytes
    if len(held) > 8:
        del held[source.randrange(8)]
    time.sleep(0.004)  # torch's allocator on ARM gives memory back after a hundredth of a second by default
# The first use of a page is a fault, too: how often the heap grows for want of a large enough gap is left to chance.
print((usage()[0] - faults - (usage()[1] - memory)) / taken)
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MIMALLOC")}
    done = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.03  # of the memory taken
