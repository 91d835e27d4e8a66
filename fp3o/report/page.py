"""The page: scorecard, tables, figures, cells."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fp3o.config import algorithm_title
from fp3o.report.cell import cell_section, verdict_class
from fp3o.report.html import Content, Html, anchor, table, tag
from fp3o.statistics.cost import Cost
from fp3o.statistics.scorecard import scorecard
from fp3o.statistics.scores import battles_by
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables import Entry, Table, build, entry_of, fixed

HERE = Path(__file__).parent
# Nothing may be fetched: the browser itself enforces it.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(data: SuiteRuns, figures: Path | None = None, costs: Sequence[Cost] = (), cost_table: str = "") -> str:
    """The whole report as one HTML document; same runs, same bytes on the same machine."""
    card = scorecard(data, costs)
    tables = [build(data, artefact) for artefact in data.suite.artefacts if artefact.kind == "table"]
    title = f"{data.suite.raw['title']}: {data.suite.name} suite"
    sections = [
        tag("section", tag("h2", "Scorecard"), *scorecard_part(card), id="scorecard"),
        tag("section", tag("h2", "Claims of the paper"), claims_part(card), id="claims"),
        tag(
            "section", tag("h2", "Tables"), *(table_part(found) for found in tables), cost_part(cost_table), id="tables"
        ),
        tag("section", tag("h2", "Figures"), *figures_part(data, figures), id="figures"),
        tag("section", tag("h2", "Cells"), *cells_part(data, tables), id="cells"),
    ]
    names = ("scorecard", "claims", "tables", "figures", "cells")
    links = [tag("a", name.capitalize(), href=f"#{name}") for name in names]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        Html(f"<style>\n{(HERE / 'style.css').read_text(encoding='utf-8')}</style>"),
        Html(f"<script>\n{(HERE / 'script.js').read_text(encoding='utf-8')}</script>"),
    ]
    body = [
        tag("header", tag("h1", title), tag("p", introduction(card), class_="muted")),
        tag("nav", tag("div", *links)),
        tag("main", *sections),
    ]
    return "<!doctype html>\n" + tag("html", tag("head", *head), tag("body", *body), lang="en") + "\n"


def introduction(card: Mapping[str, Any]) -> str:
    found = card["coverage"]
    return (
        f"{found['cells_started']} of {found['cells_planned']} cells and {found['seeds_run']} of "
        f"{found['seeds_planned']} seeds run, {found['seeds_diverged']} diverged. Cells not run are shown as such; no "
        "number stands without its n."
    )


# --- Scorecard ----------------------------------------------------------------------------------------------------

VERDICTS = ("consistent", "undecided", "differs (ours higher)", "differs (ours lower)", "not compared", "not run")


def scorecard_part(card: Mapping[str, Any]) -> list[Content]:
    verdicts = card["verdicts"]
    differs = sum(count for name, count in verdicts.items() if name.startswith("differs"))
    tiles = [
        (f"{card['coverage']['cells_started']} / {card['coverage']['cells_planned']}", "cells run"),
        (f"{card['compared_cells']} / {card['published_cells']}", "published numbers compared"),
        (str(verdicts.get("consistent", 0)), "consistent"),
        (str(verdicts.get("undecided", 0)), "undecided"),
        (str(differs), "differ"),
        (
            f"{card['published_inside_our_prediction_interval']} / {card['compared_cells']}",
            "published values where a repetition of ours would fall",
        ),
    ]
    parts: list[Content] = [
        tag("div", *(tag("div", tag("b", value), name, class_="tile") for value, name in tiles), class_="tiles"),
        tag(
            "p",
            "Consistent: shown to be equivalent within the margin. Differs: significant at 5 % after correcting for "
            "all cells of the table. Undecided: neither, which with five seeds is the usual outcome even of a perfect "
            "reproduction.",
            class_="note",
        ),
    ]
    for name in ("domain", "sharing", "algorithm"):
        groups = card[f"verdicts_by_{name}"]
        if groups:
            rows = [
                [
                    group,
                    *(tag("td", str(counts.get(v, 0)) if counts.get(v) else "·", class_="number") for v in VERDICTS),
                ]
                for group, counts in groups.items()
            ]
            parts.append(table([f"by {name}", *VERDICTS], rows))
    parts += [tag("h3", "Order of the algorithms"), ranks_part(card)]
    parts += [tag("h3", "Pooled over rows"), *aggregates_part(card)]
    return parts


def ranks_part(card: Mapping[str, Any]) -> Html:
    rows = []
    for domain, found in card["rank_agreement"].items():
        if found is None:
            rows.append([domain, "no row with all of the paper's algorithms yet", "", "", "", ""])
            continue
        low, high = found["interval"]
        rows.append(
            [
                domain,
                str(found["rows"]),
                f"{found['mean_tau']:.2f} [{low:.2f}, {high:.2f}]",
                f"{found['p']:.4f}",
                f"{found['of_these_same_sign']} of {found['pairs_separated_in_the_paper']}",
                f"{found['published_best_is_our_best']} of {found['rows']}",
            ]
        )
    header = [
        "",
        "rows",
        "mean Kendall τ with the paper",
        "p by chance",
        "separated pairs with the same sign",
        "same best",
    ]
    return table(header, rows)


def aggregates_part(card: Mapping[str, Any]) -> list[Content]:
    parts: list[Content] = []
    for domain, found in card["aggregates"].items():
        if found["pooled"]:
            rows = [
                [algorithm_title(label), *(_with_interval(values[name]) for name in values)]
                for label, values in found["pooled"].items()
            ]
            names = [name.replace("_", " ") for name in next(iter(found["pooled"].values()))]
            parts.append(tag("p", f"{domain}: {len(found['rows'])} rows, {found['scale']}; 95 % stratified bootstrap."))
            parts.append(table(["", *names], rows))
        better = found["probability_that_fp3o_is_better"]
        if better:
            rows = [[f"over {algorithm_title(o)}", _with_interval(v), str(v["rows"])] for o, v in better.items()]
            parts.append(table([f"{domain}: P(FP3O better)", "value", "rows"], rows))
    return parts or [tag("p", "No row is complete yet.", class_="muted")]


def _with_interval(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    bounds = f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else ""
    return f"{found['value']:.2f}{bounds}"


def claims_part(card: Mapping[str, Any]) -> Html:
    rows = [
        [
            claim["name"],
            claim["claim"],
            tag("td", claim["words"], class_=claim["verdict"].replace("not run", "absent")),
            claim["evidence"],
            f"{claim['found']} of {claim['needed']}",
            claim["source"],
        ]
        for claim in card["claims"]
    ]
    return table(["", "Claim", "Verdict", "Evidence", "Comparisons run", "Where"], rows)


# --- Tables and figures -------------------------------------------------------------------------------------------


def table_part(found: Table) -> Html:
    columns = [algorithm_title(label) + (" — ours" if label in found.controls else "") for label in found.columns]
    rows = [[row.sharing, row.title, *(result_cell(entry) for entry in row.entries)] for row in found.rows]
    return tag(
        "section",
        tag("h3", f"{found.name}: {found.caption}"),
        table(["Sharing", "Task", *columns], rows, class_="results"),
        *(tag("p", note, class_="note") for note in found.notes),
        id=found.name,
    )


def result_cell(entry: Entry) -> Html:
    """Ours, n, published, verdict; a link to the cell."""
    if entry.runs is None:
        return tag("td", "—", class_="result absent")
    theirs = tag("small", f"paper {entry.published.text}") if entry.published else Html("")
    if entry.summary is None:
        return tag("td", tag("a", entry.verdict, href=f"#{anchor(entry.cell)}"), theirs, class_="result absent")
    value = fixed(entry.summary.centre)
    shown: Content = tag("b", value) if entry.bold else tag("u", value) if entry.underline else value
    spread = f" ± {fixed(entry.summary.spread)}" if entry.summary.n > 1 else ""
    verdict = tag("small", entry.verdict) if entry.verdict else Html("")
    link = tag("a", shown, spread, href=f"#{anchor(entry.cell)}")
    return tag("td", link, tag("small", entry.count), theirs, verdict, class_=f"result {verdict_class(entry)}")


def cost_part(markdown: str) -> Html:
    """The cost table as written for people."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    if not lines:
        return Html("")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    notes = [line[2:] for line in markdown.splitlines() if line.startswith("- ")]
    return tag(
        "section",
        tag("h3", "table-cost: time and memory, as ratios to MAPPO"),
        table(rows[0], rows[2:]),
        *(tag("p", note, class_="note") for note in notes),
        id="table-cost",
    )


def figures_part(data: SuiteRuns, folder: Path | None) -> Iterable[Html]:
    """Every picture of the folder, those of the suite with their captions first."""
    captions = {artefact.name: artefact.caption for artefact in data.suite.artefacts}
    drawn = [artefact for artefact in data.suite.artefacts if artefact.kind == "figure"]
    engines = {artefact.name: battles_by(data.of(artefact)) for artefact in drawn}
    names = [name for name in captions if folder and (folder / f"{name}.png").is_file()]
    names += [path.stem for path in sorted(folder.glob("*.png")) if path.stem not in captions] if folder else []
    for name in names:
        assert folder is not None
        picture = base64.b64encode((folder / f"{name}.png").read_bytes()).decode()
        text = f"{name}: {captions[name]}" if name in captions else name
        text += f" ({engines[name]})" if engines.get(name) else ""
        yield tag(
            "figure", tag("img", src=f"data:image/png;base64,{picture}", alt=text), tag("figcaption", text), id=name
        )
    if not names:
        yield tag("p", "No figure drawn yet.", class_="muted")


# --- Cells --------------------------------------------------------------------------------------------------------


def cells_part(data: SuiteRuns, tables: Sequence[Table]) -> Iterable[Html]:
    """A section per cell that was run; the rest with the command that runs them."""
    judged: dict[str, Entry] = {}
    for found in tables:
        for entry in found.entries:
            judged.setdefault(entry.cell, entry)
    yield tag(
        "input", id="filter", type="search", placeholder="filter, e.g. halfcheetah full", aria_label="filter cells"
    )
    missing = []
    for cell in data.cells.values():
        if cell.runs:
            yield cell_section(judged.get(cell.cell) or entry_of(cell), cell)
        else:
            missing.append(cell)
    if missing:
        yield tag("h3", f"{len(missing)} cells not run")
        yield table(
            ["Cell", "Command"],
            (
                [tag("td", tag("code", cell.cell), id=anchor(cell.cell)), tag("code", command(data, cell.cell))]
                for cell in missing
            ),
        )


def command(data: SuiteRuns, cell: str) -> str:
    """What trains a cell of this suite."""
    return f"fp3o train {cell} --suite {data.suite.name}"
