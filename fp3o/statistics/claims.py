"""The paper's claims: for each one a test on our runs, a verdict, and how much of the evidence it needs exists."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import scipy

from fp3o.statistics import published
from fp3o.statistics.findings import (
    SHARINGS,
    UNTESTED,
    Claim,
    Effect,
    Finding,
    Pair,
    better,
    cell_at,
    correct,
    early_curves,
    higher,
    less_spread,
    p_text,
    same,
    scores_of,
    spread_finding,
    together,
)
from fp3o.statistics.intervals import mean_of, share_difference, share_interval, summarise, wilson
from fp3o.statistics.matching import matching_by_sharing, matching_by_task, matching_rises
from fp3o.statistics.scores import Run, recalled
from fp3o.statistics.spread import log_spread_ratio
from fp3o.statistics.suites import SuiteRuns


def best_of_four(data: SuiteRuns, domain: str, published: str) -> Finding:
    """Whether FP3O scores higher than each of the three baselines; and in how many complete rows it is best."""
    rows = [f"{domain}/{task}/{sharing}" for sharing in SHARINGS for task in tasks_of(domain)]
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
    return Finding("undecided", text, 3, 3, effect).judged(1.0 if ours else 2 * more, 2 * fewer)


@recalled
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
    cell = cell_at(data, "smac/3s5z/full/happo")
    trends = []
    for run in cell.runs if cell else ():
        turns = turn_divergence(run)
        if len(turns) > 2:
            means = [float(np.mean(values)) for values in turns.values()]
            trends.append(float(scipy.stats.spearmanr(list(turns), means).statistic))
    if len(trends) < 2:
        return Finding("not run", "", len(trends), 5)
    mean = mean_of(trends)
    above, below = mean.sides
    text = f"rank correlation of turn and KL {mean.value:.2f}"
    low, high, _ = mean.interval()
    effect = Effect("rank correlation", mean.value, max(-1.0, low), min(1.0, high))  # Student's knows no bounds
    return Finding("undecided", text, len(trends), 5, effect).judged(2 * above, 2 * below)


RING = 0.04
"""The innermost circle of the paper's figure of HAPPO's KL."""


def divergence_is_excessive(data: SuiteRuns) -> Finding:
    """Whether HAPPO's KL after its last turn is typically past the paper's innermost circle, and larger than FP3O's
    after its second step. Seeds are the units, with the median of their iterations."""
    medians: dict[str, list[float]] = {}
    beyond, iterations = [], 0
    for label in ("happo", "fp3o"):
        cell = cell_at(data, f"smac/3s5z/full/{label}")
        last = [list(turn_divergence(run).values())[-1:] for run in (cell.runs if cell else ())]
        medians[label] = [float(np.median(values)) for turns in last for values in turns]
        if label == "happo":
            beyond = [float(np.mean(np.array(values) > RING)) for turns in last for values in turns]
            iterations = sum(len(values) for turns in last for values in turns)
    done = sum(len(values) > 1 for values in medians.values())
    if done < 2:
        return Finding("not run", "", done, 2)
    ours, theirs = (float(np.median(medians[label])) for label in ("happo", "fp3o"))
    above, below = mean_of([math.log(max(value, 1e-12) / RING) for value in medians["happo"]]).sides
    share = share_interval(beyond, iterations)
    text = f"HAPPO's last turn passes {RING} in {np.mean(beyond):.2%} of iterations"
    effect = Effect("share past the circle", float(np.mean(beyond)), *share[:2])
    typical = Finding("undecided", text, 1, 1, effect).judged(2 * above, 2 * below)
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
    found = log_spread_ratio([(curves[:, -quarter:], curves[:, :quarter])], floor / math.sqrt(12), paired=True)
    return spread_finding(Finding("undecided", "last quarter to first", 1, 1), found)


def best_without_full_sharing(data: SuiteRuns) -> Finding:
    """In how many tasks × algorithms of MAMuJoCo full sharing is not the best: binomial test against the 2 of 3 that
    chance gives. A tie with full sharing counts against the claim."""
    places = [(task, label) for label in ("fp3o", "happo", "mappo", "ippo") for task in tasks_of("mamujoco")]
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
    return Finding("undecided", text, len(best), len(places), effect).judged(2 * more, 2 * fewer)


TESTS: dict[str, Callable[..., Finding]] = {
    test.__name__: test
    for test in (
        *(best_of_four, stuck_seeds, divergence_grows, divergence_is_excessive, calms_down),
        *(best_without_full_sharing, matching_rises, matching_by_task, matching_by_sharing),
    )
}
COMPARISONS: dict[str, Callable[..., Finding]] = {"better": better, "same": same, "less_spread": less_spread}


def tasks_of(name: str) -> tuple[str, ...]:
    """The paper's tasks of a domain."""
    return tuple(published.paper()["tasks"][name])


@cache
def every_claim() -> tuple[Claim, ...]:
    """All but those on cost (cost.py)."""
    entries = published.paper()["claims"]
    return tuple(Claim(name, entry["text"], entry["source"], _test(entry)) for name, entry in entries.items())


def _test(entry: Mapping[str, Any]) -> Callable[[SuiteRuns], Finding]:
    if "test" in entry:
        return partial(TESTS[entry["test"]], **entry.get("with", {}))
    (kind,) = entry.keys() & COMPARISONS
    parts = [
        partial(COMPARISONS[kind], pairs=pairs_of(**{key: one.pop(key) for key in ("first", "second", "rows")}), **one)
        for one in map(dict, entry[kind])
    ]
    return parts[0] if len(parts) == 1 else lambda data: together([part(data) for part in parts])


def pairs_of(first: str, second: str, rows: Sequence[Mapping[str, Any]]) -> list[Pair]:
    """The cells of two algorithms in every row of the given tasks and sharings."""
    places = [
        "/".join(filter(None, (row["domain"], task, sharing)))
        for row in rows
        for sharing in row.get("sharing", [""])
        for task in row["tasks"]
    ]
    return [(f"{place}/{first}", f"{place}/{second}") for place in places]


def watch(claim: Claim, data: SuiteRuns) -> tuple[Finding, tuple[str, ...]]:
    """What our runs say about a claim by itself, and which cells its test asked for."""
    watched = data.seen(data.cells.__getitem__)
    return claim.test(watched), tuple(watched.cells.found)


def examine(claim: Claim, data: SuiteRuns) -> Finding:
    """What our runs say about a claim by itself, and which cells that rests on."""
    finding, asked = watch(claim, data)
    return finding._replace(cells=tuple(name for name in asked if data.cells[name].runs))


def ledger(data: SuiteRuns) -> list[tuple[Claim, Finding]]:
    """Every claim with the finding on our runs, corrected for the number of claims."""
    alone = [examine(claim, data) for claim in every_claim()]
    return list(zip(every_claim(), correct(alone, data.choices.family), strict=True))
