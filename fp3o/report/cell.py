"""The section of one cell: curve against published, seeds, comparison, settings, versions, cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fp3o.report.curve import curve_svg
from fp3o.report.html import Content, Html, anchor, pairs, table, tag
from fp3o.statistics.compare import sentence
from fp3o.statistics.scores import REDUCTIONS, CellRuns, protocol_of, reduce
from fp3o.statistics.tables import Entry, fixed


def cell_section(entry: Entry, cell: CellRuns) -> Html:
    """Closed until asked for."""
    protocol = protocol_of(cell.cell)
    words = sentence(cell.cell, cell.scores(), cell.deviations)
    summary = tag("summary", tag("code", cell.cell), " ", tag("span", words, class_=verdict_class(entry)))
    published = entry.published if not cell.deviations else None
    parts: list[Content] = [
        summary,
        curve_svg(cell, published),
        tag("p", f"Thin: seeds. Thick: their {protocol.statistic}. {protocol.words}.", class_="note"),
        tag("h3", "Seeds"),
        seeds(cell),
    ]
    if entry.comparison is not None:
        parts += [tag("h3", "Against the paper"), comparison(entry)]
    parts += [tag("h3", "Deviations from the paper"), deviations(cell)]
    parts += [tag("details", tag("summary", "Settings"), pairs(settings(cell.runs[0].document)))]
    parts += [tag("details", tag("summary", "Provenance and cost"), provenance(cell))]
    return tag("details", *parts, id=anchor(cell.cell), class_="cell", data_cell=cell.cell)


def verdict_class(entry: Entry) -> str:
    """The colour of a verdict."""
    if entry.comparison is None:
        return "absent"
    return entry.comparison.verdict


def seeds(cell: CellRuns) -> Html:
    """One line per seed, missing ones too."""
    found = {run.seed: run for run in cell.runs}
    lines: list[list[Content]] = []
    for seed in cell.planned.seeds:
        run = found.get(seed)
        if run is None:
            lines.append([str(seed), "not run", *[""] * (len(REDUCTIONS) + 2)])
            continue
        status = run.document["status"]
        if run.diverged:
            where = run.document["diverged"]
            status = f"diverged in iteration {where['iteration']} ({where['quantity']})"
        numbers = [tag("td", fixed(reduce(run, name), 2), class_="number") for name in REDUCTIONS]
        spread = tag("td", fixed(run.episode_spread, 2), class_="number")
        lines.append([str(seed), status, *numbers, spread, tag("td", str(len(run.curve.value)), class_="number")])
    return table(["Seed", "Status", *REDUCTIONS, "spread over final episodes", "evaluations"], lines)


def comparison(entry: Entry) -> Html:
    """Everything the verdict rests on."""
    found = entry.comparison
    assert found is not None
    source = f"{found.published.text} ({found.published.label})"
    low, high, coverage = found.prediction
    return pairs(
        [
            ("ours", f"{fixed(found.ours.centre)} ± {fixed(found.ours.spread)} ({entry.count})"),
            ("published", source),
            ("difference", f"{fixed(found.difference)}, 95 % interval {fixed(found.low)} … {fixed(found.high)}"),
            ("in published spreads", fixed(found.standardised, 2) or "–"),
            ("p after correction", f"{found.p:.4f}"),
            ("equivalence margin", f"± {fixed(found.margin)}"),
            ("a repetition should fall within", f"{fixed(low)} … {fixed(high)} ({100 * coverage:.1f} %)"),
            ("percentile of the published value", f"{100 * found.percentile:.0f} % among papers made of our seeds"),
            ("verdict", found.words),
        ]
    )


def deviations(cell: CellRuns) -> Html:
    """As the runs recorded them, variants included."""
    found = sorted({text for run in cell.runs for text in run.document["deviations"]})
    return tag("ul", *(tag("li", text) for text in found)) if found else tag("p", "None.", class_="muted")


def settings(document: Mapping[str, Any]) -> Iterable[tuple[str, Content]]:
    """Settings and options of the first seed; all seeds share the digest."""
    yield "digest", document["digest"]
    for part in ("settings", "options"):
        for name, value in sorted(document[part].items()):
            yield name, str(value)


def provenance(cell: CellRuns) -> Html:
    """Where each run comes from and what it cost. Seeds trained in one process share its seconds."""
    first = cell.runs[0].document
    identity = [(name, str(value)) for name, value in sorted(first["environment"].items())]
    versions = [(name, value) for name, value in sorted(first["versions"].items())]
    rows = []
    for run in cell.runs:
        document = run.document
        volatile, git = document["volatile"], document["git"]
        seconds = ", ".join(f"{name} {value:.0f} s" for name, value in sorted(volatile["seconds"].items()))
        gpu = volatile["peak_gpu_mib"]
        memory = f"{volatile['memory_mib']:.0f} MiB" + (f", GPU {gpu:.0f} MiB" if gpu else "")
        commit = "–" if git is None else git["commit"][:10] + (" (dirty)" if git["dirty"] else "")
        path = document["path"]
        device = f"{path['device']}, {path['mode']}, torch {path['torch']}"
        stacked = f"{len(volatile['stacked_seeds'])} seeds in one process"
        rows.append([str(run.seed), commit, device, stacked, seconds, memory, str(volatile["resumes"])])
    header = ["Seed", "Commit", "Device", "Stacking", "Time", "Memory", "Resumes"]
    return tag("div", table(header, rows), pairs([("engine", cell.runs[0].engine), *identity, *versions]))
