"""A time limit that is no end: the rewards to come are stood in for by the value of the last state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from short_runs import tiny_plan

from fp3o.config import Plan
from fp3o.envs import make
from fp3o.envs.interface import BatchEnv, Snapshot, Transition, slot_seeds
from fp3o.learner.update import Learner
from fp3o.networks.sharing import sharing
from fp3o.rollout.collector import Collector

SEEDS = (0, 1)
ROLLOUTS = 2
MEAN, VARIANCE = 2.0, 9.0  # of the value normaliser


def kept(snapshot: Snapshot | None) -> Any:
    return (
        None
        if snapshot is None
        else snapshot._replace(**{n: x.copy() for n, x in snapshot._asdict().items() if n != "available"})
    )


class Listening:
    """An environment that keeps what it returned."""

    def __init__(self, env: BatchEnv) -> None:
        self._env = env
        self.heard: list[Transition] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, actions: Any) -> Transition:
        t = self._env.step(actions)
        self.heard.append(t._replace(reward=t.reward.copy(), final=kept(t.final), snapshot=kept(t.snapshot)))
        return t


class Played(NamedTuple):
    """Some rollouts of one learner, and what its environments really said."""

    learner: Learner
    first: Snapshot
    heard: list[Transition]
    reward: NDArray[Any]  # [T, N, A] as the learner got it, all rollouts one after the other
    continues: NDArray[Any]  # [T, N]


class EndingAtTheLimit(Listening):
    """Its episodes end at the very step at which they are cut."""

    def step(self, actions: Any) -> Transition:
        t = super().step(actions)
        self.heard[-1] = self.heard[-1]._replace(terminated=t.terminated | t.truncated)
        return t._replace(terminated=t.terminated | t.truncated)


def play(plan: Plan, kind: type[Listening] = Listening) -> Played:
    settings, cell = plan.settings, plan.cell
    env = kind(make(cell.domain, cell.task, len(SEEDS) * settings.rollout_threads, options=plan.options))
    first = kept(env.reset(np.concatenate([slot_seeds(s, "training", settings.rollout_threads) for s in SEEDS])))
    owners = sharing(cell.sharing, env.spec.agent_types)
    learner = Learner.fresh(env.spec, owners, cell.algorithm, settings, SEEDS)
    ones = torch.ones(len(SEEDS), owners.trunks)
    learner.stepper.normaliser.update_(MEAN * ones, (VARIANCE + MEAN**2) * ones, ones.bool())
    collector = Collector(env, learner, settings)
    rewards, continues = [], []
    for iteration in range(ROLLOUTS):
        rollout = collector.collect(SEEDS, iteration).rollout
        rewards.append(rollout.reward.transpose(0, 1).flatten(1, 2).numpy().copy())
        continues.append(rollout.continues.transpose(0, 1).flatten(1, 2).numpy().copy())
    env.close()
    return Played(learner, first, env.heard, np.concatenate(rewards), np.concatenate(continues))


def value_of_history(learner: Learner, replica: int, states: list[NDArray[Any]]) -> NDArray[Any]:
    """V [A] of the last of an episode's states [A, S], in reward units, from the very beginning of the episode."""
    flat = learner.stepper.parameters.critic.detach()[replica : replica + 1]
    owners = torch.tensor(learner.sharing.trunk)[None]
    history = torch.from_numpy(np.stack(states, 1))[None, :, None]  # [1, A, 1, L, S]
    hidden = torch.zeros(1, history.shape[1], 1, learner.settings.hidden_size) if learner.settings.recurrent else None
    layers = learner.critic.layers(learner.critic.rows(flat, owners))
    value, _ = learner.critic.value(layers, history, hidden, torch.ones(history.shape[:4]))
    return np.asarray(value[0, :, 0, -1] * VARIANCE**0.5 + MEAN)


# Hopper falls (an end) or is cut after 22 steps, also at the last step of a rollout and across rollouts.
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize(
    ("sharing_and_algorithm", "input_name"), [("none/mappo", "state"), ("full/ippo", "observation")]
)
def test_the_value_of_the_last_state(sharing_and_algorithm: str, input_name: str, recurrent: bool) -> None:
    cell = f"mamujoco/hopper-3x1/{sharing_and_algorithm}"
    changes = {"rollout_length": 60, "episode_limit": 20, "chunk_length": 10, "recurrent": recurrent}
    plan = tiny_plan(cell, time_limit_is_terminal=False, **changes)
    learner, first, heard, reward, continues = play(plan)
    slots, gamma = plan.settings.rollout_threads, plan.settings.gamma
    ends = {"terminated": 0, "truncated": 0}
    history = [[getattr(first, input_name)[slot]] for slot in range(len(SEEDS) * slots)]
    for time, step in enumerate(heard):
        for slot, seen in enumerate(history):
            expected = step.reward[slot].copy()
            over = step.terminated[slot] or step.truncated[slot]
            if over:
                assert step.final is not None
                ends["terminated" if step.terminated[slot] else "truncated"] += 1
                if not step.terminated[slot]:
                    states = [*seen, getattr(step.final, input_name)[slot]]
                    expected += gamma * value_of_history(learner, slot // slots, states if recurrent else states[-1:])
                seen.clear()
            seen.append(getattr(step.snapshot, input_name)[slot])
            assert continues[time, slot] == (0 if over else 1)
            np.testing.assert_allclose(reward[time, slot], expected, rtol=1e-5, atol=1e-5)
    assert min(ends.values()) > 3, ends
    assert any(step.truncated.any() for step in heard[59::60])


def test_a_time_limit_that_is_an_end_adds_nothing() -> None:
    plan = tiny_plan("mamujoco/hopper-3x1/none/mappo", rollout_length=60, episode_limit=20)
    assert plan.settings.time_limit_is_terminal
    _, _, heard, reward, _ = play(plan)
    np.testing.assert_array_equal(reward, np.stack([step.reward for step in heard]).astype(np.float32))
    assert any(step.truncated.any() for step in heard)


def test_an_end_at_the_time_limit_is_an_end() -> None:
    plan = tiny_plan(
        "mamujoco/hopper-3x1/none/mappo", rollout_length=60, episode_limit=20, time_limit_is_terminal=False
    )
    _, _, heard, reward, _ = play(plan, EndingAtTheLimit)
    np.testing.assert_array_equal(reward, np.stack([step.reward for step in heard]).astype(np.float32))
    assert any((step.truncated & step.terminated).any() for step in heard)
