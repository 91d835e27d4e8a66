"""benchmarks/speed/peers.py: that the other environments' interpreters are found; tables of docs/speed.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.speed import peers

STEPS_PER_S = re.compile(r"([\d,]+) steps/s")


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
    page = (docs / "speed.md").read_text()
    assert peers.table(lines) in page
    rows = [json.loads(line) for line in lines]
    ms = {(row["device"], row["row"], row["seeds"], row["who"]): row["ms_per_seed"] for row in rows}

    def behind(device: str, name: str, seeds: int, who: str = "fp3o") -> float:
        return float(ms[device, name, seeds, who] / ms[device, name, seeds, "JaxMARL"])

    one, five = (behind("cpu", "mpe-gru", seeds) for seeds in (1, 5))
    assert one > 1
    plain = [behind("cpu", "mpe-gru", seeds, "fp3o, plain") for seeds in (1, 5)]
    assert f"**Behind on a CPU with GRUs and one seed**, by {one:.2f}; with five it takes {five:.2f} of their" in page
    assert f"as theirs, it takes {plain[0]:.2f} and {plain[1]:.2f} of it" in " ".join(page.split())
    one, five = (behind("cuda", "mpe-mlp", seeds) for seeds in (1, 5))
    assert f"**Behind on a GPU with MLPs**, by {one:.1f} and {five:.1f}:" in page
    rollout = {
        row["row"]: row.get("rollout_ms_per_seed")
        for row in rows
        if (row["device"], row["seeds"], row["who"]) == ("cuda", 5, "fp3o")
    }
    mine, theirs = ms["cuda", "mpe-mlp", 5, "fp3o"], ms["cuda", "mpe-mlp", 5, "JaxMARL"]
    assert f"the rollout is {rollout['mpe-mlp']:.1f} of {mine:.1f} ms" in page
    assert f"would still leave us {(mine - rollout['mpe-mlp']) / theirs:.1f} times behind" in page
    assert f"**Behind in a battle with five seeds on a GPU**, by {behind('cuda', 'battle', 5):.1f}; our" in page
    assert f"takes {rollout['battle']:.0f} of {ms['cuda', 'battle', 5, 'fp3o']:.0f} ms" in page
    five, one, battle = (1 / behind("cuda", *which) for which in (("mpe-gru", 5), ("mpe-gru", 1), ("battle", 1)))
    assert (
        f"**Ahead on a GPU with GRUs**, by {five:.1f} and {one:.1f} (MPE) and {battle:.1f} (battle, one seed)" in page
    )
    assert all(behind("cpu", "mpe-mlp", seeds, "fp3o, plain") < 1 for seeds in (1, 5))  # "With MLPs … it is ahead"
    whole = [937 * 5 * ms["cuda", "mpe-mlp", 5, who] / 1000 for who in ("fp3o", "JaxMARL")]
    assert f"take {whole[0]:.0f} s with ours and {whole[1]:.0f} s with theirs" in page
    start = [row["start_s"] for row in rows]
    assert f"compiling ({min(start):.0f} to {max(start):.0f} s)" in page


def test_the_page_on_speed_has_what_threads_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    docs = Path(__file__).parents[1] / "docs"
    monkeypatch.syspath_prepend(str(docs.parent / "benchmarks" / "speed"))
    from benchmarks.speed import threads

    lines = (docs / "evidence" / "threads.jsonl").read_text().splitlines()
    assert threads.table(lines) in (docs / "speed.md").read_text()
    rows = [json.loads(line) for line in lines]
    minutes = {(row["cell"].split("/")[1], row["machine"], row["cores"]): row["cell_min"] for row in rows}
    readme = " ".join((docs.parent / "README.md").read_text().split())
    small, large = (minutes[name, "aarch64", 2] / 5 for name in ("3m", "simple-reference"))
    assert f"a seed of SMAC's 3m takes {small:.0f} minutes on two ARM cores, one of MPE {large:.0f}" in readme


def test_the_page_on_speed_has_what_snakemake_gave() -> None:
    docs = Path(__file__).parents[1] / "docs"
    lines = (docs / "evidence" / "snakemake-3s5z.txt").read_text().splitlines()
    rates = {line.split()[0]: int(found[1].replace(",", "")) for line in lines if (found := STEPS_PER_S.search(line))}
    ours = sorted(rate for cell, rate in rates.items() if cell.endswith("/fp3o"))
    hand = [json.loads(line) for line in (docs / "evidence" / "h200.jsonl").read_text().splitlines()]
    twelve = next(row for row in hand if row.get("cell") == "smac/3s5z/full/fp3o" and row.get("cells") == 12)
    page = " ".join((docs / "speed.md").read_text().split())
    assert len(rates) == 16
    assert f"FP3O's ran at {ours[0]:,} and {ours[1]:,} steps/s, all together at {sum(rates.values()):,};" in page
    assert f"twelve by hand at {twelve['steps_per_second_and_seed']['all together']:,} (all FP3O" in page
