"""Every number of results in the README is the committed table's."""

from __future__ import annotations

import csv
import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from fp3o import config
from fp3o.statistics.intervals import Summary, welch

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
LABELS = ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")
TASKS = {"simple reference": "simple-reference", "cooperative communication": "simple-speaker-listener"}


def lines(name: str, suite: str = "paper") -> list[dict[str, str]]:
    """Rows of a committed table."""
    with (ROOT / "results" / suite / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def table(name: str, suite: str = "paper") -> dict[str, dict[str, str]]:
    """Rows of a committed table by cell."""
    rows = lines(name, suite)
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


def check_against_paper(text: str, cells: list[dict[str, str]], digits: int) -> None:
    """A table of three rows, ours, the paper's and the difference; its last column is not in the paper."""
    ours, paper, difference = (row[1:] for row in rows_after(text))
    assert ours == [f"{shown(cell['ours'], digits)} ± {shown(cell['spread'], digits)}" for cell in cells]
    for place, cell in enumerate(cells[:-1]):
        assert paper[place] == f"{shown(cell['published'], digits)} ± {shown(cell['published_spread'], digits)}"
        interval = f"{shown(cell['difference_low'], digits)} … {shown(cell['difference_high'], digits)}"
        assert difference[place] == (interval if cell["verdict"].startswith("undecided") else "differs: ours is lower")


def test_the_table_of_halfcheetah() -> None:
    known = table("table-mamujoco") | table("control-equal-budget")
    cells = [known[f"mamujoco/halfcheetah-6x1/full/{label}"] for label in LABELS]
    check_against_paper("Six-agent HalfCheetah, full sharing", cells, 0)


def test_what_halfcheetah_owes_to_the_number_of_updates() -> None:
    cell = table("control-few-epochs")["mamujoco/halfcheetah-6x1/full/fp3o-3-2"]
    assert f"FP3O reaches {shown(cell['ours'])} ± {shown(cell['spread'])}." in README
    known = table("control-equal-budget")
    many = known["mamujoco/halfcheetah-6x1/full/mappo-10-epochs"]
    assert f"MAPPO reaches {shown(many['ours'])}," in README
    ours, theirs = (
        Summary(float(one["ours"]), float(one["spread"]), int(one["n"]))
        for one in (known["mamujoco/halfcheetah-6x1/full/fp3o"], many)
    )
    gap = welch(ours, theirs)
    interval = f"{shown(str(gap.low))} … {shown(str(gap.high))}"
    assert f"is {shown(str(gap.difference))}, 95 % interval {interval}." in README


def test_the_table_of_reacher() -> None:
    known = table("table-mamujoco") | table("table-approximation") | table("control-equal-budget")
    labels = ("fp3o", "fp3o-clipping-only", "happo", "mappo", "mappo-10-epochs")
    check_against_paper("Two-agent Reacher", [known[f"mamujoco/reacher-2x1/none/{label}"] for label in labels], 1)


def test_the_table_of_two_maps_under_variants_of_the_engine() -> None:
    known = table("engine-as-it-is", "smac-variants")
    for row in rows_after("StarCraft II's 3s5z and 5m_vs_6m"):
        cells = [known[f"smac/{row[0]}/full/{label}"] for label in LABELS]
        assert row[1:] == [f"{shown(cell['ours'])} ± {shown(cell['spread'])}" for cell in cells]


def test_what_is_said_of_orders_under_variants_of_the_engine() -> None:
    orders = [row for row in lines("orders", "smac-variants") if row["first"] == "fp3o"]
    by_other = {label: [row for row in orders if row["second"] == label] for label in LABELS[1:]}
    assert all(float(row["p"]) >= 0.05 for row in by_other.pop("mappo-10-epochs"))
    assert all(float(row["chance"]) > 0.5 for rows in by_other.values() for row in rows)
    certain = [sum(float(row["p"]) < 0.05 for row in rows) for rows in by_other.values()]
    (number,) = {len(rows) for rows in by_other.values()}
    assert f"of {number} engines and maps" in README
    assert "in {}, {} and {} ([table]".format(*certain) in README


def test_the_table_of_3s5z() -> None:
    known = table("table-smac", "smac-revision-2") | table("control-equal-budget", "smac-revision-2")
    cells = [known[f"smac/3s5z/full/{label}"] for label in LABELS]
    ours, paper = (row[1:] for row in rows_after("3s5z, full sharing, 5 million steps, revision 2"))
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


def shipped(suite: str) -> set[str]:
    """Cells of which runs are in the store."""
    manifest = json.loads((ROOT / "results" / suite / "manifest.json").read_text())
    return {run["cell"] for run in manifest["runs"].values()}


def test_how_much_is_shipped() -> None:
    runs = config.load_suite("paper").runs()
    assert f"({len(shipped('paper'))} of {len(runs)} cells)" in README
    preview = shipped("preview")
    battles = sum(cell.startswith("smac/") for cell in preview)
    assert f"{battles} cells of SMAC on revision 3 ({len(preview)} of {len(runs)} cells)" in README
    assert f"{len(shipped('smac-revision-2'))} cells at the paper's budget" in README
    assert f"`smac-revision-2-preview`, {len(shipped('smac-revision-2-preview'))} at a tenth" in README
    assert f"trains it: {sum(len(seeds) for _, seeds in runs):,} runs" in README


def test_what_is_said_of_the_preview() -> None:
    rows = table("table-mamujoco", "preview") | table("table-smac", "preview")
    verdicts = {cell: row["paired_verdict"] for cell, row in rows.items() if row["paired_verdict"]}
    decided = {cell: verdict for cell, verdict in verdicts.items() if verdict in ("better", "worse")}
    cheetah, hopper = "mamujoco/halfcheetah-6x1", "mamujoco/hopper-3x1"
    assert decided == dict.fromkeys((f"{cheetah}/none/mappo", f"{hopper}/full/happo"), "worse")
    assert verdicts[f"{cheetah}/full/mappo"] == verdicts[f"{cheetah}/full/mappo-10-epochs"] == "equivalent"
    assert verdicts[f"{cheetah}/none/mappo-10-epochs"] == "undecided"
    lead = float(rows[f"{cheetah}/none/fp3o"]["ours"]) / float(rows[f"{cheetah}/none/mappo"]["ours"]) - 1
    assert f"FP3O is ahead of MAPPO (without sharing by {100 * lead:.0f} %)" in README
