"""Physics against closed form: duels, speeds, cooldowns, recovery, splash, surround, walls, and the damage ledger."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.fidelity import smac_oracle as oracle
from fp3o.config.options import SmacOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac import units
from fp3o.envs.smac.battle import Battles, steering_numbers
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.scenarios import SCENARIOS, Group, Scenario
from fp3o.envs.smac.units import KINDS, LIBERTY, PROFILES, UnitType, source

STOP, NORTH, EAST, ATTACK = 1, 2, 4, 6


def arena(
    allies: dict[str, int], enemies: dict[str, int], gap: float, *, noise: bool = True, limit: int = 400
) -> EmbeddedBattles:
    """Two groups on open ground, `gap` cells apart; enemies attack, allies do as told."""
    scenario = Scenario(
        "arena",
        tuple(Group(kind, count, 16 - gap / 2, 16) for kind, count in allies.items()),
        tuple(Group(kind, count, 16 + gap / 2, 16) for kind, count in enemies.items()),
        (16 - gap / 2, 16),
        "band",
        limit,
    )
    env = EmbeddedBattles(scenario, 1, auto_reset=False, noise=noise)
    env.reset(slot_seeds(0, "arena", 1))
    return env


def loops(env: EmbeddedBattles, action: int, count: int) -> list[Battles]:
    """The state after each of `count` game loops in which all allies follow one order.

    As in the engine, headings hold for two loops, the order of looking for targets for four, counted from the order.
    """
    b = oracle.one_battle(env.battles, 0)
    numbers = steering_numbers(env.steering)
    oracle.give_orders(env.rules, b, np.where(b.alive[: env.spec.agents], action, 0))
    out = []
    for loop in range(count):
        if loop % env.rules.scan_period == 0:
            order = oracle.shuffled(b)
        oracle.choose_targets(env.rules, env.ground, numbers, b, order)
        mode = oracle.attack(env.rules, b)
        if loop % 2 == 0:
            near = oracle.neighbours(env.rules, b)
            oracle.steer(env.rules, env.ground, numbers, b, mode, near)
        oracle.move(env.rules, env.ground, numbers, b, mode, near)
        oracle.strike(env.rules, b)
        oracle.recover(env.rules, b)
        b.tick[0] += 1
        out.append(Battles(*(array.copy() for array in b)))
    return out


def test_these_loops_are_the_engines() -> None:
    here, engine = (arena({"zealot": 2, "stalker": 1}, {"zergling": 8, "marine": 2}, 6) for _ in range(2))
    loops(here, STOP, 96)
    for _ in range(12):
        engine.step(np.where(engine.battles.alive[:, :3], STOP, 0)[..., None])
    assert not engine.battles.alive.all()
    for field, ours, theirs in zip(Battles._fields, here.battles, engine.battles, strict=True):
        if field not in ("last_action", "step", "running", "total"):
            np.testing.assert_array_equal(ours, theirs, err_msg=field)


def hits_to_kill(attacker: UnitType, victim: UnitType) -> int:
    """Shields take hits in full, armour reduces what reaches the body, by hand."""
    damage = attacker.damage + (
        attacker.bonus if victim.attribute and attacker.bonus_against == victim.attribute else 0
    )
    health, shield, hits = victim.health, victim.shield, 0
    while health > 0:
        through = max(damage - shield, 0)
        shield = max(shield - damage, 0)
        health -= max(through - victim.armour, 0.5) if through > 0 else 0
        hits += 1
    return hits


def test_hits_to_kill_as_published() -> None:
    published = {
        ("marine", "marine"): 8, ("stalker", "stalker"): 12, ("stalker", "zealot"): 17, ("zealot", "zealot"): 21,
        ("zealot", "zergling"): 5, ("zergling", "zealot"): 35, ("hydralisk", "zealot"): 14, ("zealot", "hydralisk"): 10,
        ("zergling", "colossus"): 80,
    }  # fmt: skip
    for (attacker, victim), hits in published.items():
        assert hits_to_kill(LIBERTY[attacker], LIBERTY[victim]) == hits


@pytest.mark.parametrize("victim", KINDS)
@pytest.mark.parametrize("attacker", [kind for kind in KINDS if kind != "baneling"])
def test_duel(attacker: str, victim: str) -> None:
    env = arena({victim: 1}, {attacker: 1}, LIBERTY[attacker].reach + 1.0, noise=False)
    # Recovery is measured elsewhere; here it would blur the count.
    env.rules = env.rules._replace(regeneration=np.zeros(2, np.float32))
    unit, prey = LIBERTY[attacker], LIBERTY[victim]
    expected_hits = hits_to_kill(unit, prey)
    attacks = math.ceil(expected_hits / unit.hits)
    together = unit.blow == "beam"
    extra = unit.delay if unit.hits > 1 and not together and expected_hits % unit.hits == 0 else 0.0
    expected = ((attacks - 1) * unit.period + extra) * 16
    history = loops(env, STOP, int(expected) + 160)
    lost = np.array([0.0] + [float(b.lost[0]) for b in history])
    struck = np.nonzero(np.diff(lost) > 0)[0]
    counted = len(struck) * (unit.hits if together else 1)
    assert not history[struck[-1]].alive[0]
    assert counted in (expected_hits, attacks * unit.hits)
    assert struck[-1] - struck[0] == pytest.approx(expected, rel=0.02, abs=1.0)


@pytest.mark.parametrize(
    ("kind", "distance"),
    [
        ("marine", 1.125),
        ("zealot", 1.125),
        ("hydralisk", 1.125),
        ("colossus", 1.125),
        ("baneling", 1.25),
        ("stalker", 1.4766),
        ("zergling", 1.4766),
    ],
)
def test_distance_per_step(kind: str, distance: float) -> None:
    env = arena({kind: 1}, {"marine": 1}, 14)
    before = env.battles.x[0, 0], env.battles.y[0, 0]
    env.step(np.array([[[NORTH]]]))
    assert env.battles.y[0, 0] - before[1] == pytest.approx(distance, abs=1e-3)
    assert env.battles.x[0, 0] == before[0]


def test_cooldown_noise() -> None:
    """Uniform, −1 … +2 loops around the period; the mean is the period plus half a loop."""
    env = arena({"colossus": 1}, {"marine": 12}, 4)
    env.rules = env.rules._replace(max_health=np.full(13, 1e6, np.float32))
    env.battles.health[:] = 1e6
    period = LIBERTY["marine"].period * 16
    cooldown = np.array([np.zeros(12), *(b.cooldown[1:] for b in loops(env, STOP, 900))])
    starts = np.diff(cooldown, axis=0) > 0
    gaps = np.concatenate([np.diff(np.nonzero(starts[:, i])[0]) for i in range(12)])
    assert len(gaps) > 600
    assert gaps.mean() == pytest.approx(period + 0.5, abs=0.12)
    # One loop of the cooldown has passed by the end of the loop in which it started.
    drawn = np.diff(cooldown, axis=0)[starts] + 1 - period
    assert -1 - 1e-4 <= drawn.min() < -0.98
    assert 1.98 < drawn.max() <= 2 + 1e-4
    shares = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(np.quantile(drawn, shares), 3 * shares - 1, rtol=0, atol=0.15)


def test_shields_wait_and_zerg_heal() -> None:
    env = arena({"zealot": 1, "zergling": 1}, {"marine": 1}, 14)
    b = oracle.one_battle(env.battles, 0)
    env.battles.shield[0, 0] = 10
    env.battles.health[0, 1] = 10
    env.battles.alive[0, 2] = False
    kinds = [KINDS[kind] for kind in env.rules.kind]
    assert kinds[:2] == ["zealot", "zergling"]
    for _ in range(160):
        oracle.recover(env.rules, b)
    assert b.shield[0] == 10
    assert b.health[1] == pytest.approx(10 + 160 * 0.2734 / 16, abs=1e-3)
    for _ in range(16):
        oracle.recover(env.rules, b)
    assert b.shield[0] == pytest.approx(12, abs=1e-4)
    for _ in range(2000):
        oracle.recover(env.rules, b)
    assert b.shield[0] == 50
    assert b.health[1] == 35


def blast(
    victims: dict[str, tuple[float, float]], friends: dict[str, tuple[float, float]], dead: bool
) -> dict[str, float]:
    """Let one allied baneling at (10, 16) burst, or be killed; health left of everyone by name and place."""
    env = arena({"baneling": 1, **dict.fromkeys(friends, 1)}, dict.fromkeys(victims, 1), 14)
    b = oracle.one_battle(env.battles, 0)
    places = {"baneling": (10.0, 16.0), **friends, **{f"enemy {kind}": place for kind, place in victims.items()}}
    for u, (x, y) in enumerate(places.values()):
        b.x[u], b.y[u] = x, y
    if dead:
        b.health[0] = 0
    else:
        b.strikes[0], b.victim[0] = 1, 1 + len(friends)
    oracle.strike(env.rules, b)
    assert not b.alive[0]
    return dict(zip(places, b.health.tolist(), strict=True))


@pytest.mark.parametrize("dead", [True, False])
def test_baneling_blast(dead: bool) -> None:
    inside, outside = 2.2 + 0.374, 2.2 + 0.376
    left = blast({"zergling": (10 + inside, 16), "baneling": (10, 16 + inside)}, {"zergling": (10.5, 16)}, dead)
    assert left["enemy zergling"] == 0  # 35 against light
    assert left["enemy baneling"] == 10  # 20 against others: one does not kill a baneling
    assert left["zergling"] == 35  # friends are spared
    assert blast({"zergling": (10 + outside, 16)}, {}, dead)["enemy zergling"] == 35


def test_two_blasts_kill_a_baneling_which_then_bursts_too() -> None:
    env = arena({"baneling": 2}, {"baneling": 1}, 14)
    b = oracle.one_battle(env.battles, 0)
    b.x[:], b.y[:] = [10, 10.8, 10.4], 16
    b.health[:2] = 0
    oracle.strike(env.rules, b)
    assert not b.alive.any()


def test_colossus_burns_a_line_across_the_shot() -> None:
    env = arena({"colossus": 1}, {"zergling": 7}, 14)
    b = oracle.one_battle(env.battles, 0)
    b.x[0], b.y[0] = 10, 16
    # Shot to the east: the line runs north and south through the target (15, 16).
    reach = 1.25 + 0.15 + 0.375
    places = [
        (15, 16),
        (15, 16 + reach - 0.01),
        (15, 16 - reach + 0.01),
        (15, 16 + reach + 0.01),
        (15.52, 17),
        (15.53, 17),
        (13, 16),
    ]
    b.x[1:], b.y[1:] = np.array(places).T
    b.aim_x[0], b.aim_y[0], b.victim[0], b.strikes[0] = 1, 0, 1, 2
    oracle.strike(env.rules, b)
    np.testing.assert_array_equal(b.alive[1:], [False, False, False, True, False, True, True])


def test_colossus_and_ground_units_pass_each_other() -> None:
    env = arena({"colossus": 1, "zealot": 1}, {"zergling": 1}, 14)
    b = oracle.one_battle(env.battles, 0)
    b.x[:2], b.y[:2] = 10, 16
    after = loops(env, STOP, 16)[-1]
    assert after.x[0] == after.x[1] == 10


def test_colossus_walks_over_the_cliff_and_zerglings_do_not() -> None:
    env = EmbeddedBattles(SCENARIOS["2c_vs_64zg"], 1)
    env.reset(slot_seeds(0, "cliff", 1))
    ground = env.ground
    assert not ground.walkable[0, 32, 25]
    assert ground.walkable[1, 32, 25]
    b = oracle.one_battle(env.battles, 0)
    b.alive[3:] = False
    b.x[[0, 2]], b.y[[0, 2]] = (14.0, 18.0), (13.6, 13.6)
    south = loops(env, 3, 16)
    assert south[-1].y[0] < 12
    assert all(ground.walkable[0, int(2 * s.x[2]), int(2 * s.y[2])] for s in south)


def test_a_marine_walks_into_range_before_it_fires() -> None:
    env = arena({"marine": 1}, {"zealot": 1}, 5.9, noise=False)
    env.rules = env.rules._replace(speed=np.array([2.25 / 16, 0], np.float32))
    available = env.snapshot().available
    assert available is not None
    assert available[0, 0, ATTACK]
    history = loops(env, ATTACK, 40)
    first = next(i for i, b in enumerate(history) if b.lost[1] > 0)
    weapon = 5 + 0.375 + 0.5
    assert history[0].x[1] - history[0].x[0] <= 5.95
    assert history[first].x[1] - history[first].x[0] <= weapon
    assert history[first].x[1] - history[first].x[0] > weapon - 0.15


def test_moving_on_breaks_off_an_attack() -> None:
    env = arena({"zergling": 1}, {"marine": 1}, 1.0, noise=False)
    env.rules = env.rules._replace(damage_point=np.array([6.0, 0.8], np.float32))
    before = loops(env, ATTACK, 4)[-1]
    assert before.windup[0] > 0
    after = loops(env, EAST, 8)[-1]
    assert after.windup[0] == 0
    assert after.cooldown[0] == 0
    assert after.lost[1] == 0


def test_a_zealot_stands_for_its_second_hit_and_a_new_order_loses_it() -> None:
    def zealot() -> EmbeddedBattles:
        env = arena({"zealot": 1}, {"marine": 1}, 0.9, noise=False)
        env.rules = env.rules._replace(speed=np.array([2.25 / 16, 0], np.float32))
        loops(env, ATTACK, 2)
        assert env.battles.lost[0, 1] == 8
        return env

    stays, leaves, chased = zealot(), zealot(), zealot()
    assert loops(stays, ATTACK, 6)[-1].lost[1] == 16
    assert loops(leaves, NORTH, 6)[-1].lost[1] == 8
    chased.battles.x[0, 1] += 1.0  # out of range, but the blow has begun
    where = float(chased.battles.x[0, 0])
    after = loops(chased, ATTACK, 3)[-1]
    assert after.x[0] == pytest.approx(where, abs=1e-3)
    assert loops(chased, ATTACK, 3)[-1].lost[1] == 16


def test_allies_never_fight_unbidden_and_enemies_do() -> None:
    env = arena({"marine": 1}, {"marine": 1}, 5)
    for _ in range(6):
        env.step(np.array([[[STOP]]]))
    assert env.battles.lost[0, 1] == 0
    assert env.battles.lost[0, 0] > 0


def contacts(b: Battles, zealot: int = 0) -> int:
    gap = np.hypot(b.x[1:] - b.x[zealot], b.y[1:] - b.y[zealot])
    return int((b.alive[1:] & (gap <= 0.1 + 0.5 + 0.375 + 1e-4)).sum())


def test_zerglings_surround_a_zealot() -> None:
    env = arena({"zealot": 1}, {"zergling": 12}, 6)
    env.rules = env.rules._replace(max_health=np.full(13, 1e6, np.float32))
    env.battles.health[:] = 1e6
    history = loops(env, STOP, 120)
    arrival = next(i for i, b in enumerate(history) if contacts(b) > 0)
    assert next(i for i, b in enumerate(history) if contacts(b) >= 5) - arrival < 3 * 16
    assert max(contacts(b) for b in history) >= 6


def overlaps(env: EmbeddedBattles) -> np.ndarray:
    """Of each battle, the deepest overlap of two living bodies as a share of their separation; 1: they coincide."""
    b, rules = env.battles, env.rules
    gap = np.hypot(b.x[:, :, None] - b.x[:, None, :], b.y[:, :, None] - b.y[:, None, :])
    near = rules.separation[:, None] + rules.separation
    counts = (
        b.alive[:, :, None]
        & b.alive[:, None, :]
        & (rules.layer[:, None] == rules.layer)
        & ~np.eye(gap.shape[1], dtype=bool)
    )
    return np.where(counts, 1 - gap / near, 0).max(axis=(1, 2))


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_nobody_overlaps_leaves_the_map_or_gains_health_from_nothing(name: str) -> None:
    env = EmbeddedBattles(SCENARIOS[name], 16, auto_reset=False)
    env.reset(slot_seeds(1, "invariants", 16))
    generator = np.random.default_rng(0)
    rules, b = env.rules, env.battles
    found = []
    for _ in range(40):
        available = env.snapshot().available
        assert available is not None
        env.step(
            (
                generator.random(available.shape) * available * np.where(np.arange(available.shape[-1]) >= 6, 4, 1)
            ).argmax(-1)[..., None]
        )
        for layer in (0, 1):
            members = b.alive & (rules.layer == layer)
            column, row = (2 * b.x[members]).astype(int), (2 * b.y[members]).astype(int)
            assert env.ground.walkable[layer, column, row].all()
        assert np.isfinite(b.x).all()
        assert ((b.health >= 0) & (b.health <= rules.max_health)).all()
        assert ((b.shield >= 0) & (b.shield <= rules.max_shield)).all()
        np.testing.assert_array_equal(b.alive, b.health > 0)
        missing = rules.max_health + rules.max_shield - b.health - b.shield
        np.testing.assert_allclose(b.lost - b.regained, missing, rtol=0, atol=2e-3)
        found.append(overlaps(env))
    # The worst pair of a pressing crowd, of each battle at each step; bodies at rest: next test.
    assert np.mean(found) < 0.25
    assert np.quantile(found, 0.95) < 0.45
    assert np.max(found) < 0.7


def test_a_heap_at_rest_comes_apart() -> None:
    env = arena({"marine": 1}, {"zergling": 20, "stalker": 5}, 14)
    b = oracle.one_battle(env.battles, 0)
    generator = np.random.default_rng(0)
    b.x[1:], b.y[1:] = 9 + generator.uniform(-1, 1, 25), 16 + generator.uniform(-1, 1, 25)
    b.x[0], b.y[0] = 30, 16
    env.rules = env.rules._replace(scripted=np.zeros(26, bool))
    assert overlaps(env)[0] > 0.5
    loops(env, STOP, 160)
    assert overlaps(env)[0] < 0.15


def test_a_narrower_choke_lets_fewer_through() -> None:
    passed = {}
    for width in (1.0, 6.0):
        env = EmbeddedBattles(SCENARIOS["corridor"], 1, auto_reset=False, options=SmacOptions(choke_width=width))
        env.reset(slot_seeds(0, "choke", 1))
        env.battles.alive[0, 1:6] = False
        env.battles.health[0, 1:6] = 0
        env.battles.x[0, 0], env.battles.y[0, 0] = 1.5, 1.5  # the last zealot waits far behind the choke
        env.load_state_dict(env.state_dict())  # refreshes what is legal
        south = 0
        for _ in range(16):
            actions = np.zeros((1, 6, 1), int)
            actions[0, 0] = STOP
            env.step(actions)
            south += int((env.battles.y[0, 6:] < 12.5).sum())
        passed[width] = south
    assert passed[1.0] < 0.7 * passed[6.0]


# What the game's catalogue says of a unit; any other number needs a source of its own.
CATALOGUED = {
    *("name", "race", "attribute", "health", "shield", "armour", "regeneration", "speed", "radius", "separation"),
    *("damage", "hits", "bonus", "bonus_against", "period", "damage_point", "reach", "blow", "delay"),
    *("area", "area_margin", "walks_cliffs", "missile_speed"),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_number_of_the_unit_table_has_a_source(profile: str) -> None:
    for name, unit in PROFILES[profile].items():
        for field in unit.__dataclass_fields__:
            text = source(profile, name, field)
            if getattr(unit, field) != getattr(LIBERTY[name], field):
                assert text == "Legacy of the Void multiplayer balance", (name, field)
            elif field == "observed_cooldown":
                assert text.startswith("smac package"), name
            elif field in CATALOGUED:
                assert "catalogue" in text or text.startswith("unused"), (name, field)
            else:
                assert not getattr(unit, field), (name, field)  # no such thing, so nothing to source


def test_every_source_of_a_single_number_is_of_a_number_in_the_table() -> None:
    for unit, field in units._OVERRIDES:
        assert getattr(LIBERTY[unit], field)
        assert source("liberty", unit, field) == units._OVERRIDES[unit, field]
