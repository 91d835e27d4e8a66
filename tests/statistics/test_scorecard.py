"""Scorecard, cost tables and exports from a handful of runs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from fp3o import config
from fp3o.errors import UserError
from fp3o.statistics import cost, export, published, scorecard
from fp3o.statistics.findings import Finding
from fp3o.statistics.suites import SuiteRuns

CHEETAH = "mamujoco/halfcheetah-6x1/full"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, write_run: Any, scores_around: Any) -> Path:
    """HalfCheetah as published, but for MAPPO; two MPE cells."""
    root = tmp_path_factory.mktemp("runs")
    for label in ("fp3o", "happo", "mappo", "ippo"):
        entry = published.scores()[f"{CHEETAH}/{label}"]
        centre = 1000.0 if label == "mappo" else entry.value
        for seed, score in enumerate(scores_around(centre, 40)):
            write_run(root, f"{CHEETAH}/{label}", seed, score)
    for label, score in (("fp3o", -5.0), ("mappo", -7.0)):
        for seed in range(3):
            write_run(root, f"mpe/simple-reference/none/{label}", seed, -9.0, final=[score - seed, score])
    return root


@pytest.fixture(scope="module")
def card(runs: Path) -> dict[str, Any]:
    return scorecard.scorecard(SuiteRuns(config.load_suite("paper"), runs))


def test_coverage(card: dict[str, Any]) -> None:
    assert card["coverage"]["cells_complete"] == 4
    assert card["coverage"]["cells_started"] == 6
    assert card["coverage"]["seeds_run"] == 26
    assert card["published_cells"] == 72 + 72 + 16 + 4  # and the four clipping-only cells


def test_verdicts_are_counted_once(card: dict[str, Any]) -> None:
    assert sum(card["verdicts"].values()) == card["published_cells"]
    assert card["verdicts"]["differs (ours lower)"] == 1
    assert card["verdicts"]["not run"] == card["published_cells"] - 6
    assert card["verdicts_by_algorithm"]["mappo"]["differs (ours lower)"] == 1
    assert sum(sum(group.values()) for group in card["verdicts_by_domain"].values()) == card["published_cells"]
    assert card["compared_cells"] == 6


def test_rank_agreement(card: dict[str, Any]) -> None:
    """Published 4128 4059 3171 2684; ours 4128 4059 1000 2684: one of six pairs swapped."""
    found = card["rank_agreement"]["mamujoco"]
    assert (found["rows"], found["mean_tau"]) == (1, pytest.approx(2 / 3, abs=1e-4))
    assert card["rank_agreement"]["mpe"] is None  # not all four were run
    assert found["published_best_is_our_best"] == 1


def test_claims_are_numbered_without_gaps(card: dict[str, Any]) -> None:
    """That of cost too, where nothing was measured."""
    assert [claim["name"] for claim in card["claims"]] == [f"C{k}" for k in range(1, len(card["claims"]) + 1)]
    (cost_claim,) = [claim for claim in card["claims"] if claim["name"] == "C12"]
    assert (cost_claim["words"], cost_claim["found"], cost_claim["needed"]) == ("not run", 0, 24)


def test_claims_name_the_runs_they_rest_on(card: dict[str, Any]) -> None:
    cells = {claim["name"]: set(claim["cells"]) for claim in card["claims"]}
    row = {f"{CHEETAH}/{label}" for label in ("fp3o", "happo", "mappo", "ippo")}
    assert cells["C1"] == row
    assert cells["C18"] == {f"mpe/simple-reference/none/{label}" for label in ("fp3o", "mappo")}
    assert cells["C6"] == set()  # cells that were not run are none of them


def test_aggregates_use_the_papers_scale(card: dict[str, Any]) -> None:
    low, high = scorecard.scale("mamujoco", "halfcheetah-6x1")
    assert (low, high) == (2683.5, 4879.3)
    pooled = card["aggregates"]["mamujoco"]["pooled"]
    assert pooled["ippo"]["mean"]["value"] == pytest.approx(0.0, abs=1e-3)
    assert pooled["fp3o"]["mean"]["value"] == pytest.approx((4128.3 - low) / (high - low), abs=1e-3)
    assert card["aggregates"]["mamujoco"]["probability_that_fp3o_is_better"]["mappo"]["value"] == 1.0
    assert card["aggregates"]["mpe"]["probability_that_fp3o_is_better"]["mappo"]["rows"] == 1


def test_same_bytes_again_and_valid_json(runs: Path, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        scorecard.main(["--suite", "paper", "--runs", str(runs), "--out", str(tmp_path / name)])
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text())["suite"] == "paper"


def test_an_empty_suite_has_a_scorecard(tmp_path: Path) -> None:
    card = scorecard.scorecard(SuiteRuns(config.load_suite("smoke"), tmp_path))
    assert card["coverage"]["seeds_run"] == 0
    assert set(card["verdicts"]) == {"not run"}


# --- Exports ------------------------------------------------------------------------------------------------------


def test_scores_are_exported_long(runs: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(export.scores_csv(SuiteRuns(config.load_suite("paper"), runs)))))
    one = {row["statistic"]: row for row in rows if row["task"] == "simple-reference" and row["seed"] == "1"}
    assert set(one) == {"final", "last-10-mean", "last-10-median", "best"}
    mappo = {row["statistic"]: row["value"] for row in rows if row["algorithm"] == "mappo" and row["seed"] == "1"}
    assert float(mappo["final"]) == pytest.approx(-7.5)
    assert {row["statistic"] for row in rows if row["seed"] == "all"} == {"pooled-median", "pooled-deviation"}


def test_marl_eval_structure(tmp_path: Path, write_run: Any) -> None:
    """Every run of a task has the same number of steps; a seed that stopped early keeps its last value."""
    write_run(tmp_path, "mpe/simple-reference/none/fp3o", 0, -5.0, final=[-4.0, -6.0])
    write_run(tmp_path, "mpe/simple-reference/none/fp3o", 1, -5.0, evaluations=3)
    write_run(tmp_path, "mpe/simple-reference/none/mappo", 0, -5.0, evaluations=20)
    document = export.marl_eval(SuiteRuns(config.load_suite("paper"), tmp_path))
    task = document["mpe"]["simple_reference"]
    assert set(task) == {"fp3o_none", "mappo_none"}
    lengths = {len(run) for algorithm in task.values() for run in algorithm.values()}
    assert lengths == {21}  # 20 steps and absolute_metrics
    assert task["fp3o_none"]["seed_0"]["absolute_metrics"] == {"return_per_agent": [-4.0, -6.0] * 500}
    assert task["fp3o_none"]["seed_1"]["step_19"]["return_per_agent"] == [-5.0]
    counts = [task["fp3o_none"]["seed_1"][f"step_{k}"]["step_count"] for k in range(20)]
    assert counts == sorted(set(counts))
    assert all("," not in name and name == name.lower() for name in task)


# --- Cost ---------------------------------------------------------------------------------------------------------


def measured(folder: Path, row: str, seconds: dict[str, float], mib: dict[str, float]) -> list[cost.Cost]:
    """Costs as a file says them, timed in turn: rollouts take 8 s, the rest of `seconds` is the update. In the second
    of three rounds the machine takes twice as long for everything, and 1 % more for the second cell."""
    lines = [",".join(cost.COLUMNS)]
    for place, (label, value) in enumerate(seconds.items()):
        slower = (1, 2.02 if place == 1 else 2, 1)
        times = [" ".join(str(part * factor) for factor in slower) for part in (8.0, value - 8.0)]
        lines.append(f"{row}/{label},yes,{','.join(times)},0.7,{mib[label] / 2},{mib[label]},900,H200")
    (folder / "cost.csv").write_text("\n".join(lines) + "\n")
    return cost.read(folder / "cost.csv")


ORDERED = {"fp3o": 12.0, "happo": 15.0, "mappo": 10.0, "ippo": 9.8, "fp3o-clipping-only": 15.0}
MIB = {"fp3o": 400.0, "happo": 300.0, "mappo": 400.0, "ippo": 390.0, "fp3o-clipping-only": 400.0}


def findings(costs: list[cost.Cost]) -> dict[str, Finding]:
    return {claim.name: finding for claim, finding in cost.claims(costs)}


def test_cost_is_compared_as_ratios(tmp_path: Path) -> None:
    costs = measured(tmp_path, CHEETAH, ORDERED, MIB)
    cost.main(["--cost", str(tmp_path / "cost.csv"), "--out", str(tmp_path / "table-cost")])
    rows = {row["cell"]: row for row in csv.DictReader((tmp_path / "table-cost.csv").open())}
    fp3o = rows[f"{CHEETAH}/fp3o"]
    assert (float(fp3o["ratio"]), float(fp3o["update_ratio"])) == pytest.approx((1.2, 2.0))
    assert float(fp3o["update_ratio_low"]) == float(fp3o["update_ratio_high"]) == 2.0  # every round says the same
    happo = [float(rows[f"{CHEETAH}/happo"][name]) for name in ("update_ratio_low", "update_ratio_high")]
    assert 3.4 < happo[0] < 3.5 < happo[1] < 3.6
    assert (fp3o["iterations"], fp3o["interleaved"], fp3o["host"]) == ("3", "yes", "H200")
    assert float(fp3o["published_ratio"]) == pytest.approx(1108 / 1032, rel=1e-3)
    assert float(fp3o["minutes_extrapolated"]) == pytest.approx(16.0 * 2500 / 60, rel=1e-3)
    assert (fp3o["published_mib"], fp3o["mib"], fp3o["allocated_mib"]) == ("969", "400", "200")
    # The paper's numbers are shown where nothing of ours is.
    other = rows["smac/bane_vs_bane/none/fp3o"]
    assert (other["ratio"], other["published_minutes"]) == ("", "818")
    for suffix in ("md", "tex"):
        text = (tmp_path / f"table-cost.{suffix}").read_text()
        assert "not run" in text
        assert "818" in text
    assert cost.summary(costs) == {
        "published_numbers": 48,
        "measured": 8,
        "ratios_to_mappo_compared": 6,
        "of_these_within_ten_percent": 4,  # not FP3O's time, not HAPPO's memory
    }


def test_orders_of_cost_need_a_margin(tmp_path: Path) -> None:
    found = findings(measured(tmp_path, CHEETAH, ORDERED, MIB))
    assert found["C12"].evidence == "6 of 6 orders hold, 0 are reversed, 0 too close to tell"
    assert found["C12"].words == "supported so far, 6 of 24"
    assert found["C20"].words == "supported so far, 1 of 6"
    assert found["C21"].words == "not run"
    assert found["C31"].words == "equivalent so far, 3 of 18"
    assert found["C32"].words == "not run"  # Another sharing.
    # The paper has FP3O quicker than clipping alone, not the other way round.
    quick = findings(measured(tmp_path, CHEETAH, {**ORDERED, "fp3o-clipping-only": 9.6}, MIB))
    assert quick["C20"].words == "contradicted so far, 1 of 6"
    # Every order reversed by 4 %: the first of each pair costs less.
    seconds = {"happo": 10.0, "fp3o": 10.4, "mappo": 10.82, "ippo": 10.82}
    mib = {"fp3o": 100.0, "happo": 104.0, "mappo": 96.0, "ippo": 100.0}
    found = findings(measured(tmp_path, CHEETAH, seconds, mib))
    assert found["C12"].evidence == "0 of 6 orders hold, 6 are reversed, 0 too close to tell"
    assert found["C12"].verdict == "contradicted"
    # Equal within what iterations differ by: nothing is said.
    found = findings(measured(tmp_path, CHEETAH, dict.fromkeys(seconds, 10.0), dict.fromkeys(mib, 100.0)))
    assert found["C12"].verdict == "undecided"


def test_the_split_of_time_is_that_of_one_cell(tmp_path: Path) -> None:
    """And of another engine on another machine than the paper's: shown, and not held against it."""
    found = findings(measured(tmp_path, "smac/bane_vs_bane/full", ORDERED, MIB))["C21"]
    assert (found.verdict, found.words, found.found) == ("not comparable", "not comparable", 1)
    assert found.evidence == "rollouts take 80% with our engine on H200; the paper's are of StarCraft II"


def test_rollouts_are_the_same_work(tmp_path: Path) -> None:
    """Timed in turn, cells are compared as they were; processes of their own, which may differ by half, cannot tell."""
    costs = measured(tmp_path, CHEETAH, ORDERED, MIB)
    slow = [costs[0]._replace(rollouts=tuple(1.5 * one for one in costs[0].rollouts)), *costs[1:]]
    assert cost.times(slow)[f"{CHEETAH}/fp3o"].iteration.value == pytest.approx((12 + 4) / (8 + 2))
    assert findings(slow)["C31"].verdict == "contradicted"
    apart = [one._replace(interleaved=False, updates=one.updates[:1] * 3) for one in slow]
    # The mean rollout of the task's five cells is the same for all of them.
    rollout = sum(one.rollout for one in apart) / 5
    assert cost.times(apart)[f"{CHEETAH}/fp3o"].iteration.value == pytest.approx((rollout + 4) / (rollout + 2))
    assert cost.times(apart)[f"{CHEETAH}/mappo"].iteration.value == 1.0
    found = findings(apart)["C31"]
    assert (found.verdict, found.evidence[:44]) == ("undecided", "1.00 to 1.50 of MAPPO's, one process each: t")


def test_a_wrong_cost_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cost.csv").write_text("cell,seconds\n")
    with pytest.raises(UserError, match="expected: cell,interleaved"):
        cost.read(tmp_path / "cost.csv")
