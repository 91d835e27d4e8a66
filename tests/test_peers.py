"""benchmarks/speed/peers.py: that the other environment's interpreter is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.speed import peers


def test_an_interpreter_is_named_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `make peers` names it; it runs in a folder of its own, and is the link that names its environment."""
    monkeypatch.chdir(tmp_path)
    Path("bin").mkdir()
    Path("bin", "python").symlink_to(sys.executable)
    run = subprocess.run

    def stand_in(command: list[str], **options: Any) -> Any:
        assert command[0] == str(tmp_path / "bin" / "python")
        return run([command[0], "-c", "print('{\"seconds\": 30.0}')"], **options)

    monkeypatch.setattr(subprocess, "run", stand_in)
    monkeypatch.setattr(peers, "ours", lambda: 2.0)
    monkeypatch.setattr(sys, "argv", ["peers.py", "--python", "bin/python"])
    with pytest.raises(SystemExit) as ended:
        peers.main()
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["ratio"] == 15.0
