"""benchmarks/speed/peers.py: that the other environments' interpreters are found, and docs/speed.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.speed import peers


def test_interpreters_are_named_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `make peers` names them; they run in a folder of their own, and are links that name their environments."""
    monkeypatch.chdir(tmp_path)
    Path("bin").mkdir()
    Path("bin", "python").symlink_to(sys.executable)
    run = subprocess.run

    def stand_in(command: list[str], **options: Any) -> Any:
        assert command[0] == str(tmp_path / "bin" / "python")
        if "--jaxmarl" in command:
            assert command[command.index("--jaxmarl") + 1] == str(tmp_path)
        return run([command[0], "-c", 'print(\'{"processor": 30.0, "wall": 40.0}\')'], **options)

    monkeypatch.setattr(subprocess, "run", stand_in)
    monkeypatch.setattr(
        peers, "ours", lambda *_, plain: {"start": 1.0, "wall": 3.0, "processor": 1.0 if plain else 2.0}
    )
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    arguments = ["--benchmarl", "bin/python", "--jaxmarl", "bin/python", ".", "--rows", "mpe-mlp"]
    monkeypatch.setattr(sys, "argv", ["peers.py", *arguments])
    peers.main()
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["who"], row["seeds"], row.get("times_ours")) for row in rows] == [
        ("fp3o", 1, None),
        ("fp3o, plain", 1, 0.5),
        ("JaxMARL", 1, 15.0),
        ("BenchMARL", 1, 15.0),
        ("fp3o", 5, None),
        ("fp3o, plain", 5, 0.5),
        ("JaxMARL", 5, 15.0),
    ]


def test_the_page_on_speed_has_what_was_printed() -> None:
    docs = Path(__file__).parents[1] / "docs"
    lines = (docs / "evidence" / "peers.jsonl").read_text().splitlines()
    assert peers.table(lines) in (docs / "speed.md").read_text()
