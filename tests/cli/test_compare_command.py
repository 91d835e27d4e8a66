"""`fp3o compare` and `fp3o plot`: which runs are meant, what is said of them, and refusals of one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from short_runs import tiny_plan, train

import fp3o
from fp3o import cli
from fp3o.cli import plot as plotting
from fp3o.runs import layout

CELL = "matrix/climbing/full/mappo"
Call = Callable[..., tuple[object, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("compared")
    train(tiny_plan(CELL, 3), root / "usual", (0, 1, 2))
    train(tiny_plan(CELL, 3, clip=0.1, actor_lr=0.05), root / "bold", (0, 1, 2))
    train(tiny_plan(CELL, 2), root / "short", (0, 3))
    train(tiny_plan("matrix/two-step/full/mappo", 2), root / "other", (0,))
    return root


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(folder)

    def called(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as left:
            cli.main(list(arguments))
        shown = capsys.readouterr()
        return left.value.code, shown.out + shown.err

    return called


def test_two_folders(call: Call) -> None:
    code, text = call("compare", "usual", "bold")
    first, second = (
        [run.evaluations["return"].reshape(3, 2).mean(1)[-1:].mean() for run in fp3o.runs(name)]
        for name in ("usual", "bold")
    )
    assert code == 0
    lines = text.splitlines()
    assert lines[1].startswith("usual: ")
    assert "(n = 3)" in lines[1]
    difference = sum(b - a for a, b in zip(first, second, strict=True)) / 3
    assert float(lines[2].partition("; ")[2].partition(" [")[0]) == pytest.approx(difference, abs=0.006)
    assert lines[2].rpartition(": ")[2] in ("better", "worse", "equivalent", "undecided")
    assert lines[3] == "settings of bold that differ: clip 0.2 → 0.1; actor_lr 0.005 → 0.05"
    assert lines[-2:] == ["A  usual", "B  bold"]
    assert any("A" in line for line in lines[5:-3])


def test_unequal_budgets_are_compared_where_both_have_been(call: Call) -> None:
    _, text = call("compare", "usual", "short")
    assert text.startswith("score: evaluations up to 32 steps, which all have\n")
    assert "against the first: undecided (1 of at least 3 seeds)" in text
    _, text = call("compare", next(iter(map(str, Path("usual").rglob("seed-2")))), "short")
    assert "no seed in common with the first: not compared" in text


def test_one_folder_with_several_cells(call: Call) -> None:
    code, text = call("compare", ".")
    assert (code, text.count("\n")) == (2, 1)
    assert "runs of 2 tasks, matrix/climbing, matrix/two-step; allowed: runs of one task" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "usual"), "usual: runs of one cell with the same settings; allowed: two or more to compare"),
        (("compare", "usual", "usual/nothing/here/at"), "unknown domain 'usual'"),
        (("plot", "empty"), "there is no finished run below empty"),
        (
            ("plot", "shipped:matrix/climbing/none/happo"),
            "no finished run here; allowed: a folder, or `fp3o pull",
        ),
        (("plot", "usual", "--out", "a/b.png"), "--out a/b.png: there is no folder a"),
        (("plot", "usual", "--out", "b.gif"), "--out b.gif: allowed: a name that ends with .png, .pdf, .svg"),
        (("compare", "usual", "bold", "--html", "b.png"), "--html b.png: allowed: a name that ends with .html"),
    ],
)
def test_refusals_are_one_line(arguments: tuple[str, ...], message: str, call: Call) -> None:
    Path("empty").mkdir(exist_ok=True)
    code, text = call(*arguments)
    assert (code, text.count("\n")) == (2, 1)
    assert message in text


def test_a_cell_is_looked_for_where_runs_go(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "own_root", lambda: folder / "usual")
    monkeypatch.setattr(layout, "suite_root", lambda name: folder / "suites" / name)
    shipped = folder / "suites" / "paper" / "runs"
    if not shipped.exists():
        shipped.parent.mkdir(parents=True)
        shipped.symlink_to(folder / "bold")
    code, text = call("compare", CELL, f"shipped:{CELL}")
    assert code == 0
    assert f"settings of shipped:{CELL} that differ: clip 0.2 → 0.1" in text


def test_a_picture(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("plot", "usual", "bold", "--out", "curves.png") == (0, "")
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    code, text = call("plot", "usual", "--out", "again.png")
    assert (code, "pip install matplotlib" in text) == (2, True)
    assert importlib.util.find_spec("matplotlib") is not None


def test_a_page(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a<b").symlink_to(folder / "bold")
    code, text = call("compare", "usual", "a<b", "--html", "page.html")
    assert (code, text.splitlines()[-1]) == (0, "page: page.html")
    page = (folder / "page.html").read_text()
    score, difference = text.splitlines()[2].partition(": ")[2].split("; ")
    for shown in ("a&lt;b", score, difference, "actor_lr</td><td>0.005</td><td>0.05", "data:image/png;base64,iVBOR"):
        assert shown in page
    assert "a<b" not in page
    _, text = call("compare", "usual", "usual", "--html", "page.html")
    assert text.splitlines()[2].endswith("(n = 3); every seed equal to the first's")
    assert '<p class="muted">None.</p>' in (folder / "page.html").read_text()
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    code, text = call("compare", "usual", "a<b", "--html", "page.html")
    assert (code, "--html needs bokeh and matplotlib: pip install bokeh matplotlib" in text) == (2, True)


def test_runs_are_found_below_any_folder(folder: Path) -> None:
    assert len(fp3o.runs(folder)) == 9
    assert len(fp3o.runs(folder / "usual" / "matrix" / "climbing")) == 3
    assert [run.seed for run in fp3o.runs(next((folder / "usual").rglob("seed-2")))] == [2]
    (folder / "empty").mkdir(exist_ok=True)
    with pytest.raises(fp3o.UserError, match="there is no finished run below"):
        fp3o.runs(folder / "empty")
