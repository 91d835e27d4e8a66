"""The report's small tables as data: a title, column names, rows of texts. Templates have the markup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fp3o.config import Cell, Suite, algorithm_title
from fp3o.statistics.cost import Cost, cells_of
from fp3o.statistics.cost import table as cost_table
from fp3o.statistics.orders import comparisons
from fp3o.statistics.orders import table as orders_table
from fp3o.statistics.own_metrics import mean_of, metric_names
from fp3o.statistics.published import item_title
from fp3o.statistics.robustness import ordered, read
from fp3o.statistics.scores import REDUCTIONS, CellRuns, reduce
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables.digits import decimals, fixed
from fp3o.statistics.tables.model import Entry

VERDICTS = ("consistent", "undecided", "differs (ours higher)", "differs (ours lower)", "not compared", "not run")


class Sheet(NamedTuple):
    """A plain table; the first `words` columns are text, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    title: str = ""
    note: str = ""
    name: str = ""
    """Of the artefact, where the page shows it as one."""
    mark: str = ""
    """Fields with this text are set off."""


def verdicts(card: Mapping[str, Any]) -> Iterator[Sheet]:
    """How many cells of each verdict, by domain, sharing and algorithm."""
    for name in ("domain", "sharing", "algorithm"):
        groups = card[f"verdicts_by_{name}"]
        if groups:
            rows = [[group, *(str(counts.get(v, "·")) for v in VERDICTS)] for group, counts in groups.items()]
            yield Sheet([f"by {name}", *VERDICTS], rows)


def pooled(card: Mapping[str, Any]) -> Iterator[Sheet]:
    """Order of the algorithms and scores over all complete rows of a domain."""
    ranks = [
        [
            domain,
            str(found["rows"]),
            _with_interval({**found, "value": found["mean_tau"]}),
            f"{found['p']:.4f}",
            f"{found['of_these_same_sign']} of {found['pairs_separated_in_the_paper']}",
            f"{found['published_best_is_our_best']} of {found['rows']}",
        ]
        for domain, found in card["rank_agreement"].items()
        if found is not None
    ]
    if ranks:
        about = ("mean Kendall τ with the paper", "p by chance", "separated pairs with the same sign", "same best")
        yield Sheet(["", "rows", *about], ranks, title="Order of the algorithms")
    for domain, found in card["aggregates"].items():
        if found["pooled"]:
            names, rows = _by_metric(found["pooled"])
            count = len(found["rows"])
            note = f"{count} row{'s' * (count > 1)}, {found['scale']}; 95 % intervals."
            yield Sheet(["", *names], rows, title=f"{domain}, pooled over rows", note=note)
        better = found["probability_that_fp3o_is_better"]
        if better:
            rows = [[f"over {algorithm_title(o)}", _with_interval(v), str(v["rows"])] for o, v in better.items()]
            yield Sheet([f"{domain}: P(FP3O better)", "value", "rows"], rows)


def between(card: Mapping[str, Any]) -> Iterator[Sheet]:
    """The suite's own algorithms: pooled scores, and how often one beats another."""
    for found in card.get("between_algorithms", ()):
        names, rows = _by_metric(found["pooled"])
        note = f"{', '.join(found['rows'])}; {found['scale']}; 95 % intervals."
        if not any(values["mean"]["value"] for values in found["pooled"].values()):
            # Scaled to the best seed, one would be 1 if any two differed.
            note = f"{', '.join(found['rows'])}: all equal, every seed of every algorithm."
            yield Sheet(["", "score"], [[row[0], "all equal"] for row in rows], title="Between algorithms", note=note)
            continue
        yield Sheet(["", *names], rows, title="Between algorithms", note=note)
        pairs = [
            [f"{algorithm_title(pair['better'])} over {algorithm_title(pair['than'])}", _with_interval(pair)]
            for pair in found["probability_of_improvement"]
        ]
        yield Sheet(["P(X > Y)", "value"], pairs)


def _by_metric(pooled: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The metrics' names, and a row per algorithm."""
    rows = [[algorithm_title(label), *map(_with_interval, values.values())] for label, values in pooled.items()]
    return [name.replace("_", " ") for name in next(iter(pooled.values()))], rows


def _with_interval(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    bounds = f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else ""
    return f"{found['value']:.2f}{bounds}"


def costs(suite: Suite, found: Sequence[Cost]) -> tuple[Sheet, Sheet]:
    """Time and memory beside the paper's: the cells that were measured, and the others."""
    header, rows, notes = cost_table(cells_of(suite), found)
    known = {one.cell for one in found}
    measured, others = ([row for row in rows if (row[0] in known) is wanted] for wanted in (True, False))
    return Sheet(header, measured, note=" ".join(notes)), Sheet(header, others)


def orders(data: SuiteRuns) -> list[Sheet]:
    """In how many variants of the environment each order of two algorithms holds."""
    found = []
    for artefact in data.suite.artefacts:
        if artefact.kind == "orders":
            header, rows, notes = orders_table(comparisons(data, artefact))
            found.append(Sheet(header, rows, 2, artefact.caption, " ".join(notes), artefact.name))
    return found


def robustness(path: Path) -> Sheet | None:
    """Every verdict under other choices of the analysis, the least robust first; None where that was not worked out."""
    if not path.is_file():
        return None
    rows = [
        [row.kind, row.name, row.usual, f"{row.holds} of {len(row.others)}", row.flip_text or "–"]
        for row in ordered(read(path))
    ]
    header = ["", "Verdict on", "Verdict", "Holds under", "Other verdicts, and the choices that give them"]
    return Sheet(header, rows, len(header))


def stated(suite: Suite) -> list[Sheet]:
    """The tables of what the code says of itself, with the number of departures from the paper's in their titles."""
    found: list[Sheet] = []
    for artefact in suite.artefacts:
        if artefact.kind == "facts":
            from fp3o.statistics import facts  # needs torch, which takes seconds to import

            sheet = facts.build(artefact)
            count = len(sheet.departures)
            title = f"{artefact.caption} (departures from the paper: {count})" if count else artefact.caption
            note = " ".join(sheet.notes)
            found.append(
                Sheet(sheet.header, sheet.shown.rows, len(sheet.header), title, note, artefact.name, facts.MARK)
            )
    return found


def seeds(cell: CellRuns) -> Sheet:
    """One line per seed, missing ones too."""
    found = {run.seed: run for run in cell.runs}
    rows: list[list[str]] = []
    for seed in cell.planned.seeds:
        run = found.get(seed)
        if run is None:
            rows.append([str(seed), "not run", *[""] * (len(REDUCTIONS) + 2)])
            continue
        status = run.document["status"]
        if run.diverged:
            where = run.document["diverged"]
            status = f"diverged in iteration {where['iteration']} ({where['quantity']})"
        if run.lost_episodes:
            status += f"; {run.lost_episodes} episodes of its process lost to failures of the environment"
        numbers = [reduce(run, name) for name in REDUCTIONS]
        digits = max(2, decimals(Cell.of(cell.cell).domain, [number for number in numbers if number is not None]))
        shown = [fixed(number, digits) for number in (*numbers, run.episode_spread)]
        rows.append([str(seed), status, *shown, str(len(run.curve.value))])
    return Sheet(["Seed", "Status", *REDUCTIONS, "spread over final episodes", "evaluations"], rows, words=2)


def metrics(cell: CellRuns) -> Sheet | None:
    """The environment's own numbers, means over the episodes that a run's score counts; None where there are none."""
    names = metric_names(cell)
    if not names:
        return None
    scores = [run.document["score"].get("metrics", {}) for run in cell.runs]
    rows = [[name, mean_of(cell, name), *(_number(score.get(name)) for score in scores)] for name in names]
    return Sheet(["Metric", "Mean ± deviation", *(f"seed {run.seed}" for run in cell.runs)], rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"


def comparison(entry: Entry) -> Iterator[tuple[str, str]]:
    """Everything the verdict rests on."""
    found = entry.comparison
    assert found is not None
    low, high, coverage = found.prediction
    yield "ours", f"{fixed(found.ours.centre)} ± {fixed(found.ours.spread)} ({entry.count})"
    yield "published", f"{found.published.text} ({item_title(found.published.label)})"
    yield "difference", f"{fixed(found.difference)}, 95 % interval {fixed(found.low)} … {fixed(found.high)}"
    yield "in published spreads", fixed(found.standardised, 2) or "–"
    yield "p after correction", f"{found.p:.4f}"
    yield "equivalence margin", f"± {fixed(found.margin)}"
    yield "a repetition should fall within", f"{fixed(low)} … {fixed(high)} ({100 * coverage:.1f} %)"
    yield "percentile of the published value", f"{100 * found.percentile:.0f} % among papers made of our seeds"
    yield "verdict", found.words


def settings(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings and options of one seed; all seeds share the digest."""
    yield "digest", document["digest"]
    for part in ("settings", "options"):
        yield from ((name, str(value)) for name, value in sorted(document[part].items()))


def provenance(cell: CellRuns) -> Sheet:
    """Where each run comes from and what it cost. Seeds trained in one process share its seconds."""
    rows = []
    for run in cell.runs:
        volatile, git, path = run.document["volatile"], run.document["git"], run.document["path"]
        seconds = ", ".join(f"{name} {value:.0f} s" for name, value in sorted(volatile["seconds"].items()))
        gpu = volatile["peak_gpu_mib"]
        memory = f"{volatile['memory_mib']:.0f} MiB" + (f", GPU {gpu:.0f} MiB" if gpu else "")
        commit = "–" if git is None else git["commit"][:10] + (" (dirty)" if git["dirty"] else "")
        device = f"{path['device']}, {path['mode']}, torch {path['torch']}"
        stacked = f"{len(volatile['stacked_seeds'])} seeds in one process"
        rows.append([str(run.seed), commit, device, stacked, seconds, memory, str(volatile["resumes"])])
    return Sheet(["Seed", "Commit", "Device", "Stacking", "Time", "Memory", "Resumes"], rows, words=6)


def versions(cell: CellRuns) -> Iterator[tuple[str, str]]:
    """Engine, environment and packages of the first seed."""
    first = cell.runs[0]
    yield "engine", first.engine
    for part in ("environment", "versions"):
        yield from ((name, str(value)) for name, value in sorted(first.document[part].items()))
