"""The embedded battle engine as a BatchEnv."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import SmacOptions
from fp3o.envs.checks import checked_choices, checked_integers, checked_seeds, checked_threads
from fp3o.envs.interface import Episode, Seeds, Snapshot, Transition
from fp3o.envs.native.pool import SharedRanges
from fp3o.envs.smac.battle import SINCE_REVISION_3, Response, Rules, Steering, make_rules
from fp3o.envs.smac.battlefield import Battlefield, UnitStates
from fp3o.envs.smac.kernel import BEGIN, CHECK, SHOW, STEP, run_slots
from fp3o.envs.smac.layouts import Array
from fp3o.envs.smac.records import Scene, by_name, empty_result, empty_shown, empty_state, empty_work, tables_of
from fp3o.envs.smac.scenarios import Scenario
from fp3o.envs.smac.terrain import ground
from fp3o.envs.smac.units import data_hash
from fp3o.errors import UserError

# At least. On 16 cores 40 battles were fastest with 16 threads; 8 battles on small maps gained nothing beyond 4 or 5.
SLOTS_PER_THREAD = 2


class EmbeddedBattles(Battlefield):
    """N battles. `steering`, `response`, `scripted_allies` and `noise` are for experiments, not for training."""

    has_kernels = True
    exact_resume = True

    def __init__(
        self,
        scenario: Scenario,
        slots: int,
        *,
        auto_reset: bool = True,
        threads: int = 1,
        options: SmacOptions | None = None,
        steering: Steering | None = None,
        response: Response | None = None,
        scripted_allies: bool = False,
        noise: bool = True,
    ) -> None:
        chosen = options or SmacOptions()
        super().__init__(scenario, slots, auto_reset, chosen, chosen.profile)
        self.steering = steering or Steering(attacker_load=chosen.attacker_load, side_bonus=chosen.side_bonus)
        self.response = response or Response(help_radius=chosen.help_radius, scan_period=chosen.scan_period)
        self.ground = ground(scenario.terrain, chosen.choke_width)
        agents, units = scenario.agents, scenario.agents + scenario.opponents
        self._state = empty_state(slots, units)
        self.battles = by_name(self._state, agents)
        size = (slots, agents, self.spec.observation_size, self.spec.state_size, scenario.actions)
        self._actions = np.zeros((slots, agents), np.int64)
        self._shown, self._final, self._result = empty_shown(*size), empty_shown(*size), empty_result(slots, agents)
        self._threads = checked_threads(threads, slots, SLOTS_PER_THREAD)
        parts = min(slots, 8 * self._threads) if self._threads > 1 else 1  # several each: some battles last longer
        self._bounds = slots * np.arange(parts + 1) // parts
        self._work = empty_work(self._threads, units)
        self.rules = make_rules(
            scenario,
            self.ground,
            chosen.profile,
            engine_revision=chosen.engine_revision,
            response=self.response,
            scripted_allies=scripted_allies,
            noise=noise,
        )
        self._snapshot = self._seen()

    def bind_output_buffers(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if not arrays:
            return
        for name, array in arrays.items():
            array[...] = getattr(self._shown, name)
        self._shown = self._shown._replace(**arrays)
        self.rules = self._rules  # the kernel has the addresses
        self._snapshot = self._seen()

    def _seen(self) -> Snapshot:
        shown = self._shown
        return Snapshot(shown.observation, shown.state, self.battles.alive[:, : self.spec.agents], shown.available)

    @property
    def rules(self) -> Rules:
        """The constants of the scenario; tests replace some."""
        return self._rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        self._rules = rules
        scene = Scene(
            tables_of(rules, self.steering, self.auto_reset),
            self.ground,
            self.encoding,
            self._state,
            self._work,
            self._actions,
            self._shown,
            self._final,
            self._result,
        )
        self._kernel = SharedRanges(run_slots, scene, self._bounds, self._threads)

    def reset(self, seeds: Seeds) -> Snapshot:
        self.battles.seed[:] = checked_seeds(seeds, self.slots)
        self.battles.episode[:] = 0
        self._kernel.share(BEGIN)
        self._started = True
        return self._snapshot

    def step(self, actions: NDArray[Any]) -> Transition:
        self._require_reset()
        self._actions[...] = checked_integers(actions, self._choices.shape)[..., 0]
        faulty = self._kernel.run(CHECK)
        if faulty >= 0:
            checked_choices(actions, self._choices)
            raise UserError(
                f"illegal action in slot {faulty} of {self.name}: {self._actions[faulty].tolist()}; "
                "allowed: where the snapshot's `available` is true"
            )
        self._kernel.share(STEP)
        result, slots = self._result, self._result.slots
        reward, terminated, truncated = result.reward.copy(), slots["terminated"].copy(), slots["truncated"].copy()
        if not np.count_nonzero(terminated) and not np.count_nonzero(truncated):
            return Transition(self._snapshot, reward, terminated, truncated, None, [])
        episodes = []
        for slot in (terminated | truncated).nonzero()[0].tolist():
            total, length, won = slots[["total", "length", "won"]][slot].item()
            episodes.append(Episode(slot, total, total, length, won))
        final = Snapshot(self._final.observation, self._final.state, result.alive, self._final.available)
        return Transition(self._snapshot, reward, terminated, truncated, final, episodes)

    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def units(self) -> UnitStates:
        return UnitStates(*(getattr(self.battles, name) for name in UnitStates._fields))

    @property
    def steps(self) -> Array:
        return self.battles.step

    def _saved(self) -> dict[str, NDArray[Any]]:
        """The arrays that are saved. Runs of revision 2 were begun before the others existed."""
        unused = () if self.rules.calls else SINCE_REVISION_3
        return {name: array for name, array in self.battles._asdict().items() if name not in unused}

    def _restored(self) -> None:
        self._kernel.share(SHOW)

    def identity(self) -> dict[str, Any]:
        return super().identity() | {
            "engine": "embedded",
            "versions": {"numba": numba.__version__, "numpy": np.__version__},
            "unit_data": data_hash(self.options.profile, self.options.engine_revision),
            "terrain": hashlib.sha256(self.ground.walkable.tobytes()).hexdigest()[:16],
            "steering": asdict(self.steering),
            "response": asdict(self.response),
        }
