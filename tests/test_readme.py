"""What README and docs say of results is what the committed tables say: numbers, and words of direction."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from fp3o import config
from fp3o.report.results_page import BLOCK, OTHERS, PAGES, written
from fp3o.statistics.intervals import Summary, welch
from fp3o.statistics.published import row_title, scores

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "docs/results.md").read_text()
LABELS = ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")
TASKS = {"simple reference": "simple-reference", "cooperative communication": "simple-speaker-listener"}

CHEETAH = "mamujoco/halfcheetah-6x1/full"

# --- Sentences come from data -------------------------------------------------------------------------------------

WORDS = re.compile(
    r"\b(ahead|behind|level|leads?|undecided|contradict\w*|supported|equivalent|consistent\w*|better|worse|best|beats?"
    r"|outperform\w*|wins?|loses?|higher|lower|above|below|reaches|faster|slower|more often|less often|told apart)\b"
    r"|\d ± \d"
)
# Where docs/deviations.md tells of our runs, these and any number with a unit make a statement, whatever it is about.
INSIDE = re.compile(
    WORDS.pattern
    + r"|\b(rises?|rose|falls?|fell|hardly|moves?|equals?|unequal|differs?|fail\w*|(un)?learn\w*|scatter\w*"
    r"|between|outside|fits?|twice|half|never|most|least|same"
    r"|(\d+|eight|twelve|sixteen|[Nn]ineteen)( control)? cells)\b|\d ?%|\d[.,]\d"
)
OUR_RUNS = "## What we looked into"
ABOUT = re.compile(r"\b(FP3O|MAPPO|IPPO|HAPPO|A2PO|CoPPO|ours|paper's|published|baselines?)\b")


def sentences(text: str) -> list[str]:
    """Sentences, items and rows of tables outside generated blocks and code."""
    prose = re.sub(r"^    .*$|`[^`]*`|\]\([^)]*\)", " ", BLOCK.sub("\n\n", text), flags=re.MULTILINE)
    parts = re.split(r"(?<=[.;])\s+|\n\s*\n|\n(?=[*|#] ?)|\n\* ", prose)
    return [" ".join(part.split()) for part in parts]


def statements(text: str) -> list[str]:
    """Those that may state a result."""
    before, _, inside = text.partition(OUR_RUNS)
    about = [part for part in sentences(before) if WORDS.search(part) and ABOUT.search(part)]
    return about + [part for part in sentences(inside) if INSIDE.search(part)]


def ratios(suite: str, label: str) -> list[float]:
    """Published times of an algorithm, MAPPO = 1."""
    rows = lines("table-cost", suite)
    return [float(r["published_ratio"]) for r in rows if r["cell"].endswith(f"/{label}") and r["published_ratio"]]


def value(cell: str) -> str:
    return scores()[cell].text.replace("-", "−")


def in_store(suite: str, pattern: str) -> dict[str, int]:
    """Cells with runs in the store, and how many seeds each has."""
    runs = json.loads((ROOT / f"results/{suite}/manifest.json").read_text())["runs"].values()
    return Counter(run["cell"] for run in runs if fnmatchcase(run["cell"], pattern))


def epochs(cell: str) -> int:
    settings = config.resolve(config.Cell.parse(cell)).settings
    return settings.epochs + getattr(settings, "epochs_dependent", 0)


MATCHING = {**in_store("paper", "*/fp3o-rollout-*"), **in_store("smac-revision-2", "*/fp3o-rollout-*")}
MADE = "how runs were made"
RECORDED = "of recordings that tests compare with, not of a result"
# Sentences about the paper itself, code and provenance, by how they begin; each with a check, or why it needs none.
CHECKED: dict[str, Callable[[], bool] | str] = {
    "The published wall-clock fits five epochs": lambda: (
        f"{min(ratios('paper', 'fp3o')):.2f} to {max(ratios('paper', 'fp3o')):.2f}" == "1.02 to 1.17"
    ),
    "8z | FP3O 93.8 ± 6.1 | main table: 90.6 ± 6.6": lambda: (
        (value("smac/6h_vs_8z/full/fp3o"), value("smac/5m_vs_6m/full/fp3o")) == ("90.6 ± 6.6", "93.8 ± 6.1")
    ),
    "| FP3O, HAPPO, CoPPO | Huber loss without its branch for errors below": "of the released code, not of a result",
    "The paper does not control the number of updates per rollout: FP3O makes twice MAPPO's": lambda: (
        epochs(f"{CHEETAH}/fp3o") == 2 * epochs(f"{CHEETAH}/mappo") < 6 * epochs(f"{CHEETAH}/happo")
    ),
    "MAPPO and IPPO differ in the critic's input alone": "of the algorithms, not of a result",
    "* *The update*: MAPPO equals on-policy's on recorded iterations under full": RECORDED,
    "* *The environment*: observations, states, rewards and ends equal those": RECORDED,
    "* *The environment*: equal to on-policy's own classes": RECORDED,
    "* *The update*: FP3O and MAPPO equal their releases": RECORDED,
    "* *Confounds that do not apply*: no heads": "of the settings, not of a result",
    "HalfCheetah never terminates early": "of the environment, not of a result",
    "These five were begun on a GPU host": MADE,
    "torch 2.11;": MADE,
    "of HAPPO the first 1.6 at an earlier commit": MADE,
    "FP3O, FP3O with clipping alone and HAPPO to 92 % or more": MADE,
    "the last 65 of FP3O's 2,500 iterations": MADE,
    "**MPE** (all 16 cells at full budget).": lambda: [row["n"] for row in lines("table-mpe")] == ["5"] * 16,
    "A perfect team must lie between the two.": "of the bounds' definition",
    "FP3O runs 15 + 15 epochs on each rollout here": lambda: (
        (epochs("mpe/simple-reference/full/fp3o"), epochs("mpe/simple-reference/full/mappo")) == (30, 15)
    ),
    "C19 and C35 compare at equal numbers of updates": "of the claims' cells",
    "Their eight control cells": lambda: (
        len(in_store("paper", "mpe/*/fp3o-8-7") | in_store("paper", "mpe/*/mappo-30-epochs")) == 8
    ),
    "The sixteen cells were trained on a GPU host": MADE,
    "suite ): all 70 cells were trained on one H200": lambda: len(in_store("smac-variants", "*")) == 70,
    "**3s5z under full sharing, engine revision 2** (twelve cells": lambda: (
        len(in_store("smac-revision-2", "smac/3s5z/full/*")) == 12
    ),
    "What is compared with the paper is the order": "of the comparison",
    "IPPO's published ± 34 says": lambda: value("smac/3s5z/full/ippo").endswith("± 34.0"),
    "The last 16 of 1,562 iterations": MADE,
    "In the last sitting (FP3O 3 + 2 from iteration": MADE,
    "**Cost** ( , all 30 cells": lambda: (
        sum(bool(row["update_s"]) for suite in ("paper", "smac-revision-2") for row in lines("table-cost", suite)) == 30
    ),
    "**Matching degree** (all 24 cells with 5 seeds": lambda: len(MATCHING) == 24 and set(MATCHING.values()) == {5},
    "C26 and C27 were written after the first 18 cells": MADE,
    "Nineteen cells ran on one H200": MADE,
    "2c_vs_64zg at size 500 went on there after iteration": MADE,
}


def stray(text: str) -> list[str]:
    """Statements that are neither generated nor checked."""
    return [found for found in statements(text) if not any(found.startswith(known) for known in CHECKED)]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_of_results_is_generated_or_checked(page: str) -> None:
    assert stray((ROOT / page).read_text()) == []


@pytest.mark.parametrize("start", CHECKED)
def test_a_checked_sentence_stands_in_the_docs_and_holds(start: str) -> None:
    found = [one for page in PAGES for one in statements((ROOT / page).read_text()) if one.startswith(start)]
    assert len(found) == 1, f"no such sentence any more: {start}"
    check = CHECKED[start]
    assert isinstance(check, str) or check(), f"does not hold: {found[0]}"


@pytest.mark.parametrize(
    "planted",
    [
        "On HalfCheetah without sharing FP3O is ahead of HAPPO.",
        "FP3O reaches 4510 ± 12.",
        "Of our baselines MAPPO is\nbest.",
        "* FP3O wins on corridor",
    ],
)
@pytest.mark.parametrize("page", PAGES)
def test_a_planted_sentence_is_found(page: str, planted: str) -> None:
    text = (ROOT / page).read_text()
    assert len(stray(f"{text}\n\n{planted}\n")) == 1
    if "<!-- end of results -->" in text:  # also right after a block
        assert len(stray(text.replace("<!-- end of results -->", f"<!-- end of results -->\n{planted}", 1))) == 1


@pytest.mark.parametrize("planted", ["Greedy returns hardly move on Reacher.", "All 71 cells were trained at once."])
def test_what_is_said_of_our_runs_needs_no_name_to_be_found(planted: str) -> None:
    assert stray(f"{(ROOT / 'docs/deviations.md').read_text()}\n\n{planted}\n") == [planted]


def wrong_lines(root: Path) -> list[str]:
    """Lines of pages that are not what the results say."""
    found = []
    for path, text in written(root).items():
        right = Counter(text.splitlines())
        found += [f"{path.relative_to(root)}: {line}" for line in path.read_text().splitlines() if line not in right]
    return found


def test_pages_are_what_the_tables_say() -> None:
    """Byte for byte; `python -m fp3o.report.results_page` writes them."""
    assert wrong_lines(ROOT) == []
    for path, text in written(ROOT).items():
        assert path.read_bytes() == text.encode(), f"{path.relative_to(ROOT)} is not what the results say"


@pytest.mark.parametrize("page", ["README.md", "docs/results.md", "docs/deviations.md"])
def test_a_sentence_planted_among_results_is_named(page: str, tmp_path: Path) -> None:
    root = copied(tmp_path)
    planted = "FP3O is ahead of all others."
    path = root / page
    text = path.read_text()
    start = text.index("\n", text.index("<!-- results:")) if "<!-- results:" in text else text.index("\n## ")
    path.write_text(f"{text[:start]}\n{planted}{text[start:]}")
    assert wrong_lines(root) == [f"{page}: {planted}"]


def copied(to: Path) -> Path:
    """What pages are made of, to be changed."""
    for name in (*PAGES, *OTHERS, "docs/results.md", "docs/paper-map.md"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    for folder in ("docs/templates", "docs/evidence", "results"):
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("runs", "figures", "films", "report"))
    return to


def test_words_follow_the_data(tmp_path: Path) -> None:
    """A wrong word in a block is put right, and other results give other words."""
    root = copied(tmp_path)
    readme = root / "README.md"
    right = readme.read_text()
    readme.write_text(right.replace("2529 ± 223: ahead", "2529 ± 223: behind"))
    assert readme.read_text() != right
    assert written(root)[readme] == right
    table = root / "results/preview/tables/table-mamujoco.csv"
    rows = table.read_text().splitlines()
    place = next(k for k, row in enumerate(rows) if row.startswith("mamujoco,halfcheetah-6x1,none,happo,"))
    assert rows[place].endswith("undecided")
    rows[place] = rows[place].removesuffix("undecided") + "better"
    table.write_text("\n".join(rows) + "\n")
    page = written(root)[root / "docs/results.md"]
    assert "FP3O is **behind** HAPPO (6-Agent HalfCheetah [6×1], no sharing)" in page
    assert "FP3O is **behind** HAPPO" not in RESULTS
    card = root / "results/paper/scorecard.json"
    card.write_text(card.read_text().replace('"verdict": "contradicted"', '"verdict": "supported"'))
    assert "| **contradicted**" not in written(root)[readme]


def test_where_fp3o_is_behind_is_said_first(tmp_path: Path) -> None:
    root = copied(tmp_path)
    table = root / "results/paper/tables/table-mamujoco.csv"
    text = table.read_text()
    table.write_text(text.replace("halfcheetah-6x1,full,mappo,2529", "halfcheetah-6x1,full,mappo,9529"))
    assert table.read_text() != text
    pages = written(root)
    page = pages[root / "docs/results.md"]
    words = "6-Agent HalfCheetah [6×1], full sharing, MAPPO: behind, −5752"
    assert page.index("## What speaks against") < page.index(words) < page.index("### MPE")
    assert words not in RESULTS
    first = re.search(r"^\| \d-Agent .*$", pages[root / "README.md"], re.MULTILINE)
    assert first is not None
    assert first[0].startswith("| 6-Agent HalfCheetah [6×1], full sharing")


def test_the_readme_is_a_screen_and_a_half_and_names_its_commands() -> None:
    assert len(README.splitlines()) <= 90
    for command in ("make reproduce", "make paper", "make test", "fp3o train mamujoco/halfcheetah-6x1/full/fp3o"):
        assert command in README


# --- The tables again, by other code ------------------------------------------------------------------------------


def lines(name: str, suite: str = "paper") -> list[dict[str, str]]:
    """Rows of a committed table."""
    with (ROOT / "results" / suite / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def table(name: str, suite: str = "paper") -> dict[str, dict[str, str]]:
    """Rows of a committed table by cell."""
    rows = lines(name, suite)
    return {"/".join(row[part] for part in ("domain", "task", "sharing", "algorithm")): row for row in rows}


def rows_after(text: str) -> list[list[str]]:
    """The body of the first Markdown table after a text of the page of results."""
    lines = RESULTS[RESULTS.index(text) :].splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("|"))
    cells = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return cells


def shown(value: str, digits: int = 0) -> str:
    """Rounded half away from zero, with a true minus."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)).replace("-", "−")


def check_against_paper(text: str, cells: list[dict[str, str]], digits: int) -> None:
    """A table of four rows: ours, the paper's, difference, verdict."""
    ours, paper, difference, verdict = (row[1:] for row in rows_after(text))
    assert ours == [f"{shown(cell['ours'], digits)} ± {shown(cell['spread'], digits)}" for cell in cells]
    assert verdict == [cell["verdict"] or "–" for cell in cells]
    for place, cell in enumerate(cells):
        if not cell["published"]:
            assert (paper[place], difference[place]) == ("not in the paper", "–")
            continue
        assert paper[place] == f"{shown(cell['published'], digits)} ± {shown(cell['published_spread'], digits)}"
        interval = f"{shown(cell['difference_low'], digits)} … {shown(cell['difference_high'], digits)}"
        assert difference[place] == interval


def test_the_tables_of_mamujoco() -> None:
    """Every task and sharing where FP3O and another algorithm were run has one, with all that were."""
    known = table("control-few-epochs") | table("table-approximation") | table("control-equal-budget")
    known |= table("table-mamujoco")
    for row in dict.fromkeys(cell.rpartition("/")[0] for cell in known if cell.startswith("mamujoco/")):
        labels = (*LABELS, "fp3o-3-2", "fp3o-clipping-only")
        cells = [known[f"{row}/{label}"] for label in labels if known.get(f"{row}/{label}", {}).get("ours")]
        heading = f"### {row_title(config.Cell.parse(f'{row}/fp3o').row)}\n"
        shown_here = len(cells) > 1 and cells[0]["algorithm"] == "fp3o"
        assert RESULTS.count(heading) == shown_here
        if shown_here:
            check_against_paper(heading, cells, 0 if max(abs(float(cell["ours"])) for cell in cells) >= 200 else 1)
    assert "### 6-Agent HalfCheetah [6×1], full sharing\n" in RESULTS


def test_what_halfcheetah_owes_to_the_number_of_updates() -> None:
    known = table("control-equal-budget")
    ours, many, few = (
        Summary(float(one["ours"]), float(one["spread"]), int(one["n"]))
        for one in (known[f"mamujoco/halfcheetah-6x1/full/{x}"] for x in ("fp3o", "mappo-10-epochs", "mappo"))
    )
    gap, lead = welch(ours, many), welch(ours, few)
    assert gap.p > 0.05 > lead.p
    low, high, _ = gap.interval()
    interval = f"{shown(str(low))} … {shown(str(high))}"
    assert f"(10 epochs): undecided, {shown(str(gap.value))} (95 % interval {interval})" in RESULTS
    assert f"up to {100 * high / lead.value:.0f} % may be left" in RESULTS
    low, high, _ = lead.interval()
    interval = f"{shown(str(low))} … {shown(str(high))}"
    assert f"* MAPPO: ahead, {shown(str(lead.value))} (95 % interval {interval})" in RESULTS


def test_the_table_of_two_maps_under_variants_of_the_engine() -> None:
    known = table("engine-as-it-is", "smac-variants")
    standing = {"": "", "worse": ": ahead", "undecided": ": undecided", "equivalent": ": level"}
    for name, row in zip(("3s5z", "5m_vs_6m"), rows_after("### Revision 3 and its variants"), strict=True):
        cells = [known[f"smac/{name}/full/{label}"] for label in LABELS]
        for text, cell in zip(row[1:6], cells, strict=True):
            hidden = float(cell["high"]) >= float(cell["ours"]) + 10
            best = f", best seed {shown(cell['high'])}" if hidden else ""
            assert text == f"{shown(cell['ours'])} ± {shown(cell['spread'])}{best}{standing[cell['paired_verdict']]}"
        assert row[6] == "0"  # random play


def test_what_is_said_of_orders_under_variants_of_the_engine() -> None:
    orders = [row for row in lines("orders", "smac-variants") if row["first"] == "fp3o"]
    by_other = {label: [row for row in orders if row["second"] == label] for label in LABELS[1:]}
    assert all(float(row["p"]) >= 0.05 for row in by_other.pop("mappo-10-epochs"))
    assert "* MAPPO (10 epochs): undecided; of 13 engines and maps" in RESULTS
    assert all(float(row["chance"]) > 0.5 for rows in by_other.values() for row in rows)
    for label, rows in by_other.items():
        certain = sum(float(row["p"]) < 0.05 for row in rows)
        words = (
            f"* {label.upper()}: ahead; of {len(rows)} engines and maps more wins in {len(rows)}, certain (p < 0.05, "
        )
        assert f"{words}exact, each by itself) in {certain};" in RESULTS


def test_the_table_of_3s5z() -> None:
    known = table("table-smac", "smac-revision-2") | table("control-equal-budget", "smac-revision-2")
    check_against_paper(
        "3s5z, full sharing, 5 million steps", [known[f"smac/3s5z/full/{label}"] for label in LABELS], 0
    )


def test_the_table_of_mpe() -> None:
    known = table("table-mpe")
    rows = rows_after("### MPE")
    assert len(rows) == 4
    for name, *texts, _ in rows:
        sharing, task = name.split(", ")
        for label, text in zip(("fp3o", "happo", "mappo", "a2po"), texts, strict=True):
            cell = known[f"mpe/{TASKS[task]}/{sharing}/{label}"]
            ours = f"{shown(cell['ours'], 1)} ± {shown(cell['spread'], 1)}"
            theirs = f"{shown(cell['published'], 1)} ± {shown(cell['published_spread'], 1)}"
            assert text == f"{ours} ({theirs})"


def shipped(suite: str) -> set[str]:
    """Cells of which runs are in the store."""
    manifest = json.loads((ROOT / "results" / suite / "manifest.json").read_text())
    return {run["cell"] for run in manifest["runs"].values()}


def test_how_much_is_shipped() -> None:
    runs = config.load_suite("paper").runs()
    assert f"{len(shipped('paper'))} of {len(runs)} cells are trained at the\npaper's budget" in README
    preview = shipped("preview")
    battles = sum(cell.startswith("smac/") for cell in preview)
    assert f"{len(preview)} of {len(runs)} cells, {len(preview) - battles} of MAMuJoCo and {battles} of SMAC" in RESULTS
    assert f"{len(shipped('smac-revision-2'))} cells (suite `smac-revision-2`); " in RESULTS
    assert f"{len(shipped('smac-revision-2-preview'))} more at a tenth" in RESULTS
    assert f"trains it: {sum(len(seeds) for _, seeds in runs):,} runs" in README


def test_what_is_said_of_the_preview() -> None:
    rows = table("table-mamujoco", "preview")
    verdicts = {cell: row["paired_verdict"] for cell, row in rows.items() if row["paired_verdict"]}
    assert not any(verdict == "better" for verdict in verdicts.values())
    behind = {cell for cell, verdict in verdicts.items() if verdict == "worse"}
    assert behind == {"mamujoco/hopper-3x1/full/happo", "mamujoco/halfcheetah-6x1/none/mappo"}
    words = "FP3O is **behind** none; **ahead** of HAPPO (3-Agent Hopper [3×1], full sharing) and MAPPO (6-Agent "
    assert f"{words}HalfCheetah [6×1], no sharing); level with" in RESULTS
    for verdict, word in (("equivalent", "level with"), ("undecided", "undecided against")):
        assert f"{word} {sum(one == verdict for one in verdicts.values())}" in RESULTS


def test_what_random_play_does_stands_beside_win_rates() -> None:
    """On bane_vs_bane it wins most battles, and no algorithm does under full sharing at a tenth of the steps."""
    (row,) = (r for r in rows_after("### SMAC, revision 2") if r[0] == "bane vs. bane, full sharing")
    assert row[6:] == ["70", "36", "50"]
    assert re.search(
        r"Wins less often than random play: FP3O 63 % .*, HAPPO 53 % .*, MAPPO 11 % .* and IPPO 31 %", RESULTS
    )
