"""The paper's claims: for each one a test on our runs, a verdict, and how much of the evidence it needs exists.

Comparisons over several rows use the stratified Wilcoxon rank-sum test. The effect shown is P(A > B), the probability
that a random seed of A scores higher than a random seed of B, averaged over rows.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fp3o.config import Cell
from fp3o.statistics import aggregate
from fp3o.statistics.intervals import adjust, equivalent, mean_interval, summarise, welch
from fp3o.statistics.scores import CellRuns, Run, scoring_of
from fp3o.statistics.suites import SuiteRuns

ClaimVerdict = Literal["supported", "contradicted", "undecided", "not run"]
ALPHA = 0.05


class Finding(NamedTuple):
    """The result of a claim's test."""

    verdict: ClaimVerdict
    evidence: str
    found: int
    """How many of the comparisons (or cells) exist …"""
    needed: int
    """… of those the claim is about."""
    cells: tuple[str, ...] = ()
    """Those with runs that the test looked at."""

    @property
    def words(self) -> str:
        """The verdict, for readers; with `found` of `needed` while evidence is missing."""
        if self.found >= self.needed or self.verdict in ("not run", "undecided"):
            return self.verdict
        return f"{self.verdict} so far, {self.found} of {self.needed}"


class Claim(NamedTuple):
    """A sentence of the paper that can be tested, or a check of ours."""

    name: str
    text: str
    source: str
    """LaTeX label in the paper; "ours" for confounders that the paper does not control."""
    test: Callable[[SuiteRuns], Finding]


Pair = tuple[str, str]

MAMUJOCO = ("reacher-2x1", "ant-2x4", "walker2d-2x3", "hopper-3x1", "halfcheetah-6x1", "swimmer-8x2")
SMAC = ("bane_vs_bane", "2c_vs_64zg", "3s5z", "5m_vs_6m", "corridor", "6h_vs_8z")
MORE_SMAC = (*SMAC, "10m_vs_11m", "3s5z_vs_3s6z")
SHARINGS = ("full", "partial", "none")


# --- Tests that several claims use --------------------------------------------------------------------------------


def scores_of(data: SuiteRuns, cell: str, steps: int | None = None) -> list[float]:
    """Scores of a cell, one per seed, or what they were after `steps`; empty where it was not run or deviates from the
    paper's settings."""
    cell_runs = data.cells.get(cell)
    if cell_runs is None or cell_runs.deviations:
        return []
    return (cell_runs if steps is None else cell_runs.until(steps)).scores()


def available(data: SuiteRuns, pairs: Sequence[Pair]) -> list[tuple[list[float], list[float]]]:
    """The scores of both cells, for every pair in which each has at least two seeds.

    On some maps the paper trains longer the less is shared: such a pair is compared at the steps that both have.
    """
    both = [tuple(scores_of(data, cell, common_steps(data, pair)) for cell in pair) for pair in pairs]
    return [(a, b) for a, b in both if len(a) > 1 and len(b) > 1]


def common_steps(data: SuiteRuns, pair: Pair) -> int | None:
    """Environment steps of the shorter training of the two; None where they are equally long."""
    cells = [data.cells[cell] for cell in pair if cell in data.cells]
    steps = {int(run.document["settings"]["total_steps"]) for cell in cells for run in cell.runs}
    return min(steps) if len(steps) > 1 else None


def rank_sum(samples: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[float, float]:
    """Stratified rank-sum test: P(A > B) averaged over rows, and the two-sided p of no difference in any row."""
    excess = variance = 0.0
    chances = []
    for a, b in samples:
        n, m = len(a), len(b)
        chance = float(aggregate.probability_of_improvement(a, b))
        chances.append(chance)
        ties = np.unique([*a, *b], return_counts=True)[1]
        correction = float((ties**3 - ties).sum()) / ((n + m) * (n + m - 1))
        excess += (chance - 0.5) * n * m
        variance += n * m / 12 * (n + m + 1 - correction)
    p = 1.0 if variance <= 0 else float(2 * scipy.stats.norm.sf(abs(excess) / math.sqrt(variance)))
    return float(np.mean(chances)), p


def better(data: SuiteRuns, pairs: Sequence[Pair], what: str) -> Finding:
    """Whether A scores higher than B, over all pairs (A, B) that exist."""
    cut = {pair: common_steps(data, pair) for pair in pairs if available(data, [pair])}
    unequal = ", ".join(f"{Cell.of(a).task} {steps / 1e6:g} M" for (a, _), steps in cut.items() if steps)
    note = f" (unequal budgets, compared at the steps both have: {unequal})" if unequal else ""
    return higher(available(data, pairs), len(pairs), what, note)


def higher(samples: Sequence[tuple[Sequence[float], Sequence[float]]], needed: int, what: str, note: str) -> Finding:
    """Whether the first of each pair of samples is the higher one: those of `needed` pairs that exist."""
    if not samples:
        return Finding("not run", "", 0, needed)
    chance, p = rank_sum(samples)
    verdict: ClaimVerdict = "undecided" if p >= ALPHA else "supported" if chance > 0.5 else "contradicted"
    return Finding(verdict, f"{what}: P = {chance:.2f}, {_p(p)}{note}", len(samples), needed)


def _p(value: float) -> str:
    return f"p = {value:.3f}" if value >= 0.001 else "p < 0.001"


def together(findings: Sequence[Finding]) -> Finding:
    """The finding of a claim with several parts: contradicted if any is, supported if all are, else undecided."""
    done = [finding for finding in findings if finding.verdict != "not run"]
    found, needed = sum(f.found for f in findings), sum(f.needed for f in findings)
    if not done:
        return Finding("not run", "", 0, needed)
    evidence = "; ".join(finding.evidence for finding in done)
    verdicts = {finding.verdict for finding in findings}
    if "contradicted" in verdicts:
        return Finding("contradicted", evidence, found, needed)
    return Finding("supported" if verdicts == {"supported"} else "undecided", evidence, found, needed)


def best_of_four(data: SuiteRuns, domain: str, tasks: Sequence[str], published: str) -> Finding:
    """Whether FP3O scores higher than each of the three baselines; and in how many complete rows it is best."""
    rows = [f"{domain}/{task}/{sharing}" for sharing in SHARINGS for task in tasks]
    parts = [
        better(data, [(f"{row}/fp3o", f"{row}/{other}") for row in rows], f"FP3O over {other.upper()}")
        for other in ("happo", "mappo", "ippo")
    ]
    whole = together(parts)
    best = complete = 0
    for row in rows:
        members = [scores_of(data, f"{row}/{label}") for label in ("fp3o", "happo", "mappo", "ippo")]
        if all(members):
            statistic = scoring_of(row).statistic
            centres = [round(summarise(values, statistic).centre, 1) for values in members]
            complete += 1
            best += centres[0] == max(centres)
    if whole.verdict == "not run":
        return whole
    text = f"best or tied in {best} of {complete} complete rows (paper: {published}); {whole.evidence}"
    return whole._replace(evidence=text)


def same(data: SuiteRuns, pairs: Sequence[Pair]) -> Finding:
    """Whether A and B are equivalent: within 10 % or one standard deviation of B (win rates: 10 percentage points)."""
    samples = [(a, b, pair[1]) for pair in pairs for a, b in available(data, [pair])]
    if not samples:
        return Finding("not run", "", 0, len(pairs))
    equal, p_values = 0, []
    for a, b, cell in samples:
        ours, theirs = summarise(a, "mean"), summarise(b, "mean")
        margin = scoring_of(cell).margin or max(0.1 * abs(theirs.centre), theirs.spread)
        equal += equivalent(ours, theirs, margin)
        p_values.append(welch(ours, theirs).p)
    apart = sum(p < ALPHA for p in adjust(p_values))
    verdict: ClaimVerdict = "contradicted" if apart else "supported" if equal == len(pairs) else "undecided"
    text = f"equivalent in {equal}, different in {apart} of {len(samples)} comparisons"
    return Finding(verdict, text, len(samples), len(pairs))


# --- Tests of one claim each --------------------------------------------------------------------------------------


def happo_drops(data: SuiteRuns) -> Finding:
    """Whether HAPPO scores higher without parameter sharing than with it, on SMAC and MAMuJoCo."""
    tasks = [f"smac/{task}" for task in SMAC] + [f"mamujoco/{task}" for task in MAMUJOCO]
    return together(
        [
            better(data, [(f"{t}/none/happo", f"{t}/{sharing}/happo") for t in tasks], f"none over {sharing}")
            for sharing in ("full", "partial")
        ]
    )


def stuck_seeds(data: SuiteRuns) -> Finding:
    """Whether fewer FP3O than other seeds end at a win rate of 0 (6h_vs_8z, partial sharing): Fisher's exact test."""
    cells = {label: scores_of(data, f"smac/6h_vs_8z/partial/{label}") for label in ("mappo", "happo", "fp3o")}
    done = sum(bool(values) for values in cells.values())
    if done < 3:
        return Finding("not run", "", done, 3)
    others = cells["mappo"] + cells["happo"]
    stuck, ours = sum(v == 0 for v in others), sum(v == 0 for v in cells["fp3o"])
    table = np.array([[stuck, len(others) - stuck], [ours, len(cells["fp3o"]) - ours]])
    p = float(scipy.stats.fisher_exact(table).pvalue)
    verdict: ClaimVerdict = (
        "contradicted" if ours and not stuck else "supported" if p < ALPHA and not ours else "undecided"
    )
    text = f"at 0: {stuck} of {len(others)} MAPPO and HAPPO seeds, {ours} of {len(cells['fp3o'])} FP3O; {_p(p)}"
    return Finding(verdict, text, 3, 3)


def turn_divergence(run: Run) -> dict[int, list[float]]:
    """By turn, KL(policy after it ‖ rollout policy): one value per iteration and learning agent."""
    by_turn: dict[int, list[float]] = {}
    for name, column in run.iterations().items():
        match = re.fullmatch(r"kl_turn(\d+)(?:_agent\d+)?", name)
        if match:
            by_turn.setdefault(int(match[1]), []).extend(column[np.isfinite(column)].tolist())
    return {turn: values for turn, values in sorted(by_turn.items()) if values}


def divergence_grows(data: SuiteRuns) -> Finding:
    """Whether the KL grows from turn to turn: Spearman's correlation of turn and mean KL per seed, tested against 0."""
    cell = data.cells.get("smac/3s5z/full/happo")
    trends = []
    for run in cell.runs if cell and not cell.deviations else ():
        turns = turn_divergence(run)
        if len(turns) > 2:
            means = [float(np.mean(values)) for values in turns.values()]
            trends.append(float(scipy.stats.spearmanr(list(turns), means).statistic))
    if len(trends) < 2:
        return Finding("not run", "", len(trends), 5)
    interval = mean_interval(trends)
    verdict: ClaimVerdict = "supported" if interval.low > 0 else "contradicted" if interval.high < 0 else "undecided"
    return Finding(verdict, f"rank correlation of turn and KL {np.mean(trends):.2f}", len(trends), 5)


MATCHING_SIZES = (100, 200, 500, 1000)
MATCHING_TASKS = ("smac/2c_vs_64zg", "mamujoco/reacher-2x1")
"""The paper's examples of agents that are alike and of agents that are not."""


def matching(cell: CellRuns) -> tuple[int, int]:
    """Number of iterations in which condition and constraint agree, and of all iterations in which it was recorded."""
    agree = total = 0
    for run in cell.runs:
        column = run.iterations().get("match")
        if column is not None:
            known = column[np.isfinite(column)]
            agree, total = agree + int(known.sum()), total + len(known)
    return agree, total


def matching_rises(data: SuiteRuns) -> Finding:
    """Whether the matching degree rises with the rollout size: Cochran–Armitage test for every task and sharing."""
    places = [f"{task}/{sharing}" for task in MATCHING_TASKS for sharing in SHARINGS]
    scores: list[float] = []
    for place in places:
        names = [f"{place}/fp3o-rollout-{size}" for size in MATCHING_SIZES]
        counts = [matching(data.cells[name]) if name in data.cells else (0, 0) for name in names]
        if all(total for _, total in counts):
            scores.append(trend(counts, [math.log(size) for size in MATCHING_SIZES]))
    if not scores:
        return Finding("not run", "", 0, len(places))
    rising, falling = sum(z > 1.96 for z in scores), sum(z < -1.96 for z in scores)
    verdict: ClaimVerdict = "contradicted" if falling else "supported" if rising == len(places) else "undecided"
    return Finding(verdict, f"rises in {rising}, falls in {falling} of {len(scores)} places", len(scores), len(places))


def degrees(data: SuiteRuns, cell: str) -> list[float]:
    """The matching degree of each seed."""
    if cell not in data.cells or data.cells[cell].deviations:
        return []
    counts = [matching(CellRuns(data.cells[cell].planned, (run,))) for run in data.cells[cell].runs]
    return [agree / total for agree, total in counts if total]


def better_matching(data: SuiteRuns, a: str, b: str, sharings: Sequence[Pair], what: str) -> Finding:
    """Whether the matching degree is higher on task `a` than on `b`, under the first and second of `sharings`."""
    both = [
        (degrees(data, f"{a}/{first}/fp3o-rollout-{size}"), degrees(data, f"{b}/{second}/fp3o-rollout-{size}"))
        for first, second in sharings
        for size in MATCHING_SIZES
    ]
    return higher([(x, y) for x, y in both if len(x) > 1 and len(y) > 1], len(both), what, "")


def matching_by_sharing(data: SuiteRuns) -> Finding:
    """Whether sharing raises the matching degree on 2c_vs_64zg and lowers it on Reacher."""
    alike, unlike = MATCHING_TASKS
    return together(
        [
            *(better_matching(data, alike, alike, [(s, "none")], f"2c_vs_64zg, {s} over none") for s in SHARINGS[:2]),
            *(better_matching(data, unlike, unlike, [("none", s)], f"Reacher, none over {s}") for s in SHARINGS[:2]),
        ]
    )


def best_without_full_sharing(data: SuiteRuns) -> Finding:
    """In how many tasks × algorithms of MAMuJoCo full sharing is not the best: binomial test against the 2 of 3 that
    chance gives. A tie with full sharing counts against the claim."""
    places = [(task, label) for label in ("fp3o", "happo", "mappo", "ippo") for task in MAMUJOCO]
    best = []
    for task, label in places:
        scores = [scores_of(data, f"mamujoco/{task}/{sharing}/{label}") for sharing in SHARINGS]
        if all(len(values) > 1 for values in scores):
            full, *others = (round(summarise(values, "mean").centre, 1) for values in scores)
            best.append(max(others) > full)
    if not best:
        return Finding("not run", "", 0, len(places))
    p = float(scipy.stats.binomtest(sum(best), len(best), 2 / 3).pvalue)
    many = sum(best) > len(best) * 2 / 3
    verdict: ClaimVerdict = "undecided" if p >= ALPHA else "supported" if many else "contradicted"
    text = f"best in {sum(best)} of {len(best)} (2 of 3 by chance; paper: 20 of 24, p = 0.127); {_p(p)}"
    return Finding(verdict, text, len(best), len(places))


def strongest(data: SuiteRuns, domain: str, tasks: Sequence[str], sharing: str, label: str) -> Finding:
    """Whether a baseline scores higher than each of the other two under this sharing."""
    others = [other for other in ("happo", "mappo", "ippo") if other != label]
    return together(
        [
            better(data, rows_of(label, other, [(domain, tasks)], [sharing]), f"{label.upper()} over {other.upper()}")
            for other in others
        ]
    )


def trend(counts: Sequence[tuple[int, int]], doses: Sequence[float]) -> float:
    """z of the Cochran–Armitage trend test; counts: (successes, trials) at each dose."""
    successes = np.array([agree for agree, _ in counts], float)
    trials = np.array([total for _, total in counts], float)
    dose = np.asarray(doses)
    share = successes.sum() / trials.sum()
    centred = dose - (trials * dose).sum() / trials.sum()
    variance = share * (1 - share) * (trials * centred**2).sum()
    return float((centred * (successes - trials * share)).sum() / math.sqrt(variance)) if variance > 0 else 0.0


def less_spread(data: SuiteRuns, pairs: Sequence[Pair], part: float, what: str) -> Finding:
    """Whether A's scores vary less over seeds than B's in the first `part` (a fraction) of training.

    Tests the mean difference of their standard deviations, with a bootstrap interval over seeds within every cell.
    """
    known = [(data.cells[a], data.cells[b]) for a, b in pairs if a in data.cells and b in data.cells]
    both = [(early_curves(a, part), early_curves(b, part)) for a, b in known]
    samples = [(a, b) for a, b in both if a is not None and b is not None]
    if not samples:
        return Finding("not run", "", 0, len(pairs))
    spreads = [(_deviation(a), _deviation(b)) for a, b in samples]
    generator = np.random.default_rng(0)
    redrawn = np.mean(
        [
            [_deviation(_redraw(a, generator)) - _deviation(_redraw(b, generator)) for _ in range(1000)]
            for a, b in samples
        ],
        axis=0,
    )
    low, high = np.quantile(redrawn, [0.025, 0.975])
    verdict: ClaimVerdict = "supported" if high < 0 else "contradicted" if low > 0 else "undecided"
    less, mean = sum(a < b for a, b in spreads), np.mean([a - b for a, b in spreads])
    text = f"{what} in {less} of {len(samples)}: mean difference {mean:.2f} [{low:.2f}, {high:.2f}]"
    return Finding(verdict, text, len(samples), len(pairs))


def early_curves(cell: CellRuns, part: float) -> NDArray[np.float64] | None:
    """Evaluations [seeds, E] of the first `part` of training; None with fewer than two seeds or a deviating cell."""
    length = min((len(run.curve.value) for run in cell.runs), default=0)
    if len(cell.runs) < 2 or length == 0 or cell.deviations:
        return None
    return np.stack([run.curve.value[: max(1, round(length * part))] for run in cell.runs])


def _deviation(curves: NDArray[np.float64]) -> float:
    return float(curves.std(0, ddof=1).mean())


def _redraw(curves: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    drawn: NDArray[np.float64] = curves[generator.integers(0, len(curves), len(curves))]
    return drawn


def rows_of(a: str, b: str, domains: Sequence[tuple[str, Sequence[str]]], sharings: Sequence[str]) -> list[Pair]:
    """The cells of algorithms `a` and `b` in every row of the given tasks and sharings."""
    return [
        (f"{domain}/{task}/{sharing}/{a}", f"{domain}/{task}/{sharing}/{b}")
        for domain, tasks in domains
        for sharing in sharings
        for task in tasks
    ]


BOTH = (("mamujoco", MAMUJOCO), ("smac", SMAC))
MPE = ("mpe", ("simple-reference", "simple-speaker-listener"))

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "C1",
        "FP3O is best of four on MAMuJoCo",
        "table_MAMuJoCo_results",
        lambda d: best_of_four(d, "mamujoco", MAMUJOCO, "15 of 18"),
    ),
    Claim(
        "C2",
        "FP3O is best of four on SMAC",
        "table_SMAC_results",
        lambda d: best_of_four(d, "smac", SMAC, "17 of 18"),
    ),
    Claim("C3", "HAPPO loses under full and partial sharing", "section_Performances_on_SMAC", happo_drops),
    Claim(
        "C4",
        "Partial sharing hurts HAPPO more than full sharing",
        "appendix_additional_exp",
        lambda d: better(
            d, [(f"{x}/{t}/full/happo", f"{x}/{t}/partial/happo") for x, ts in BOTH for t in ts], "full over partial"
        ),
    ),
    Claim(
        "C5",
        "IPPO fails on Walker and Swimmer",
        "table_MAMuJoCo_results",
        lambda d: better(
            d, rows_of("mappo", "ippo", [("mamujoco", ("walker2d-2x3", "swimmer-8x2"))], SHARINGS), "MAPPO over IPPO"
        ),
    ),
    Claim(
        "C6",
        "Some MAPPO and HAPPO seeds stay at 0 on 6h_vs_8z under partial sharing, no FP3O seed does",
        "fig_appendix_convergence_monitoring",
        stuck_seeds,
    ),
    Claim("C7", "HAPPO's KL grows along the update order under full sharing", "fig_happo_kl", divergence_grows),
    Claim("C8", "The matching degree rises with the rollout size", "fig_matching_degree", matching_rises),
    Claim(
        "C9",
        "The dependent step adds to the independent step",
        "fig_appendix_ablation",
        lambda d: better(
            d,
            rows_of("fp3o", "fp3o-independent", [("mamujoco", ("hopper-3x1",)), ("smac", ("5m_vs_6m",))], SHARINGS),
            "both steps over one",
        ),
    ),
    Claim(
        "C10",
        "Average and random split perform alike",
        "fig_appendix_random_average",
        lambda d: same(
            d,
            rows_of("fp3o-random-split", "fp3o", [("mamujoco", ("halfcheetah-6x1",)), ("smac", ("3s5z",))], ["full"]),
        ),
    ),
    Claim(
        "C11",
        "Clipping alone performs like FP3O",
        "table_appendix_approximation_analysis",
        lambda d: same(
            d,
            [
                *rows_of("fp3o-clipping-only", "fp3o", [("mamujoco", ("reacher-2x1", "hopper-3x1"))], ["none"]),
                *rows_of("fp3o-clipping-only", "fp3o", [("smac", ("3s5z", "6h_vs_8z"))], ["full"]),
            ],
        ),
    ),
    Claim(
        "C13",
        "A2PO is worse than FP3O under full sharing, and blocks help it",
        "fig_appendix_a2po_3s5z",
        lambda d: together(
            [
                better(d, rows_of("fp3o", "a2po", [("smac", ("3s5z",))], ["full"]), "FP3O over A2PO"),
                better(d, rows_of("a2po", "a2po-no-blocks", [("smac", ("3s5z",))], ["full"]), "blocks over none"),
            ]
        ),
    ),
    Claim(
        "C14",
        "CoPPO's training is less stable than FP3O's",
        "fig_coppo",
        lambda d: less_spread(d, rows_of("fp3o", "coppo", [("smac", MORE_SMAC)], ["full"]), 1.0, "FP3O varies less"),
    ),
    Claim(
        "C15",
        "Double clipping reduces FP3O's early fluctuations",
        "fig_appendix_stability_test",
        lambda d: less_spread(
            d, rows_of("fp3o-double-clip", "fp3o", [("smac", ("3s5z",))], ["full"]), 0.25, "double clip varies less"
        ),
    ),
    Claim(
        "C16",
        "FP3O's lead survives MAPPO with as many updates",
        "ours",
        lambda d: better(d, rows_of("fp3o", "mappo-10-epochs", BOTH, SHARINGS), "FP3O over MAPPO with 10 epochs"),
    ),
    Claim(
        "C17",
        "Training the heads at n times the learning rate, as the release does, matters under partial sharing",
        "ours",
        lambda d: better(
            d,
            rows_of("fp3o", "fp3o-head-lr-one", [("mamujoco", ("halfcheetah-6x1",)), ("smac", ("3s5z",))], ["partial"]),
            "n·lr over lr",
        ),
    ),
    Claim(
        "C18",
        "FP3O is best of four on MPE",
        "table_appendix_MPE",
        lambda d: together(
            [
                better(
                    d,
                    rows_of("fp3o", other, [MPE], ["full", "none"]),
                    f"FP3O over {other.upper()}",
                )
                for other in ("happo", "mappo", "a2po")
            ]
        ),
    ),
    Claim(
        "C19",
        "FP3O leads MAPPO on MPE where both make as many updates",
        "ours",
        lambda d: together(
            [
                better(d, rows_of(a, b, [MPE], ["full", "none"]), what)
                for a, b, what in (
                    ("fp3o-8-7", "mappo", "FP3O with 8 + 7 epochs over MAPPO with 15"),
                    ("fp3o", "mappo-30-epochs", "FP3O with 15 + 15 epochs over MAPPO with 30"),
                )
            ]
        ),
    ),
    # C12, C20 and C21 are on cost: cost.py.
    Claim(
        "C22",
        "HAPPO is the strongest baseline on MAMuJoCo without parameter sharing",
        "table_MAMuJoCo_results",
        lambda d: strongest(d, "mamujoco", MAMUJOCO, "none", "happo"),
    ),
    Claim(
        "C23",
        "MAPPO is the strongest baseline on SMAC under full sharing",
        "section_Performances_on_SMAC",
        lambda d: strongest(d, "smac", SMAC, "full", "mappo"),
    ),
    Claim(
        "C24",
        "On MAMuJoCo most algorithms are best under partial or no sharing",
        "table_MAMuJoCo_results",
        best_without_full_sharing,
    ),
    Claim(
        "C25",
        "On SMAC MAPPO is best under full sharing",
        "section_Performances_on_SMAC",
        lambda d: together(
            [
                better(d, [(f"smac/{t}/full/mappo", f"smac/{t}/{sharing}/mappo") for t in SMAC], f"full over {sharing}")
                for sharing in ("partial", "none")
            ]
        ),
    ),
    Claim(
        "C26",
        "The matching degree is higher on 2c_vs_64zg, whose agents are alike, than on Reacher",
        "fig_matching_degree",
        lambda d: better_matching(d, *MATCHING_TASKS, [(s, s) for s in SHARINGS], "2c_vs_64zg over Reacher"),
    ),
    Claim(
        "C27",
        "Parameter sharing raises the matching degree on 2c_vs_64zg and lowers it on Reacher",
        "fig_matching_degree",
        matching_by_sharing,
    ),
    Claim(
        "C28",
        "HAPPO and A2PO vary more over seeds than MAPPO under full sharing",
        "fig_appendix_stability_test",
        lambda d: together(
            [
                less_spread(
                    d, rows_of("mappo", x, [("smac", ("3s5z",))], ["full"]), 1.0, f"MAPPO varies less than {x.upper()}"
                )
                for x in ("happo", "a2po")
            ]
        ),
    ),
    Claim(
        "C29",
        "FP3O ends with better results than CoPPO",
        "fig_coppo",
        lambda d: better(d, rows_of("fp3o", "coppo", [("smac", MORE_SMAC)], ["full"]), "FP3O over CoPPO"),
    ),
)


class Asked(Mapping[str, CellRuns]):
    """Cells of a suite that remember which of them were asked for."""

    def __init__(self, cells: Mapping[str, CellRuns]) -> None:
        self._cells = cells
        self.names: dict[str, None] = {}

    def __getitem__(self, cell: str) -> CellRuns:
        found = self._cells[cell]
        self.names[cell] = None
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __contains__(self, cell: object) -> bool:
        return cell in self._cells


def judge(claim: Claim, data: SuiteRuns) -> Finding:
    """What our runs say about a claim, and which cells that rests on."""
    watched = copy.copy(data)
    watched.cells = asked = Asked(data.cells)
    finding = claim.test(watched)
    return finding._replace(cells=tuple(name for name in asked.names if data.cells[name].runs))


def ledger(data: SuiteRuns) -> list[tuple[Claim, Finding]]:
    """Every claim with the finding on our runs."""
    return [(claim, judge(claim, data)) for claim in CLAIMS]
