"""Freed memory is kept where the C library is GNU's; elsewhere nothing happens."""

from __future__ import annotations

import platform
import resource
import sys

import pytest
import torch

from fp3o.execution.allocator import reuse_freed_memory


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert reuse_freed_memory() is False


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library can be told")
def test_large_tensors_are_allocated_without_page_faults() -> None:
    assert reuse_freed_memory() is True
    size, times = 2**20, 100  # 4 MiB of floats, a thousand pages
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.empty(size).fill_(1.0)
    # The first few may still grow the heap.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < times * 1024 / 4
