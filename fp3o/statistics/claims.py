"""The paper's claims: for each one a test on our runs, a verdict, and how much of the evidence it needs exists."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
import scipy

from fp3o.statistics.findings import (
    SHARINGS,
    UNTESTED,
    Claim,
    Effect,
    Finding,
    Pair,
    about_zero,
    better,
    cell_at,
    correct,
    early_curves,
    finding_of,
    higher,
    less_spread,
    p_text,
    same,
    scores_of,
    together,
)
from fp3o.statistics.intervals import mean_interval, share_difference, summarise, wilson
from fp3o.statistics.matching import MATCHING_TASKS, better_matching, matching_by_sharing, matching_rises
from fp3o.statistics.scores import Run
from fp3o.statistics.spread import spread_ratio
from fp3o.statistics.suites import SuiteRuns

MAMUJOCO = ("reacher-2x1", "ant-2x4", "walker2d-2x3", "hopper-3x1", "halfcheetah-6x1", "swimmer-8x2")
SMAC = ("bane_vs_bane", "2c_vs_64zg", "3s5z", "5m_vs_6m", "corridor", "6h_vs_8z")
MORE_SMAC = (*SMAC, "10m_vs_11m", "3s5z_vs_3s6z")


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
        members = [cell_at(data, f"{row}/{label}") for label in ("fp3o", "happo", "mappo", "ippo")]
        run = [cell for cell in members if cell is not None and cell.scores()]
        if len(run) == len(members) and not all(cell.at_floor for cell in run):
            centres = [round(summary.centre, 1) for cell in run if (summary := cell.summary())]
            complete += 1
            best += centres[0] == max(centres)
    if whole.verdict in UNTESTED:
        return whole
    text = f"best or tied in {best} of {complete} complete rows (paper: {published}); {whole.evidence}"
    return whole._replace(evidence=text)


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
    if stuck == len(others) and ours == len(cells["fp3o"]):
        return Finding("floor", "every seed of all three stays at 0", 3, 3)
    table = np.array([[stuck, len(others) - stuck], [ours, len(cells["fp3o"]) - ours]])
    more, fewer = (float(scipy.stats.fisher_exact(table, side).pvalue) for side in ("greater", "less"))
    p = min(1.0, 2 * min(more, fewer))
    low, high, _ = share_difference(stuck, len(others), ours, len(cells["fp3o"]))
    effect = Effect("difference of shares", stuck / len(others) - ours / len(cells["fp3o"]), low, high)
    text = f"at 0: {stuck} of {len(others)} MAPPO and HAPPO seeds, {ours} of {len(cells['fp3o'])} FP3O; {p_text(p)}"
    # The claim says that no FP3O seed is stuck.
    return finding_of(text, 3, 3, effect, 1.0 if ours else 2 * more, 2 * fewer)


def turn_divergence(run: Run) -> dict[int, list[float]]:
    """By turn, KL(policy after it ‖ rollout policy): one value per iteration and learning agent."""
    return run.recall("turn_divergence", _turn_divergence)


def _turn_divergence(run: Run) -> dict[int, list[float]]:
    by_turn: dict[int, list[float]] = {}
    for name, column in run.iterations().items():
        match = re.fullmatch(r"kl_turn(\d+)(?:_agent\d+)?", name)
        if match:
            by_turn.setdefault(int(match[1]), []).extend(column[np.isfinite(column)].tolist())
    return {turn: values for turn, values in sorted(by_turn.items()) if values}


def divergence_grows(data: SuiteRuns) -> Finding:
    """Whether the KL grows from turn to turn: Spearman's correlation of turn and mean KL per seed, tested against 0."""
    cell = cell_at(data, "smac/3s5z/full/happo")
    trends = []
    for run in cell.runs if cell else ():
        turns = turn_divergence(run)
        if len(turns) > 2:
            means = [float(np.mean(values)) for values in turns.values()]
            trends.append(float(scipy.stats.spearmanr(list(turns), means).statistic))
    if len(trends) < 2:
        return Finding("not run", "", len(trends), 5)
    mean, interval, p_for, p_against = about_zero(trends)
    effect = Effect("rank correlation", mean, interval.low, interval.high)
    return finding_of(f"rank correlation of turn and KL {mean:.2f}", len(trends), 5, effect, p_for, p_against)


RING = 0.04
"""The innermost circle of the paper's figure of HAPPO's KL."""


def divergence_is_excessive(data: SuiteRuns) -> Finding:
    """Whether HAPPO's KL after its last turn is typically past the paper's innermost circle, and larger than FP3O's
    after its second step. Seeds are the units, with the median of their iterations."""
    medians: dict[str, list[float]] = {}
    beyond = []
    for label in ("happo", "fp3o"):
        cell = cell_at(data, f"smac/3s5z/full/{label}")
        last = [list(turn_divergence(run).values())[-1:] for run in (cell.runs if cell else ())]
        medians[label] = [float(np.median(values)) for turns in last for values in turns]
        if label == "happo":
            beyond = [float(np.mean(np.array(values) > RING)) for turns in last for values in turns]
    done = sum(len(values) > 1 for values in medians.values())
    if done < 2:
        return Finding("not run", "", done, 2)
    ours, theirs = (float(np.median(medians[label])) for label in ("happo", "fp3o"))
    _, _, p_for, p_against = about_zero([math.log(max(value, 1e-12) / RING) for value in medians["happo"]])
    share = mean_interval(beyond)
    text = f"HAPPO's last turn passes {RING} in {np.mean(beyond):.2%} of iterations"
    typical = finding_of(
        text, 1, 1, Effect("share past the circle", float(np.mean(beyond)), *share[:2]), p_for, p_against
    )
    what = f"median KL {ours:.2g} after HAPPO's last turn, {theirs:.2g} after FP3O's second step; HAPPO over FP3O"
    return together([typical, higher([(medians["happo"], medians["fp3o"])], 1, what)])


def calms_down(data: SuiteRuns) -> Finding:
    """Whether FP3O's seeds differ less in the last quarter of training than in the first (3s5z, full sharing)."""
    cell = cell_at(data, "smac/3s5z/full/fp3o")
    curves = early_curves(cell, 1.0) if cell is not None else None
    if curves is None:
        return Finding("not run", "", 0, 1)
    if not data.suite.whole:
        return Finding("not comparable", "training ends before it converges", 1, 1)
    floor = cell.scoring.floor or 0.0 if cell is not None else 0.0
    if curves.max() <= floor:
        return Finding("floor", "nobody wins", 1, 1)
    quarter = max(1, curves.shape[1] // 4)
    found = spread_ratio([(curves[:, -quarter:], curves[:, :quarter])], floor / math.sqrt(12), paired=True)
    effect = Effect("ratio of deviations", found.ratio, found.interval.low, found.interval.high)
    text = f"last quarter to first: {effect.text}, {p_text(min(1.0, 2 * min(found.p_less, found.p_more)))}"
    return finding_of(text, 1, 1, effect, 2 * found.p_less, 2 * found.p_more)


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
    more, fewer = (
        float(scipy.stats.binomtest(sum(best), len(best), 2 / 3, side).pvalue) for side in ("greater", "less")
    )
    p = min(1.0, 2 * min(more, fewer))
    effect = Effect("share", sum(best) / len(best), *wilson(sum(best), len(best))[:2])
    text = f"best in {sum(best)} of {len(best)} (2 of 3 by chance; paper: 20 of 24, p = 0.127); {p_text(p)}"
    return finding_of(text, len(best), len(places), effect, 2 * more, 2 * fewer)


def strongest(data: SuiteRuns, domain: str, tasks: Sequence[str], sharing: str, label: str) -> Finding:
    """Whether a baseline scores higher than each of the other two under this sharing."""
    others = [other for other in ("happo", "mappo", "ippo") if other != label]
    return together(
        [
            better(data, rows_of(label, other, [(domain, tasks)], [sharing]), f"{label.upper()} over {other.upper()}")
            for other in others
        ]
    )


def rows_of(a: str, b: str, domains: Sequence[tuple[str, Sequence[str]]], sharings: Iterable[str]) -> list[Pair]:
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
        "Average and random split perform alike (for our reading of the split)",
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
        "FP3O leads MAPPO on MPE where both make as many updates: 8 + 7 epochs against 15",
        "ours",
        lambda d: better(d, rows_of("fp3o-8-7", "mappo", [MPE], ["full", "none"]), "FP3O over MAPPO"),
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
    Claim(
        "C30",
        "HAPPO's KL is excessive under full sharing",
        "fig_happo_kl",
        divergence_is_excessive,
    ),
    # C31 and C32 are on cost.
    Claim(
        "C33",
        "FP3O's seeds differ in the early phase of training and less at its end",
        "fig_appendix_stability_test",
        calms_down,
    ),
    Claim(
        "C34",
        "MAPPO gains from twice the number of updates",
        "ours",
        lambda d: better(d, rows_of("mappo-10-epochs", "mappo", BOTH, SHARINGS), "MAPPO with 10 epochs over 5"),
    ),
    Claim(
        "C35",
        "FP3O leads MAPPO on MPE where both make as many updates: 15 + 15 epochs against 30",
        "ours",
        lambda d: better(d, rows_of("fp3o", "mappo-30-epochs", [MPE], ["full", "none"]), "FP3O over MAPPO"),
    ),
)


def watch(claim: Claim, data: SuiteRuns) -> tuple[Finding, tuple[str, ...]]:
    """What our runs say about a claim by itself, and which cells its test asked for."""
    watched, cells = data.seen(data.cells.__getitem__)
    return claim.test(watched), tuple(cells.found)


def examine(claim: Claim, data: SuiteRuns) -> Finding:
    """What our runs say about a claim by itself, and which cells that rests on."""
    finding, asked = watch(claim, data)
    return finding._replace(cells=tuple(name for name in asked if data.cells[name].runs))


def ledger(data: SuiteRuns) -> list[tuple[Claim, Finding]]:
    """Every claim with the finding on our runs, corrected for the number of claims."""
    alone = [examine(claim, data) for claim in CLAIMS]
    return list(zip(CLAIMS, correct(alone, data.choices.family), strict=True))
