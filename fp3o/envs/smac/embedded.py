"""The embedded engine behind the environment protocol."""

from __future__ import annotations

import hashlib
import itertools
import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fp3o.envs.options import REVISIONS, SmacOptions
from fp3o.envs.protocol import ActionSpec, Bools, Doubles, EnvSpec, Episode, Floats, Seeds, Snapshot, Transition
from fp3o.envs.smac.battle import Steering, empty_battles, make_rules, steering_numbers
from fp3o.envs.smac.kernel import reset_slots, step_slots
from fp3o.envs.smac.layouts import Array, sizes, view_of
from fp3o.envs.smac.scenarios import Scenario
from fp3o.envs.smac.terrain import ground
from fp3o.envs.smac.units import data_hash


def make_spec(scenario: Scenario, options: SmacOptions, *, exact_resume: bool) -> EnvSpec:
    """What the learner needs to know; the same for the embedded engine and the real game."""
    observation_size, state_size = sizes(view_of(scenario, options.layout, options.profile))
    return EnvSpec(
        agents=scenario.agents,
        observation_size=observation_size,
        state_size=state_size,
        action=ActionSpec("categorical", (scenario.actions,)),
        episode_limit=scenario.limit,
        agent_types=tuple(scenario.ally_bits[kind] for kind in scenario.ally_kinds),
        has_wins=True,
        exact_resume=exact_resume,
    )


class EmbeddedBattles:
    """N battles. `steering`, `scripted_allies` and `noise` are for experiments, not for training."""

    def __init__(
        self,
        scenario: Scenario,
        slots: int,
        *,
        auto_reset: bool = True,
        threads: int = 1,
        options: SmacOptions | None = None,
        steering: Steering | None = None,
        scripted_allies: bool = False,
        noise: bool = True,
    ) -> None:
        self.options = options or SmacOptions()
        self.scenario = scenario
        self.slots = slots
        self.auto_reset = auto_reset
        self.steering = steering or Steering()
        self.spec = make_spec(scenario, self.options, exact_resume=True)
        self.view = view_of(scenario, self.options.layout, self.options.profile)
        self.ground = ground(scenario.terrain, self.options.choke_width)
        self.rules = make_rules(
            scenario, self.ground, self.options.profile, self.steering, scripted_allies=scripted_allies, noise=noise
        )
        self.battles = empty_battles(slots, scenario.agents, scenario.agents + scenario.opponents)
        agents, actions = scenario.agents, scenario.actions
        self._seen = _Buffers(slots, agents, actions, self.spec)
        self._final = _Buffers(slots, agents, actions, self.spec)
        self._final_alive: Bools = np.zeros((slots, agents), bool)
        self._reward: Doubles = np.zeros(slots)
        self._result = np.zeros(slots, np.int64)
        self._total: Doubles = np.zeros(slots)
        self._length = np.zeros(slots, np.int64)
        workers = max(1, min(threads, slots))
        bounds = [slots * i // workers for i in range(workers + 1)]
        self._ranges = list(itertools.pairwise(bounds))
        self._pool = ThreadPoolExecutor(workers - 1) if workers > 1 else None
        self._numbers = steering_numbers(self.steering)

    def reset(self, seeds: Seeds) -> Snapshot:
        self.battles.seed[:] = seeds
        self.battles.episode[:] = 0
        self._show(begin=True)
        return self.snapshot()

    def step(self, actions: NDArray[Any]) -> Transition:
        chosen = np.ascontiguousarray(actions.reshape(self.slots, self.spec.agents), np.int64)

        def advance(start: int, stop: int) -> int:
            return step_slots(
                start,
                stop,
                self.rules,
                self.ground,
                self._numbers,
                self.view,
                self.battles,
                chosen,
                self.auto_reset,
                *self._seen.arrays,
                *self._final.arrays,
                self._final_alive,
                self._reward,
                self._result,
                self._total,
                self._length,
            )

        if self._pool is None:
            faulty = advance(0, self.slots)
        else:
            others = [self._pool.submit(advance, *bounds) for bounds in self._ranges[1:]]
            faulty = max([advance(*self._ranges[0])] + [other.result() for other in others])
        if faulty >= 0:
            raise ValueError(f"illegal action in slot {faulty} of {self.scenario.name}: {chosen[faulty].tolist()}")
        result = self._result
        ended = result > 0
        truncated = result == 4
        reward = np.repeat(self._reward[:, None], self.spec.agents, axis=1)
        episodes: list[Episode] = []
        final = None
        if ended.any():
            final = self._final.snapshot(self._final_alive)
            for slot in np.nonzero(ended)[0].tolist():
                total = float(self._total[slot])
                episodes.append(Episode(slot, total, total, int(self._length[slot]), bool(result[slot] == 1)))
        return Transition(self.snapshot(), reward, ended & ~truncated, truncated, final, episodes)

    def snapshot(self) -> Snapshot:
        return self._seen.snapshot(self.battles.alive[:, : self.spec.agents])

    def state_dict(self) -> dict[str, NDArray[Any]]:
        return {name: array.copy() for name, array in self.battles._asdict().items()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        for name, array in self.battles._asdict().items():
            array[...] = state[name]
        self._show(begin=False)

    def identity(self) -> dict[str, Any]:
        return {
            "engine": "embedded",
            "revision": REVISIONS["smac"],
            "map": self.scenario.name,
            "unit_data": data_hash(self.options.profile),
            "steering": asdict(self.steering),
            "terrain": hashlib.sha256(self.ground.walkable.tobytes()).hexdigest()[:16],
            "options": asdict(self.options),
            "numba": numba.__version__,
            "numpy": np.__version__,
            "processor": platform.machine(),
            "observation_size": self.spec.observation_size,
            "state_size": self.spec.state_size,
        }

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _show(self, *, begin: bool) -> None:
        reset_slots(0, self.slots, self.rules, self.ground, self.view, self.battles, begin, *self._seen.arrays)


class _Buffers:
    """Observation, state and legality of all slots, written in place by the kernels."""

    def __init__(self, slots: int, agents: int, actions: int, spec: EnvSpec) -> None:
        self.observation: Floats = np.zeros((slots, agents, spec.observation_size), np.float32)
        self.state: Floats = np.zeros((slots, agents, spec.state_size), np.float32)
        self.available: Bools = np.zeros((slots, agents, actions), bool)

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        return self.observation, self.state, self.available

    def snapshot(self, alive: Bools) -> Snapshot:
        return Snapshot(self.observation, self.state, alive, self.available)
