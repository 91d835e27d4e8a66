"""How robust each verdict is: every claim and every cell judged anew under each reasonable choice of the analysis.

    python -m fp3o.statistics.robustness --suite paper --out results/paper/tables

One choice is changed at a time. A verdict that flips when the last evaluation is taken instead of the last ten, or when
one seed is left out, is not one to lean on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fp3o.config import suite_names
from fp3o.errors import as_command
from fp3o.grouping import grouped
from fp3o.statistics import gathered
from fp3o.statistics.choices import Choices
from fp3o.statistics.claims import ledger
from fp3o.statistics.orders import AS_IT_IS, in_variants
from fp3o.statistics.scores import CellRuns
from fp3o.statistics.suites import SuiteRuns, csv_text, load, parser, read_csv, write
from fp3o.statistics.tables.build import judged_entries
from fp3o.statistics.tables.text_tables import TextTable

NAME = "robustness"
CHOICES: dict[str, Choices] = {
    "score: last evaluation": Choices(reduction="final"),
    "score: mean of the last ten": Choices(reduction="last-10-mean"),
    "score: best evaluation": Choices(reduction="best"),
    "statistic: mean": Choices(statistic="mean"),
    "statistic: median": Choices(statistic="median"),
    "test: ranks": Choices(test="ranks"),
    "test: t": Choices(test="t"),
    "margin: half": Choices(margin=0.5),
    "margin: double": Choices(margin=2.0),
    "family: what was run": Choices(family="run"),
    "family: no correction": Choices(family="alone"),
    **{f"without seed {seed}": Choices(without=seed) for seed in range(5)},
}
TENTH = "a tenth of the budget"
OTHER_ENGINE = "a tenth, the engine's other revision"


class Robustness(NamedTuple):
    """A verdict under all choices."""

    kind: str
    """claim, paper (a cell against its published value) or baseline (a cell against the table's)."""
    name: str
    about: str
    usual: str
    others: dict[str, str]
    """The verdict under each other choice."""

    @property
    def holds(self) -> int:
        return sum(verdict == self.usual for verdict in self.others.values())

    @property
    def share(self) -> float:
        """Of the choices under which the verdict is the usual one."""
        return self.holds / len(self.others)

    @property
    def flips(self) -> dict[str, list[str]]:
        """By other verdict, the choices that lead to it."""
        return grouped((verdict, choice) for choice, verdict in self.others.items() if verdict != self.usual)

    @property
    def flip_text(self) -> str:
        return "; ".join(f"{verdict}: {', '.join(choices)}" for verdict, choices in self.flips.items())


def under(data: SuiteRuns, choices: Choices) -> SuiteRuns:
    """The same runs, analysed by other choices."""

    def chosen(name: str) -> CellRuns:
        cell = data.cells[name]
        reduction, statistic = choices.reduction or cell.scoring.reduction, choices.statistic or cell.scoring.statistic
        runs = tuple(run for run in cell.runs if run.seed != choices.without)
        return replace(cell, runs=runs, rule=replace(cell.scoring, reduction=reduction, statistic=statistic))

    return data.seen(chosen, choices)


Verdicts = dict[tuple[str, str, str], str]
"""By kind, name and text: the verdict."""


def _cells(data: SuiteRuns) -> Verdicts:
    found: Verdicts = {}
    for artefact in data.suite.artefacts:
        if artefact.kind == "table":
            for name, entry in judged_entries(data, artefact).items():
                if entry.comparison is not None:
                    found.setdefault(("paper", name, "against the published value"), entry.comparison.verdict)
                if entry.paired is not None:
                    text = f"against {artefact.baseline}"
                    found.setdefault(("baseline", name, text), entry.paired.verdict)
    return found


def _claims(data: SuiteRuns) -> Verdicts:
    return {("claim", claim.name, claim.text): finding.verdict for claim, finding in ledger(data)}


def _of_runs(verdicts: Verdicts) -> Verdicts:
    """Without those that no run exists for."""
    return {key: verdict for key, verdict in verdicts.items() if verdict != "not run"}


def robustness(data: SuiteRuns) -> list[Robustness]:
    """Every verdict of the suite that runs exist for, under every choice."""
    joined = gathered.whole(data) if data.suite.of_the_paper else None

    def judged(choices: Choices) -> Verdicts:
        found = _cells(under(data, choices))
        return found | (_claims(under(joined, choices)) if joined is not None else {})

    usual = _of_runs(judged(Choices()))
    verdicts = {name: judged(choices) for name, choices in CHOICES.items()}
    if joined is not None:
        early = {TENTH: gathered.tenth(data), OTHER_ENGINE: gathered.tenth(data, other_engine=True)}
        for name, other in (early | gathered.variants(data)).items():
            if other is not None:
                verdicts[name] = _of_runs(_claims(other))
    against = {key[1]: verdict for key, verdict in usual.items() if key[0] == "baseline"}
    for name, there in in_variants(data).items():
        if name != AS_IT_IS:
            keys = [key for key in usual if key[0] == "baseline" and there.get(key[1]) in against]
            verdicts[f"engine: {name}"] = {key: against[there[key[1]]] for key in keys}
    rows = []
    for key, verdict in usual.items():
        others = {name: found[key] for name, found in verdicts.items() if key in found}
        rows.append(Robustness(*key, verdict, others))
    return rows


def ordered(rows: Sequence[Robustness]) -> list[Robustness]:
    """Claims before cells, the least robust first."""
    return sorted(rows, key=lambda row: (row.kind != "claim", row.share, row.name))


def table(rows: Sequence[Robustness]) -> TextTable:
    """For readers."""
    lines = [
        [row.kind, row.name, row.about, row.usual, f"{row.holds} of {len(row.others)}", row.flip_text or "–"]
        for row in ordered(rows)
    ]
    return TextTable(("Kind", "Verdict on", "About", "Verdict", "Holds", "Other choices"), lines, notes(rows))


def notes(rows: Sequence[Robustness]) -> list[str]:
    """Under the table."""
    decided = [row for row in rows if row.usual not in ("undecided", "floor", "not comparable")]
    steady = [row for row in decided if row.share == 1]
    found = [
        f"{len(rows)} verdicts, {len(decided)} of them decided; {len(steady)} of these hold under every choice.",
        "One choice is changed at a time: the score of a run, the statistic over seeds, the test, the margin, the "
        "family of comparisons, the budget and the engine where such runs exist, and each seed left out.",
        "An undecided verdict that a choice decides is listed too: it shows what would have to be believed.",
    ]
    others = {choice.partition(": ")[0] for row in rows for choice in row.others} & set(suite_names())
    return [*found, *(f"{name}: judged by the cells of that suite alone, at its budget." for name in sorted(others))]


def to_csv(rows: Sequence[Robustness]) -> str:
    """One line per verdict, a column per choice; empty where a choice does not concern it."""
    names = list(dict.fromkeys(name for row in rows for name in row.others))
    lines = [
        (row.kind, row.name, row.usual, f"{row.share:.3f}", *(row.others.get(name, "") for name in names))
        for row in rows
    ]
    return csv_text(("kind", "name", "usual", "share", *names), lines)


def read(path: Path) -> list[Robustness]:
    """What `to_csv` wrote, without the texts on each claim and cell."""
    own = ("kind", "name", "usual", "share")
    found = []
    for row in read_csv(path):
        others = {name: verdict for name, verdict in row.items() if verdict and name not in own}
        found.append(Robustness(row["kind"], row["name"], "", row["usual"], others))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser("How robust every verdict of a suite is.", out=f"folder for {NAME}.csv and {NAME}.md")
    chosen = arguments.parse_args(argv)
    rows = robustness(load(chosen))
    write(chosen.out / f"{NAME}.csv", to_csv(rows))
    write(chosen.out / f"{NAME}.md", table(rows).markdown())


if __name__ == "__main__":
    as_command(main)
