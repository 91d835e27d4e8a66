"""One step of many battles: eight game loops each, then reward, outcome, reset and what the agents see.

All arithmetic is in single precision and in a fixed order; benchmarks/fidelity/smac_oracle.py does the same in plain
NumPy. Order within a game loop: targets, attacks, headings, motion, separation, walls, damage and deaths, recovery.
Damage is applied before deaths are counted, so both sides can die at once.
"""

from __future__ import annotations

from typing import Any

from fp3o.envs.native.compiled import inner
from fp3o.envs.native.ranges import Kernel, Record, Records, read
from fp3o.envs.smac.chance import moment, uniform
from fp3o.envs.smac.combat import attack, bury, recover, strike
from fp3o.envs.smac.constants import HALF, ONE, PURPOSE_SIDE, PURPOSE_SPAWN_X, PURPOSE_SPAWN_Y, TWO
from fp3o.envs.smac.layouts import Array, Encoding, settle, write_available, write_features
from fp3o.envs.smac.motion import find_neighbours, move, steer
from fp3o.envs.smac.records import Blocks, Points, Scene, Shown
from fp3o.envs.smac.targets import choose_targets, give_orders
from fp3o.envs.smac.units import LOOPS_PER_STEP

CHECK, STEP, BEGIN, SHOW = range(4)


@inner
def reset_battle(game: Record, rules: Records, fresh: Records, slot: Record, b: Records) -> None:
    """Start a battle's current episode: both armies at their start positions, allies sorted by type, x, y."""
    slot.tick = 0
    slot.step = 0
    slot.running = True
    slot.total = 0.0
    start = moment(slot.seed, slot.episode, slot.tick)
    for u in range(b.shape[0]):
        b[u] = fresh[u]
        b[u].side = 1 if uniform(start, u, PURPOSE_SIDE) < HALF else -1
        right = TWO * uniform(start, u, PURPOSE_SPAWN_X) - ONE
        up = TWO * uniform(start, u, PURPOSE_SPAWN_Y) - ONE
        x, y = rules[u].spawn_x + game.jitter * right, rules[u].spawn_y + game.jitter * up
        i = u
        while (
            0 < i < game.agents
            and rules[i - 1].kind == rules[i].kind
            and (b[i - 1].x > x or (b[i - 1].x == x and b[i - 1].y > y))
        ):
            b[i].x = b[i - 1].x
            b[i].y = b[i - 1].y
            i -= 1
        b[i].x = x
        b[i].y = y


@inner
def show(encoding: Encoding, rules: Records, pathing: Array, b: Records, n: int, shown: Shown) -> None:
    """Write observations, states and legal actions of battle n."""
    write_available(encoding, b.x, b.y, b.alive, pathing, shown.available[n])
    write_features(
        encoding,
        rules.kind,
        b.x,
        b.y,
        b.health,
        b.shield,
        b.cooldown,
        b.alive,
        b.last_action,
        shown.available[n],
        shown.observation[n],
        shown.state[n],
    )


@inner
def first_illegal(slots: Records, start: int, stop: int, actions: Array, available: Array) -> int:
    """The first slot with an action that does not exist or (if not frozen) is illegal, or -1."""
    for n in range(start, stop):
        for a in range(actions.shape[1]):
            action = actions[n, a]
            if action < 0 or action >= available.shape[2] or (slots[n].running and not available[n, a, action]):
                return n
    return -1


@inner
def write_result(record: Record, rewards: Array, reward: float, ending: int) -> None:
    """All agents are given the same reward."""
    for a in range(rewards.shape[0]):
        rewards[a] = reward
    record.terminated = 0 < ending < 4
    record.truncated = ending == 4
    record.won = ending == 1


@Kernel
def run_slots(address: Any, what: int, worker: int, start: int, stop: int) -> int:
    """STEP, BEGIN (start the episodes) or SHOW (write what agents see) for slots start … stop, or CHECK them: returns
    the first one with an illegal action, or -1. One kernel for all, so that only one has to be compiled."""
    scene: Scene = read(address)
    state, shown, result = scene.state, scene.shown, scene.result
    if what == CHECK:
        return first_illegal(state.slots, start, stop, scene.actions, shown.available)
    game, rules, raw, limits = scene.tables.game[0], scene.tables.rules, scene.tables.raw, scene.tables.limits
    ground, encoding, work = scene.ground, scene.encoding, scene.work
    w, pairs, overlapping = work.bodies[worker], work.pairs[worker], work.overlapping[worker]
    here = Points(work.here.x[worker], work.here.y[worker])
    there = Points(work.there.x[worker], work.there.y[worker])
    blocks = Blocks(work.blocks.x[worker], work.blocks.y[worker], work.blocks.square[worker], work.blocks.load[worker])
    places = Points(work.places.x[worker], work.places.y[worker])
    for n in range(start, stop):
        slot, b = state.slots[n], state.units[n]
        begin = what == BEGIN
        if what == STEP:
            if not slot.running:
                write_result(result.slots[n], result.reward[n], 0.0, 0)
                continue
            for u in range(b.shape[0]):
                w[u].vitality = float(b[u].health) + float(b[u].shield)
                w[u].alive_before = b[u].alive
            give_orders(game, rules, b, scene.actions[n])
            count = 0
            for loop in range(LOOPS_PER_STEP):
                now = moment(slot.seed, slot.episode, slot.tick)
                looks = slot.tick % game.scan_period == 0
                choose_targets(game, rules, limits, ground.walkable, b, w, places, blocks, now, looks)
                attack(game, rules, b, w, now)
                # Neighbours and headings are computed every second loop: half the cost. Assumed to be accurate enough.
                if loop % 2 == 0:
                    count = find_neighbours(rules, limits, b, here, pairs)
                    steer(game, rules, limits, ground, b, w, here, blocks)
                move(game, rules, limits, ground.walkable, b, w, there, pairs, count, overlapping)
                strike(game, rules, raw, b)
                bury(game, rules, raw, b, w)
                recover(rules, b)
                slot.tick += 1
            slot.step += 1
            reward, ending = settle(game.best, game.agents, w.vitality, b.health, b.shield, w.alive_before, b.alive)
            if ending == 0 and slot.step >= game.limit:
                ending = 4
            write_result(result.slots[n], result.reward[n], reward, ending)
            slot.total += reward
            if ending > 0:
                result.slots[n].total = slot.total
                result.slots[n].length = slot.step
                show(encoding, rules, ground.pathing, b, n, scene.final)
                for a in range(game.agents):
                    result.alive[n, a] = b[a].alive
                slot.running = False
                if game.auto_reset:
                    slot.episode += 1
                    begin = True
        if begin:
            reset_battle(game, rules, scene.tables.fresh, slot, b)
        show(encoding, rules, ground.pathing, b, n, shown)
    return -1
