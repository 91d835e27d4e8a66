"""Scores for other tools: scores.csv (long) and marl-eval's JSON.

python -m fp3o.statistics.export --suite paper --out results/paper/scores
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from fp3o.config import Cell
from fp3o.errors import as_command
from fp3o.grouping import grouped
from fp3o.statistics.scores import REDUCTIONS, CellRuns, last_ten, pooled_median, reduce, scoring_of
from fp3o.statistics.suites import SuiteRuns, csv_text, load, parser, write

HEADER = ("domain", "task", "sharing", "algorithm", "seed", "status", "statistic", "value", "n_evaluations")


def scores_csv(data: SuiteRuns) -> str:
    """The score of every run by every reduction; "all" in the column seed: of all seeds' evaluations pooled."""
    rows: list[Sequence[object]] = []
    for cell_runs in data.cells.values():
        parts = Cell.of(cell_runs.cell).parts
        for run in cell_runs.runs:
            for name in REDUCTIONS:
                value = reduce(run, name)
                # A seed that diverged before its first evaluation is there too, with an empty value.
                text = "" if value is None else f"{value:.6g}"
                used = 0 if value is None else 1 if name == "final" else len(last_ten(run.curve.value))
                rows.append((*parts, run.seed, run.document["status"], name, text, used))
        pooled = pooled_median(cell_runs)
        if pooled is not None:
            count = sum(len(last_ten(run.curve.value)) for run in cell_runs.runs)
            rows.append((*parts, "all", "", "pooled-median", f"{pooled.centre:.6g}", count))
            rows.append((*parts, "all", "", "pooled-deviation", f"{pooled.spread:.6g}", count))
    return csv_text(HEADER, rows)


def marl_eval(data: SuiteRuns) -> dict[str, Any]:
    """environment → task → algorithm → run → step; the sharing becomes part of the algorithm's name (fp3o_full).

    marl-eval needs the same number of evaluations in every run of a task: a seed that diverged is continued with its
    last value, and longer runs are cut. Its "absolute metrics" should be of the best policy; ours are of the final one.
    """
    document: dict[str, Any] = {}
    evaluated = [one for one in data.cells.values() if one.runs and all(len(run.curve.value) for run in one.runs)]
    for (domain, task), members in grouped((Cell.of(one.cell).row[:2], one) for one in evaluated).items():
        length = min(max(len(run.curve.value) for run in cell_runs.runs) for cell_runs in members)
        for cell_runs in members:
            _, _, sharing, label = Cell.of(cell_runs.cell).parts
            name = f"{label.replace('-', '_')}_{sharing.replace('-', '_')}"
            place = document.setdefault(domain, {}).setdefault(task.replace("-", "_").lower(), {})
            place[name] = _runs(cell_runs, length)
    return document


def _runs(cell_runs: CellRuns, length: int) -> dict[str, Any]:
    metric = scoring_of(cell_runs.cell).metric
    longest = max(cell_runs.runs, key=lambda run: len(run.curve.value)).curve.env_steps
    entries: dict[str, Any] = {}
    for run in cell_runs.runs:
        values = run.curve.value[:length]
        values = np.concatenate([values, np.full(length - len(values), values[-1])])
        steps: dict[str, Any] = {
            f"step_{k}": {"step_count": int(longest[k]), metric: [_rounded(values[k])]} for k in range(length)
        }
        last = values[-1:] if run.final_episodes is None else run.final_episodes
        steps["absolute_metrics"] = {metric: [_rounded(value) for value in last]}
        entries[f"seed_{run.seed}"] = steps
    return entries


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def main(argv: Sequence[str] | None = None) -> None:
    chosen = parser("Scores for other tools.", out="folder for scores.csv and marl_eval.json").parse_args(argv)
    data = load(chosen)
    write(chosen.out / "scores.csv", scores_csv(data))
    write(chosen.out / "marl_eval.json", json.dumps(marl_eval(data), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    as_command(main)
