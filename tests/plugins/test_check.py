"""`fp3o check-algorithm` finds what an algorithm does wrong, and says what holds of one that does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import fp3o
from fp3o import cli
from fp3o.checks import algorithm as check

Write = Callable[[str, str], Path]

RULE = """
import torch
import fp3o

seen = []

@fp3o.algorithm("rule")
def rule(context):
    seen.append(0)
    weight = torch.ones_like(context.advantage)
    {line}
    yield fp3o.Turn(2, weight=weight)
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "LEARN", 2)
    monkeypatch.setattr(check, "REPEATED", ("none",))
    monkeypatch.setitem(check.QUICK, "rollout_threads", 4)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pass", ["yes", "yes"]),
        ("weight *= torch.arange(1, 1 + len(weight)).view(-1, 1, 1, 1)", ["no", "yes"]),  # another seed, another weight
        ("weight *= 1 + len(seen) % 7", ["no", "no"]),  # remembers earlier runs
    ],
)
def test_mixed_seeds_and_hidden_state_are_found(line: str, found: list[str], write: Write, tmp_path: Path) -> None:
    name = check.name_of(str(write("rule.py", RULE.format(line=line))))
    findings = list(check._repeated(name, tmp_path / "runs"))
    assert [verdict for verdict, _ in findings] == found
    if line != "pass":
        assert "seeds trained side by side and alone are the same runs, bit for bit: it indexes" in findings[0][1]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pass", "yes: with one agent it is PPO with 2 passes over a rollout"),
        ("weight *= 0.5 + torch.arange(4.).view(-1, 1, 1)", "note: with one agent it is not PPO with 2 passes"),
        ("if len(seen) % 2: yield fp3o.Turn(1)", "note: with one agent it is not PPO: it takes 3, 2, 3 passes"),
    ],
)
def test_one_agent_is_compared_with_ppo(line: str, found: str, write: Write, tmp_path: Path) -> None:
    name = check.name_of(str(write("rule.py", RULE.format(line=line))))
    [(verdict, text)] = check._one_agent(name, tmp_path / "runs")
    assert f"{verdict}: {text}".startswith(found)


def test_names_and_files(write: Write) -> None:
    path = write("rule.py", RULE.format(line="pass"))
    assert check.name_of(f"{path}:rule") == "rule"
    assert check.name_of("happo") == "happo"
    empty = write("empty.py", "")
    for text, message in (
        (f"{path}:ruler", "unknown algorithm 'ruler' in .*rule.py; allowed: rule"),
        (str(empty), "empty.py declares no algorithm"),
        ("hippo", "unknown algorithm 'hippo'; allowed: fp3o, .*, file.py:name"),
    ):
        with pytest.raises(fp3o.UserError, match=message):
            check.name_of(text)


@pytest.mark.slow
def test_everything_holds_of_a_sound_algorithm(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["check-algorithm", f"{write('rule.py', RULE.format(line='pass'))}:rule"])
    lines = capsys.readouterr().out.splitlines()
    assert left.value.code == 0
    assert lines[0] == "yes:  it runs under every sharing: full, partial, none, by-type"
    assert "yes:  it solves the game coordination under full, partial, none, by-type sharing, 1" in lines
    assert lines[-1] == "What must hold, holds."


@pytest.mark.usefixtures("quick")
def test_what_breaks_is_named(write: Write) -> None:
    said: list[str] = []
    name = check.name_of(str(write("rule.py", RULE.format(line="weight = weight / 0"))))
    assert not check.lines(check.check(name), said.append)
    assert said == [
        "no:   algorithm rule, turn 1: weight has values that are not finite (NaN or infinity)",
        "Something must change; the line marked `no` says what.",
    ]
