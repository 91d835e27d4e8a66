"""The two cost tables: time and memory of one seed on an idle machine, beside the paper's.

    python -m fp3o.statistics.cost --suite paper --cost results/paper/cost.csv --out results/paper/tables/table-cost

The hardware differs from the paper's, so minutes and MiB are shown and their ratios to MAPPO compared.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fp3o import config
from fp3o.config import Cell, Suite
from fp3o.errors import UserError
from fp3o.statistics import published
from fp3o.statistics.findings import Claim, ClaimVerdict, Finding
from fp3o.statistics.suites import as_command, csv_text, write
from fp3o.statistics.tables import text_tables

COLUMNS = (
    *("cell", "iterations", "rollout_s", "update_s", "evaluation_s", "seconds_low", "seconds_high"),
    *("peak_gpu_mib", "process_gpu_mib", "memory_mib", "device"),
)
REFERENCE = "mappo"


class Cost(NamedTuple):
    """One row of cost.csv: one seed of a cell trained alone, without its first iterations."""

    cell: str
    iterations: int
    rollout: float
    """Seconds, mean over iterations; likewise the next two."""
    update: float
    evaluation: float
    low: float
    """95 % interval of the seconds of rollout and update together, over the iterations."""
    high: float
    allocated_mib: float | None
    """Peak that tensors took on the GPU; None without one."""
    process_mib: float | None
    """What the process took of the GPU, context and cached blocks included, as nvidia-smi shows it."""
    main_mib: float
    """Peak of the process in main memory."""
    device: str

    @property
    def seconds(self) -> float:
        """Per iteration, without evaluation."""
        return self.rollout + self.update

    @property
    def memory(self) -> float:
        """MiB, as the paper measured them: of the GPU, by the process. Without a GPU, of main memory."""
        return self.process_mib or self.allocated_mib or self.main_mib

    @property
    def minutes(self) -> float:
        """One seed at the paper's budget, extrapolated."""
        return self.seconds * config.resolve(Cell.parse(self.cell)).iterations / 60


def read(path: Path) -> list[Cost]:
    """The rows of cost.csv, one per cell."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UserError(f"{path} has the columns {reader.fieldnames}; expected: {','.join(COLUMNS)}")

        def optional(text: str) -> float | None:
            return float(text) if text else None

        return [
            Cost(
                cell=row["cell"],
                iterations=int(row["iterations"]),
                rollout=float(row["rollout_s"]),
                update=float(row["update_s"]),
                evaluation=float(row["evaluation_s"]),
                low=float(row["seconds_low"]),
                high=float(row["seconds_high"]),
                allocated_mib=optional(row["peak_gpu_mib"]),
                process_mib=optional(row["process_gpu_mib"]),
                main_mib=float(row["memory_mib"]),
                device=row["device"],
            )
            for row in reader
        ]


def cells_of(suite: Suite) -> list[str]:
    """The cells whose cost the suite asks for, measured or not."""
    return [cell.id for artefact in suite.artefacts if artefact.kind == "cost" for cell in artefact.cells]


class Ratio(NamedTuple):
    """A cell's cost as a multiple of MAPPO's in the same row, ours and the paper's."""

    cell: str
    ours: float | None
    ours_ratio: float | None
    published: float | None
    published_ratio: float | None


def ratios(cells: Sequence[str], costs: Sequence[Cost], measure: Callable[[Cost], float], table: str) -> list[Ratio]:
    """One per cell; `table`: the published table to compare with."""
    ours = {cost.cell: measure(cost) for cost in costs}
    theirs = {entry.cell: entry.value for entry in published.table(table)}

    def ratio(values: dict[str, float], cell: str) -> float | None:
        reference = values.get(f"{cell.rpartition('/')[0]}/{REFERENCE}")
        return values[cell] / reference if cell in values and reference else None

    return [Ratio(cell, ours.get(cell), ratio(ours, cell), theirs.get(cell), ratio(theirs, cell)) for cell in cells]


# --- What the paper says of cost ------------------------------------------------------------------------------------

# The paper's conclusions from its tables (appendix, computational analysis): the first of each pair costs more.
SLOWER = (("happo", "fp3o"), ("fp3o", "mappo"), ("fp3o", "ippo"))
LARGER = (("fp3o", "happo"), ("mappo", "ippo"), ("ippo", "happo"))
# Memory repeats from run to run. The paper writes both ≈ and > for 0.2 %; half of that counts as equal.
SAME_MEMORY = 0.001
# "Approximately 20 %" and "approximately 85 %" of the paper, as ranges of ours.
ABOUT_20, ABOUT_85 = (0.15, 0.25), (0.80, 0.90)


def claims(costs: Sequence[Cost]) -> list[tuple[Claim, Finding]]:
    """Claims on cost with their findings."""
    text = "HAPPO takes longer than FP3O, FP3O longer than MAPPO; FP3O and MAPPO take more memory than HAPPO"
    found = [
        ("C12", text, "table_appendix_computational1", _orders(costs)),
        (
            "C20",
            "FP3O takes about 20 % less time than clipping alone",
            "table_appendix_approximation_analysis",
            _clip(costs),
        ),
        (
            "C21",
            "On bane vs. bane rollouts take about 85 % of MAPPO's time",
            "table_appendix_computational1",
            _split(costs),
        ),
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


def _orders(costs: Sequence[Cost]) -> Finding:
    """The orders under full and partial sharing, pair by pair: times by their intervals, memory by a margin."""
    shared = ("full", "partial")
    signs = [(a.low > b.high) - (a.high < b.low) for a, b in _pairs(costs, SLOWER, shared)]
    for a, b in _pairs(costs, LARGER, shared):
        signs.append((a.memory > b.memory * (1 + SAME_MEMORY)) - (a.memory * (1 + SAME_MEMORY) < b.memory))
    holds, reversed_, total = signs.count(1), signs.count(-1), len(signs)
    verdict: ClaimVerdict = "not run" if not total else "supported" if holds == total else "undecided"
    if reversed_ > total / 2:
        verdict = "contradicted"
    close = total - holds - reversed_
    evidence = f"{holds} of {total} orders hold, {reversed_} are reversed, {close} too close to tell" if total else ""
    return Finding(verdict, evidence, total, 2 * 2 * (len(SLOWER) + len(LARGER)))


def _clip(costs: Sequence[Cost]) -> Finding:
    """Time that FP3O saves against its variant with clipping alone, which evaluates every agent's ratio anew.

    The paper gives this saving as the reason for FP3O's intermediate policies.
    """
    every = list(dict.fromkeys(Cell.of(entry.cell).sharing for entry in published.table("wallclock")))
    savings = [
        1 - whole.seconds / clip.seconds for clip, whole in _pairs(costs, [("fp3o-clipping-only", "fp3o")], every)
    ]
    evidence = f"saves {min(savings):.0%} to {max(savings):.0%} per iteration" if savings else ""
    return Finding(_within(savings, ABOUT_20), evidence, len(savings), 2 * len(every))


def _split(costs: Sequence[Cost]) -> Finding:
    """The paper does not say under which sharing: full is assumed."""
    measured = [cost for cost in costs if cost.cell == f"smac/bane_vs_bane/full/{REFERENCE}"]
    shares = [cost.rollout / cost.seconds for cost in measured]
    evidence = f"rollouts take {shares[0]:.0%}, with our engine on {measured[0].device}" if measured else ""
    return Finding(_within(shares, ABOUT_85), evidence, len(shares), 1)


def _within(values: Sequence[float], limits: tuple[float, float]) -> ClaimVerdict:
    if not values:
        return "not run"
    inside = [limits[0] <= value <= limits[1] for value in values]
    return "supported" if all(inside) else "undecided" if any(inside) else "contradicted"


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


def _time(cells: Sequence[str], costs: Sequence[Cost]) -> list[Ratio]:
    return ratios(cells, costs, lambda cost: cost.seconds, "wallclock")


def _memory(cells: Sequence[str], costs: Sequence[Cost]) -> list[Ratio]:
    return ratios(cells, costs, lambda cost: cost.memory, "memory")


def to_csv(cells: Sequence[str], costs: Sequence[Cost]) -> str:
    """Both tables, one line per cell."""
    header = (
        *("cell", "seconds_per_iteration", "seconds_low", "seconds_high", "ratio"),
        *("minutes_extrapolated", "published_minutes", "published_ratio"),
        *("mib", "allocated_mib", "memory_ratio", "published_mib", "published_memory_ratio"),
    )
    known = {cost.cell: cost for cost in costs}
    rows = []
    for time, memory in zip(_time(cells, costs), _memory(cells, costs), strict=True):
        cost = known.get(time.cell)
        interval = (cost.low, cost.high) if cost else (None, None)
        numbers = (
            *(time.ours, *interval, time.ours_ratio, cost and cost.minutes, time.published, time.published_ratio),
            *(memory.ours, cost and cost.allocated_mib, memory.ours_ratio, memory.published, memory.published_ratio),
        )
        rows.append((time.cell, *map(_text, numbers)))
    return csv_text(header, rows)


def table(cells: Sequence[str], costs: Sequence[Cost]) -> tuple[list[str], list[list[str]], str]:
    """Header, rows and note of a table for readers: ours and the paper's side by side."""
    header = ["Cell", "s per iteration", "minutes", "paper", "× MAPPO", "paper ×"]
    header += ["MiB", "allocated", "paper", "× MAPPO", "paper ×"]
    known = {cost.cell: cost for cost in costs}
    rows = []
    for time, memory in zip(_time(cells, costs), _memory(cells, costs), strict=True):
        cost = known.get(time.cell)
        ours = f"{cost.seconds:.4g} ({cost.low:.4g} … {cost.high:.4g})" if cost else "not run"
        numbers = (cost and cost.minutes, time.published, time.ours_ratio, time.published_ratio)
        more = (memory.ours, cost and cost.allocated_mib, memory.published, memory.ours_ratio, memory.published_ratio)
        rows.append([time.cell, ours, *(_text(value) or "–" for value in (*numbers, *more))])
    devices = ", ".join(sorted({cost.device for cost in costs})) or "nothing yet"
    note = (
        "One seed by itself after warm-up, evaluation left out; 95 % interval over iterations; minutes for the paper's "
        "steps are extrapolated. MiB of the GPU taken by the process, context included, as the paper's, and allocated "
        f"for tensors; without a GPU, of main memory. Measured on {devices}."
    )
    return header, rows, note


def to_markdown(cells: Sequence[str], costs: Sequence[Cost]) -> str:
    """The same as Markdown."""
    header, rows, note = table(cells, costs)
    return text_tables.to_markdown(header, rows, [note])


def to_latex(cells: Sequence[str], costs: Sequence[Cost]) -> str:
    """The same with booktabs."""
    header, rows, note = table(cells, costs)
    columns = "l" + "r" * (len(header) - 1)
    return text_tables.to_latex(header, rows, f"Time and memory. {note}", "table_appendix_computational1", columns)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def main(argv: Sequence[str] | None = None) -> None:
    arguments = argparse.ArgumentParser(description="Cost tables.")
    arguments.add_argument("--suite", default="paper", help="suite whose cost artefacts name the cells")
    arguments.add_argument("--cost", type=Path, required=True, help="cost.csv")
    arguments.add_argument("--out", type=Path, required=True, help="path without suffix; .csv, .md, .tex are written")
    chosen = arguments.parse_args(argv)
    cells, costs = cells_of(config.load_suite(chosen.suite)), read(chosen.cost)
    for suffix, make in ((".csv", to_csv), (".md", to_markdown), (".tex", to_latex)):
        write(chosen.out.with_suffix(suffix), make(cells, costs))


if __name__ == "__main__":
    as_command(main)
