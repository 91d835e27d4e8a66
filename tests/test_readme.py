"""Every number of results in the README is the committed table's."""

from __future__ import annotations

import csv
import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from fp3o import config

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TASKS = {"simple reference": "simple-reference", "cooperative communication": "simple-speaker-listener"}


def table(name: str) -> dict[str, dict[str, str]]:
    """Rows of a committed table by cell."""
    with (ROOT / "results/paper/tables" / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {"/".join(row[part] for part in ("domain", "task", "sharing", "algorithm")): row for row in rows}


def rows_after(text: str) -> list[list[str]]:
    """The body of the first Markdown table after a text of the README."""
    lines = README[README.index(text) :].splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("|"))
    cells = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return cells


def shown(value: str, digits: int = 0) -> str:
    """Rounded half away from zero, with a true minus."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)).replace("-", "−")


def test_the_table_of_halfcheetah() -> None:
    known = table("table-mamujoco") | table("control-equal-budget")
    labels = ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")
    cells = [known[f"mamujoco/halfcheetah-6x1/full/{label}"] for label in labels]
    ours, paper, difference = (row[1:] for row in rows_after("Six-agent HalfCheetah, full sharing"))
    assert ours == [f"{shown(cell['ours'])} ± {shown(cell['spread'])}" for cell in cells]
    assert paper[:4] == [f"{shown(cell['published'])} ± {shown(cell['published_spread'])}" for cell in cells[:4]]
    for text, cell in zip(difference[:4], cells[:4], strict=True):
        interval = f"{shown(cell['difference_low'])} … {shown(cell['difference_high'])}"
        assert text == (interval if cell["verdict"] == "undecided" else "differs: ours is lower")


def test_the_table_of_3s5z() -> None:
    known = table("table-smac") | table("control-equal-budget")
    cells = [known[f"smac/3s5z/full/{label}"] for label in ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")]
    ours, paper = (row[1:] for row in rows_after("StarCraft II's 3s5z"))
    assert ours == [f"{shown(cell['ours'])} ± {shown(cell['spread'])}" for cell in cells]
    assert paper[:4] == [f"{shown(cell['published'])} ± {shown(cell['published_spread'])}" for cell in cells[:4]]


def test_the_table_of_mpe() -> None:
    known = table("table-mpe")
    rows = rows_after("The MPE table")
    assert len(rows) == 4
    for name, *texts in rows:
        sharing, task = name.split(", ")
        for label, text in zip(("fp3o", "happo", "mappo", "a2po"), texts, strict=True):
            cell = known[f"mpe/{TASKS[task]}/{sharing}/{label}"]
            ours = f"{shown(cell['ours'], 1)} ± {shown(cell['spread'], 1)}"
            theirs = f"{shown(cell['published'], 1)} ± {shown(cell['published_spread'], 1)}"
            assert text.replace("paper ", "") == f"{ours} ({theirs})"


def test_how_much_is_shipped() -> None:
    runs = config.load_suite("paper").runs()
    shipped = json.loads((ROOT / "results/paper/manifest.json").read_text())["runs"]
    cells = {run["cell"] for run in shipped.values()}
    assert f"({len(cells)} of {len(runs)} cells)" in README
    assert f"trains it: {sum(len(seeds) for _, seeds in runs):,} runs" in README
