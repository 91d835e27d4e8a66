"""The two cost tables: time and memory of one seed on an idle machine, beside the paper's.

    python -m fp3o.statistics.cost --suite paper --cost results/paper/cost.csv --out results/paper/tables/table-cost

The hardware differs from the paper's, so minutes and MiB are shown and their ratios to MAPPO compared.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fp3o import config
from fp3o.config import Cell, Suite
from fp3o.errors import UserError, as_command
from fp3o.grouping import grouped
from fp3o.statistics import published
from fp3o.statistics.findings import Claim, ClaimVerdict, Finding
from fp3o.statistics.intervals import mean_interval, mean_of, summarise, welch
from fp3o.statistics.suites import csv_text
from fp3o.statistics.tables.text_tables import TextTable

SECONDS = ("rollout_s", "update_s")
MEMORY = ("peak_gpu_mib", "process_gpu_mib", "memory_mib")
REFERENCE = "mappo"
YES_NO = ("no", "yes")
COLUMNS = ("cell", "interleaved", *SECONDS, "evaluation_s", *MEMORY, "host")


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


class Cost(NamedTuple):
    """One row of cost.csv: one seed of a cell, without its first iterations."""

    cell: str
    interleaved: bool
    """Timed in one process with the suite's other cells, in turn with them: round k of all saw the same machine.
    Otherwise in a process of its own, and two processes with the same work may differ by half."""
    rollouts: tuple[float, ...]
    """Seconds of each iteration."""
    updates: tuple[float, ...]
    evaluation: float
    """Seconds per iteration."""
    allocated_mib: float | None
    """Peak that tensors took on the GPU; None without one."""
    process_mib: float | None
    """What the process took of the GPU, context and cached blocks included, as nvidia-smi shows it."""
    main_mib: float
    """Peak of the process in main memory."""
    host: str
    """The machine: its cores and its GPU."""

    @property
    def rollout(self) -> float:
        return float(np.mean(self.rollouts))

    @property
    def update(self) -> float:
        return float(np.mean(self.updates))

    @property
    def seconds(self) -> Estimate:
        """Per iteration, without evaluation."""
        totals = np.add(self.rollouts, self.updates).tolist()
        return Estimate(float(np.mean(totals)), *mean_interval(totals)[:2])

    @property
    def memory(self) -> float:
        """MiB, as the paper measured them: of the GPU, by the process. Without a GPU, of main memory."""
        return self.process_mib or self.allocated_mib or self.main_mib

    @property
    def minutes(self) -> float:
        """One seed at the paper's budget, extrapolated."""
        return self.seconds.value * config.resolve(Cell.parse(self.cell)).iterations / 60


def read(path: Path) -> list[Cost]:
    """The rows of cost.csv, one per cell."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UserError(f"{path} has the columns {reader.fieldnames}; expected: {','.join(COLUMNS)}")
        rows = list(reader)

    def optional(text: str) -> float | None:
        return float(text) if text else None

    return [
        Cost(
            row["cell"],
            row["interleaved"] == YES_NO[True],
            rollouts=tuple(map(float, row["rollout_s"].split())),
            updates=tuple(map(float, row["update_s"].split())),
            evaluation=float(row["evaluation_s"]),
            allocated_mib=optional(row["peak_gpu_mib"]),
            process_mib=optional(row["process_gpu_mib"]),
            main_mib=float(row["memory_mib"]),
            host=row["host"],
        )
        for row in rows
    ]


def ratio(first: Sequence[float], second: Sequence[float], paired: bool) -> Estimate:
    """Of two times, by logarithms: round by round where both were timed in turn, by Welch's interval otherwise."""
    logs, others = np.log(first), np.log(second)
    if paired:
        found = mean_of((logs - others).tolist())
    else:
        found = welch(summarise(logs.tolist(), "mean"), summarise(others.tolist(), "mean"))
    return Estimate(*(math.exp(end) for end in (found.value, *found.interval()[:2])))


class Times(NamedTuple):
    """A cell's update and iteration as multiples of another's in the same row."""

    update: Estimate
    iteration: Estimate


def compare(cost: Cost, other: Cost, rollout: float) -> Times:
    """Rollouts of a task are the same work. Timed in processes of their own, both cells get the same rollout, the mean
    of the task's: what processes differ by there is the machine's."""
    paired = cost is other or (cost.interleaved and other.interleaved)

    def totals(one: Cost) -> list[float]:
        return [float(total) for total in np.add(one.updates, one.rollouts if paired else rollout)]

    return Times(ratio(cost.updates, other.updates, paired), ratio(totals(cost), totals(other), paired))


def times(costs: Sequence[Cost], reference: str = REFERENCE) -> dict[str, Times]:
    """By cell, where the cost of the row's MAPPO (or another algorithm) is known."""
    known = {cost.cell: cost for cost in costs}
    rollouts = grouped((Cell.of(cost.cell).task, cost.rollout) for cost in costs)
    return {
        cell: compare(cost, known[name], float(np.mean(rollouts[Cell.of(cell).task])))
        for cell, cost in known.items()
        if (name := f"{cell.rpartition('/')[0]}/{reference}") in known
    }


def cells_of(suite: Suite) -> list[str]:
    """The cells whose cost the suite asks for, measured or not."""
    return [cell.id for artefact in suite.artefacts if artefact.kind == "cost" for cell in artefact.cells]


class Ratio(NamedTuple):
    """A cell's cost, and as a multiple of MAPPO's in the same row; ours and the paper's."""

    cell: str
    ours: float | None
    ours_ratio: float | None
    published: float | None
    published_ratio: float | None


def ratios(
    cells: Sequence[str], ours: Mapping[str, float], table: str, to_mappo: Mapping[str, float] | None = None
) -> list[Ratio]:
    """One per cell; `table`: the published one; `to_mappo`: our ratios, by default those of `ours`."""
    theirs = {entry.cell: entry.value for entry in published.table(table)}
    mine, their_ratios = _to_mappo(ours) if to_mappo is None else to_mappo, _to_mappo(theirs)
    return [Ratio(cell, ours.get(cell), mine.get(cell), theirs.get(cell), their_ratios.get(cell)) for cell in cells]


def _to_mappo(values: Mapping[str, float]) -> dict[str, float]:
    """Multiples of the value of the same row's MAPPO, where it is known."""
    found = {cell: values.get(f"{cell.rpartition('/')[0]}/{REFERENCE}") for cell in values}
    return {cell: values[cell] / reference for cell, reference in found.items() if reference}


# --- What the paper says of cost ------------------------------------------------------------------------------------

# The paper's conclusions from its tables (appendix, computational analysis): the first of each pair costs more.
SLOWER = (("happo", "fp3o"), ("fp3o", "mappo"), ("fp3o", "ippo"))
LARGER = (("fp3o", "happo"), ("mappo", "ippo"), ("ippo", "happo"))
# Without sharing: HAPPO ≈ FP3O > MAPPO ≈ IPPO in time, FP3O ≈ MAPPO ≈ HAPPO > IPPO in memory.
SLOWER_ALONE = (("happo", "mappo"), ("happo", "ippo"), ("fp3o", "mappo"), ("fp3o", "ippo"))
LARGER_ALONE = (("fp3o", "ippo"), ("mappo", "ippo"), ("happo", "ippo"))
# Memory repeats from run to run. The paper writes both ≈ and > for 0.2 %; half of that counts as equal.
SAME_MEMORY = 0.001
# "The same rollout time", as a range of ours.
SAME_TIME = (0.95, 1.05)
# "Approximately 20 %" of the paper, as a range of ours.
ABOUT_20 = (0.15, 0.25)


def claims(costs: Sequence[Cost]) -> list[tuple[Claim, Finding]]:
    """Claims on cost with their findings."""
    table = "table_appendix_computational1"
    text = "HAPPO takes longer than FP3O, FP3O longer than MAPPO; FP3O and MAPPO take more memory than HAPPO"
    alone = "Without sharing HAPPO and FP3O take longer than MAPPO and IPPO, and IPPO the least memory"
    found = [
        ("C12", text, table, _orders(costs, ("full", "partial"), SLOWER, LARGER)),
        (
            "C20",
            "FP3O takes about 20 % less time than clipping alone",
            "table_appendix_approximation_analysis",
            _clip(costs),
        ),
        ("C21", "On bane vs. bane rollouts take about 85 % of MAPPO's time", table, _split(costs)),
        ("C31", "Rollouts take FP3O, HAPPO, MAPPO and IPPO the same time", table, _rollouts(costs)),
        ("C32", alone, table, _orders(costs, ("none",), SLOWER_ALONE, LARGER_ALONE)),
    ]
    return [(Claim(name, text, source, _constant(finding)), finding) for name, text, source, finding in found]


def _constant(finding: Finding) -> Callable[[object], Finding]:
    return lambda _: finding


def _pairs(
    costs: Sequence[Cost], pairs: Sequence[tuple[str, str]], sharings: Sequence[str]
) -> Iterator[tuple[Cost, Cost]]:
    known = {cost.cell: cost for cost in costs}
    rows = dict.fromkeys(str(cell.row) for cell in map(Cell.of, known) if cell.sharing in sharings)
    for row in rows:
        for first, second in pairs:
            if f"{row}/{first}" in known and f"{row}/{second}" in known:
                yield known[f"{row}/{first}"], known[f"{row}/{second}"]


def _orders(
    costs: Sequence[Cost],
    sharings: Sequence[str],
    slower: Sequence[tuple[str, str]],
    larger: Sequence[tuple[str, str]],
) -> Finding:
    """The orders, pair by pair: times by the intervals of the updates' ratios (rollouts are the same work), memory by a
    margin."""
    updates = [ratio(a.updates, b.updates, a.interleaved and b.interleaved) for a, b in _pairs(costs, slower, sharings)]
    signs = [(one.low > 1) - (one.high < 1) for one in updates]
    for a, b in _pairs(costs, larger, sharings):
        signs.append((a.memory > b.memory * (1 + SAME_MEMORY)) - (a.memory * (1 + SAME_MEMORY) < b.memory))
    holds, reversed_, total = signs.count(1), signs.count(-1), len(signs)
    verdict: ClaimVerdict = "not run" if not total else "supported" if holds == total else "undecided"
    if reversed_ > total / 2:
        verdict = "contradicted"
    close = total - holds - reversed_
    evidence = f"{holds} of {total} orders hold, {reversed_} are reversed, {close} too close to tell" if total else ""
    return Finding(verdict, evidence, total, 2 * len(sharings) * (len(slower) + len(larger)))


def _sharings() -> list[str]:
    """Those that the paper measured cost under."""
    return list(dict.fromkeys(Cell.of(entry.cell).sharing for entry in published.table("wallclock")))


def _rollouts(costs: Sequence[Cost]) -> Finding:
    """Whether rollouts take as long as MAPPO's. Processes of the same work differ: cells timed in turn can tell."""
    others = [(label, REFERENCE) for label in ("fp3o", "happo", "ippo")]
    needed = 2 * len(_sharings()) * len(others)
    pairs = list(_pairs(costs, others, _sharings()))
    if not pairs:
        return Finding("not run", "", 0, needed)
    interleaved = all(cost.interleaved for pair in pairs for cost in pair)
    found = [ratio(a.rollouts, b.rollouts, interleaved) for a, b in pairs]
    evidence = f"{min(found).value:.2f} to {max(found).value:.2f} of MAPPO's"
    if not interleaved:
        evidence += ", one process each: the same work, so what they differ by is the machine's"
        return Finding("undecided", evidence, len(found), needed)
    low, high = min(one.low for one in found), max(one.high for one in found)
    evidence += f", in turn in one process; intervals from {low:.2f} to {high:.2f}"
    equal = all(SAME_TIME[0] <= one.low and one.high <= SAME_TIME[1] for one in found)
    apart = any(one.high < SAME_TIME[0] or one.low > SAME_TIME[1] for one in found)
    return Finding("contradicted" if apart else "equivalent" if equal else "undecided", evidence, len(found), needed)


def _clip(costs: Sequence[Cost]) -> Finding:
    """Time that FP3O saves against its variant with clipping alone, which evaluates every agent's ratio anew.

    The paper gives this saving as the reason for FP3O's intermediate policies.
    """
    found = times(costs, "fp3o-clipping-only")
    savings = [1 - one.iteration.value for cell, one in found.items() if Cell.of(cell).label == "fp3o"]
    evidence = f"saves {min(savings):.0%} to {max(savings):.0%} per iteration" if savings else ""
    inside = [ABOUT_20[0] <= value <= ABOUT_20[1] for value in savings]
    verdict: ClaimVerdict = "supported" if all(inside) else "undecided" if any(inside) else "contradicted"
    return Finding(verdict if savings else "not run", evidence, len(savings), 2 * len(_sharings()))


def _split(costs: Sequence[Cost]) -> Finding:
    """The paper's share is of the real game on its machine; ours is of another engine on another machine."""
    measured = [cost for cost in costs if cost.cell == f"smac/bane_vs_bane/full/{REFERENCE}"]
    if not measured:
        return Finding("not run", "", 0, 1)
    share = measured[0].rollout / measured[0].seconds.value
    text = f"rollouts take {share:.0%} with our engine on {measured[0].host}; the paper's are of StarCraft II"
    return Finding("not comparable", text, 1, 1)


def summary(costs: Sequence[Cost]) -> dict[str, Any]:
    """For the scorecard: how many of the paper's numbers on cost were measured, and how near our ratios are."""
    cells = [entry.cell for entry in published.table("wallclock")]
    rows = [*_time(cells, costs), *_memory(cells, costs)]
    both = [
        row.ours_ratio / row.published_ratio
        for row in rows
        if row.ours_ratio and row.published_ratio and not row.cell.endswith(f"/{REFERENCE}")
    ]
    return {
        "published_numbers": sum(row.published is not None for row in rows),
        "measured": sum(row.published is not None and row.ours is not None for row in rows),
        "ratios_to_mappo_compared": len(both),
        "of_these_within_ten_percent": sum(0.9 <= value <= 1.1 for value in both),
    }


# --- Tables -----------------------------------------------------------------------------------------------------------


INTERLEAVED = (
    "All cells were timed in turn in one process; × MAPPO: geometric means of the ratios round by round, with 95 % "
    "intervals over rounds."
)
APART = (
    "Each cell was timed in a process of its own. Iteration × MAPPO: with the same rollout for both (the task's mean), "
    "as the work is the same and processes differ in it. Intervals: 95 %, over the iterations of one process, which "
    "does not tell how processes differ."
)


def _time(cells: Sequence[str], costs: Sequence[Cost]) -> list[Ratio]:
    """Time per iteration; the ratios are of whole iterations."""
    seconds = {cost.cell: cost.seconds.value for cost in costs}
    return ratios(cells, seconds, "wallclock", {cell: one.iteration.value for cell, one in times(costs).items()})


def _memory(cells: Sequence[str], costs: Sequence[Cost]) -> list[Ratio]:
    return ratios(cells, {cost.cell: cost.memory for cost in costs}, "memory")


def to_csv(cells: Sequence[str], costs: Sequence[Cost]) -> str:
    """Both tables, one line per cell."""
    header = (
        *("cell", "seconds_per_iteration", "seconds_low", "seconds_high", "rollout_s", "update_s"),
        *("update_ratio", "update_ratio_low", "update_ratio_high", "ratio", "ratio_low", "ratio_high"),
        *("minutes_extrapolated", "published_minutes", "published_ratio"),
        *("mib", "allocated_mib", "memory_ratio", "published_mib", "published_memory_ratio"),
        *("iterations", "interleaved", "host"),
    )
    known, relative = {cost.cell: cost for cost in costs}, times(costs)
    rows = []
    for time, memory in zip(_time(cells, costs), _memory(cells, costs), strict=True):
        cost, to_mappo = known.get(time.cell), relative.get(time.cell)
        numbers = (
            *((*cost.seconds, cost.rollout, cost.update) if cost else [None] * 5),
            *((*to_mappo.update, *to_mappo.iteration) if to_mappo else [None] * 6),
            *(cost and cost.minutes, time.published, time.published_ratio),
            *(memory.ours, cost and cost.allocated_mib, memory.ours_ratio, memory.published, memory.published_ratio),
        )
        how = (len(cost.updates), YES_NO[cost.interleaved], cost.host) if cost else ("", "", "")
        rows.append((time.cell, *map(_text, numbers), *how))
    return csv_text(header, rows)


def table(cells: Sequence[str], costs: Sequence[Cost]) -> TextTable:
    """For readers: ours and the paper's side by side."""
    header = ["Cell", "rollout s", "update s", "update × MAPPO", "iteration × MAPPO", "paper ×", "minutes", "paper"]
    header += ["MiB", "allocated", "paper", "× MAPPO", "paper ×"]
    known, relative = {cost.cell: cost for cost in costs}, times(costs)
    rows = []
    for time, memory in zip(_time(cells, costs), _memory(cells, costs), strict=True):
        cost, to_mappo = known.get(time.cell), relative.get(time.cell)
        ours = [f"{cost.rollout:.3g}", f"{cost.update:.3g}"] if cost else ["not run", "–"]
        multiples = [f"{value:.2f} ({low:.2f} … {high:.2f})" for value, low, high in to_mappo or ()] or ["–", "–"]
        numbers = (time.published_ratio, cost and cost.minutes, time.published)
        more = (memory.ours, cost and cost.allocated_mib, memory.published, memory.ours_ratio, memory.published_ratio)
        rows.append([time.cell, *ours, *multiples, *(_text(value) or "–" for value in (*numbers, *more))])
    hosts = "; ".join(sorted({cost.host for cost in costs})) or "nothing yet"
    note = (
        "Seconds per iteration of one seed after warm-up, evaluation left out. "
        + (INTERLEAVED if costs and all(cost.interleaved for cost in costs) else APART)
        + " Minutes for the paper's steps are extrapolated. MiB of the GPU taken by the process, context included, as "
        f"the paper's, and allocated for tensors; without a GPU, of main memory. Measured on {hosts}."
    )
    return TextTable(header, rows, [note])


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def main(argv: Sequence[str] | None = None) -> None:
    arguments = argparse.ArgumentParser(description="Cost tables.")
    arguments.add_argument("--suite", default="paper", help="suite whose cost artefacts name the cells")
    arguments.add_argument("--cost", type=Path, required=True, help="cost.csv")
    arguments.add_argument("--out", type=Path, required=True, help="path without suffix; .csv, .md, .tex are written")
    chosen = arguments.parse_args(argv)
    cells, costs = cells_of(config.load_suite(chosen.suite)), read(chosen.cost)
    shown = table(cells, costs)
    shown.write(chosen.out, to_csv(cells, costs), "Time and memory.", "table_appendix_computational1", "l" + "r" * 12)


if __name__ == "__main__":
    as_command(main)
