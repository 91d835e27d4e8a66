"""Settings that change during training: how they are written, and that every form of a step follows them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fake_graphs import replay_on_cpu
from short_runs import documents, files, tiny_plan, train, train_interrupted
from synthetic import SETTINGS, make_learner, make_rollout, with_settings

from fp3o import cli
from fp3o.algorithms.turns import ClipOthers
from fp3o.config import Cell, resolve
from fp3o.config.settings import at, own, schedules_of
from fp3o.errors import UserError
from fp3o.execution import compiler
from fp3o.execution.steps import CompiledSteps, GraphSteps
from fp3o.learner.randomness import Draws
from fp3o.learner.update import Learner
from fp3o.runs.extend import extend
from fp3o.schedules import Schedule

CELL = Cell.parse("matrix/climbing/full/mappo")
SEEDS = (0, 1)
VARYING = {"actor_lr": 0.003, "critic_lr": 0.003, "entropy_coef": 0.3, "clip": 0.4}


@pytest.mark.parametrize("text", ["5e-4 to 0", "5e-4 → 0", "5e-4 -> 0", " 0.0005 0", "5e-4→0", "5e-4-0"])
def test_all_spellings_are_one_run(text: str) -> None:
    plan = resolve(CELL, {"actor_lr": f"Linear {text}"})
    assert str(plan.settings.actor_lr) == "linear 0.0005 to 0.0"
    assert plan.digest == resolve(CELL, {"actor_lr": "linear 0.0005 to 0.0"}).digest
    assert plan.digest != resolve(CELL, {"actor_lr": "cosine 0.0005 to 0.0"}).digest
    spelt = resolve(Cell.parse("matrix/climbing/full/mappo-actor_lr-linear-5e-4-0"))
    assert spelt.settings.actor_lr == plan.settings.actor_lr


def test_a_constant_is_a_number() -> None:
    assert resolve(CELL, {"clip": "constant 0.1"}).digest == resolve(CELL, {"clip": 0.1}).digest


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"actor_lr": "linear 1 to"},
            "actor_lr = 'linear 1 to' is not allowed; allowed: a number, linear A to B",
        ),
        ({"actor_lr": "linear 1.2.3 to 0"}, "actor_lr = 'linear 1.2.3 to 0' is not allowed; allowed: a number, linear"),
        ({"clip": "linear 0.2 to 0"}, "clip = 0.0 is not allowed; allowed: 1e-06 … 1"),
        ({"gamma": "linear 0.9 to 1"}, "gamma = 'linear 0.9 to 1' is not allowed; allowed: a number$"),
    ],
)
def test_bad_schedules_are_one_line(values: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve(CELL, dict(values))


def test_a_setting_that_follows_another_needs_a_value_then() -> None:
    cell = Cell.parse("matrix/climbing/full/coppo")
    with pytest.raises(UserError, match=r"clip_others follows clip, which is 'linear 0\.2 to 0\.1'; allowed: a value"):
        resolve(cell, {"clip": "linear 0.2 to 0.1"})
    settings = resolve(cell, {"clip": "linear 0.2 to 0.1", "clip_others": 0.1}).settings
    assert own(settings, ClipOthers).clip_others == 0.1


def test_shapes() -> None:
    line, curve = Schedule("linear", 1.0, 0.5), Schedule("cosine", 1.0, 0.0)
    assert [line.at(x) for x in (0, 0.5, 1)] == [1.0, 0.75, 0.5]
    assert [curve.at(x) for x in (0, 0.25, 0.5, 1)] == pytest.approx([1.0, 0.5 + 0.5**1.5, 0.5, 0.0])


def test_show_has_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        cli.main(["show", CELL.id, "--out", str(tmp_path), "--set", "clip=cosine 0.2 → 0.05"])
    assert "* clip                       cosine 0.2 to 0.05  --set" in capsys.readouterr().out


def after(settings: dict[str, object], first: int, last: int, wrap: object = None) -> Learner:
    """A learner of FP3O after these iterations of four."""
    whole = with_settings(SETTINGS, total_steps=4 * 24, **settings)
    options = {} if wrap is None else {"wrap": wrap}
    learner = make_learner("fp3o", "partial", whole, SEEDS, **options)  # type: ignore[arg-type]
    for iteration in range(first, last):
        learner.update(make_rollout(make_learner("fp3o", "partial", SETTINGS, SEEDS), SEEDS), Draws(SEEDS, iteration))
    return learner


def close(one: Learner, other: Learner) -> bool:
    pairs = zip(one.stepper.parameters, other.stepper.parameters, strict=True)
    return all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs)


@pytest.mark.parametrize("name", VARYING)
def test_each_iteration_has_its_value(name: str) -> None:
    """In the third of four a value from x to 0.2 x is 0.6 x: as a learner that always has this value."""
    high = VARYING[name]
    varying = after({name: f"linear {high} to {0.2 * high}"}, 2, 3)
    assert getattr(varying.settings, name) == pytest.approx(0.6 * high)
    assert close(varying, after({name: 0.6 * high}, 2, 3))
    assert not close(varying, after({name: high}, 2, 3))


def test_every_form_of_a_step_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[str, object] = {name: f"cosine {high} to {0.1 * high}" for name, high in VARYING.items()}
    eager = after(texts, 0, 3)
    with monkeypatch.context() as patched:
        replay_on_cpu(patched)
        replayed = after(texts, 0, 3, GraphSteps)
    pairs = zip(eager.stepper.parameters, replayed.stepper.parameters, strict=True)
    assert all(a.equal(b) for a, b in pairs)
    traced: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, *_: object) -> torch.fx.GraphModule:
        traced.append(graph)
        return graph

    monkeypatch.setattr(compiler, "_load_or_compile", keep)
    assert close(eager, after(texts, 0, 3, CompiledSteps))
    assert len(traced) == 1, "one program for all iterations"


def test_a_run_is_resumed_where_the_schedule_was_and_cannot_be_made_longer(tmp_path: Path) -> None:
    plan = tiny_plan(CELL.id, 4, actor_lr="linear 0.01 to 0", clip="cosine 0.3 to 0.1")
    whole = train(plan, tmp_path / "whole")
    assert train_interrupted(plan, tmp_path / "interrupted") == whole == files(tmp_path / "whole")
    (document,) = documents(tmp_path / "whole").values()
    assert document["settings"]["actor_lr"] == "linear 0.01 to 0.0"
    with pytest.raises(UserError, match="cannot go on: its clip, actor_lr would have changed more slowly"):
        extend(document, 10_000)


def test_settings_without_a_schedule_are_the_same_object() -> None:
    settings = with_settings()
    assert schedules_of(settings) == {}
    assert at(settings, {}, 0.5) is settings
