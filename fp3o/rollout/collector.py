"""Collecting a rollout: the policies of R replicas act in R × N environments; values are computed at the end.

How policies act, and on which device, is up to whoever makes the collector (fp3o/execution).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fp3o.algorithms.turns import Rollout
from fp3o.config.settings import Settings
from fp3o.envs.interface import BatchEnv, Episode, Snapshot
from fp3o.learner.randomness import generator
from fp3o.learner.update import Learner
from fp3o.networks.actor import Distribution
from fp3o.rollout.policy import MakePolicy, Policy, noise_of, playable
from fp3o.rollout.values import Replayed, Values, make_scan


class Collected(NamedTuple):
    """A rollout on the learner's device, and what happened while it was collected."""

    rollout: Rollout
    episodes: list[list[Episode]]
    """Episodes that ended, per replica."""
    broken: dict[int, str]
    """Replicas with numbers that are not finite, and which quantity that was."""


class Collector:
    """R × N environments and the buffers of one iteration, reused by the next."""

    def __init__(
        self,
        env: BatchEnv,
        learner: Learner,
        settings: Settings,
        policy: MakePolicy = Policy,
        replayed: Replayed = lambda run: run,
    ) -> None:
        """policy: makes the policy that acts; replayed: as in `Scan`."""
        self.env, self.learner, self.settings = env, learner, settings
        self.replicas, self.slots = learner.replicas, settings.rollout_threads
        self.policy = policy(learner.actor, self.replicas, self.slots)
        steps, critic = settings.rollout_length, learner.critic
        self._scan = make_scan(critic, self.replicas, steps, self.slots, learner.device, replayed)
        spec, action = env.spec, env.spec.action
        self._sees_state = learner.critic_input == "state"
        shape = (self.replicas, settings.rollout_length, self.slots)
        agents = (*shape, spec.agents)
        sizes = {
            "observation": (*agents, spec.observation_size),
            "action": (*agents, action.width),
            "location": (*agents, action.parameters),
            "reward": agents,
            "alive": agents,
            "keep": shape,
            "continues": shape,
        }
        if self._sees_state:
            sizes["state"] = (*agents, spec.state_size)
        # Pinned memory: the GPU copies it while the CPU does other work.
        pinned = learner.device.type == "cuda"
        state_size = spec.state_size if self._sees_state else None
        self._recorded = self.policy.allocate_history(settings.rollout_length, pinned, state_size)
        self._buffers = {
            name: torch.zeros(size, pin_memory=pinned) for name, size in sizes.items() if name not in self._recorded
        }
        if action.kind == "categorical" and "available" not in self._recorded:
            available = (*agents, action.parameters)
            self._buffers["available"] = torch.ones(available, dtype=torch.bool, pin_memory=pinned)
        self._copied = [name for name in ("observation", "state", "available") if name in self._buffers]
        env.bind_output_buffers(self.policy.shown)
        # Views as NumPy arrays, time first: a small write takes a third of the time of a tensor's.
        self._frames = {name: x.numpy().swapaxes(0, 1) for name, x in self._buffers.items()}
        self.keep = np.zeros((self.replicas, self.slots), np.float32)  # 0: the step to come starts an episode
        self._all_continue = np.ones_like(self.keep)
        critic_hidden = (self.replicas, spec.agents, self.slots, critic.trunk.memory)
        self.critic_hidden = torch.zeros(critic_hidden, device=learner.device) if critic.trunk.memory else None

    @torch.no_grad()
    def collect(self, seeds: Sequence[int], iteration: int) -> Collected:
        """Play T steps in every environment."""
        env, policy, frames = self.env, self.policy, self._frames
        shape = (self.replicas, self.slots, env.spec.agents, -1)
        policy.load(self.learner.stepper.parameters.trunk, self.learner.stepper.parameters.head)
        noise = self._noise(seeds, iteration).unbind()
        episodes: list[list[Episode]] = [[] for _ in seeds]
        limits: list[Limit] = []
        broken: dict[int, str] = {}
        snapshot = env.snapshot()
        frames["keep"][0] = self.keep
        frames["continues"][:] = 1
        for time in range(self.settings.rollout_length):
            policy.begin(snapshot, self.keep, noise[time], time)
            for name in self._copied:
                if (seen := getattr(snapshot, name)) is not None:
                    frames[name][time] = seen.reshape(shape)
            frames["alive"][time] = snapshot.alive.reshape(shape[:3])
            location, action = policy.finish()
            frames["location"][time] = location
            frames["action"][time] = action
            actions, bad = playable(env.spec.action, location, action, snapshot)
            for slot in bad:
                broken.setdefault(int(slot) // self.slots, "action")
            transition = env.step(actions)
            snapshot = transition.snapshot
            frames["reward"][time] = transition.reward.reshape(shape[:3])
            self.keep = self._all_continue
            if transition.final is None:  # no episode ended
                continue
            self.keep = (~(transition.terminated | transition.truncated)).reshape(shape[:2]).astype(np.float32)
            frames["continues"][time] = self.keep
            for episode in transition.episodes:
                episodes[episode.slot // self.slots].append(episode)
            if not self.settings.time_limit_is_terminal:
                cut = np.flatnonzero(transition.truncated & ~transition.terminated)
                final = transition.final.state if self._sees_state else transition.final.observation
                limits.append(Limit(time, cut, final[cut].copy()))
        frames["keep"][1:] = frames["continues"][:-1]
        rollout = self._finish(snapshot, limits)
        for replica in np.flatnonzero(~np.isfinite(frames["reward"]).all((0, 2, 3))):
            broken.setdefault(int(replica), "reward")
        return Collected(rollout, episodes, broken)

    @torch.no_grad()
    def blank(self) -> Rollout:
        """A rollout of the shapes that `collect` gives, in which nothing happens; before the first one only."""
        spec, each, hidden = self.env.spec, (self.replicas * self.slots, self.env.spec.agents), self.critic_hidden
        observation, state = (np.zeros((*each, n), np.float32) for n in (spec.observation_size, spec.state_size))
        rollout = self._finish(Snapshot(observation, state, np.ones(each, np.bool_), None), [])
        self.critic_hidden = hidden
        return rollout

    def state_dict(self) -> dict[str, Any]:
        """What the next rollout continues from, besides the state of the environments."""
        state: dict[str, Any] = {"keep": self.keep}
        if self.policy.hidden is not None and self.critic_hidden is not None:
            state |= {"hidden_actor": self.policy.hidden, "hidden_critic": self.critic_hidden}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.keep = np.asarray(state["keep"])
        if self.critic_hidden is not None:
            self.policy.restore(state["hidden_actor"])
            self.critic_hidden = state["hidden_critic"].to(self.learner.device)

    def restart(self) -> None:
        """All slots start new episodes."""
        self.keep = np.zeros_like(self.keep)

    def _noise(self, seeds: Sequence[int], iteration: int) -> Tensor:
        """Noise for drawing the actions of a rollout, [T, R, N, A, …]."""
        spec = self.env.spec
        shape = (self.settings.rollout_length, self.slots, spec.agents)
        draws = [noise_of(spec.action, generator(seed, "actions", iteration), *shape) for seed in seeds]
        return torch.from_numpy(np.stack(draws, 1))

    def _finish(self, snapshot: Snapshot, limits: list[Limit]) -> Rollout:
        """Upload the buffers, then compute log-probabilities and values of the whole rollout."""
        learner, device = self.learner, self.learner.device
        data = self._recorded | {name: x.to(device, non_blocking=True) for name, x in self._buffers.items()}
        state = data.setdefault("state", data["observation"])
        last = torch.from_numpy(snapshot.state if self._sees_state else snapshot.observation).to(device)
        last = last.view(self.replicas, self.slots, self.env.spec.agents, -1)
        values = Values(learner, self._scan)
        keep_last = torch.from_numpy(self.keep).to(device)
        value, next_value, hidden = values(state, data["keep"], last, keep_last, self.critic_hidden)
        self.critic_hidden = values.hidden
        for limit in limits:
            self._bootstrap(data["reward"], values, hidden, limit)
        std, history = learner.std(), self.policy.history
        distribution = Distribution(data["location"], None if std is None else std.expand_as(data["location"]))
        return Rollout(
            log_prob=learner.actor.log_prob(distribution, data["action"], learner.used()),
            available=data.pop("available", None),
            hidden_actor=None if history is None else history.to(device, non_blocking=True),
            hidden_critic=hidden,
            value=value,
            next_value=next_value,
            **data,
        )

    def _bootstrap(self, reward: Tensor, values: Values, hidden: Tensor | None, limit: Limit) -> None:
        """Add the discounted value of the last state to the reward of a truncated episode's last step."""
        slots = self.replicas * self.slots
        state = torch.zeros(slots, *limit.state.shape[1:], device=reward.device)
        mask = torch.zeros(slots, 1, device=reward.device)
        state[limit.slots] = torch.from_numpy(limit.state).to(reward.device)
        mask[limit.slots] = 1
        after = None if hidden is None else values.after(hidden, limit.time)
        value = values.once(state.unflatten(0, (self.replicas, -1)), after)
        reward[:, limit.time] += (
            self.settings.gamma * self.learner.denormalise(value) * mask.unflatten(0, (-1, self.slots))
        )


class Limit(NamedTuple):
    """Slots whose episode was truncated at a step, and their last states."""

    time: int
    slots: NDArray[np.intp]
    state: NDArray[np.float32]
