"""What an algorithm keeps from one iteration to the next, and the example that does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from short_runs import files, tiny_plan, train, train_interrupted
from synthetic import SETTINGS, make_learner, make_rollout, with_settings

import fp3o
from fp3o.config.settings import settings_of
from fp3o.config.sharings import SHARINGS
from fp3o.learner.randomness import Draws
from fp3o.registry import load_file

PENALTY = Path(__file__).parents[2] / "docs" / "examples" / "penalty.py"
Write = Callable[[str, str], Path]

COUNTING = """
import fp3o

@fp3o.algorithm("counting", state={"count": 0.0, "each": lambda agents: [1.0] * agents})
def counting(context):
    context.state["count"] = context.state["count"] + 1
    context.state["each"].mul_(2)
    seen = context.state["count"] * 0 + context.env_steps
    yield fp3o.Turn(1, records={"count": context.state["count"], "seen": seen})
    context.state["count"] = context.state["count"] + 0.5
"""


def test_it_is_per_seed_and_lasts(write: Write) -> None:
    load_file(write("counting.py", COUNTING))
    learner = make_learner("counting", "none", with_settings(SETTINGS, total_steps=96), (0, 1))
    own = learner.stepper.state.own
    assert {name: x.shape for name, x in own.items()} == {"count": (2,), "each": (2, 3)}
    for iteration in range(3):
        records = learner.update(make_rollout(learner, (0, 1)), Draws((0, 1), iteration))
        assert records["count"].tolist() == [1.5 * iteration + 1] * 2, "as it was when it was yielded"
        assert records["seen"].tolist() == [24 * iteration] * 2
    assert own["each"].tolist() == [[8.0] * 3] * 2
    before = own["count"].clone()
    learner.rehearse(make_rollout(learner, (0, 1)), Draws((0, 1), 0))
    assert own["count"].equal(before)


def test_a_snapshot_sets_it_back() -> None:
    load_file(PENALTY)
    learner = make_learner("penalty", "none", with_settings(SETTINGS, total_steps=96), (0, 1))
    seen: list[tuple[int, float]] = []

    def turns(context: fp3o.Context) -> Iterator[fp3o.Turn]:
        seen.append((context.iteration, context.fraction))
        restore = context.snapshot()
        context.state["beta"] = torch.tensor([5.0, 6.0])
        yield fp3o.Turn(1)
        restore(torch.tensor([True, False]))

    learner.turns = turns
    for iteration in (0, 3):
        learner.update(make_rollout(learner, (0, 1)), Draws((0, 1), iteration))
    assert learner.stepper.state.own["beta"].tolist() == [1.0, 6.0]
    assert seen == [(0, 0.0), (3, 0.75)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("context.state['gamma']", r"unknown state 'gamma'; allowed: beta"),
        ("context.state['beta'] = 1.0", r"state\['beta'\] was set to float; allowed: a tensor \(2,\)"),
        ("context.state['beta'] = torch.ones(3)", r"state\['beta'\] was set to \(3,\); allowed: a tensor \(2,\)"),
        ("del context.state['beta']", r"state\['beta'\] cannot be deleted"),
    ],
)
def test_mistakes_are_one_line(line: str, message: str, write: Write) -> None:
    head = "import torch\nimport fp3o\n\n@fp3o.algorithm('rule', state={'beta': 1.0})\ndef rule(context):\n"
    load_file(write("rule.py", f"{head}    {line}\n    yield fp3o.Turn(1)\n"))
    learner = make_learner("rule", "full", SETTINGS, (0, 1))
    with pytest.raises(fp3o.UserError, match=message):
        learner.update(make_rollout(learner, (0, 1)), Draws((0, 1), 0))


def test_the_penalty_adapts_in_each_seed() -> None:
    """A small target makes its weight grow, a large one lets it fall; seeds do not mix."""
    load_file(PENALTY)
    for target, factor in ((1e-6, 2.0), (10.0, 0.5)):
        kind: Any = settings_of("penalty")
        plain = with_settings(SETTINGS, total_steps=96)
        settings = kind(**{k: v for k, v in vars(plain).items() if k in kind.__dataclass_fields__}, kl_target=target)
        learner = make_learner("penalty", "partial", settings, (0, 1))
        for iteration in range(3):
            records = learner.update(make_rollout(learner, (0, 1)), Draws((0, 1), iteration))
            assert records["beta"].tolist() == [factor**iteration] * 2
        assert learner.stepper.state.own["beta"].tolist() == [factor**3] * 2


@pytest.mark.parametrize("sharing", SHARINGS)
def test_the_example_goes_on_to_the_same_bytes(sharing: str, tmp_path: Path) -> None:
    load_file(PENALTY)
    cell = f"mpe/simple-spread/{sharing}/penalty" if sharing == "none" else f"matrix/climbing/{sharing}/penalty"
    plan = tiny_plan(cell, 3, actor_lr=0.01, kl_target=1e-6)
    whole = train(plan, tmp_path / "whole", (0, 1))
    assert train_interrupted(plan, tmp_path / "interrupted", (0, 1)) == whole == files(tmp_path / "whole")
    runs = fp3o.runs(tmp_path / "whole")
    assert all(len(set(run.iterations["beta"])) > 1 for run in runs)
