"""The notes under a table: scoring rule, engine, missing seeds, lost episodes, deviations, errata, verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from fp3o.config import Cell, algorithm_title
from fp3o.config.domains import DOMAINS
from fp3o.grouping import grouped
from fp3o.statistics import own_metrics
from fp3o.statistics import published as paper
from fp3o.statistics.scores import CellRuns, engine_of, scores_of_short_runs, scoring_of
from fp3o.statistics.tables.model import Table


def _engines(members: Sequence[CellRuns], where: str) -> dict[str, list[str]]:
    """By engine (simulator), the tasks it simulated; UserError if the cells of a row have different engines."""
    rows = grouped((Cell.of(cell_runs.cell).row, cell_runs) for cell_runs in members)
    found: dict[str, list[str]] = {}
    for row, cells in rows.items():
        engine = engine_of(cells, f"{where}, row {row}")
        if engine and row.task not in found.setdefault(engine, []):
            found[engine].append(row.task)
    return found


def notes_of(table: Table) -> list[str]:
    """One sentence each, in the order they are printed."""
    runs = [entry.runs for entry in table.entries if entry.runs is not None]
    notes = []
    for domain in dict.fromkeys(Cell.of(cell_runs.cell).domain for cell_runs in runs):
        members = [cell_runs for cell_runs in runs if Cell.of(cell_runs.cell).domain == domain]
        about = DOMAINS[domain]
        notes.append(f"{domain}: {scoring_of(domain).words}.")
        if short := scores_of_short_runs(members):
            notes.append(f"{domain}: {short}.")
        engines = _engines(members, table.name)
        several = len(engines) > 1
        named = [f"{engine} ({', '.join(tasks)})" if several else engine for engine, tasks in engines.items()]
        notes.append(f"{domain}: simulated by {'; '.join(named)}." if named else f"{domain}: no run yet.")
        if about.real_backend and any(about.real_backend not in engine for engine in engines):
            notes.append("smac: the embedded engine is not StarCraft II; published values are of the real game.")
        package = about.package.lower()
        documents = [run.document for cell_runs in members for run in cell_runs.runs]
        builds = sorted({document["versions"].get(package, "") for document in documents} - {""})
        if len(builds) > 1:
            notes.append(f"{domain}: runs of several {about.package} versions: {', '.join(builds)}.")
    if table.controls:
        names = ", ".join(algorithm_title(label) for label in table.controls)
        notes.append(f"{names}: our control, not in the paper, and not ranked.")
    done = [entry for entry in table.entries if entry.summary]
    notes.append(f"{len(done)} of {len(table.entries)} cells run.")
    missing = [f"{entry.cell} ({entry.count})" for entry in done if entry.summary and entry.summary.n < entry.planned]
    if missing:
        notes.append(f"Seeds missing: {'; '.join(missing)}.")
    diverged = [f"{entry.cell} ({entry.diverged})" for entry in table.entries if entry.diverged]
    if diverged:
        notes.append(f"Diverged seeds, scored by their last evaluations: {'; '.join(diverged)}.")
    lost = [f"{cell_runs.cell} ({cell_runs.lost_episodes})" for cell_runs in runs if cell_runs.lost_episodes]
    if lost:
        notes.append(f"Episodes lost to failures of the environment, which was built anew: {'; '.join(lost)}.")
    notes += [note for cell_runs in runs if (note := own_metrics.sentence(cell_runs))]
    departures = sorted({str(change) for entry in done for change in entry.deviations})
    if departures:
        reason = ", so not compared with the paper" if any(entry.published for entry in done) else ""
        notes.append(f"Deviates from the plain cells{reason}: {'; '.join(departures)}.")
    if table.label == "table_appendix_MPE":
        tasks = {Cell.of(entry.cell).task for entry in table.entries}
        notes += [
            f"{bound.task}: a team that knew every goal {bound.goal_known} would score {bound.value:.1f} ± "
            f"{bound.spread:.1f} on the episodes our policies are scored on (our search, near-optimal)."
            for bound in paper.bounds()
            if bound.task in tasks
        ]
    notes += [
        remark["text"]
        for remark in paper.paper()["remarks"]
        if remark["label"] == table.label
        and any(entry.published and entry.cell.startswith(remark["cells"]) for entry in table.entries)
    ]
    if any(entry.paired for entry in done):
        notes.append(
            f"Second line: difference to {algorithm_title(table.baseline)}, mean over the seeds that both have, 95 % t "
            "interval. Better, worse: significant at 5 % by the paired t-test (win rates: exact rank-sum test) after "
            "Benjamini and Hochberg over all comparisons this table plans; equivalent: 90 % interval within the margin "
            "(10 points of win rate, a tenth of the paper's range on the task, or what the suite says); floor: no seed "
            "of either wins more than one battle of an evaluation."
        )
    if any(entry.comparison for entry in done):
        notes.append(
            "Verdicts: consistent = equivalent within the margin (two one-sided tests), differs = significant at 5 % "
            "after Benjamini and Hochberg over all cells this table plans, else undecided; the margin is 10 points of "
            "win rate or a tenth of the paper's range on the task; the prediction interval is where five further seeds "
            "of ours would fall, and the interval of a difference of medians is taken from it."
        )
    return notes
