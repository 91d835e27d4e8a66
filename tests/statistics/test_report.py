"""The report is one file that works from disk: checked as text, and in a real browser where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fp3o.report import __main__ as report
from fp3o.report.html import Html, render, tag
from fp3o.statistics import cost
from paper_figures import __main__ as one_figure

CHEETAH = "mamujoco/halfcheetah-6x1/full"
SECTION = "cell-mamujoco--halfcheetah-6x1--full--fp3o"
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, write_run: Any, scores_around: Any) -> Path:
    """A report with two algorithms run, one seed diverged, one missing, a figure and a cost table."""
    root = tmp_path_factory.mktemp("report")
    diverged = {"status": "diverged", "diverged": {"iteration": 7, "quantity": "value_loss"}}
    for seed, score in enumerate(scores_around(4130, 60)):
        write_run(root / "runs", f"{CHEETAH}/fp3o", seed, score, changes=diverged if seed == 3 else None)
    for seed, score in enumerate(scores_around(1000, 60, n=4)):
        write_run(root / "runs", f"{CHEETAH}/mappo", seed, score)
    lines = [",".join(cost.COLUMNS), f"{CHEETAH}/fp3o,10,20,30,5,,900,cpu", f"{CHEETAH}/mappo,10,20,10,5,,900,cpu"]
    (root / "cost.csv").write_text("\n".join(lines) + "\n")
    common = ["--suite", "paper", "--runs", str(root / "runs")]
    one_figure.main([*common, "--artefact", "figure-mamujoco", "--out", str(root / "figures")])
    report.main([*common, "--cost", str(root / "cost.csv"), "--out", str(root / "index.html")])
    return root / "index.html"


class Reader(HTMLParser):
    """Ids, links and everything a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
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
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    assert len(found.links) > 100  # every cell of every table
    assert all(source.startswith("data:") for source in found.sources)
    assert not re.search(r"https?://|@import|url\(", text)


def test_the_page_says_what_was_found(page: Path) -> None:
    text = page.read_text()
    assert "4130 ± 60 (n = 5), published 4128 ± 367: consistent" in text
    assert "differs (ours lower)" in text
    assert "diverged in iteration 7 (value_loss)" in text
    assert "n = 4/5" in text
    assert "n = 5, 1 diverged" in text
    assert "fp3o train smac/3s5z/full/happo --suite paper" in text
    assert 'id="table-cost"' in text


def test_same_bytes_again(page: Path, tmp_path: Path) -> None:
    root = page.parent
    arguments = ["--suite", "paper", "--runs", str(root / "runs"), "--cost", str(root / "cost.csv")]
    report.main([*arguments, "--out", str(tmp_path / "index.html")])
    assert (tmp_path / "index.html").read_bytes() == page.read_bytes()


def test_text_is_escaped() -> None:
    assert render(["<b>", Html("<i>")]) == "&lt;b&gt;<i>"
    assert tag("a", "x & y", href='"#"', class_="k") == '<a href="&quot;#&quot;" class="k">x &amp; y</a>'
    assert tag("line", stroke_width="2") == '<line stroke-width="2"/>'


# --- In a browser -------------------------------------------------------------------------------------------------


def dump(page: Path, fragment: str, tmp_path: Path) -> str:
    """The document as the browser has it after its scripts ran."""
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    options += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [BROWSER, *options, f"{page.as_uri()}#{fragment}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_in_a_real_browser(page: Path, tmp_path: Path) -> None:
    """Scripts run without error, the content security policy blocked nothing, and a link opens its cell."""
    document = dump(page, SECTION, tmp_path)
    opening = document[document.index("<html") : document.index("<head")]
    assert 'data-ready="yes"' in opening
    assert 'data-errors="0"' in opening
    assert 'data-blocked="0"' in opening
    section = re.search(rf'<details[^>]*id="{SECTION}"[^>]*>', document)
    assert section is not None
    assert " open" in section[0]
    other = re.search(r'<details[^>]*id="cell-mamujoco--halfcheetah-6x1--full--mappo"[^>]*>', document)
    assert other is not None
    assert " open" not in other[0]
    assert '<section id="scorecard">' in document
    assert document.count('<table class="results">') >= 4
    # SVG keeps its shape: lines beside each other, not one inside the other.
    curve = document[document.index("<svg") : document.index("</svg>")]
    assert "<line" in curve
    assert not re.search(r"<line[^>]*><(?!/line>)", curve)
    assert len(re.findall(r'<polyline[^>]*class="seed"', curve)) == 5


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_the_browser_would_tell(page: Path, tmp_path: Path) -> None:
    """The same check on a page that throws an error and asks the network for a picture fails both ways."""
    broken = page.read_text().replace("<main>", '<main><img src="http://localhost:9/x.png"/><script>missing()</script>')
    (tmp_path / "broken.html").write_text(broken)
    document = dump(tmp_path / "broken.html", "", tmp_path)
    opening = document[document.index("<html") : document.index("<head")]
    assert 'data-errors="1"' in opening
    assert 'data-blocked="1"' in opening
