"""What README and docs say of results is what the committed tables say: numbers, and words of direction."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from fp3o import config
from fp3o.report.results_page import BLOCK, PAGES, STATISTICS, written
from fp3o.statistics.intervals import Summary, welch
from fp3o.statistics.published import scores

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "docs/results.md").read_text()
LABELS = ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")
TASKS = {"simple reference": "simple-reference", "cooperative communication": "simple-speaker-listener"}

# --- Sentences come from data -------------------------------------------------------------------------------------

WORDS = re.compile(
    r"\b(ahead|behind|level|leads?|undecided|contradict\w*|supported|equivalent|consistent\w*|better|worse|best|beats?"
    r"|outperform\w*|wins?|loses?|higher|lower|above|below|reaches|faster|slower|more often|less often|told apart)\b"
    r"|\d ± \d"
)
ABOUT = re.compile(r"\b(FP3O|MAPPO|IPPO|HAPPO|A2PO|CoPPO|ours|paper's|published|baselines?)\b")


def statements(text: str) -> list[str]:
    """Sentences, items and rows of tables outside generated blocks and code that may state a result."""
    prose = re.sub(r"^    .*$|`[^`]*`|\]\([^)]*\)", " ", BLOCK.sub("\n\n", text), flags=re.MULTILINE)
    parts = re.split(r"(?<=[.;])\s+|\n\s*\n|\n(?=[*|#] ?)|\n\* ", prose)
    flat = [" ".join(part.split()) for part in parts]
    return [part for part in flat if WORDS.search(part) and ABOUT.search(part)]


def ratios(suite: str, label: str) -> list[float]:
    """Published times of an algorithm, MAPPO = 1."""
    rows = lines("table-cost", suite)
    return [float(r["published_ratio"]) for r in rows if r["cell"].endswith(f"/{label}") and r["published_ratio"]]


def value(cell: str) -> str:
    return scores()[cell].text.replace("-", "−")


# Sentences about the paper itself and about code, by how they begin; each with a check, or why it needs none.
CHECKED: dict[str, Callable[[], bool] | str] = {
    "The published wall-clock fits five epochs": lambda: (
        f"{min(ratios('paper', 'fp3o')):.2f} to {max(ratios('paper', 'fp3o')):.2f}" == "1.02 to 1.17"
    ),
    "8z | FP3O 93.8 ± 6.1 | main table: 90.6 ± 6.6": lambda: (
        (value("smac/6h_vs_8z/full/fp3o"), value("smac/5m_vs_6m/full/fp3o")) == ("90.6 ± 6.6", "93.8 ± 6.1")
    ),
    "| FP3O, HAPPO, CoPPO | Huber loss without its branch for errors below": "of the released code, not of a result",
    "* *The update*: MAPPO equals on-policy's on recorded iterations under full": '"above" is a place on the page',
    "The sixteen cells were trained on a GPU host": "how runs were made",
    "In the last sitting (FP3O 3 + 2 from iteration": "how runs were made",
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


def test_pages_are_what_the_tables_say() -> None:
    """Byte for byte; `python -m fp3o.report.results_page` writes them."""
    for path, text in written(ROOT).items():
        assert path.read_bytes() == text.encode(), f"{path.relative_to(ROOT)} is not what the results say"


def copied(to: Path) -> Path:
    """What pages are made of, to be changed."""
    for name in (*PAGES, STATISTICS, "docs/results.md"):
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


def test_the_table_of_halfcheetah() -> None:
    known = table("control-few-epochs") | table("table-mamujoco") | table("control-equal-budget")
    cells = [known[f"mamujoco/halfcheetah-6x1/full/{label}"] for label in (*LABELS, "fp3o-3-2")]
    check_against_paper("Six-agent HalfCheetah, full sharing", cells, 0)


def test_what_halfcheetah_owes_to_the_number_of_updates() -> None:
    known = table("control-equal-budget")
    ours, many, few = (
        Summary(float(one["ours"]), float(one["spread"]), int(one["n"]))
        for one in (known[f"mamujoco/halfcheetah-6x1/full/{x}"] for x in ("fp3o", "mappo-10-epochs", "mappo"))
    )
    gap, lead = welch(ours, many), welch(ours, few)
    assert gap.p > 0.05 > lead.p
    interval = f"{shown(str(gap.low))} … {shown(str(gap.high))}"
    assert f"(10 epochs): undecided, {shown(str(gap.difference))} (95 % interval {interval})" in RESULTS
    interval = f"{shown(str(lead.low))} … {shown(str(lead.high))}"
    assert f"* MAPPO: ahead, {shown(str(lead.difference))} (95 % interval {interval})" in RESULTS
    assert f"up to {100 * gap.high / lead.difference:.0f} % may be left" in RESULTS


def test_the_table_of_reacher() -> None:
    known = table("table-mamujoco") | table("table-approximation") | table("control-equal-budget")
    labels = ("fp3o", "fp3o-clipping-only", "happo", "mappo", "mappo-10-epochs")
    check_against_paper("Two-agent Reacher", [known[f"mamujoco/reacher-2x1/none/{label}"] for label in labels], 1)


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
