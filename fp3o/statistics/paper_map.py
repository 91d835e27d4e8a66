"""docs/paper-map.md: every table, figure and claim of the paper, what reproduces it, and how much of that was run.

From results/paper/: manifest.json, scorecard.json, cost.csv.

python -m fp3o.statistics.paper_map --out docs/paper-map.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fp3o import config
from fp3o.config import Artefact, Suite
from fp3o.runs import layout
from fp3o.statistics import cost
from fp3o.statistics.suites import as_command, write

# By LaTeX label, in the paper's order.
TABLES_AND_FIGURES = {
    "table_MAMuJoCo_results": "Returns on MAMuJoCo",
    "fig_matching_degree": "Matching degree of condition and constraint",
    "table_SMAC_results": "Win rates on SMAC",
    "fig_happo_kl": "HAPPO's KL divergence, agent by agent",
    "fig_appendix_agent_demo": "Drawing: turns of FP3O and HAPPO with five agents",
    "table_appendix_instability_analysis": "Objectives and orders of instability",
    "fig_mujoco": "Drawing: agents of three MAMuJoCo bodies",
    "table_smac_unit_type": "Unit types on SMAC",
    "fig_FuPS_PaPS_NoPS": "Drawing: the three kinds of sharing",
    "table_hyperparameter_mujoco1": "Common hyper-parameters, MAMuJoCo",
    "table_hyperparameter_mujoco2": "Hyper-parameters by task, MAMuJoCo",
    "table_hyperparameter_smac1": "Common hyper-parameters, SMAC",
    "table_hyperparameter_smac2": "Hyper-parameters by map, SMAC",
    "fig_coppo": "FP3O and CoPPO on SMAC",
    "fig_appendix_convergence_monitoring": "Every seed on 6h_vs_8z",
    "table_appendix_MPE": "Returns on MPE",
    "fig_appendix_a2po_3s5z": "A2PO on 3s5z",
    "fig_appendix_random_average": "Average and random split",
    "fig_appendix_ablation": "Independent step alone, and both steps",
    "table_appendix_computational1": "Wall-clock time",
    "table_appendix_computational2": "GPU memory",
    "table_appendix_approximation_analysis": "Clipping alone",
    "fig_appendix_stability_test": "Stability over seeds",
    "fig_result_mujoco": "Learning curves on MAMuJoCo",
    "fig_result_smac": "Learning curves on SMAC",
}
SECTIONS = ("section_Performances_on_SMAC", "appendix_additional_exp")
"""Labels of text that claims are taken from."""
UNTESTED = {
    "Under partial sharing HAPPO's trunk θ^B moves on after agent 1's head θ^1 is fixed, so that the two no longer fit "
    "(`appendix_additional_exp`)": "It needs the KL of agent 1's policy after the *last* turn; runs record each "
    "agent's KL after its own turn. Its consequence, that partial sharing hurts HAPPO more than full, is C4.",
    "FP3O's higher serial cost comes from the intermediate policies and the condition "
    "(`table_appendix_computational1`)": "The release doubles the updates, which explains the cost by itself "
    "(docs/deviations.md); the times of the two are not recorded apart.",
    "All algorithms' code is forked from MAPPO's and HAPPO's (`table_appendix_computational2`)": "A statement on the "
    "authors' code, of which only FP3O's is public.",
}
"""What the paper's text says and no claim tests, and why."""
# One artefact is made for two tables: time and memory are measured together.
TOGETHER = {"table_appendix_computational2": "table_appendix_computational1"}


def document(suite: Suite, manifest: Mapping[str, Any], scorecard: Mapping[str, Any], measured: Collection[str]) -> str:
    """The text of the file; measured: cells whose cost is known."""
    lines = [
        "# The paper, item by item",
        "",
        "Every table, figure and claim of the paper, what reproduces it, and how much of that has been run. Written by",
        "`python -m fp3o.statistics.paper_map --out docs/paper-map.md`; a test compares. A cell is complete with",
        "all its seeds. The theory's statements are in [theory.md](theory.md), the algorithms in",
        "[algorithms.md](algorithms.md).",
        "",
        "## Tables and figures",
        "",
        "Labels are those of the paper's source; files are below `results/paper/`.",
        "",
        "| Paper | Content | File | State |",
        "| --- | --- | --- | --- |",
    ]
    for label, content in TABLES_AND_FIGURES.items():
        found = [a for a in suite.artefacts if a.paper == TOGETHER.get(label, label)]
        files = ", ".join(f"`{_file(artefact)}`" for artefact in found) or "–"
        states = ", ".join(_state(suite, artefact, manifest, measured) for artefact in found) or "not drawn"
        lines.append(f"| `{label}` | {content} | {files} | {states} |")
    lines += ["", "Ours, beside them:", "", "| File | Content | State |", "| --- | --- | --- |"]
    lines += [
        f"| `{_file(a)}` | {a.caption} | {_state(suite, a, manifest, measured)} |"
        for a in suite.artefacts
        if not a.paper
    ]
    lines += [
        *("", "## Claims", ""),
        "How verdicts are reached, and what each word means: [statistics.md](statistics.md). Seeds: how many per cell",
        "would decide an undecided claim at today's effect and spread.",
        "",
        "| Claim | Text | Source | Verdict | Evidence | Seeds | At a tenth of the steps |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for claim in scorecard["claims"]:
        source = "ours" if claim["source"] == "ours" else f"`{claim['source']}`"
        fields = [claim["name"], claim["claim"], source, claim["words"].partition(",")[0]]
        fields += [f"{claim['found']} of {claim['needed']}", str(claim["seeds_that_would_decide"] or "")]
        early = claim["tenth"]
        fields.append(f"{early['verdict']}, {early['found']} of {early['needed']}" if early else "")
        lines.append(f"| {' | '.join(fields)} |")
    lines += ["", "## Statements without a claim", "", "| Statement | Why not |", "| --- | --- |"]
    lines += [f"| {statement} | {reason} |" for statement, reason in UNTESTED.items()]
    return "\n".join(lines) + "\n"


def _file(artefact: Artefact) -> str:
    if artefact.kind == "figure":
        return f"figures/{artefact.name}.png"
    return f"tables/{artefact.name}.md"


def _state(suite: Suite, artefact: Artefact, manifest: Mapping[str, Any], measured: Collection[str]) -> str:
    """complete, not run, or how many of its cells are complete."""
    if artefact.states_facts:
        return "complete"
    if artefact.reads:
        return _state(suite, suite.artefact(artefact.reads), manifest, measured)
    if artefact.kind == "cost":
        done = [cell.id in measured for cell in artefact.cells]
    else:
        runs = {(run["cell"], run["digest"], run["seed"]) for run in manifest["runs"].values()}
        done = [all(run in runs for run in _runs(suite, cell.id)) for cell in artefact.cells]
    if not any(done):
        return "not run"
    return "complete" if all(done) else f"{sum(done)} of {len(done)} cells"


def _runs(suite: Suite, cell: str) -> Iterator[tuple[str, str, int]]:
    plan, seeds = suite.run(cell)
    yield from ((cell, plan.digest, seed) for seed in seeds)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = argparse.ArgumentParser(description="What of the paper is reproduced by which file, and its state.")
    arguments.add_argument("--out", type=Path, required=True, help="docs/paper-map.md")
    chosen = arguments.parse_args(argv)
    suite = config.load_suite("paper")
    root = layout.suite_root(suite.name)
    manifest, scorecard = (json.loads((root / name).read_bytes()) for name in ("manifest.json", "scorecard.json"))
    measured = {entry.cell for entry in cost.read(root / "cost.csv")}
    write(chosen.out, document(suite, manifest, scorecard, measured))


if __name__ == "__main__":
    as_command(main)
