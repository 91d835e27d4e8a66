"""Reconstructs the state of the embedded engine at a recorded step of a battle.

Recorded, hence exact: positions, health, shields, who is alive, and cooldowns. The game reports the cooldowns of
allied units only (its protocol: "not populated for enemies"): for enemies in reach of an agent they are drawn between 0
and a period, for the others they are 0. Not recorded at all:

* targets. Of an agent, what its last action attacked. Of an enemy, the nearest agent if it is in reach; the engine
  chooses for the others in the first game loop, as always. Whether an enemy sticks to a farther target, or
  chases one because it was called for help, is lost.
* wind-ups, and hits in progress (missiles in the air, a zealot's second blade). From the cooldown of a unit that has
  its target in reach, taking the random part of cooldowns (−1 … +2 game loops) as its mean.
* the side on which a unit last went around others. From its displacements: the last one that led clearly to the left
  or to the right of the way to its nearest foe; random if there was none.
* time since the last damage. The last recorded step in which the unit lost health or shield.
* time until a unit may call for help again: none.
"""

from __future__ import annotations

import numpy as np

from fp3o.envs.interface import Seeds
from fp3o.envs.smac.battle import BEAM, BLAST, DIRECT, MISSILE, Rules
from fp3o.envs.smac.check.recording import Recording
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.layouts import ATTACK, MAP_SIZE, NO_OP, Array
from fp3o.envs.smac.units import LOOPS_PER_STEP

STILL = 0.05  # cells per step below which a displacement says nothing about a side, …
AROUND = 0.25  # … and the sine of its angle to the straight way, likewise


class Resuming:
    """States of an engine at steps of a recording."""

    def __init__(self, recording: Recording, env: EmbeddedBattles) -> None:
        """env: an engine for the recording's map; as many slots as are resumed at once."""
        # The game may push a unit over the edge of the map, where the engine has no ground.
        edge = np.nextafter(np.float32(MAP_SIZE), np.float32(0))
        x, y = (array.clip(0, edge) for array in (recording.units.x, recording.units.y))
        self._recording = recording._replace(units=recording.units._replace(x=x, y=y))
        self._env = env
        self._side = self._sides()
        self._quiet = LOOPS_PER_STEP * _steps_since_damage(recording)

    def state(self, step: Array, battle: Array, seeds: Seeds, luck: Array) -> dict[str, Array]:
        """For `env.load_state_dict`: its slots at these steps of these battles [slots].

        seeds: of the engine. luck: uniform random numbers [slots, U] for cooldowns that are not known.
        """
        env, rules, agents = self._env, self._env.rules, self._recording.agents
        env.reset(seeds)
        state = env.state_dict()
        for name, array in self._recording.units._asdict().items():
            state[name][...] = array[step, battle]
        state["step"][:] = step
        state["tick"][:] = LOOPS_PER_STEP * step
        state["quiet"][...] = self._quiet[step, battle]
        side = self._side[step, battle]
        state["side"][...] = np.where(side, side, state["side"])
        distance = foe_distances(state["x"], state["y"], state["alive"], agents)
        target = distance.argmin(2)
        last = np.where(step[:, None] > 0, self._recording.actions[np.maximum(step - 1, 0), battle], NO_OP)
        target[:, :agents] = np.where(last >= ATTACK, agents + last - ATTACK, -1)
        away = np.take_along_axis(distance, np.maximum(target, 0)[..., None], 2)[..., 0]
        gap = np.where(target >= 0, away, np.inf) - rules.radius - rules.radius[target]
        fighting = state["alive"] & (gap <= rules.reach)
        target[:, agents:][~fighting[:, agents:]] = -1
        state["target"][...] = np.where(np.isfinite(gap), target, -1)
        state["fighting"][...] = fighting
        if self._recording.backend == "starcraft2":
            unknown = fighting & (np.arange(len(rules.period)) >= agents)
            state["cooldown"][...] = np.where(unknown, luck * rules.period, state["cooldown"])
        state |= _attacks(rules, state, away)
        return state

    def _sides(self) -> Array:
        """1 to the left of the way to the nearest foe, -1 to the right, 0 not known yet [T + 1, N, U]."""
        units = self._recording.units
        side = np.zeros(units.alive.shape, np.int8)
        for t in range(1, len(side)):
            x, y = units.x[t - 1], units.y[t - 1]
            moved_x, moved_y = units.x[t] - x, units.y[t] - y
            nearest = foe_distances(x, y, units.alive[t - 1], self._recording.agents).argmin(2)
            goal_x, goal_y = self._way(x, y, *(np.take_along_axis(array, nearest, 1) for array in (x, y)))
            ahead_x, ahead_y = goal_x - x, goal_y - y
            left = ahead_x * moved_y - ahead_y * moved_x
            moved = np.hypot(moved_x, moved_y)
            around = (moved > STILL) & (np.abs(left) > AROUND * moved * np.hypot(ahead_x, ahead_y))
            side[t] = np.where(around, np.sign(left), side[t - 1])
        return side

    def _way(self, x: Array, y: Array, goal_x: Array, goal_y: Array) -> tuple[Array, Array]:
        """Where units [N, U] at (x, y) head for on their way to a goal: there, or a corner before it."""
        ground = self._env.ground
        if ground.convex:
            return goal_x, goal_y
        here, there = ground.node[x.astype(int), y.astype(int)], ground.node[goal_x.astype(int), goal_y.astype(int)]
        first = ground.way[here, there]
        corner = (first != there) & (self._env.rules.layer == 0)
        return np.where(corner, ground.node_x[first], goal_x), np.where(corner, ground.node_y[first], goal_y)


def _attacks(rules: Rules, state: dict[str, Array], away: Array) -> dict[str, Array]:
    """Wind-ups and hits in progress of units that fight, from their cooldowns. away: cells to their targets [N, U]."""
    busy = state["fighting"] & (state["cooldown"] > 0)
    since = rules.period + rules.noise_low + rules.noise_span / 2 - state["cooldown"]
    windup = np.where(busy, rules.damage_point - since, 0)
    flies = np.divide(away, rules.missile_speed, out=np.zeros_like(away), where=rules.missile_speed > 0)
    after = np.select([rules.blow == MISSILE, rules.blow == BEAM], [1 + flies, 1 + rules.delay], rules.delay)
    flight = np.where(busy, after + rules.damage_point - since, 0)
    # The first of two blades hits at once, and a baneling's blast is over with its attack.
    strikes = np.where((windup <= 0) & (flight > 0.5) & (rules.blow != BLAST), rules.hits - (rules.blow == DIRECT), 0)
    pending, target = strikes > 0, np.maximum(state["target"], 0).astype(np.int64)
    aim = (np.take_along_axis(state[name], target, 1) - state[name] for name in ("x", "y"))
    aim_x, aim_y = (np.where(pending, part / np.maximum(away, 1e-6), 0) for part in aim)
    found = {
        "windup": np.where(windup > 0.5, np.minimum(windup, rules.damage_point), 0),
        "strikes": strikes,
        "flight": np.where(pending, flight, 0),
        "victim": np.where(pending, target, -1),
        "aim_x": aim_x,
        "aim_y": aim_y,
    }
    return {name: array.astype(state[name].dtype) for name, array in found.items()}


def foe_distances(x: Array, y: Array, alive: Array, agents: int) -> Array:
    """From every unit to every other [N, U, U], given arrays [N, U]; infinite to friends and the dead."""
    ally = np.arange(x.shape[1]) < agents
    foes = (ally[:, None] != ally) & alive[:, :, None] & alive[:, None, :]
    return np.where(foes, np.hypot(x[:, None, :] - x[:, :, None], y[:, None, :] - y[:, :, None]), np.inf)


def _steps_since_damage(recording: Recording) -> Array:
    """[T + 1, N, U]; from the start for units that were never hurt."""
    vitality = recording.units.health + recording.units.shield
    since = np.zeros(vitality.shape, np.int32)
    for t in range(1, len(vitality)):
        since[t] = np.where(vitality[t] < vitality[t - 1], 0, since[t - 1] + 1)
    return since
