"""The report works from disk: checked as text, and in a real browser where there is one."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fp3o import config
from fp3o.report import __main__ as report
from fp3o.report import sheets
from fp3o.report.conclusions import ORDER, conclusions
from fp3o.report.curve import chart, curves_of
from fp3o.report.page import INDEX, environment, pages, sweeps
from fp3o.statistics import cost, scorecard
from fp3o.statistics.suites import SuiteRuns
from paper_figures import __main__ as one_figure

CHEETAH = "mamujoco/halfcheetah-6x1/full"
SECTION = "cell-mamujoco--halfcheetah-6x1--full--fp3o"
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, write_run: Any, scores_around: Any) -> Path:
    """A report with two algorithms run, a control, one seed diverged, one missing, one with lost episodes, a
    figure, a film, a cost table."""
    root = tmp_path_factory.mktemp("report")
    diverged = {"status": "diverged", "diverged": {"iteration": 7, "quantity": "value_loss"}}
    for seed, score in enumerate(scores_around(4130, 60)):
        write_run(root / "runs", f"{CHEETAH}/fp3o", seed, score, changes=diverged if seed == 3 else None)
    for seed, score in enumerate(scores_around(1000, 60, n=4)):
        lost = {"volatile": {"lost_episodes": 12}} if seed == 2 else None
        write_run(root / "runs", f"{CHEETAH}/mappo", seed, score, changes=lost)
    write_run(root / "runs", f"{CHEETAH}/mappo-10-epochs", 0, 4000.0)
    lines = [
        ",".join(cost.COLUMNS),
        f"{CHEETAH}/fp3o,no,1.9 2.1,2.9 3.1,0.5,,,900,cpu",
        f"{CHEETAH}/mappo,no,1.9 2.1,0.9 1.1,0.5,,,900,cpu",
    ]
    (root / "cost.csv").write_text("\n".join(lines) + "\n")
    film = root / "films" / f"{CHEETAH}/fp3o.webp"
    film.parent.mkdir(parents=True)
    film.write_bytes(b"RIFF")
    common = ["--suite", "paper", "--runs", str(root / "runs")]
    one_figure.main([*common, "--artefact", "figure-mamujoco", "--out", str(root / "figures")])
    (root / "figures" / "figure-mpe.png").write_bytes(b"empty panels")
    (root / "figures" / "figure-sharing.png").write_bytes(b"a drawing that needs no runs")
    report.main([*common, "--cost", str(root / "cost.csv"), "--out", str(root / "index.html")])
    return root / "index.html"


class Reader(HTMLParser):
    """Ids, links, everything a browser would fetch, and the text it shows before anything is unfolded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.unfolded: list[str] = []
        self._folds = 0
        self.feed(text)

    def handle_data(self, data: str) -> None:
        if not self._folds:
            self.unfolded.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._folds -= tag == "details"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._folds += tag == "details"
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name == "href" and value and tag == "a":
                self.links.append(value)
            if value and (name in ("src", "srcset", "data", "poster") or (name == "href" and tag != "a")):
                self.sources.append(value)


def test_every_link_has_its_place_and_nothing_is_fetched(page: Path) -> None:
    text = page.read_text()
    found = Reader(text)
    assert len(found.ids) == len(set(found.ids))
    inside = [link for link in found.links if link != "sweeps.html"]
    assert all(link.startswith("#") and link[1:] in found.ids for link in inside)
    assert len(found.links) > 100  # every cell of every table
    assert all(source.startswith("data:") for source in found.sources)
    written = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)  # the library's own text names addresses
    assert not re.search(r"https?://|@import|url\(", written)
    assert "default-src 'none'" in written


def test_the_page_says_what_was_found(page: Path) -> None:
    text = page.read_text()
    assert "4130 ± 60 (n = 5), published 4128 ± 367: undecided (95 % interval of the difference -" in text
    assert "differs (ours lower)" in text
    assert "diverged in iteration 7 (value_loss)" in text
    assert "<td>finished; 12 episodes of its process lost to failures of the environment</td>" in text
    assert f"which was built anew: {CHEETAH}/mappo (12)." in text
    assert "n = 4/5" in text
    assert "n = 5, 1 diverged" in text
    assert "fp3o train smac/3s5z/full/happo --suite paper" in text
    assert 'name="whole"/>' in text  # compared: the end of training is shown larger
    assert "Measured on cpu" in text[text.index('id="table-cost"') :]


def test_conclusions_come_first_and_what_was_not_run_is_folded(page: Path) -> None:
    text = page.read_text()
    names = ("conclusions", "results", "verdicts", "claims", "tables", "cells")
    start, *places = [text.index(f'<section id="{name}"') for name in names]
    assert [start, *places] == sorted([start, *places])
    assert places[0] < text.index("4130 ± 60 (n = 5), published") < places[1]
    assert places[0] < text.index("data:image/webp;base64,UklGRg==") < places[1]
    # Of rows that were begun: HAPPO and IPPO in the main table, a control in its own.
    assert Reader(text).unfolded.count("not run") == 3
    assert "<summary>Not run: 17 of 18 rows</summary>" in text
    assert re.search(r"<summary>Not run: C2, C3, .*C28, C29, C30, .*C35</summary>", text)


def test_figures_without_a_run_are_named_not_shown(page: Path) -> None:
    """The folder has one with runs and one without; nothing else was drawn."""
    text = page.read_text()
    assert '<figure id="figure-mamujoco">' in text
    assert '<figure id="figure-sharing">' in text
    assert 'id="figure-mpe"' not in text
    assert re.search(r"Not drawn: .*figure-mpe", text)


def test_tables_of_facts_are_folded_and_departures_marked(page: Path) -> None:
    text = page.read_text()
    for name in ("table-instability", "table-units", "table-hyperparameters-smac-maps"):
        assert re.search(rf'<details id="{name}"><summary>[A-Z][^<]*<small><code>{name}</code>', text)
    common = text.partition('<details id="table-hyperparameters-mamujoco">')[2].partition("</details>")[0]
    assert "(departures from the paper: 2)" in common
    assert '<td class="differs">1 † (paper: 8)</td>' in common
    assert common.count('class="differs"') == 2
    assert "training threads" not in Reader(text).unfolded


def test_a_control_is_not_grey_and_difficulty_and_agents_are_shown(page: Path) -> None:
    text = page.read_text()
    control = re.search(r'<td class="result (\w+)"><a href="#cell-[\w-]+--mappo-10-epochs">4000.0', text)
    assert control is not None
    assert control[1] == "uncompared"
    assert re.search(r'<td class="result absent"><a [^>]*>not run', text)
    assert "<th>Difficulty</th>" in text[text.index('<section id="table-smac">') :]
    assert "<th>Agent</th>" in text[text.index('<section id="table-mamujoco">') :]


def test_claims_link_to_their_section_and_their_cells(page: Path) -> None:
    claims = page.read_text().partition('<tr id="claim-C1">')[2].partition("</tr>")[0]
    assert f'<a href="#{SECTION}">' in claims
    assert '<a href="#table-mamujoco">Returns on MAMuJoCo</a>' in claims
    assert '<a href="#table-cost">Wall-clock time</a>' in page.read_text()


def test_the_first_screen_says_what_was_found_in_five_sentences(page: Path) -> None:
    first = page.read_text().partition('<section id="conclusions">')[2].partition("</section>")[0]
    sentences = [" ".join(text.split()) for text in re.findall(r"<li>(.*?)</li>", first, re.DOTALL)]
    assert [text.split(",")[0] for text in sentences[:4]] == [
        *("Not reproduced", "No difference beyond the margin", "Reproduced", "Open")
    ]
    assert sentences[4].startswith("3 of 261 cells were trained (10 of 1305 runs, 1 diverged); of 2 published numbers")
    chips = re.findall(r'<a role="listitem" href="#claim-(C\d+)" class="([\w-]+)"', first)
    assert len(chips) == len({name for name, _ in chips}) == 35
    kinds = [kind for _, kind in chips]
    assert kinds == sorted(kinds, key=[*ORDER, "absent"].index)
    assert re.search(r'<div class="tile undecided"><b>\d+</b>claims? undecided', first)


def test_a_suite_without_claims_says_who_beat_its_baseline() -> None:
    run = {"cells_started": 3, "cells_planned": 4, "seeds_run": 6, "seeds_planned": 8, "seeds_diverged": 0}
    card: dict[str, Any] = {"claims": [], "coverage": run, "compared_cells": 0}
    assert conclusions(card, {"worse": ["a: B"], "undecided": ["a: C", "a: D"]}) == [
        "Better than the baseline of their table, 0 of 3 comparisons: none.",
        "Worse than the baseline of their table, 1 of 3 comparisons: a: B.",
        "The others against it: 2 undecided.",
        "3 of 4 cells were trained (6 of 8 runs, 0 diverged); none of these is compared with a published number.",
    ]
    assert len(conclusions(card)) == 1


def test_no_label_of_the_papers_source_is_shown(page: Path) -> None:
    shown = " ".join(re.sub(r"<script.*?</script>|<[^>]*>", " ", page.read_text(), flags=re.DOTALL).split())
    assert not re.search(r"\b(table|fig|section|appendix)_\w+", shown)


def test_a_picture_starts_with_four_algorithms_and_sweeps_have_their_own_page(tmp_path: Path, write_run: Any) -> None:
    labels = ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")
    for label in labels:
        write_run(tmp_path, f"{CHEETAH}/{label}", 0, 4000.0)
    for size in (100, 200, 500):
        write_run(tmp_path, f"mamujoco/reacher-2x1/full/fp3o-rollout-{size}", 0, -40.0, suite="paper")
    found = pages(SuiteRuns(config.load_suite("paper"), tmp_path))
    assert list(found) == ["index.html", "sweeps.html"]
    article = found["index.html"].partition("<article>")[2].partition("</article>")[0]
    boxes = dict(re.findall(r'<input type="checkbox" value="[^"]*/([\w-]+)"( checked)?/>', article))
    assert {name: bool(checked) for name, checked in boxes.items()} == dict.fromkeys(labels[:4], True) | {
        "mappo-10-epochs": False
    }
    assert "<summary>1 more to draw</summary>" in article
    assert "fp3o-rollout-100" not in found["index.html"].partition('<section id="verdicts"')[0]
    assert found["sweeps.html"].count("<article>") == 1
    assert "full sharing, sweep of rollout_length and total_steps<" in found["sweeps.html"].partition("<article>")[2]
    assert "sweep of" not in article
    anchor = "cell-mamujoco--reacher-2x1--full--fp3o-rollout-100"
    assert f'<a href="index.html#{anchor}"' in found["sweeps.html"]
    assert f'id="{anchor}"' in found["index.html"]


def test_the_cell_without_a_grid_is_a_point_of_its_sweep() -> None:
    def cells(*labels: str) -> list[config.Cell]:
        return [config.Cell.parse(f"smac/3s5z/full/{label}") for label in labels]

    grid = cells("mappo-clip-0.1", "mappo", "mappo-clip-0.3")
    assert sweeps([*grid, *cells("ippo", "mappo-10-epochs")]) == set(grid)
    assert sweeps(grid[1:]) == set()
    # Named variants, and those of the environment, are compared with the cell, not tried beside it.
    assert sweeps(cells("fp3o", "fp3o-8-7", "fp3o-3-2", "fp3o-help_radius-2", "fp3o-help_radius-8")) == set()


@pytest.mark.parametrize(("best", "shown"), [(0.0, "all equal"), (1.0, "0.00 [0.00, 0.00]")])
def test_scores_that_are_all_equal_are_called_so(best: float, shown: str) -> None:
    def pooled(value: float) -> dict[str, Any]:
        return {"mean": {"value": value, "interval": [value, value]}}

    group = {"rows": ["matrix/climbing/full"], "scale": "0 and 1", "probability_of_improvement": []}
    card = {"between_algorithms": [{**group, "pooled": {"mappo": pooled(0.0), "happo": pooled(best)}}]}
    first, *more = sheets.between(card)
    assert first.rows[0] == ["MAPPO", shown]
    assert len(more) == (best > 0)
    assert ("every seed of every algorithm" in first.note) == (best == 0)


def test_robustness_is_a_sheet(tmp_path: Path) -> None:
    path = tmp_path / "robustness.csv"
    assert sheets.robustness(path) is None
    lines = ("paper,a,undecided,1,undecided,", "claim,C1,supported,.5,floor,supported")
    path.write_text("\n".join(["kind,name,usual,share,test: t,margin: half", *lines]) + "\n")
    found = sheets.robustness(path)
    assert found is not None
    assert found.rows == [
        ["claim", "C1", "supported", "1 of 2", "floor: test: t"],
        ["paper", "a", "undecided", "1 of 1", "–"],
    ]


def test_same_bytes_again_also_from_the_scorecards_file(page: Path, tmp_path: Path) -> None:
    root = page.parent
    arguments = ["--suite", "paper", "--runs", str(root / "runs"), "--cost", str(root / "cost.csv")]
    scorecard.main([*arguments, "--out", str(tmp_path / "scorecard.json")])
    report.main([*arguments, "--scorecard", str(tmp_path / "scorecard.json"), "--out", str(tmp_path / "index.html")])
    assert (tmp_path / "index.html").read_bytes() == page.read_bytes()


def test_text_is_escaped(tmp_path: Path, write_run: Any) -> None:
    """Wherever it comes from: a caption of the suite, a record of a run, data for the script."""
    evil = "</script><script>alert(1)</script>"
    changes = {"deviations": [f"clip 0.2 → {evil} (suite x)"], "versions": {evil: evil}}
    suite = config.load_suite("smoke")
    write_run(tmp_path, "matrix/two-step/full/ippo", 0, 1.0, suite="smoke", changes=changes)
    artefacts = tuple(dataclasses.replace(artefact, caption=evil) for artefact in suite.artefacts)
    suite = dataclasses.replace(suite, artefacts=artefacts, raw={**suite.raw, "title": evil})
    text = pages(SuiteRuns(suite, tmp_path))[INDEX]
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)") >= 4
    assert 'name="whole" checked' in text  # nothing is compared: the whole of learning is shown
    shown = environment().from_string('<script id="x">{{ value | tojson }}</script>').render(value=evil)
    assert shown.count("</script>") == 1


def test_a_chart_leaves_the_start_out_of_its_range(tmp_path: Path, write_run: Any) -> None:
    """From 0 to 4000 within half of training: what follows is not flattened by it, and win rates keep their scale."""
    for seed, score in enumerate((4000.0, 4100.0)):
        write_run(tmp_path, f"{CHEETAH}/fp3o", seed, score, evaluations=24)
    write_run(tmp_path, "smac/3s5z/full/fp3o", 0, 90.0, suite="paper")
    diverged = {"status": "diverged", "diverged": {"iteration": 1, "quantity": "loss"}}
    write_run(tmp_path, "smac/3s5z/full/mappo", 0, 90.0, suite="paper", evaluations=0, changes=diverged)
    data = SuiteRuns(config.load_suite("paper"), tmp_path)
    cells = [cell for cell in data.cells.values() if cell.runs]
    curves = curves_of(cells)
    assert set(curves) == {f"{CHEETAH}/fp3o", "smac/3s5z/full/fp3o"}
    assert curves[f"{CHEETAH}/fp3o"]["centre"][-1] == 4050.0
    assert curves[f"{CHEETAH}/fp3o"]["hours"] == pytest.approx(
        100 / 3600 / curves[f"{CHEETAH}/fp3o"]["steps"][-1], 1e-3
    )
    found = chart([data.cells[f"{CHEETAH}/fp3o"]], curves)
    assert found is not None
    assert found.whole[0] < 0 < 1000 < found.late[0]
    assert found.late[1] > 4128.3  # the published value
    won = chart([data.cells["smac/3s5z/full/fp3o"]], curves)
    assert won is not None
    assert won.late == won.whole == (-2.0, 102.0)
    assert chart([data.cells["smac/3s5z/full/mappo"]], curves) is None


# --- In a browser -------------------------------------------------------------------------------------------------

# Runs in the page once it stands; what it finds comes back as attributes of the root.
PROBE = """<script>
const say = (name, value) => (root.dataset[name] = JSON.stringify(value));
const wait = () => new Promise((done) => setTimeout(done, 300));
const first = document.querySelector(".curve");
const lines = () => Number(first.dataset.lines);
const figure = () => Bokeh.documents.at(-1).roots()[0];
const click = async (selector) => { document.querySelector(selector).click(); await wait(); };
addEventListener("load", async () => {
  say("width", root.scrollWidth <= innerWidth);
  document.getElementById("conclusions").hidden = true; // so that the first picture is on the screen
  while (!first.dataset.lines) await wait();
  say("ink", figure().below[0].axis_label_text_color);
  say("paper", getComputedStyle(document.body).backgroundColor);
  say("all", lines());
  await click("#switches [name=seed][value='0']");
  say("seed", lines());
  await click(".sentences input");
  say("algorithm", lines());
  await click(".sentences input");
  await click("#switches [value=hours]");
  say("axis", figure().below[0].axis_label);
  const view = Bokeh.index.roots.find((found) => found.model === figure());
  const [area] = view.canvas_view.shadow_el.querySelectorAll(".bk-events");
  const { x, y } = figure().renderers[1].data_source.data;
  const place = area.getBoundingClientRect();
  const [right, down] = [view.frame.x_scale.compute(x[9]), view.frame.y_scale.compute(y[9])];
  const at = { clientX: place.left + right, clientY: place.top + down };
  for (const kind of ["pointerover", "pointermove"]) {
    area.dispatchEvent(new PointerEvent(kind, { ...at, isPrimary: true, pointerType: "mouse" }));
  }
  await wait();
  const texts = [];
  const walk = (node) => node.querySelectorAll("*").forEach((found) => {
    if (found.classList.contains("bk-tooltip-row-value")) texts.push(found.textContent.trim());
    if (found.shadowRoot) walk(found.shadowRoot);
  });
  walk(document);
  say("tooltip", texts);
  root.dataset.done = "yes";
});
</script></body>"""


def visit(page: Path, tmp_path: Path, *options: str, fragment: str = "") -> tuple[str, dict[str, Any]]:
    """The document as the browser has it after its scripts ran, and the attributes of its root."""
    assert BROWSER is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom"]
    flags += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}", *options]
    command = [BROWSER, *flags, f"{page.as_uri()}#{fragment}"]
    document = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    opening = document[document.index("<html") : document.index("<head")]
    return document, {name: unescape(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', opening)}


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.parametrize("size", ["1300,900", "390,844"])
def test_in_a_real_browser(page: Path, tmp_path: Path, size: str) -> None:
    """No error, nothing blocked, nothing wider than the window; curves are drawn, switched, read off. Phone: dark."""
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text().replace("</body>", PROBE))
    dark = size.startswith("390")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    _, found = visit(probed, tmp_path, f"--window-size={size}", scheme)
    assert (found["ready"], found["done"], found["errors"], found["blocked"]) == ("yes", "yes", "0", "0")
    assert json.loads(found["width"])
    assert json.loads(found["ink"]) == ("#e6e9ec" if dark else "#1d2327")
    assert json.loads(found["paper"]) == ("rgb(21, 25, 29)" if dark else "rgb(255, 255, 255)")
    # Seeds, mean, published: 5 + 1 + 1 of FP3O, 4 + 1 + 1 of MAPPO, 1 + 1 of the control; each has a seed 0.
    assert [json.loads(found[name]) for name in ("all", "seed", "algorithm")] == [15, 12, 6]
    assert json.loads(found["axis"]) == "minutes"
    name, minutes, value = json.loads(found["tooltip"])
    assert name == "FP3O, mean of 5 seeds"
    assert 0 < float(minutes) < 100 / 60  # each run took 100 s
    assert 0 < float(value.replace(",", "")) <= 4130


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_the_browser_would_tell_and_a_link_unfolds_its_place(page: Path, tmp_path: Path) -> None:
    """On a page that throws an error and asks the network for a picture the checks fail; links work all the same."""
    broken = page.read_text().replace("<main>", '<main><img src="http://localhost:9/x.png"/><script>missing()</script>')
    (tmp_path / "broken.html").write_text(broken)
    document, found = visit(tmp_path / "broken.html", tmp_path, fragment=SECTION)
    assert (found["errors"], found["blocked"]) == ("1", "1")
    opened = {name: " open" in text for text, name in re.findall(r'(<details[^>]*id="([^"]+)"[^>]*>)', document)}
    assert [name for name, is_open in opened.items() if is_open] == [SECTION]
    assert f"{SECTION.removesuffix('fp3o')}mappo" in opened


def test_a_single_row_has_no_interval_of_its_order() -> None:
    """Rows are the units of the rank agreement."""
    found: dict[str, Any] = {"rows": 1, "mean_tau": 0.33, "interval": [None, None], "p": 0.3, "of_these_same_sign": 1}
    found |= {"pairs_separated_in_the_paper": 2, "published_best_is_our_best": 1}
    (sheet,) = sheets.pooled({"rank_agreement": {"mamujoco": found}, "aggregates": {}})
    assert sheet.rows[0][2] == "0.33"


@pytest.mark.parametrize(("engine", "said"), [("embedded engine, revision 3", True), ("StarCraft II engine", False)])
def test_numbers_of_another_engine_are_said_to_be(engine: str, said: bool) -> None:
    run = {"cells_started": 3, "cells_planned": 4, "seeds_run": 6, "seeds_planned": 8, "seeds_diverged": 0}
    card: dict[str, Any] = {"claims": [], "coverage": run, "compared_cells": 3, "verdicts": {"consistent": 3}}
    card |= {"verdicts_by_domain": {"mpe": {"consistent": 1}, "smac": {"consistent": 2, "not run": 1}}}
    card |= {"engines": {"smac": [f"the {engine}"]}, "published_inside_our_prediction_interval": 1}
    other = " (2 of them of the real StarCraft II beside our battle engine)"
    assert f"of 3 published numbers compared{other * said}, 0 differ" in conclusions(card, {})[-1]
    assert "3 consistent, and" in conclusions(card, {})[-1]
    card |= {"consistent_and_nearly_all_won": {"at_least": 95.0, "cells": 2}}
    assert "3 consistent (2 of these win at least 95 % in both, where little can differ)" in conclusions(card, {})[-1]
    card |= {"differing": {"mpe/a": {"ours": -1.5, "published": 2.0}, "mpe/b": {"ours": 0.0, "published": 90.6}}}
    assert ", 0 differ (mpe: a -1.5 beside 2, b 0 beside 90.6), 0 are undecided" in conclusions(card, {})[-1]
