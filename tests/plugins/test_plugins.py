"""Algorithms and environments in files of a user's: named, digested, trained; their mistakes are one line."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from synthetic import SETTINGS, make_learner, make_rollout

import fp3o
from fp3o import cli, config, registry
from fp3o.algorithms.turns import ClipOthers
from fp3o.config import Cell, resolve
from fp3o.config.settings import own
from fp3o.envs import make
from fp3o.envs.pettingzoo.factory import load_factory, located
from fp3o.learner.randomness import Draws
from fp3o.registry import ALGORITHMS, ENVIRONMENTS, load_file
from fp3o.source_files import source_digest

Write = Callable[[str, str], Path]

SHY = """
import torch
import fp3o
from distance import far

@fp3o.algorithm("shy", title="Shy", colour="#123456", settings={
    "epochs": 3, "clip_others": 0.3, "shyness": fp3o.Setting(1.0, "How fast trust falls.", 0, 100)})
def shy(context):
    yield fp3o.Turn(context.settings.epochs)
    yield fp3o.Turn(1, 2, weight=torch.exp(-context.settings.shyness * far(context.log_ratio())))
"""
DISTANCE = "def far(moved):\n    return (moved.sum(-1, keepdim=True) - moved).abs()\n"
GAME = (Path(__file__).parents[2] / "docs" / "examples" / "meeting.py").read_text()
GAME = GAME.replace(
    "class Meeting", '@fp3o.environment("our-game", settings={"episode_limit": 9, "epochs": 2})\nclass Meeting'
)
GAME = GAME.replace("import numpy as np\n", "import numpy as np\nimport fp3o\n", 1)


@pytest.fixture
def shy(write: Write) -> Path:
    write("distance.py", DISTANCE)
    return write("shy.py", SHY)


def test_an_algorithm_is_named_everywhere(shy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["list", "algorithms", "--import", str(shy)])
    assert f"shy\tShy\tplug-in {shy}\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["train", "--help", f"--import={shy}"])
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "shyness (number, 0 … 100; default 1.0): How fast trust falls." in told
    cell = Cell.parse("matrix/two-step/none/shy")
    assert (cell.title, config.algorithm_colour(cell.label)) == ("Shy", "#123456")
    plan = resolve(cell, {"shyness": "2"})
    assert (plan.settings.epochs, own(plan.settings, ClipOthers).clip_others, vars(plan.settings)["shyness"]) == (
        3,
        0.3,
        2.0,
    )
    assert [str(change) for change in plan.deviations] == ["shyness 1.0 → 2.0 (--set)"]
    with pytest.raises(fp3o.UserError, match=r"shyness = 101 is not allowed; allowed: 0 … 100"):
        resolve(cell, {"shyness": "101"})
    with pytest.raises(fp3o.UserError, match="shyness is read only by shy"):
        resolve(Cell.parse("matrix/two-step/none/mappo"), {"shyness": "2"})


def test_its_source_is_part_of_the_digest_of_its_cells_alone(shy: Path, write: Write) -> None:
    others = [Cell.parse("matrix/two-step/none/mappo"), Cell.parse("mpe/simple-reference/full/fp3o")]
    before = [resolve(cell).digest for cell in others]
    load_file(shy)
    cell = Cell.parse("matrix/two-step/none/shy")
    seen = [resolve(cell).digest]
    for name, text in (("shy.py", SHY + "# edited\n"), ("distance.py", DISTANCE + "# so is a helper\n")):
        write(name, text)
        load_file(shy)
        seen.append(resolve(cell).digest)
    assert len(set(seen)) == 3
    write("shy.py", SHY)
    write("distance.py", DISTANCE)
    load_file(shy)
    assert resolve(cell).digest == seen[0]
    assert [resolve(cell).digest for cell in others] == before


def test_it_trains_and_its_runs_are_read(shy: Path, tmp_path: Path) -> None:
    load_file(shy)
    settings = {"total_steps": 512, "evaluation_episodes": 2, "final_episodes": 2}
    [run] = fp3o.train("matrix/two-step/partial/shy", [0], settings, tmp_path / "runs", quiet=True)
    assert (run.cell, run.settings["shyness"]) == ("matrix/two-step/partial/shy", 1.0)
    assert run.digest == resolve(Cell.parse(run.cell), settings).digest
    assert {"kl_turn1_agent0", "kl_turn2_agent0"} <= set(run.iterations)
    assert len(fp3o.play(run, episodes=2)) == 2


def test_an_environment_is_a_task(write: Write) -> None:
    load_file(write("games.py", GAME))
    assert "our-game" in config.tasks("pettingzoo")
    plan = resolve(Cell.parse("pettingzoo/our-game/full/mappo"))
    assert (plan.settings.epochs, plan.options.episode_limit) == (2, 9)
    assert plan.configuration()["plugins"] == {"environment": ENVIRONMENTS["our-game"].digest}
    env = make("pettingzoo", "our-game", 2, threads=1, options=plan.options)
    try:
        assert env.spec.agents == 2
        assert np.isfinite(env.reset(np.arange(2, dtype=np.uint64)).observation).all()
        assert env.identity()["engine"] == "pettingzoo our-game"  # no path of this machine
    finally:
        env.close()


def test_a_file_that_trains_when_it_is_imported_does_not_start_processes_without_end(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_file(write("games.py", GAME))
    with monkeypatch.context() as patched:
        patched.setenv("FP3O_CHILD", "1")  # as in a process that builds an environment
        with pytest.raises(fp3o.UserError, match="trains or plays when it is imported; allowed: that under"):
            make("pettingzoo", "our-game", 1, threads=1)
    write("games.py", GAME + "\nfrom fp3o.envs import make\nmake('pettingzoo', 'our-game', 1, threads=1)\n")
    with pytest.raises(fp3o.UserError, match=r"our-game.*trains or plays when it is imported"):
        make("pettingzoo", "our-game", 1, threads=1)


def test_a_notebook_may_declare_a_name_again_and_a_file_the_same(shy: Path, tmp_path: Path) -> None:
    for epochs in (1, 2):
        source = f"@fp3o.algorithm('cell')\ndef cell(context):\n    yield fp3o.Turn({epochs})\n"
        lines = source.splitlines(keepends=True)
        linecache.cache["<cell>"] = (len(source), None, lines, "<cell>")
        exec(compile(source, "<cell>", "exec"), {"fp3o": fp3o, "__name__": "__main__"})
    assert len(list(ALGORITHMS["cell"].digest)) == 16
    load_file(shy)
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "shy.py"
    other.write_text(SHY)
    with pytest.raises(fp3o.UserError, match=rf"algorithm 'shy' of {other} is taken already, by {shy}"):
        load_file(other)


def test_plugins_of_installed_packages(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A package as pip leaves it: its entry points are loaded by themselves, one that fails is left out."""
    for folder in ("timid_1", "timid-1.0.dist-info"):
        (tmp_path / folder).mkdir()
    write("timid-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: timid\nVersion: 1.0\n")
    write("timid-1.0.dist-info/entry_points.txt", "[fp3o.plugins]\nbad = timid_1.none\nrule = timid_1.rule\n")
    write("timid_1/__init__.py", "")
    write("timid_1/amount.py", "EPOCHS = 3\n")
    rule = "@fp3o.algorithm('timid')\ndef timid(context):\n    yield fp3o.Turn(EPOCHS)\n"
    game = "@fp3o.environment('timid-game')\ndef game():\n    return EPOCHS\n"
    write("timid_1/rule.py", f"import fp3o\nfrom .amount import EPOCHS\n{rule}\n{game}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_WAITING", ["fp3o.plugins"])
    assert "timid" in config.algorithms()
    line = "fp3o: plug-in bad of timid is left out: ModuleNotFoundError: No module named 'timid_1.none'\n"
    assert capsys.readouterr().err == line
    assert "timid" in config.algorithms()  # asked once more, nothing is loaded twice
    before = source_digest(tmp_path / "timid_1" / "rule.py")
    assert ALGORITHMS["timid"].digest == before
    write("timid_1/amount.py", "EPOCHS = 4\n")
    assert source_digest(tmp_path / "timid_1" / "rule.py") != before
    assert located("timid-game") == "timid_1.rule:game"
    assert load_factory(located("timid-game"), {})() == 3


DECLARED = "import fp3o\n@fp3o.algorithm({0})\ndef rule({1}):\n    yield fp3o.Turn(1)\n"
BAD_FILES = {
    "taken": (DECLARED.format("'mappo'", "context"), "algorithm 'mappo' of .* is a name of fp3o itself"),
    "hyphen": (
        DECLARED.format("'my-rule'", "context"),
        "algorithm 'my-rule': a name may hold small letters, digits and '_'",
    ),
    "no argument": (DECLARED.format("'rule'", ""), "rule must take the context alone: too many positional"),
    "two arguments": (
        DECLARED.format("'rule'", "context, other"),
        "rule must take the context alone: missing a required",
    ),
    "no generator": (
        "import fp3o\n@fp3o.algorithm('rule')\ndef rule(context):\n    return 1\n",
        "is no generator of turns",
    ),
    "unknown setting": (
        DECLARED.format("'rule', settings={'epoch': 3}", "context"),
        "unknown setting 'epoch'; allowed: fp3o.Setting",
    ),
    "bad value": (
        DECLARED.format("'rule', settings={'epochs': 0}", "context"),
        "epochs = 0 is not allowed; allowed: 1 … 10000",
    ),
    "bad default": (
        DECLARED.format("'rule', settings={'own': fp3o.Setting(3, least=4)}", "context"),
        "own = 3 is not allowed; allowed: 4 … 1e[+]38",
    ),
    "bad colour": (DECLARED.format("'rule', colour='red'", "context"), "colour 'red' is not allowed; allowed: #rrggbb"),
    "raises": ("x = 1\n1 / 0\n", r"rule.py cannot be imported: ZeroDivisionError: division by zero \(line 2\)"),
    "leaves": ("raise SystemExit('bye')\n", r"rule.py cannot be imported: SystemExit: bye \(line 1\)"),
    "syntax": ("def rule(:\n", r"rule.py cannot be imported: SyntaxError: .*rule.py, line 1"),
    "environment's name": (
        "import fp3o\n@fp3o.environment('a/b')\ndef make(): ...\n",
        "environment 'a/b': a name may hold letters",
    ),
    "known environment": (
        "import fp3o\n@fp3o.environment('pursuit')\ndef make(): ...\n",
        "'pursuit' of .* is a name of fp3o itself",
    ),
    "environment's arguments": (
        "import fp3o\n@fp3o.environment('x')\ndef make(size): ...\n",
        "make must be callable without arguments",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_plugins_are_one_line(name: str, write: Write) -> None:
    text, message = BAD_FILES[name]
    with pytest.raises(fp3o.UserError, match=message) as caught:
        load_file(write("rule.py", text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_ends_the_command_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["list", "algorithms", "--import", str(tmp_path / "none.py")])
    assert (left.value.code, capsys.readouterr().err) == (
        2,
        f"fp3o: --import {tmp_path}/none.py: there is no such file\n",
    )


BAD_TURNS = {
    "yield context.missing": r"algorithm rule fails before its turn 1: AttributeError: .* \(line 6\)",
    "yield 5": r"algorithm rule, turn 1: it is a int; allowed: fp3o.Turn",
    "yield fp3o.Turn(2.5)": r"turn 1: epochs = 2.5 is not allowed",
    "yield fp3o.Turn(1); yield fp3o.Turn(1, weight=context.log_ratio() * float('nan'))": (
        r"turn 2: weight has values that are not finite"
    ),
    "yield fp3o.Turn(1, weight=torch.ones(3))": r"turn 1: weight is \(3,\); allowed: a tensor \[R, T, N, A\] = \(2, ",
    "yield fp3o.Turn(1, clip='none')": r"turn 1: clip = 'none' is not allowed; allowed: own, product, joint",
    "yield fp3o.Turn(1, go=torch.ones(2))": r"turn 1: go holds torch.float32; allowed: torch.bool",
    "yield fp3o.Turn(1, loss=lambda batch: context.advantage)": (
        r"algorithm rule, turn 1: loss must be a plain function of the minibatch.*\(it has context\)"
    ),
    "yield fp3o.Turn(1, loss=lambda batch: batch.kl.mean())": r"loss <lambda> returns \(\); allowed: a tensor \[R, K",
    "yield fp3o.Turn(1, loss=lambda batch: batch.kl.no)": r"loss <lambda> fails: AttributeError: .* \(line 6\)",
    "yield fp3o.Turn(1, inputs={'beta': torch.ones(3)})": r"turn 1: inputs\['beta'\] is \(3,\); allowed: a tensor",
    "yield fp3o.Turn(1, inputs={'beta': 'one'})": r"turn 1: inputs\['beta'\] is str; allowed: a tensor \[R\]",
    "yield from ()": r"algorithm rule yields no turn",
}


@pytest.mark.parametrize("line", BAD_TURNS)
def test_bad_turns_are_one_line(line: str, write: Write) -> None:
    load_file(
        write("rule.py", f"import torch\nimport fp3o\n\n@fp3o.algorithm('rule')\ndef rule(context):\n    {line}\n")
    )
    learner = make_learner("rule", "full", SETTINGS, (0, 1))
    with pytest.raises(fp3o.UserError, match=BAD_TURNS[line]) as caught:
        learner.update(make_rollout(learner, (0, 1)), Draws((0, 1), 0))
    assert "\n" not in str(caught.value)


def test_numbers_that_diverged_by_themselves_are_no_mistake_of_the_plugin(write: Write) -> None:
    text = "import fp3o\n\n@fp3o.algorithm('rule')\ndef rule(context):\n"
    text += "    yield fp3o.Turn(1, weight=context.advantage.exp())\n"
    load_file(write("rule.py", text))
    learner = make_learner("rule", "full", SETTINGS, (0, 1))
    rollout = make_rollout(learner, (0, 1))
    rollout.reward[1] = torch.nan
    learner.update(rollout, Draws((0, 1), 0))
    assert re.fullmatch("[0-9a-f]{16}", ALGORITHMS["rule"].digest)
