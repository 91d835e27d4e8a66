"""The embedded battle engine as a BatchEnv."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fp3o.envs.checks import checked_choices, checked_seeds, checked_slots, checked_threads
from fp3o.envs.compiled import use_threads
from fp3o.envs.domains import revision
from fp3o.envs.interface import ActionSpec, EnvSpec, Episode, Seeds, Snapshot, Transition
from fp3o.envs.options import SmacOptions
from fp3o.envs.smac.battle import Steering, empty_battles, make_rules, steering_numbers
from fp3o.envs.smac.kernel import BEGIN, SHOW, STEP, Result, Shown, run_ranges, run_slots
from fp3o.envs.smac.layouts import Array, encoding_of, sizes
from fp3o.envs.smac.scenarios import Scenario
from fp3o.envs.smac.terrain import ground
from fp3o.envs.smac.units import data_hash
from fp3o.errors import UserError


def make_spec(scenario: Scenario, options: SmacOptions, *, exact_resume: bool) -> EnvSpec:
    """Agents, sizes and limits of a scenario; the same for the embedded engine and the real game."""
    observation_size, state_size = sizes(encoding_of(scenario, options.layout, options.profile))
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


# At least. On 16 cores 40 battles were fastest with 16 threads; 8 battles on small maps gained nothing beyond 4 or 5.
SLOTS_PER_THREAD = 2


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
        self.slots = checked_slots(slots)
        self.auto_reset = auto_reset
        self.steering = steering or Steering()
        self.spec = make_spec(scenario, self.options, exact_resume=True)
        self.encoding = encoding_of(scenario, self.options.layout, self.options.profile)
        self.ground = ground(scenario.terrain, self.options.choke_width)
        self.rules = make_rules(
            scenario, self.ground, self.options.profile, scripted_allies=scripted_allies, noise=noise
        )
        self.battles = empty_battles(slots, scenario.agents, scenario.agents + scenario.opponents)
        self._shown = _buffers(slots, self.spec)
        self._final = _buffers(slots, self.spec)
        self._result = Result(
            reward=np.zeros(slots),
            ending=np.zeros(slots, np.int64),
            total=np.zeros(slots),
            length=np.zeros(slots, np.int64),
            alive=np.zeros((slots, scenario.agents), bool),
        )
        self._threads = checked_threads(threads, slots, SLOTS_PER_THREAD)
        self._bounds = slots * np.arange(self._threads + 1) // self._threads
        self._numbers = steering_numbers(self.steering)
        self._no_actions = np.zeros((slots, scenario.agents), np.int64)
        self._choices = np.full((slots, scenario.agents, 1), scenario.actions)
        self._started = False

    def reset(self, seeds: Seeds) -> Snapshot:
        self.battles.seed[:] = checked_seeds(seeds, self.slots)
        self.battles.episode[:] = 0
        self._run(BEGIN, self._no_actions)
        self._started = True
        return self.snapshot()

    def step(self, actions: NDArray[Any]) -> Transition:
        if not self._started:
            raise UserError(f"smac/{self.scenario.name}: step before reset")
        chosen = np.ascontiguousarray(checked_choices(actions, self._choices)[..., 0])
        faulty = self._run(STEP, chosen)
        if faulty >= 0:
            raise UserError(
                f"illegal action in slot {faulty} of smac/{self.scenario.name}: {chosen[faulty].tolist()}; "
                "allowed: where the snapshot's `available` is true"
            )
        result = self._result
        ended = result.ending > 0
        truncated = result.ending == 4
        reward = np.repeat(result.reward[:, None], self.spec.agents, axis=1)
        episodes: list[Episode] = []
        final = None
        if ended.any():
            final = Snapshot(self._final.observation, self._final.state, result.alive, self._final.available)
            for slot in np.nonzero(ended)[0].tolist():
                total = float(result.total[slot])
                episodes.append(Episode(slot, total, total, int(result.length[slot]), bool(result.ending[slot] == 1)))
        return Transition(self.snapshot(), reward, ended & ~truncated, truncated, final, episodes)

    def snapshot(self) -> Snapshot:
        alive = self.battles.alive[:, : self.spec.agents]
        return Snapshot(self._shown.observation, self._shown.state, alive, self._shown.available)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        return {name: array.copy() for name, array in self.battles._asdict().items()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        for name, array in self.battles._asdict().items():
            if name not in state or state[name].shape != array.shape:
                raise UserError(f"saved state of smac/{self.scenario.name} does not fit; allowed: {name} {array.shape}")
        for name, array in self.battles._asdict().items():
            array[...] = state[name]
        self._started = True
        self._run(SHOW, self._no_actions)

    def identity(self) -> dict[str, Any]:
        return {
            "domain": "smac",
            "task": self.scenario.name,
            "engine": "embedded",
            "revision": revision("smac", self.options),
            "versions": {"numba": numba.__version__, "numpy": np.__version__},
            "unit_data": data_hash(self.options.profile),
            "terrain": hashlib.sha256(self.ground.walkable.tobytes()).hexdigest()[:16],
            "steering": asdict(self.steering),
            "observation_size": self.spec.observation_size,
            "state_size": self.spec.state_size,
            "options": asdict(self.options),
        }

    def close(self) -> None:
        """Nothing to end or free."""

    def _run(self, what: int, actions: Array) -> int:
        """Run the kernel (what: STEP, BEGIN or SHOW) on all slots, a contiguous range per thread."""
        tables = (self.rules, self.ground, self._numbers, self.encoding, self.battles)
        written = (self._shown, self._final, self._result)
        if self._threads == 1:
            return run_slots(what, 0, self.slots, *tables, actions, self.auto_reset, *written)
        with use_threads(self._threads):
            return run_ranges(what, self._bounds, *tables, actions, self.auto_reset, *written)


def _buffers(slots: int, spec: EnvSpec) -> Shown:
    """Arrays that the kernel writes into."""
    return Shown(
        np.zeros((slots, spec.agents, spec.observation_size), np.float32),
        np.zeros((slots, spec.agents, spec.state_size), np.float32),
        np.zeros((slots, spec.agents, spec.action.parameters), bool),
    )
