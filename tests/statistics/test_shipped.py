"""The runs in the store give the committed tables and scorecard, to the last digit, on whatever machine this is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fp3o import config
from fp3o.statistics import scorecard
from fp3o.statistics.tables import __main__ as write_tables

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "results" / "paper"
STORE = ROOT / "artifacts" / "files" / "md5"


def stored(digest: str) -> Path:
    return STORE / digest[:2] / digest[2:]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `dvc pull` would fetch."""
    root = tmp_path_factory.mktemp("pulled")
    for stage in yaml.safe_load((ROOT / "dvc.lock").read_text())["stages"].values():
        (out,) = stage["outs"]
        for entry in json.loads(stored(out["md5"]).read_text()):
            link = root / out["path"] / entry["relpath"]
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(stored(entry["md5"]))
    return root / "results" / "paper" / "runs"


def test_tables(runs: Path, tmp_path: Path) -> None:
    write_tables.main(["--suite", "paper", "--runs", str(runs), "--out", str(tmp_path)])
    names = {artefact.name for artefact in config.load_suite("paper").artefacts if artefact.kind == "table"}
    committed = {p.name: p.read_bytes() for p in (COMMITTED / "tables").iterdir() if p.stem in names}
    assert {"table-mpe.md", "table-mamujoco.tex"} <= committed.keys()
    assert {name: (tmp_path / name).read_bytes() for name in committed} == committed


def test_scorecard(runs: Path, tmp_path: Path) -> None:
    """But for the count of cells planned, which grows before their runs do."""
    cost = str(COMMITTED / "cost.csv")
    out = tmp_path / "scorecard.json"
    scorecard.main(["--suite", "paper", "--runs", str(runs), "--out", str(out), "--cost", cost])
    found, committed = (json.loads(path.read_text()) for path in (out, COMMITTED / "scorecard.json"))
    assert found.keys() == committed.keys()
    numbers = [{k: v for k, v in card.items() if not k.startswith("coverage")} for card in (found, committed)]
    assert numbers[0] == numbers[1]
