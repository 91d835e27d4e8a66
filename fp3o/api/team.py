"""The trained policies of a run, acting on observations from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fp3o.api.torch_team import TorchTeam
from fp3o.envs.interface import ActionSpec, EnvSpec, Floats, Snapshot
from fp3o.envs.pettingzoo.spaces import Translator, Unfit, describe
from fp3o.errors import UserError
from fp3o.rollout.evaluation import Trained
from fp3o.rollout.policy import Policy, noise_of, playable


class Team:
    """The final policies of a run, one per agent. Get it by `run.team()`."""

    def __init__(self, run: Trained, agents: Sequence[str] | None, env: Any, seed: int) -> None:
        self._run, self._spec = run, run.spec
        self._width = run.spec.observation_size - run.spec.agents * run.spec.agent_id
        self._existing = _existing(run.spec)
        self._policies: dict[int, Policy] = {}
        self._random = np.random.default_rng(seed)
        self.agents: tuple[str, ...] = tuple(agents or (f"agent_{number}" for number in range(run.spec.agents)))
        """Names of the agents in the order of arrays: the environment's, those of training, or agent_0, agent_1 …"""
        self._forms: Translator | _Plain = _Plain(run.spec.action, self._existing)
        if env is not None:
            self._forms = self._fit(env)
        self._index = {name: position for position, name in enumerate(self.agents)}

    def act(
        self,
        observations: ArrayLike | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        memory: NDArray[np.float32] | None = None,
        available: ArrayLike | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, NDArray[np.float32] | None]:
        """Actions of all agents, and the memory to be given with the next observations.

        observations: an array [agents, numbers] of one environment or [environments, agents, numbers] of a batch; or a
        dictionary by agent name, as PettingZoo has it, of one environment, or a list of them. Rows are padded with
        zeros to the longest. The one-hot agent number is added where the engine does that, unless the rows of an array
        have it already, as those of `run.make_env` do.
        memory: None at the start of an episode. Of recurrent policies [agents, size] or [environments, agents, size]:
        set to 0 what belongs to an environment that starts an episode. Other policies have none.
        available: legal choices (true or not 0) in the form of the observations; None: every choice an agent has.
        deterministic: the most likely action, as in evaluation; False: drawn from the policy.

        Actions have the form of the observations: an array that `run.make_env().step` takes, or dictionaries by name.
        """
        by_name = _are_by_name(observations)
        seen: Any = observations if by_name else self._complete(observations)
        if isinstance(seen, Mapping) or np.ndim(seen) == 2:  # A batch of one.
            given = None if memory is None else np.asarray(memory)[None]
            masks: Any = None if available is None else [available]
            actions, after = self.act([seen], given, masks, deterministic)
            return actions[0], None if after is None else after[0]
        if by_name:
            return self._act_by_name(seen, memory, available, deterministic)
        return self._act(seen, memory, None if available is None else np.asarray(available), deterministic)

    def to_torch(self) -> TorchTeam:
        """The team as a torch.nn.Module, a copy: parameters by name, policies and values with gradients, ONNX."""
        return TorchTeam(self._run)

    @torch.no_grad()
    def log_prob(
        self,
        observations: ArrayLike,
        actions: ArrayLike,
        memory: NDArray[np.float32] | None = None,
        available: ArrayLike | None = None,
    ) -> NDArray[np.float32]:
        """log π of every agent's action, [agents] or [environments, agents]; arguments are arrays as for `act`."""
        seen, one = _batch(self._complete(observations))
        played = np.asarray(actions, np.float32).reshape(*seen.shape[:2], self._spec.action.width)
        told = None if available is None else np.asarray(available).reshape(*seen.shape[:2], -1)
        legal = self._legal(told, len(seen))
        given = (None if x is None else torch.from_numpy(_batch(np.asarray(x))[0]) for x in (legal, memory))
        found = self._module.log_prob(torch.from_numpy(seen), torch.from_numpy(played), *given).numpy()
        return found[0] if one else found

    @torch.no_grad()
    def value(
        self, states: ArrayLike, memory: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The critics' expected returns, [agents] or [environments, agents], and their memory for the next states.

        states: what critics see, [agents, numbers] or [environments, agents, numbers], as `run.make_env` gives them.
        memory: as for `act`, of the critics.
        """
        seen, one = _batch(np.ascontiguousarray(states, np.float32))
        shape, (_, size) = (self._spec.agents, self._run.critic.trunk.inputs), self._module.memory_sizes
        if seen.shape[1:] != shape:
            raise UserError(
                f"states have shape {np.shape(states)}; allowed: {shape} or (environments, {shape[0]}, {shape[1]})"
            )
        before = torch.zeros(len(seen), shape[0], size) if size else None
        if memory is not None:
            before = torch.from_numpy(_batch(np.asarray(memory, np.float32))[0])
        value, after = self._module.value(torch.from_numpy(seen), before)
        kept = None if after is None else after.numpy()
        return (value[0].numpy(), None if kept is None else kept[0]) if one else (value.numpy(), kept)

    @cached_property
    def _module(self) -> TorchTeam:
        return self.to_torch()

    def _act(
        self, seen: Floats, memory: Any, available: NDArray[Any] | None, deterministic: bool
    ) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
        """Arrays [N, A, …] to actions [N, A, …] and memory [N, A, H]."""
        spec, slots = self._spec, len(seen)
        legal = self._legal(available, slots)
        policy = self._policy(slots)
        if policy.hidden is not None and memory is None:
            policy.restart()
        elif policy.hidden is not None:
            shape = (slots, spec.agents, self._run.actor.trunk.memory)
            state = np.array(memory, dtype=np.float32)
            if state.shape != shape:
                raise UserError(f"memory has shape {state.shape}; allowed: {shape}")
            policy.restore(torch.from_numpy(state).transpose(0, 1).contiguous()[None])
        elif memory is not None:
            raise UserError("memory is given to policies that have none; allowed: None")
        noise = None
        if not deterministic:
            noise = torch.from_numpy(noise_of(spec.action, self._random, 1, slots, spec.agents))
        snapshot = Snapshot(seen, seen, np.ones((slots, spec.agents), np.bool_), legal)
        location, action = policy.act(snapshot, np.ones((1, slots), np.float32), noise)
        actions, _ = playable(spec.action, location, action, snapshot)
        after = None if policy.hidden is None else policy.hidden[0].transpose(0, 1).numpy().copy()
        return actions, after

    def _policy(self, slots: int) -> Policy:
        if slots not in self._policies:
            self._policies[slots] = Policy(self._run.actor, 1, slots)
            self._policies[slots].load(self._run.trunks, self._run.heads)
        return self._policies[slots]

    def _complete(self, observations: Any) -> Floats:
        """Observations as the networks know them, [A, O] or [N, A, O], contiguous."""
        spec = self._spec
        given = np.asarray(observations, dtype=np.float64)
        sizes = dict.fromkeys((self._width, spec.observation_size))
        if given.ndim not in (2, 3) or given.shape[-2] != spec.agents or given.shape[-1] not in sizes:
            numbers = " or ".join(map(str, sizes))
            raise UserError(
                f"observations have shape {given.shape}; allowed: ({spec.agents}, n) or (environments, {spec.agents}, "
                f"n) with n = {numbers}"
            )
        if given.shape[-1] < spec.observation_size:
            identities = np.broadcast_to(np.eye(spec.agents), (*given.shape[:-1], spec.agents))
            given = np.concatenate([given, identities], axis=-1)
            if spec.standardised:
                given = (given - given.mean(-1, keepdims=True)) / given.std(-1, keepdims=True)
        return np.ascontiguousarray(given, dtype=np.float32)

    def _legal(self, available: NDArray[Any] | None, slots: int) -> NDArray[np.bool_] | None:
        spec = self._spec
        shape = (slots, spec.agents, spec.action.parameters)
        if spec.action.kind == "gaussian":
            if available is not None:
                raise UserError("available is given for actions that are no choices; allowed: None")
            return None
        if available is None:
            return np.tile(self._existing, (slots, 1, 1))
        legal = np.array(available, dtype=np.bool_, order="C")
        if legal.shape != shape:
            raise UserError(f"available has shape {legal.shape}; allowed: {shape}")
        return legal

    # Dictionaries by agent name --------------------------------------------------------------------------------------

    def _act_by_name(
        self,
        observations: Sequence[Mapping[str, Any]],
        memory: Any,
        available: Any,
        deterministic: bool,
    ) -> tuple[list[dict[str, Any]], NDArray[np.float32] | None]:
        """Agents without an observation have left: they act on zeros, and what they do is not returned."""
        if available is not None and not _are_by_name(available):
            raise UserError("available is no dictionary; allowed: masks by agent name, as the observations are given")
        discrete = self._spec.action.kind == "categorical"
        rows = np.zeros((len(observations), self._spec.agents, self._width), np.float32)
        legal = np.tile(self._existing, (len(observations), 1, 1))
        try:
            for slot, seen in enumerate(observations):
                for name, value in seen.items():
                    agent = self._agent(name)
                    row = self._forms.observation(agent, value)
                    if row.size > self._width:
                        raise Unfit(f"{name}'s observation has {row.size} numbers; allowed: at most {self._width}")
                    rows[slot, agent, : row.size] = row
                    if discrete:
                        mask = None if available is None else available[slot].get(name)
                        legal[slot, agent] = self._forms.legal(
                            agent, value, None if mask is None else {"action_mask": mask}
                        )
        except Unfit as error:
            raise UserError(str(error)) from error
        chosen, memory = self._act(self._complete(rows), memory, legal if discrete else None, deterministic)
        actions = [
            {name: self._forms.action(self._index[name], chosen[slot, self._index[name]]) for name in seen}
            for slot, seen in enumerate(observations)
        ]
        return actions, memory

    def _agent(self, name: str) -> int:
        if name not in self._index:
            raise UserError(f"unknown agent {name!r}; allowed: {', '.join(self.agents)}")
        return self._index[name]

    def _fit(self, env: Any) -> Translator:
        """The translator of an environment; takes over its agents' names."""
        try:
            found = describe(env, state=False)
        except Unfit as error:
            raise UserError(str(error)) from error
        action, names = self._spec.action, [str(name) for name in found.agents]
        trained = (self._spec.agents, self._width, action.kind, action.sizes)
        theirs = (len(names), max(found.observations), found.kind, found.sizes)
        for what, ours, other in zip(
            ("agents", "longest observation", "actions", "sizes"), trained, theirs, strict=True
        ):
            if ours != other:
                raise UserError(f"the environment's number of {what} is {other}; the team was trained for {ours}")
        if set(names) == set(self.agents) and names != list(self.agents):
            raise UserError(f"the environment's agents are {', '.join(names)}; allowed: {', '.join(self.agents)}")
        self.agents = found.agents
        return Translator(env, found)


def _batch(x: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """With an axis for environments, and whether it had none."""
    return (x[None], True) if x.ndim == 2 else (x, False)


class _Plain:
    """Rows of numbers where no environment says what they look like; stands in for `Translator`."""

    def __init__(self, action: ActionSpec, existing: NDArray[np.bool_]) -> None:
        self._action, self._existing = action, existing

    def observation(self, agent: int, seen: Any) -> NDArray[np.float32]:
        return np.asarray(seen, dtype=np.float32).reshape(-1)

    def legal(self, agent: int, seen: Any, info: Any) -> NDArray[np.bool_]:
        legal: NDArray[np.bool_] = self._existing[agent].copy()
        if info is not None:
            mask = np.asarray(info["action_mask"], dtype=np.bool_).reshape(-1)
            if mask.size > legal.size:
                raise UserError(f"a mask of {mask.size} choices is given; allowed: at most {legal.size}")
            legal[: mask.size] &= mask
        return legal

    def action(self, agent: int, row: NDArray[Any]) -> Any:
        if self._action.kind == "gaussian":
            return row if self._action.used is None else row[: self._action.used[agent]]
        parts = self._action.width if self._action.choices is None else len(self._action.choices[agent])
        return int(row[0]) if parts == 1 else row[:parts]


def _existing(spec: EnvSpec) -> NDArray[np.bool_]:
    """Choices that exist [A, D]; an agent that lacks a sub-action has choice 0 of it."""
    action = spec.action
    if action.kind == "gaussian" or action.choices is None:
        return np.ones((spec.agents, action.parameters), np.bool_)
    rows = []
    for choices in action.choices:
        own = [*choices, *[1] * (len(action.sizes) - len(choices))]
        rows.append(np.concatenate([np.arange(size) < count for size, count in zip(action.sizes, own, strict=True)]))
    return np.stack(rows)


def _are_by_name(given: Any) -> bool:
    """Whether it is a dictionary, or a list of them."""
    return isinstance(given[0] if isinstance(given, (list, tuple)) and given else given, Mapping)
