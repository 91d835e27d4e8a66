"""docs/plugins.md shows the files of docs/examples/, and what it says of them is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fp3o import cli, config
from fp3o.registry import load_file

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGE = (ROOT / "docs" / "plugins.md").read_text()


@pytest.mark.parametrize(
    ("page", "name"),
    [
        *(("plugins", name) for name in ("shy.py", "penalty.py", "agree.py", "fairness.py", "shy.yaml")),
        *(("networks", name) for name in ("pixels.py", "spot.py", "entities.py")),
    ],
)
def test_the_page_shows_the_files(page: str, name: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert f"all of `{name}`" in text
    assert (EXAMPLES / name).read_text() in re.findall(r"^```(?:python|yaml)[^\n]*\n(.*?)^```$", text, re.M | re.S)


def test_the_suite_is_the_pages(capsys: pytest.CaptureFixture[str]) -> None:
    suite = config.load_suite(str(EXAMPLES / "shy.yaml"))
    labels = [plan.cell.label for plan, _ in suite.runs()]
    assert labels == [*["mappo", "shy"] * 3, "shy-shyness-0", "shy-shyness-10"]
    plan, _ = suite.run("matrix/climbing/full/shy-shyness-10")
    assert (plan.settings.epochs, vars(plan.settings)["shyness"]) == (4, 10.0)
    with pytest.raises(SystemExit) as left:
        cli.main(["show", "pettingzoo/agree/full/shy", "--suite", str(EXAMPLES / "shy.yaml")])
    assert left.value.code == 0
    assert "plug-in agree" in capsys.readouterr().out


def test_every_command_of_the_page_exists() -> None:
    for name in sorted(set(re.findall(r"fp3o ((?:new|check)-\w+|snakefile|status|train|list)", PAGE))):
        assert name in cli.entry.COMMANDS
    load_file(EXAMPLES / "shy.py")
    assert config.algorithm_title("shy-shyness-10") == "Shy (shyness 10)"


def test_a_new_suite_works_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def called(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as left:
            cli.main(list(arguments))
        shown = capsys.readouterr()
        return left.value.code, shown.out + shown.err

    said = "mine.yaml: edit it, then snakemake --snakefile $(fp3o snakefile) --config suite=mine.yaml\n"
    assert called("new-suite", "mine.yaml") == (0, said)
    suite = config.load_suite("mine.yaml")
    assert len(suite.runs()) == 9  # a point of the grid is MAPPO as it is
    assert suite.artefact("table-games").baseline == "mappo"
    for name, message in {
        "mine.yaml": "mine.yaml is there already",
        "paper.yaml": "suite paper.yaml: fp3o has a suite of that name",
        "mine.txt": "mine.txt: a suite's name ends with .yaml",
        "none/mine.yaml": "none/mine.yaml: there is no folder none",
    }.items():
        code, text = called("new-suite", name)
        assert (code, text.startswith(f"fp3o: {message}"), text.count("\n")) == (2, True, 1)
    assert not (tmp_path / "paper.yaml").exists()
    assert called("snakefile") == (0, f"{ROOT / 'Snakefile'}\n")
