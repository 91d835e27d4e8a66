"""docs/results.md, docs/paper-map.md and marked blocks of other pages, from the committed tables.

    python -m fp3o.report.results_page

Sentences stand in docs/templates (Jinja2). Their numbers and their words of direction (ahead, behind, level,
undecided) are computed here from the tables' columns; nothing about a result is typed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fp3o import config
from fp3o.config import Cell, algorithm_title
from fp3o.errors import as_command
from fp3o.grouping import grouped
from fp3o.report.conclusions import by_verdict, conclusions, counted, listed, named
from fp3o.report.paper_map import PaperMap
from fp3o.statistics import published
from fp3o.statistics.intervals import Student, Summary, welch
from fp3o.statistics.margins import margin_of
from fp3o.statistics.published import bounds, row_title
from fp3o.statistics.suites import markdown, read_csv

BLOCK = re.compile(r"(<!-- results: ([\w-]+) -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)
PAGES = ("README.md", "docs/index.md", "docs/deviations.md")
"""With marked blocks; docs/results.md and docs/paper-map.md are written as a whole."""
OTHERS = ("docs/statistics.md", "docs/smac-engine.md")
"""With a block each; what else they say has tests of its own or is measured by `benchmarks`."""
MINUS = re.compile(r"(?<=[\s\[(])-(?=\d)")
"""A hyphen that stands for one, in evidence of claims."""
MAIN = ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")
COMPARED = (*MAIN, "fp3o-3-2", "fp3o-clipping-only")
"""Algorithms that have a column where they were run."""
STANDING = {"worse": "ahead", "better": "behind", "equivalent": "level", "undecided": "undecided", "floor": "floor"}
"""FP3O's, by the verdict on the other algorithm in a table whose baseline is FP3O."""
VISIBLE = 10.0
"""Points of win rate by which the best seed must pass the median to be named."""
Row = dict[str, str]


def number(value: str | float, digits: int = 0) -> str:
    """Rounded half away from zero, with a true minus."""
    rounded = Decimal(str(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return str(rounded if rounded else abs(rounded)).replace("-", "−")


def score(row: Row, digits: int = 0) -> str:
    """Mean or median ± deviation over seeds; "not run"."""
    return f"{number(row['ours'], digits)} ± {number(row['spread'], digits)}" if row["ours"] else "not run"


def paper(row: Row, digits: int = 0) -> str:
    """The published value ± spread."""
    if not row["published"]:
        return "not in the paper"
    return f"{number(row['published'], digits)} ± {number(row['published_spread'], digits)}"


def span(low: str | float, high: str | float, digits: int = 0) -> str:
    return f"{number(low, digits)} … {number(high, digits)}"


class Gap(NamedTuple):
    """FP3O, or another first cell, against a second one."""

    word: str
    difference: Student

    def text(self, digits: int = 0) -> str:
        """ahead, by 9.8 (95 % interval 3.8 … 15.8)."""
        low, high, _ = self.difference.interval()
        return f"{self.word}, {number(self.difference.value, digits)} (95 % interval {span(low, high, digits)})"


def gap(first: Row, second: Row) -> Gap:
    """Two means with Welch's test, by themselves: no correction for the number of comparisons."""
    found = welch(*(Summary(float(row["ours"]), float(row["spread"]), int(row["n"])) for row in (first, second)))
    margin = margin_of(cell_of(first))
    word = "ahead" if found.value > 0 else "behind"
    if found.p >= 0.05:
        word = "level" if margin is not None and found.p_equal(margin) < 0.05 else "undecided"
    return Gap(word, found)


def behind(cells: dict[str, Row]) -> dict[str, Gap]:
    """The algorithms that FP3O is behind, with the difference. cells: of one task and sharing."""
    gaps = {label: gap(cells["fp3o"], cell) for label, cell in cells.items()}
    return {label: found for label, found in gaps.items() if found.word == "behind"}


def cell_of(row: Row) -> str:
    return "/".join(row[part] for part in ("domain", "task", "sharing", "algorithm"))


def title(row: Row) -> str:
    """HalfCheetah [6×1], no sharing, without the number of agents, which the brackets have."""
    return row_title(Cell.of(cell_of(row)).row)


def decimals(domain: str, scores: Iterable[float]) -> int:
    """That these scores are shown with: of returns of some hundreds and of win rates none."""
    return 0 if domain == "smac" or max(map(abs, scores)) >= 200 else 1


def digits_of(rows: Iterable[Row]) -> int:
    """Decimals of the scores of these cells, which are of one task."""
    run = [row for row in rows if row["ours"]]
    return decimals(run[0]["domain"], (float(row["ours"]) for row in run))


def standing_of(row: Row) -> str:
    """FP3O's against this cell, in a table whose baseline it is."""
    return STANDING[row["paired_verdict"]]


class Results:
    """Everything under results/ and docs/evidence that sentences are made of."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = cache(self._table)
        self.card = cache(self._card)

    def _table(self, suite: str, *names: str) -> dict[str, Row]:
        """Rows by cell; of several tables together."""
        found: dict[str, Row] = {}
        for name in names:
            for row in read_csv(self.root / f"results/{suite}/tables/{name}.csv"):
                found.setdefault(row["cell"] if "cell" in row else cell_of(row), row)
        return found

    def _card(self, suite: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / f"results/{suite}/scorecard.json").read_text())
        return found

    def claim(self, name: str, suite: str = "paper") -> dict[str, Any]:
        (found,) = (claim for claim in self.card(suite)["claims"] if claim["name"] == name)
        return dict(found)

    def shipped(self, suite: str, domain: str = "") -> int:
        """Number of cells whose runs are in the store."""
        manifest = json.loads((self.root / f"results/{suite}/manifest.json").read_text())
        return len({run["cell"] for run in manifest["runs"].values() if run["cell"].startswith(domain)})

    # --- What stands beside a number ----------------------------------------------------------------------------------

    @cached_property
    def _scripts(self) -> dict[tuple[str, str, int], float]:
        """Win rate in percent by map, script and revision of the engine as it is."""
        lines = (self.root / "docs/evidence/smac-fidelity.jsonl").read_text().splitlines()
        found = [entry for entry in map(json.loads, lines) if "script" in entry and not entry["changed"]]
        return {(entry["map"], entry["script"], entry["revision"]): 100 * entry["wins"] for entry in found}

    def script(self, name: str, task: str, revision: int) -> str:
        """Win rate of a script in percent, "–" where it was not measured."""
        found = self._scripts.get((task, name, revision))
        return "–" if found is None else number(found)

    def first_evaluation(self, suite: str, row: Row) -> float:
        """Mean or median over seeds at the first evaluation, after one iteration."""
        return self.curve(suite, cell_of(row))[0]

    # --- Tables -------------------------------------------------------------------------------------------------------

    def against_paper(self, cells: Collection[Row], digits: int) -> str:
        """Ours, the paper's, difference and verdict, a column per algorithm."""
        compared = [row if row["difference"] else None for row in cells]
        intervals = [row and span(row["difference_low"], row["difference_high"], digits) for row in compared]
        rows = [
            ["ours", *(score(row, digits) for row in cells)],
            ["paper", *(paper(row, digits) for row in cells)],
            ["difference, 95 % interval", *(interval or "–" for interval in intervals)],
            ["verdict", *(row["verdict"] if row else "–" for row in compared)],
        ]
        return markdown(["", *(algorithm_title(row["algorithm"]) for row in cells)], rows)

    def run_beside_fp3o(self, suite: str, *tables: str) -> dict[str, dict[str, Row]]:
        """By task and sharing of the first table, where FP3O and another algorithm were run: all that were, by name.
        Where FP3O is behind comes first."""
        known, found = self.table(suite, *tables), {}
        for row in dict.fromkeys(cell.rpartition("/")[0] for cell in self.table(suite, tables[0])):
            cells = {label: known.get(f"{row}/{label}") for label in COMPARED}
            found[row] = {label: cell for label, cell in cells.items() if cell and cell["ours"]}
        several = [(row, cells) for row, cells in found.items() if "fp3o" in cells and len(cells) > 1]
        return dict(sorted(several, key=lambda item: not behind(item[1])))

    def maps(self) -> list[tuple[str, str]]:
        """Maps of SMAC on which FP3O was run at the paper's budget, their steps in words; lowest win rates first."""
        rows = [row for row in self.table("paper", "table-smac").values() if row["algorithm"] == "fp3o"]
        suite = config.load_suite("paper")
        found = {}
        for task, cells in grouped((row["task"], row) for row in rows).items():
            scores = [float(cell["ours"]) for cell in cells if cell["ours"]]
            if scores:
                plans = {cell["sharing"]: suite.run(cell_of(cell))[0] for cell in cells}
                steps = {sharing: plan.settings.total_steps // 10**6 for sharing, plan in plans.items()}
                words = f"{steps['none']} (no sharing), {steps['partial']} (partial) and {steps['full']} (full)"
                equal = len(set(steps.values())) == 1
                found[task] = (min(scores), str(steps["full"]) if equal else words)
        return [(task, steps) for task, (_, steps) in sorted(found.items(), key=lambda item: item[1][0])]

    def side_by_side(self, suite: str, table: str, revision: int = 0) -> str:
        """A row per task and sharing that was begun: FP3O, every other algorithm with FP3O's standing against it, and
        what an untrained policy, or of battles a script, scores."""
        rows = grouped((title(row), row) for row in self.table(suite, table).values())
        started = {name: found for name, found in rows.items() if any(row["ours"] for row in found)}
        beside = ["random play", "nearest enemy"] if revision else []
        header = ["", *map(algorithm_title, MAIN), *beside, "first evaluation (FP3O)"]
        lines = []
        for name, found in started.items():
            by_label = {row["algorithm"]: row for row in found}
            cells = [by_label[label] for label in MAIN]
            digits = digits_of(cells)
            extra = [self.script(script, cells[0]["task"], revision) for script in ("random", "nearest") if revision]
            start = number(self.first_evaluation(suite, cells[0]), digits) if cells[0]["ours"] else "–"
            lines.append([name, *(self._scored(row, digits) for row in cells), *extra, start])
        return markdown(header, lines)

    def _scored(self, row: Row, digits: int) -> str:
        """The score, its best seed where a median hides it, and FP3O's standing against it."""
        if not row["ours"]:
            return "not run"
        wins = row["domain"] == "smac"
        best = (
            f", best seed {number(row['high'])}" if wins and float(row["high"]) >= VISIBLE + float(row["ours"]) else ""
        )
        standing = f": {standing_of(row)}" if row["paired_verdict"] else ""
        return f"{score(row, digits)}{best}{standing}"

    def standings(self, suite: str, table: str) -> dict[str, list[str]]:
        """By FP3O's standing, the rows and algorithms it has it against."""
        found: dict[str, list[str]] = {word: [] for word in STANDING.values()}
        for row in self.table(suite, table).values():
            if row["paired_verdict"]:
                name = f"{algorithm_title(row['algorithm'])} ({title(row)})"
                found[standing_of(row)].append(name)
        return found

    def below_random_play(self, suite: str, table: str, revision: int) -> list[str]:
        """Cells that win less often than random play does."""
        found = []
        for row in self.table(suite, table).values():
            random = self._scripts.get((row["task"], "random", revision))
            if row["ours"] and random is not None and float(row["ours"]) < random:
                text = f"{algorithm_title(row['algorithm'])} {number(row['ours'])} % (first evaluation "
                text += f"{number(self.first_evaluation(suite, row))} %, random play {number(random)} %; {title(row)})"
                found.append(text)
        return found

    def claims_table(self, verdicts: Sequence[str] = ()) -> str:
        """The paper's claims by verdict, those against it first."""
        rows = []
        for claims in by_verdict(self.card("paper")).values():
            for claim in claims:
                if verdicts and claim["verdict"] not in verdicts:
                    continue
                effect, seeds, tenth = (claim[key] for key in ("effect", "seeds_that_would_decide", "tenth"))
                shown = "–"
                if effect:
                    value, low, high = (number(part, 2) for part in (effect["value"], *effect["interval"]))
                    shown = f"{effect['name']} {value} [{low}, {high}]"
                rows.append(
                    [
                        claim["name"],
                        claim["claim"],
                        f"**{claim['verdict']}**",
                        f"{claim['found']} of {claim['needed']}",
                        shown,
                        str(seeds or "–"),
                        tenth["words"] if tenth else "–",
                    ]
                )
        header = ["", "Claim", "Verdict", "Comparisons", "Effect, 95 %", "Seeds that would decide", "At a tenth"]
        return markdown(header, rows)

    def cost_table(self, suite: str) -> str:
        """Ratios to MAPPO of the cells that were measured."""
        rows = []
        for cell, row in self.table(suite, "table-cost").items():
            if row["update_s"] and Cell.of(cell).label != "mappo":
                name = Cell.of(cell)
                ratios = (
                    f"{number(row[kind], 2)} [{number(row[f'{kind}_low'], 2)}, {number(row[f'{kind}_high'], 2)}]"
                    for kind in ("update_ratio", "ratio")
                )
                theirs = number(row["published_ratio"], 2) if row["published_ratio"] else "–"
                rows.append([row_title(name.row), name.title, *ratios, theirs])
        return markdown(["", "", "update × MAPPO", "iteration × MAPPO", "paper"], rows)

    def orders(self, suite: str) -> list[str]:
        """FP3O over each other algorithm under all variants of the engine."""
        table = read_csv(self.root / f"results/{suite}/tables/orders.csv")
        rows = [row for row in table if row["first"] == "fp3o"]
        texts = []
        for label in MAIN[1:]:
            found = [row for row in rows if row["second"] == label]
            ahead, behind = (sum(sign * (float(row["chance"]) - 0.5) > 0 for row in found) for sign in (1, -1))
            sure = [row for row in found if float(row["p"]) < 0.05]
            certain = [sum(sign * (float(row["chance"]) - 0.5) > 0 for row in sure) for sign in (1, -1)]
            verdict = "undecided" if not sure else "ahead" if not behind else "behind" if not ahead else "mixed"
            texts.append(
                f"{algorithm_title(label)}: {verdict}; of {len(found)} engines and maps more wins in {ahead}, certain "
                f"(p < 0.05, exact, each by itself) in {certain[0]}; fewer in {behind}, certain in {certain[1]}"
            )
        return texts

    def variants(self, suite: str) -> str:
        """Cells of other algorithms and of variants: their scores, beside FP3O's of the same task and sharing."""
        metrics = json.loads((self.root / f"results/{suite}/metrics.json").read_text())
        rows = []
        for domain, tasks in metrics.items():
            for task, sharings in tasks.items():
                for sharing, cells in sharings.items():
                    others = {label: found["score"] for label, found in cells.items() if label not in MAIN}
                    if others and "fp3o" in cells:
                        digits = decimals(domain, others.values())
                        scores = "; ".join(
                            f"{algorithm_title(label)} {number(v, digits)}" for label, v in others.items()
                        )
                        name = row_title(config.Row(domain, task, sharing))
                        rows.append([name, number(cells["fp3o"]["score"], digits), scores])
        return markdown(["", "FP3O", "variants and other algorithms"], rows)

    def curve(self, suite: str, cell: str) -> list[float]:
        """A cell's scores over training."""
        row, _, label = cell.rpartition("/")
        points = read_csv(self.root / f"results/{suite}/curves/{row.replace('/', '_')}.csv")
        return [float(point["score"]) for point in points if point["algorithm"] == label]

    def coverage(self, of_the_mean: bool = False) -> str:
        """How often intervals contain what they are about; more than two points from 95 % in bold. of_the_mean: other
        intervals of a mean, which are not used."""
        simulated = read_csv(self.root / "docs/evidence/coverage.csv")
        lines = [row for row in simulated if (row["interval"] == "alternative") == of_the_mean]
        rows = []
        for names in dict.fromkeys((row["interval"], row["method"]) for row in lines):
            found = [(row["seeds"], float(row["covers"])) for row in lines if (row["interval"], row["method"]) == names]
            columns = []
            for kind in ("normal", "skewed", "wins"):
                values = sorted({round(value) for seeds, value in found if seeds.startswith(kind)})
                text = " to ".join(map(str, dict.fromkeys((values[0], values[-1])))) if values else "–"
                columns.append(f"**{text}**" if any(abs(value - 95) > 2 for value in values) else text)
            rows.append([*names[of_the_mean:], *columns])
        header = ["Interval", "Method", "normal", "skewed", "win rates"]
        return markdown(header[of_the_mean:], rows)

    def policies_lost(self, revision: str, task: str) -> tuple[int, int]:
        """Of how many policies win more than 5 points less when enemies that look on are made to help, and of all."""
        measured = read_csv(self.root / "docs/evidence/smac-unaided.csv")
        rows = [row for row in measured if (row["revision"], row["map"]) == (revision, task)]
        return sum(float(row["won"]) - float(row["helped"]) > 0.05 for row in rows), len(rows)

    def recovery(self) -> tuple[list[Row], list[Row]]:
        """Policies that win at most 5 % of their battles, and the others: what they are paid for enemies' recovery."""
        measured = read_csv(self.root / "docs/evidence/smac-recovery.csv")
        waiting = [row for row in measured if float(row["won"]) <= 0.05]
        return waiting, [row for row in measured if row not in waiting]


def environment(results: Results) -> Environment:
    """Templates with the results and the words as names; one that is not there is an error."""
    found = Environment(
        loader=FileSystemLoader(results.root / "docs/templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown
    )
    words = (*(number, score, paper, span, title, algorithm_title, gap, behind, digits_of, standing_of), markdown)
    found.globals |= {word.__name__: word for word in (*words, listed, named, counted, by_verdict, conclusions, bounds)}
    paper_map = PaperMap.read(results.root / "results/paper")
    found.filters |= {"file": paper_map.file, "state": paper_map.state}
    found.globals |= {"paper_map": paper_map, "published": published.paper}
    found.globals |= {"results": results, "Counter": Counter, "sum": sum, "min": min, "max": max, "len": len}
    return found


def written(root: Path) -> dict[Path, str]:
    """Every page with its results as they are now."""
    templates = environment(Results(root))

    def rendered(name: str) -> str:
        return MINUS.sub("−", templates.get_template(name).render())

    pages = {root / f"docs/{name}": rendered(f"{name}.j2") for name in ("results.md", "paper-map.md")}
    for name in (*PAGES, *OTHERS):
        text = (root / name).read_text()
        pages[root / name] = BLOCK.sub(lambda found: found[1] + rendered(f"blocks/{found[2]}.md.j2") + found[4], text)
    return pages


def main() -> None:
    for path, text in written(config.repository()).items():
        path.write_bytes(text.encode())


if __name__ == "__main__":
    as_command(main)
