"""A machine without memory left is a line, an exit code and the command that resumes."""

from __future__ import annotations

import errno

import pytest
from command import call

from fp3o.cli import entry
from fp3o.cli.out_of_memory import full_memory

ERRORS = [
    MemoryError(),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:113] DefaultCPUAllocator: not enough memory: you tried to allocate 9"),
    RuntimeError("can't start new thread"),
    ImportError("libmkl.so: failed to map segment from shared object"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_it_is_one_line(error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        try:
            raise error
        except Exception as cause:
            raise RuntimeError("a worker failed") from cause  # as threads and compilers wrap it

    monkeypatch.setitem(entry.COMMANDS, "doctor", command)
    assert call("doctor") == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("fp3o: the memory of this machine, or what this process may have of it")
    assert second == "resume with: fp3o doctor"


def test_other_errors_are_others() -> None:
    assert full_memory(ValueError("no such name")) is None
    assert full_memory(OSError(errno.ENOSPC, "No space left on device")) is None
