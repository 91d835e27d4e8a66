"""The ledger: each verdict from runs made to deserve it; nothing is claimed about what was not run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from fp3o import config
from fp3o.statistics import claims, cost, findings, matching
from fp3o.statistics.claims import CLAIMS
from fp3o.statistics.findings import Finding, rank_sum
from fp3o.statistics.matching import MATCHING_SIZES, trend
from fp3o.statistics.suites import SuiteRuns

CHEETAH = "mamujoco/halfcheetah-6x1/full"


def suite(root: Path) -> SuiteRuns:
    return SuiteRuns(config.load_suite("paper"), root)


def finding(name: str, root: Path) -> Finding:
    (claim,) = [claim for claim in CLAIMS if claim.name == name]
    return claim.test(suite(root))


def test_nothing_is_claimed_without_runs(tmp_path: Path) -> None:
    found = claims.ledger(suite(tmp_path))
    assert {verdict.verdict for _, verdict in found} == {"not run"}
    assert len({claim.name for claim, _ in found}) == len(found) == len(claims.CLAIMS)


def test_every_cell_a_claim_needs_is_in_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt cell would look like one that was not run."""
    data = suite(tmp_path)
    asked: list[str] = []

    def scores_of(_: SuiteRuns, cell: str, steps: int | None = None) -> list[float]:
        asked.append(cell)
        return []

    for module in (claims, findings):
        monkeypatch.setattr(module, "scores_of", scores_of)
    monkeypatch.setattr(matching, "degrees", scores_of)
    for claim in CLAIMS:
        claim.test(data)
    assert len(set(asked)) > 100
    assert set(asked) <= set(data.cells)


def test_rank_sum_of_one_row_is_mann_whitney() -> None:
    a, b = [5.0, 6.0, 7.0, 3.5, 9.0], [1.0, 2.0, 4.0, 3.0, 6.5]
    chance, p = rank_sum([(a, b)])
    expected = stats.mannwhitneyu(a, b, method="asymptotic", use_continuity=False)
    assert chance == pytest.approx(expected.statistic / 25)
    assert p == pytest.approx(expected.pvalue)
    assert rank_sum([([1.0, 1.0], [1.0, 1.0])]) == (0.5, 1.0)


def test_rank_sum_pools_rows_without_comparing_across_them() -> None:
    """Two rows at very different levels, in each a small consistent lead."""
    rows = [([11.0, 12, 13, 14, 15], [1.0, 2, 3, 4, 5]), ([1011.0, 1012, 1013, 1014, 1015], [1001.0, 1002, 3, 4, 5])]
    chance, p = rank_sum(rows)
    assert chance == 1.0
    assert p == pytest.approx(2 * stats.norm.sf(25 / (2 * 25 * 11 / 12) ** 0.5))


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
    assert found.verdict == "supported"
    means = "equivalent in 2, different in 0 of 2 comparisons of means"
    assert re.fullmatch(rf"{means} \(Welch's test, smallest p = [01]\.\d{{3}}\)", found.evidence)
    assert found.words == "supported"


def test_stuck_seeds(tmp_path: Path, write_run: Any) -> None:
    for label, values in {"fp3o": [80.0] * 5, "mappo": [0.0] * 4 + [90.0], "happo": [0.0] * 5}.items():
        for seed, score in enumerate(values):
            write_run(tmp_path, f"smac/6h_vs_8z/partial/{label}", seed, score, suite="paper")
    found = finding("C6", tmp_path)
    assert found.verdict == "supported"
    assert found.evidence.startswith("at 0: 9 of 10 MAPPO and HAPPO seeds, 0 of 5 FP3O; p = 0.002")


def test_divergence_along_the_turns(tmp_path: Path, write_run: Any) -> None:
    for seed in range(3):
        columns: dict[str, Any] = {f"kl_turn{j}": (lambda i, j=j: 0.01 * j + 1e-4 * i) for j in range(1, 9)}
        columns |= {f"agent_turn{j}": (lambda i, j=j: (i + j) % 8) for j in range(1, 9)}
        write_run(tmp_path, "smac/3s5z/full/happo", seed, 50.0, suite="paper", columns=columns)
    found = finding("C7", tmp_path)
    assert (found.verdict, found.evidence) == ("supported", "rank correlation of turn and KL 1.00")


def test_matching_degree_trend(tmp_path: Path, write_run: Any) -> None:
    for size, share in zip(MATCHING_SIZES, (0.5, 0.6, 0.8, 0.95), strict=True):
        columns = {"match": lambda i, share=share: float(i <= 40 * share)}
        write_run(tmp_path, f"mamujoco/reacher-2x1/none/fp3o-rollout-{size}", 0, -40.0, suite="paper", columns=columns)
    found = finding("C8", tmp_path)
    assert (found.verdict, found.evidence) == ("undecided", "rises in 1, falls in 0 of 1 places")


def test_trend_by_hand() -> None:
    """10/20 and 16/20 at doses 0 and 1 is the two-sample z test with pooled variance: z = 0.3/√(0.65·0.35·0.1)."""
    assert trend([(10, 20), (16, 20)], [0.0, 1.0]) == pytest.approx(0.3 / (0.65 * 0.35 * 0.1) ** 0.5)
    assert trend([(20, 20), (20, 20)], [0.0, 1.0]) == 0.0


def test_spread_over_seeds(tmp_path: Path, write_run: Any) -> None:
    for label, values in {"fp3o": (50.0, 51.0, 53.0, 50.0, 53.0), "coppo": (10.0, 50.0, 80.0, 30.0, 90.0)}.items():
        for task in claims.MORE_SMAC:
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
    assert found.startswith("none over full: P = 0.00, p = 0.00")
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
    beaten = claims.MAMUJOCO[:2]
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
