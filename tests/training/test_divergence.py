"""A diverged seed is a finished run: it says where, and the other seeds go on as if it were not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from short_runs import documents, files, tiny_plan, train, train_interrupted

from fp3o import cli
from fp3o.envs import make
from fp3o.envs.interface import BatchEnv, Transition, slot_seeds
from fp3o.learner.update import Learner
from fp3o.runs import checkpoint, records
from fp3o.training import block

SICK = 1  # the seed that breaks, in the second iteration
CELLS = ("mamujoco/hopper-3x1/partial/a2po", "mpe/simple-speaker-listener/none/fp3o", "matrix/masked/full/happo")


class Poisoned:
    """An environment whose reward is not a number from some step on, in the slots of the sick seed."""

    def __init__(self, env: BatchEnv, healthy_steps: int) -> None:
        self._env, self._healthy, self._steps = env, healthy_steps, 0
        self._sick = np.zeros(env.slots, np.bool_)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, seeds: Any) -> Any:
        self._sick = np.isin(seeds, slot_seeds(SICK, "training", len(seeds)))
        return self._env.reset(seeds)

    def step(self, actions: Any) -> Transition:
        self._steps += 1
        transition = self._env.step(actions)
        if self._steps > self._healthy:
            transition.reward[self._sick] = np.nan
        return transition

    def state_dict(self) -> dict[str, Any]:
        return self._env.state_dict() | {"steps": np.array(self._steps), "sick": self._sick}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps, self._sick = int(state["steps"]), state["sick"]
        self._env.load_state_dict({k: v for k, v in state.items() if k not in ("steps", "sick")})


@pytest.fixture
def poisoned_rewards(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make environments of the sick seed break after so many steps."""

    def poison(healthy_steps: int) -> None:
        monkeypatch.setattr(block, "make", lambda *a, **k: Poisoned(make(*a, **k), healthy_steps))

    return poison


def of_seed(found: dict[str, Any], seed: int) -> dict[str, Any]:
    return {name: content for name, content in found.items() if name.startswith(f"seed-{seed}/")}


@pytest.mark.parametrize("cell", CELLS)
def test_the_others_go_on(tmp_path: Path, poisoned_rewards: Callable[[int], None], cell: str) -> None:
    plan = tiny_plan(cell, 3)
    alone = {seed: train(plan, tmp_path / f"alone-{seed}", (seed,)) for seed in (0, 2)}
    poisoned_rewards(plan.settings.rollout_length)
    found = train(plan, tmp_path / "stack", (0, SICK, 2))
    for seed in (0, 2):
        assert of_seed(found, seed) == alone[seed]
    assert len(of_seed(found, SICK)) == 4
    run = documents(tmp_path / "stack")[SICK]
    assert run["status"] == "diverged"
    assert run["diverged"] == {"iteration": 1, "quantity": "reward"}
    (folder,) = (tmp_path / "stack").rglob(f"seed-{SICK}")
    assert records.read_table(folder / records.ITERATIONS)["iteration"].tolist() == [0, 1]
    # Its score is the last finite evaluation: the one after the first iteration.
    evaluations = records.read_table(folder / records.EVALUATIONS)
    assert set(evaluations["iteration"]) == {0}
    assert run["score"]["env_steps"] == plan.settings.rollout_length * plan.settings.rollout_threads
    assert run["score"]["return"] == pytest.approx(evaluations["return"].mean(), rel=1e-5)
    # Its policy is the last one with finite numbers.
    tensors, _ = checkpoint.load(folder / records.CHECKPOINT)
    assert {"actor.trunk", "actor.head", "critic", "normaliser.weight"} <= tensors.keys()
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())
    # Alone it is the same run, also with a stop and a resume in between.
    assert of_seed(found, SICK) == train(plan, tmp_path / "sick", (SICK,))
    assert found == train_interrupted(plan, tmp_path / "resumed", (0, SICK, 2))


@pytest.mark.parametrize("cell", CELLS)
def test_broken_parameters_stop_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str) -> None:
    """A policy that gives no finite distribution still needs actions its environments take, in evaluations too."""
    plan = tiny_plan(cell, 3)
    alone = train(plan, tmp_path / "alone", (0,))
    real = Learner.update
    calls: list[int] = []

    def update(self: Learner, *arguments: Any) -> Any:
        numbers = real(self, *arguments)
        calls.append(len(calls))
        if len(calls) == 1:
            with torch.no_grad():
                self.stepper.parameters.head[SICK] = float("inf")
        return numbers

    monkeypatch.setattr(Learner, "update", update)
    found = train(plan, tmp_path / "stack", (0, SICK))
    assert of_seed(found, 0) == alone
    assert documents(tmp_path / "stack")[SICK]["diverged"] == {"iteration": 1, "quantity": "action"}


@pytest.mark.parametrize("cell", ["mamujoco/hopper-3x1/full/mappo", "mpe/simple-reference/none/fp3o"])
def test_an_absurd_step_size(tmp_path: Path, capsys: pytest.CaptureFixture[str], cell: str) -> None:
    """All seeds diverge at once: the command succeeds, warns about each, and does not train on."""
    plan = tiny_plan(cell, 5, epochs=3, actor_lr=1e38, critic_lr=1e38)
    overrides = [f"--set={change.name}={change.new}" for change in plan.deviations]
    with pytest.raises(SystemExit) as left:
        cli.main(["train", cell, "--seeds", "0-1", "--out", str(tmp_path), "--device", "cpu", *overrides])
    assert left.value.code in (0, None)
    shown = capsys.readouterr().err
    assert len(files(tmp_path)) == 2 * 4
    for seed, run in documents(tmp_path).items():
        where = run["diverged"]
        assert run["status"] == "diverged"
        assert run["digest"] == plan.digest
        assert where["iteration"] < 4
        assert f"warning: seed {seed} diverged in iteration {where['iteration']} ({where['quantity']})" in shown
