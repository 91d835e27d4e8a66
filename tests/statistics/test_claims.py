"""The ledger: each verdict from runs made to deserve it; nothing is claimed about what was not run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fp3o import config
from fp3o.statistics import claims, cost, findings, matching
from fp3o.statistics.claims import every_claim
from fp3o.statistics.findings import Effect, Finding, correct, together
from fp3o.statistics.matching import MATCHING_SIZES, Matching
from fp3o.statistics.suites import SuiteRuns

CHEETAH = "mamujoco/halfcheetah-6x1/full"


def suite(root: Path) -> SuiteRuns:
    return SuiteRuns(config.load_suite("paper"), root)


def finding(name: str, root: Path) -> Finding:
    (claim,) = [claim for claim in every_claim() if claim.name == name]
    return claim.test(suite(root))


def test_nothing_is_claimed_without_runs(tmp_path: Path) -> None:
    found = claims.ledger(suite(tmp_path))
    assert {verdict.verdict for _, verdict in found} == {"not run"}
    assert len({claim.name for claim, _ in found}) == len(found) == len(every_claim())


def test_every_cell_a_claim_needs_is_in_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt cell would look like one that was not run."""
    data = suite(tmp_path)
    asked: list[str] = []

    def cell_at(_: SuiteRuns, cell: str, steps: int | None = None) -> None:
        asked.append(cell)

    for module in (claims, findings, matching):
        monkeypatch.setattr(module, "cell_at", cell_at)
    for claim in every_claim():
        claim.test(data)
    assert len(set(asked)) > 100
    assert set(asked) <= set(data.cells)


def test_better_and_worse(tmp_path: Path, write_run: Any, scores_around: Any) -> None:
    for seed, score in enumerate(scores_around(4000, 100)):
        write_run(tmp_path, f"{CHEETAH}/fp3o", seed, score)
    for seed, score in enumerate(scores_around(5000, 100)):
        write_run(tmp_path, f"{CHEETAH}/mappo-10-epochs", seed, score)
    found = finding("C16", tmp_path)
    assert (found.verdict, found.found, found.needed) == ("contradicted", 1, 36)
    assert found.words == "contradicted so far, 1 of 36"
    for seed, score in enumerate(scores_around(3000, 100)):
        write_run(tmp_path, f"{CHEETAH}/mappo", seed, score)
    found = finding("C1", tmp_path)  # one baseline of three, so not yet supported
    assert found.verdict == "undecided"
    assert "FP3O over MAPPO: P = 1.00" in found.evidence
    assert "best or tied in 0 of 0 complete rows (paper: 15 of 18)" in found.evidence


def test_equivalence(tmp_path: Path, write_run: Any, scores_around: Any) -> None:
    places = ["mamujoco/halfcheetah-6x1/full", "smac/3s5z/full"]
    for place in places:
        for seed, score in enumerate(scores_around(87.5, 1.5)):
            write_run(tmp_path, f"{place}/fp3o", seed, score, suite="paper")
        for seed, score in enumerate(scores_around(87.5, 1.5, seed=1)):
            write_run(tmp_path, f"{place}/fp3o-random-split", seed, score, suite="paper")
    found = finding("C10", tmp_path)
    assert found.verdict == found.words == "equivalent"
    assert found.evidence.startswith("equivalent in 2, different in 0 of 2 comparisons of means (smallest p = ")


def test_stuck_seeds(tmp_path: Path, write_run: Any) -> None:
    for label, values in {"fp3o": [80.0] * 5, "mappo": [0.0] * 4 + [90.0], "happo": [0.0] * 5}.items():
        for seed, score in enumerate(values):
            write_run(tmp_path, f"smac/6h_vs_8z/partial/{label}", seed, score, suite="paper")
    found = finding("C6", tmp_path)
    assert found.verdict == "supported"
    assert found.evidence.startswith("at 0: 9 of 10 MAPPO and HAPPO seeds, 0 of 5 FP3O; p = 0.004")
    assert found.effect is not None
    assert found.effect.value == pytest.approx(0.9)
    assert 0 < found.effect.low < 0.9 < found.effect.high <= 1


def test_divergence_along_the_turns(tmp_path: Path, write_run: Any) -> None:
    for seed in range(3):
        columns: dict[str, Any] = {f"kl_turn{j}": (lambda i, j=j: 0.01 * j + 1e-4 * i) for j in range(1, 9)}
        columns |= {f"agent_turn{j}": (lambda i, j=j: (i + j) % 8) for j in range(1, 9)}
        write_run(tmp_path, "smac/3s5z/full/happo", seed, 50.0, suite="paper", columns=columns)
    found = finding("C7", tmp_path)
    assert (found.verdict, found.evidence) == ("supported", "rank correlation of turn and KL 1.00")


def test_no_correlation_is_beyond_one(tmp_path: Path, write_run: Any) -> None:
    """In one of three seeds two turns change places: Student's interval of 1, 1 and 0.98 ends above 1."""
    for seed in range(3):
        order = (1, 2, 3, 4, 5, 6, 8, 7) if seed == 2 else range(1, 9)
        columns: dict[str, Any] = {f"kl_turn{j}": (lambda i, k=k: 0.01 * k) for j, k in enumerate(order, 1)}
        write_run(tmp_path, "smac/3s5z/full/happo", seed, 50.0, suite="paper", columns=columns)
    effect = finding("C7", tmp_path).effect
    assert effect is not None
    assert 0.9 < effect.low < effect.value < effect.high == 1


def test_matching_degree_trend(tmp_path: Path, write_run: Any) -> None:
    """Seeds are the units: each of three rises by 15 points per doubling or so."""
    for size, share in zip(MATCHING_SIZES, (0.5, 0.6, 0.8, 0.95), strict=True):
        for seed in range(3):
            columns: dict[str, Any] = {"go": lambda i: 1.0}
            columns["match"] = lambda i, share=share, seed=seed: float(i <= 40 * share + seed)
            cell = f"mamujoco/reacher-2x1/none/fp3o-rollout-{size}"
            write_run(tmp_path, cell, seed, -40.0, suite="paper", columns=columns)
    found = finding("C8", tmp_path)
    assert (found.verdict, found.found, found.needed) == ("undecided", 1, 6)  # five places were not run
    assert re.search(r"reacher-2x1, none: \+13\.\d\d \[13\.\d\d, 1\d\.\d\d\] points per doubling", found.evidence)
    assert "reacher-2x1: degree 73.8%, a constant answer 73.8%, Cohen's κ 0.00" in found.evidence


def test_matching_is_read_beside_what_a_constant_answer_scores() -> None:
    """The constraint holds in 98 of 100; the condition agrees in 94: worse than "always go", yet better than chance."""
    found = Matching(agree=94, total=100, go=94, holds=98)
    assert (found.degree, found.constant) == (0.94, 0.98)
    chance = 0.94 * 0.98 + 0.06 * 0.02
    assert found.kappa == pytest.approx((0.94 - chance) / (1 - chance))
    assert Matching(100, 100, 100, 100).kappa == 0.0


def test_spread_over_seeds(tmp_path: Path, write_run: Any) -> None:
    for label, values in {"fp3o": (50.0, 51.0, 53.0, 50.0, 53.0), "coppo": (10.0, 50.0, 80.0, 30.0, 90.0)}.items():
        for task in claims.tasks_of("more_smac"):
            for seed, score in enumerate(values):
                write_run(tmp_path, f"smac/{task}/full/{label}", seed, score, suite="paper")
    found = finding("C14", tmp_path)
    assert found.verdict == "supported"
    assert "FP3O varies less in 8 of 8" in found.evidence


def test_a_small_budget_is_no_evidence(tmp_path: Path, write_run: Any) -> None:
    for label in ("fp3o", "mappo-10-epochs"):
        for seed in range(3):
            write_run(tmp_path, f"{CHEETAH}/{label}", seed, 1.0, changes={"deviations": ["total_steps 1 → 2 (--set)"]})
    assert finding("C16", tmp_path).verdict == "not run"


def test_sharings_with_unequal_budgets_are_compared_at_the_steps_both_have(tmp_path: Path, write_run: Any) -> None:
    """HAPPO without sharing reaches 90 % only in the 10 million steps more that the paper gives it on 6h_vs_8z."""
    for seed in range(5):
        write_run(tmp_path, "smac/6h_vs_8z/none/happo", seed, 90.0 + seed, suite="paper", evaluations=100)
        write_run(tmp_path, "smac/6h_vs_8z/full/happo", seed, 80.0 + seed, suite="paper", evaluations=100)
    assert finding("C3", tmp_path).verdict == "contradicted"
    found = finding("C3", tmp_path).evidence
    assert found.startswith("none over full: P = 0.00 [0.00, 0.36], p = 0.008")
    assert found.endswith("(unequal budgets, compared at the steps both have: 6h_vs_8z 10 M)")


def test_the_numbers_of_claims_have_no_gaps(tmp_path: Path) -> None:
    names = [claim.name for claim, _ in [*claims.ledger(suite(tmp_path)), *cost.claims([])]]
    assert sorted(int(name[1:]) for name in names) == list(range(1, len(names) + 1))


def test_strongest_baselines_and_final_results(tmp_path: Path, write_run: Any, scores_around: Any) -> None:
    """HAPPO leads the other baselines without sharing on one task; that says nothing of full sharing or of SMAC."""
    for label, centre in {"happo": 4000.0, "mappo": 3000.0, "ippo": 2000.0}.items():
        for seed, score in enumerate(scores_around(centre, 100)):
            write_run(tmp_path, f"mamujoco/hopper-3x1/none/{label}", seed, score)
    assert finding("C22", tmp_path).words == "supported so far, 2 of 12"
    assert finding("C23", tmp_path).words == finding("C24", tmp_path).words == "not run"
    for label, centre in {"fp3o": 50.0, "coppo": 90.0}.items():
        for seed in range(5):
            write_run(tmp_path, f"smac/3s5z/full/{label}", seed, centre, suite="paper")
    assert finding("C29", tmp_path).words == "contradicted so far, 1 of 8"


def test_best_sharing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """24 of 24 are beyond the 2 of 3 of chance, 0 below it, 18 of 24 neither; a tie is no lead over full sharing."""
    level = {"full": 1.0, "partial": 0.0, "none": 2.0}

    def scores(data: SuiteRuns, cell: str) -> list[float]:
        full = level["full"] + 5 * (cell.split("/")[1] in beaten)
        return [full if "/full/" in cell else level[cell.split("/")[2]]] * 5

    monkeypatch.setattr(claims, "scores_of", scores)
    beaten: tuple[str, ...] = ()
    assert finding("C24", tmp_path).verdict == "supported"
    beaten = claims.tasks_of("mamujoco")[:2]
    assert finding("C24", tmp_path).evidence.startswith("best in 16 of 24 ")
    assert finding("C24", tmp_path).verdict == "undecided"
    beaten, level["full"] = (), 2.0
    assert finding("C24", tmp_path).verdict == "contradicted"


def test_matching_degree_by_task_and_sharing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alike, unlike = {"full": 0.99, "partial": 0.98, "none": 0.97}, {"full": 0.9, "partial": 0.91, "none": 0.92}
    share = {"smac": alike, "mamujoco": unlike}

    def degrees(data: SuiteRuns, cell: str) -> list[float]:
        domain, _, sharing, label = cell.split("/")
        return [share[domain][sharing] + seed / 1000 for seed in range(5)] if label != "fp3o-rollout-100" else []

    monkeypatch.setattr(matching, "degrees", degrees)
    assert finding("C26", tmp_path).words == "supported so far, 9 of 12"
    assert finding("C27", tmp_path).words == "supported so far, 12 of 16"
    share["mamujoco"]["none"] = 0.8
    assert finding("C27", tmp_path).words == "contradicted so far, 12 of 16"


def test_stability_of_the_sequential_algorithms(tmp_path: Path, write_run: Any) -> None:
    values = {"mappo": (50, 51, 53, 50, 53), "happo": (10, 50, 80, 30, 90), "a2po": (90, 10, 30, 70, 0)}
    for label, scores in values.items():
        for seed, score in enumerate(scores):
            write_run(tmp_path, f"smac/3s5z/full/{label}", seed, float(score), suite="paper")
    found = finding("C28", tmp_path)
    assert (found.verdict, found.found, found.needed) == ("supported", 2, 2)
    assert "MAPPO varies less than A2PO in 1 of 1" in found.evidence


def test_a_row_where_nobody_wins_is_the_floor(tmp_path: Path, write_run: Any) -> None:
    """Neither equivalent nor a lead: no seed wins more than one battle of an evaluation."""
    for label in ("fp3o", "mappo-10-epochs"):
        for seed in range(5):
            write_run(tmp_path, f"smac/6h_vs_8z/full/{label}", seed, 3.1 * (seed == 2), suite="paper")
    found = finding("C16", tmp_path)
    assert (found.verdict, found.words, found.found) == ("floor", "floor", 1)
    for seed, score in enumerate((10.0, 20.0, 30.0, 40.0, 50.0)):
        write_run(tmp_path, "smac/3s5z/full/fp3o", seed, score + 40, suite="paper")
        write_run(tmp_path, "smac/3s5z/full/mappo-10-epochs", seed, score, suite="paper")
    found = finding("C16", tmp_path)
    assert (found.found, found.needed) == (2, 36)
    assert found.evidence.endswith("at the floor in 1 of 2")


def test_seeds_that_share_their_episodes_are_compared_in_pairs(tmp_path: Path, write_run: Any) -> None:
    """Seeds differ by ±0.2 through their episodes, pairs by ±0.01: equal, which unpaired tests could not show as
    tightly, and a claim can say so."""
    for task in ("simple-reference", "simple-speaker-listener"):
        for sharing in ("full", "none"):
            for seed, luck in enumerate((-0.2, 0.1, 0.3, -0.1, 0.0)):
                for label, more in (("mappo", 0.0), ("fp3o-8-7", 0.01 * (-1) ** seed)):
                    write_run(tmp_path, f"mpe/{task}/{sharing}/{label}", seed, -5 + luck + more, suite="paper")
    found = finding("C19", tmp_path)
    assert (found.verdict, found.words) == ("equivalent", "equivalent")
    assert found.effect is not None
    assert found.effect.name == "difference"
    assert found.effect.high - found.effect.low < 0.02


def test_a_claim_says_how_many_seeds_would_decide_it(tmp_path: Path, write_run: Any) -> None:
    for seed, score in enumerate((3000.0, 3400.0, 3800.0, 4200.0, 4600.0)):
        write_run(tmp_path, f"{CHEETAH}/fp3o", seed, score + 250)
        write_run(tmp_path, f"{CHEETAH}/mappo-10-epochs", seed, score)
    found = finding("C16", tmp_path)
    assert found.verdict == "undecided"
    assert found.seeds is not None
    assert 20 < found.seeds < 200


def test_verdicts_are_corrected_for_the_number_of_claims() -> None:
    """p = 0.03 is significant by itself, and not as one of thirty claims, whether those were run or not."""
    effect = Effect("P", 0.9, 0.5, 1.0)
    lone = Finding("undecided", "", 1, 1, effect).judged(p_for=0.03, p_against=1.0)
    assert lone.verdict == "supported"
    missing = [Finding("not run", "", 0, 1)] * 29
    assert correct([lone, *missing])[0].verdict == "undecided"
    assert correct([lone, *missing], "run")[0].verdict == "supported"
    sure = Finding("undecided", "", 1, 1, effect).judged(p_for=0.0001, p_against=1.0)
    assert correct([sure, *missing])[0].verdict == "supported"


def test_a_claim_with_parts() -> None:
    holds, fails = (Finding("undecided", "", 1, 1).judged(*p) for p in ((0.001, 1.0), (1.0, 0.001)))
    equal = Finding("undecided", "", 1, 1).judged(1.0, 1.0, 0.001)
    missing, floor = Finding("not run", "", 0, 1), Finding("floor", "nobody wins", 1, 1)
    assert together([holds, holds]).verdict == "supported"
    assert together([holds, fails]).verdict == "contradicted"
    assert together([holds, missing]).verdict == "undecided"
    assert together([equal, equal]).verdict == "equivalent"
    assert together([equal, holds]).verdict == "undecided"
    assert together([floor, floor]).verdict == "floor"
    assert together([missing, missing]).verdict == "not run"


def test_the_mechanism_that_the_paper_gives_for_happo(tmp_path: Path, write_run: Any) -> None:
    """Its KL grows from turn to turn and still ends below FP3O's, far below the paper's innermost circle."""
    for seed in range(5):
        grows: dict[str, Any] = {f"kl_turn{j}": (lambda i, j=j, s=seed: 2e-4 * j + 1e-6 * s) for j in range(1, 9)}
        write_run(tmp_path, "smac/3s5z/full/happo", seed, 50.0, suite="paper", columns=grows)
        steps: dict[str, Any] = {f"kl_turn{j}": (lambda i, j=j, s=seed: 2e-3 * j + 1e-6 * s) for j in (1, 2)}
        write_run(tmp_path, "smac/3s5z/full/fp3o", seed, 50.0, suite="paper", columns=steps)
    assert finding("C7", tmp_path).verdict == "supported"
    found = finding("C30", tmp_path)
    assert found.verdict == "contradicted"
    assert "passes 0.04 in 0.00% of iterations; median KL 0.0016 after HAPPO's last turn, 0.004 after" in found.evidence
