"""`fp3o next`: what would decide most claims per minute."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from command import call

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout
from fp3o.statistics import gathered, next_runs, rates
from fp3o.statistics.claims import ledger
from fp3o.statistics.next_runs import Question, plan
from fp3o.statistics.rates import Rate, Rates
from fp3o.statistics.suites import SuiteRuns

CHEETAH = "mamujoco/halfcheetah-6x1"


def question(name: str, *rows: str, done: int = 0, deviate: float = 0.0) -> Question:
    """Rows of one letter per cell."""
    return Question(name, name, tuple(frozenset(row) for row in rows), done, deviate, 0.0, 0)


def cost(cell: str) -> float | None:
    """A capital letter is dear, an x unknown."""
    return None if cell == "x" else 10.0 if cell.isupper() else 1.0


def test_more_rows_raise_the_chance_and_the_effect_so_far_counts() -> None:
    open_one = question("C1", "ab", "cd", "ef", done=1, deviate=2.0)
    chances = [open_one.chance(set(known)) for known in ("ab", "abcd", "abcdef")]
    assert chances[0] == 0.0
    assert 0 < chances[1] < chances[2] < 1
    weaker = question("C1", "ab", "cd", "ef", done=1, deviate=0.1)
    assert weaker.chance(set("abcdef")) < chances[2]
    hinted = Question("C1", "", open_one.rows, 1, 2.0, hint=6.0, rows_of_hint=9)
    assert hinted.chance(set("abcd")) > chances[1]


def test_the_plan_takes_what_decides_most_per_minute_and_fits() -> None:
    questions = [question("dear", "aB"), question("cheap", "ac"), question("unknown", "ax")]
    (first, *rest) = plan(questions, "", cost, 20.0)
    assert (first.cells, first.minutes, first.claims) == (("a", "c"), 2.0, ("cheap",))
    assert [step.cells for step in rest] == [("B",)]  # `a` is there by then
    assert plan(questions, "", cost, 1.5) == []
    assert sum(step.minutes for step in plan(questions, "", cost, 11.0)) <= 11.0


def test_a_cell_that_two_claims_need_comes_first() -> None:
    (step, *_) = plan([question("C1", "ab"), question("C2", "cd"), question("C3", "cd")], "", cost, 2.0)
    assert step.cells == ("c", "d")
    assert set(step.claims) == {"C2", "C3"}


def test_rates_are_of_the_likest_cell_and_of_one_kind_of_machine() -> None:
    known = [
        Rate(f"{CHEETAH}/full/fp3o", "cuda", "H200", 6e-5),
        Rate(f"{CHEETAH}/full/happo", "cuda", "H200", 12e-5),
        Rate("mamujoco/ant-2x4/full/fp3o", "cuda", "H200", 30e-5),
        Rate(f"{CHEETAH}/full/fp3o", "cpu", "2 cores", 1.0),
        Rate(f"{CHEETAH}/full/fp3o", "cuda", "another", 1.0),
    ]
    found = Rates.on(known, "cuda", "H200")
    assert found.hosts == ["H200"]
    assert found.minutes(f"{CHEETAH}/full/fp3o", 10_000_000) == pytest.approx(10)
    assert found.minutes(f"{CHEETAH}/none/happo", 1_000_000) == pytest.approx(2)  # of another sharing
    assert found.minutes(f"{CHEETAH}/none/mappo", 1_000_000) == pytest.approx(1.5)  # of the task
    assert found.minutes("smac/3s5z/full/mappo", 1_000_000) is None
    assert Rates.on(known, "cuda", "not timed yet").hosts == ["H200", "another"]
    with pytest.raises(UserError, match="no run was timed on 'tpu'; measured: cpu, cuda"):
        Rates.on(known, "tpu")


def test_what_the_command_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_run: Any, capsys: Any) -> None:
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / "results" / name)
    for label in ("fp3o", "mappo"):
        for seed in range(5):
            write_run(tmp_path / "results/paper/runs", f"{CHEETAH}/full/{label}", seed, 4000.0 + seed)
    assert call("next", "--minutes", "1000", "--device", "cpu") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("1000 minutes on cpu, at the rates of 2 cells timed on ") for line in lines)
    command = lines[-1]
    assert command.startswith("snakemake ")
    named = [word.removeprefix("results/paper/cells/") for word in command.split()[1:]]
    cells = {plan.cell.id for plan, _ in config.load_suite("paper").runs()}
    assert named
    assert all(name.removesuffix(".json") in cells for name in named)
    assert not any(name.startswith(("smac/", "mpe/")) for name in named)  # nothing of these was timed
    assert any("C16 FP3O's lead survives MAPPO with as many updates" in line for line in lines)


def test_more_seeds_come_with_their_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_run: Any, capsys: Any
) -> None:
    """Of a claim that all runs leave open: C35, on MPE."""
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / "results" / name)
    scores = random.Random(0)
    for task in ("simple-reference", "simple-speaker-listener"):
        for sharing in ("full", "none"):
            for label, more in (("fp3o", 0.3), ("mappo-30-epochs", 0.0)):
                for seed in range(5):
                    score = scores.gauss(-9.0 + more, 0.6)
                    write_run(tmp_path / "results/paper/runs", f"mpe/{task}/{sharing}/{label}", seed, score)
    assert call("next", "--minutes", "1", "--device", "cpu") == 0
    lines = capsys.readouterr().out.splitlines()
    (place,) = (k for k, line in enumerate(lines) if line.startswith("C35: all runs are there; "))
    seeds = int(lines[place].split()[5])
    assert seeds > 5
    added = lines[place + 1].removeprefix("    with artefacts: ").removesuffix(" in paper.yaml,")
    (tmp_path / "more.yaml").write_text(f"title: More seeds\nextends: paper\nartefacts: {added}\n")
    _, planned = config.load_suite(str(tmp_path / "more.yaml")).run("mpe/simple-reference/full/fp3o")
    assert planned == tuple(range(seeds))
    assert lines[place + 2].startswith("    snakemake results/paper/cells/mpe/simple-reference/full/fp3o.json ")
    assert lines[place + 2].count("mappo-30-epochs.json") == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--minutes", "0"), "--minutes 0 is not allowed; allowed: a number above 0"),
        (("--minutes", "5", "--suite", "preview"), "suite preview has no claims"),
        (("--minutes", "5", "--device", "cpu"), "no run was timed on 'cpu'; measured: none: pull or train runs first"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / "results" / name)
    assert call("next", *arguments) == 2
    assert words in capsys.readouterr().err


def without(data: SuiteRuns, hidden: set[str]) -> SuiteRuns:
    """The suite as if these cells had not been run."""
    return data.seen(lambda name: replace(data.cells[name], runs=()) if name in hidden else data.cells[name])


def decided(data: SuiteRuns) -> int:
    """Number of claims that are supported, contradicted or shown to be no difference."""
    return sum(finding.verdict in next_runs.DECIDED for _, finding in ledger(data))


@pytest.mark.slow
def test_following_the_plan_decides_more_claims_than_a_random_order(pulled: Path) -> None:
    """At a tenth of the steps, with half of the shipped cells hidden and a tenth of their minutes to spend."""
    early = gathered.tenth(SuiteRuns(config.load_suite("paper"), pulled / "results/paper/runs"))
    assert early is not None
    timed = Rates.on(rates.measured(pulled / "results"), "cuda")
    steps = {plan.cell.id: plan.settings.total_steps for plan, _ in early.suite.runs()}
    have = sorted(name for name in early.cells if early.cells[name].runs)
    minutes = {cell: timed.minutes(cell, steps[cell]) or 0.0 for cell in have}
    before, planned, at_random = [], [], []
    for split in range(8):
        hidden = set(random.Random(split).sample(have, len(have) // 2))
        budget = 0.1 * sum(minutes[cell] for cell in hidden)
        rest = without(early, hidden)
        before.append(decided(rest))
        costs = {cell: minutes[cell] for cell in hidden}
        chosen = plan(next_runs.questions(rest), set(have) - hidden, costs.get, budget)
        cells = {cell for step in chosen for cell in step.cells}
        assert sum(minutes[cell] for cell in cells) <= budget
        planned.append(decided(without(early, hidden - cells)))
        for shuffle in range(4):
            order, left, taken = sorted(hidden), budget, set()
            random.Random(100 * split + shuffle).shuffle(order)
            for cell in order:
                if minutes[cell] <= left:
                    taken.add(cell)
                    left -= minutes[cell]
            at_random.append(decided(without(early, hidden - taken)))
    assert mean(before) < mean(at_random) < mean(planned)
