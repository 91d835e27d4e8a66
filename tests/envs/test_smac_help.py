"""Revision 3: units that are hit call for help, friends chase the attacker on a leash, missiles are the catalogue's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.fidelity import smac_oracle as oracle
from fp3o.config import Cell, resolve
from fp3o.config.options import SmacOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.battle import SINCE_REVISION_3, Battles, Response, Steering, steering_numbers
from fp3o.envs.smac.constants import CHASING, FOLLOW, FREE, RETURNING
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.scenarios import SCENARIOS, Group, Scenario
from fp3o.envs.smac.units import LIBERTY, LOOPS_PER_SECOND, data_hash, table
from fp3o.errors import UserError

STOP, EAST, ATTACK = 1, 4, 6


def line(*enemies: tuple[str, float], attacker: str = "stalker", at: float = 4.0, **settings: Any) -> EmbeddedBattles:
    """One agent at x = `at` and enemies at the given x, all on one line and at rest: their order has led them there.

    Units scan one cell only: agents shoot from out of scan range, and further away than units follow what they scan.
    """
    scenario = Scenario(
        "line",
        (Group(attacker, 1, at, 16),),
        tuple(Group(kind, 1, x, 16) for kind, x in enemies),
        (at, 16),
        "band",
        400,
    )
    env = EmbeddedBattles(scenario, 1, auto_reset=False, noise=False, **settings)
    positions = np.array([at, *(x for _, x in enemies)], np.float32)
    height = np.full_like(positions, 16)
    scan = np.full_like(positions, 1)
    env.rules = env.rules._replace(order_x=positions, order_y=height, scan=scan)
    env.reset(slot_seeds(0, "line", 1))
    place(env, positions, height)
    return env


def place(env: EmbeddedBattles, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
    env.load_state_dict(env.state_dict() | {"x": x[None], "y": y[None]})


def attack(env: EmbeddedBattles, steps: int, enemy: int = 0) -> None:
    for _ in range(steps):
        env.step(np.array([[[ATTACK + enemy]]]))


def targets(env: EmbeddedBattles) -> list[int]:
    found: list[int] = env.battles.target[0, env.spec.agents :].tolist()
    return found


VICTIM = ("zealot", 9.9)  # within reach of an agent at 4


def test_a_friend_within_four_cells_comes_to_help_and_one_further_away_does_not() -> None:
    radius = LIBERTY["zealot"].radius
    reach = VICTIM[1] + Response().help_radius + radius
    env = line(VICTIM, ("zealot", reach - 0.05), ("zealot", reach + 0.8))
    before = env.battles.x[0].copy()
    attack(env, 4)
    assert env.battles.lost[0, 1] > 0
    assert targets(env) == [0, 0, -1]
    assert env.battles.chase[0].tolist() == [FREE, CHASING, CHASING, FREE]
    attack(env, 2)
    assert (before[1:3] - env.battles.x[0, 1:3] > 0.5).all()
    assert env.battles.x[0, 3] == before[3]


def test_the_radius_is_an_option() -> None:
    for radius, answers in ((2.0, [0, -1]), (8.0, [0, 0])):
        env = line(VICTIM, ("zealot", 15.0), options=SmacOptions(help_radius=radius))
        attack(env, 4)
        assert targets(env) == answers


def test_in_revision_2_nobody_helps() -> None:
    env = line(VICTIM, ("zealot", 11.5), options=SmacOptions(engine_revision=2))
    attack(env, 3)
    assert env.battles.lost[0, 1] > 0
    assert targets(env) == [-1, -1]  # and the victim itself has lost sight of its attacker


def test_a_unit_calls_once_in_two_seconds() -> None:
    env = line(VICTIM, ("zealot", 11.5))
    period = round(2.0 * LOOPS_PER_SECOND)
    calls, wait = [], 0
    for _ in range(12):
        attack(env, 1)
        now = int(env.battles.call_wait[0, 1])
        if now > wait:
            calls.append(int(env.battles.tick[0]) - (period - now))
        wait = now
    assert len(calls) >= 2
    assert min(np.diff(calls)) >= period


def test_whoever_is_hitting_a_target_stays_with_it_and_whoever_walks_to_one_turns_round() -> None:
    """Two agents; one is in a duel with a zealot, and another zealot walks to it; a stalker hits a third from afar."""
    answers: tuple[Literal["always", "nearer", "never"], ...] = ("always", "nearer", "never")
    for redirects in answers:
        scenario = Scenario(
            "duel",
            (Group("stalker", 1, 4, 16), Group("zealot", 1, 14, 16)),
            tuple(Group("zealot", 1, x, 16) for x in (10.5, 13, 11.5)),
            (14, 16),
            "band",
            400,
        )
        env = EmbeddedBattles(scenario, 1, auto_reset=False, noise=False, response=Response(redirects=redirects))
        env.reset(slot_seeds(0, "duel", 1))
        state = env.battles
        state.x[0], state.y[0] = (4, 14, 10.5, 13.05, 11.5), (16, 16, 16, 16, 17)
        state.fighting[0, 3] = True
        state.target[0, 2:] = (-1, 1, 1)
        b = oracle.one_battle(state, 0)
        oracle.hit(env.rules, b, 0, 2)
        assert b.target.tolist() == [-1, -1, 0, 1, 0 if redirects == "always" else 1]
        state.x[0, 1] = 30  # the agent that both zealots attack runs away
        state.target[0, 2:] = (-1, 1, 1)
        b.call_wait[:] = 0
        oracle.hit(env.rules, b, 0, 2)
        assert b.target[4] == (1 if redirects == "never" else 0)


def test_splash_makes_every_victim_call() -> None:
    env = line(("zealot", 9.0), ("zealot", 9.5), ("zealot", 12.5), attacker="colossus", at=4.0)
    place(env, env.battles.x[0].copy(), np.array([16, 15.5, 16.5, 16.0], np.float32))
    attack(env, 2)
    assert (env.battles.lost[0, 1:3] > 0).all()
    assert (env.battles.call_wait[0, 1:3] > 0).all()
    assert env.battles.lost[0, 3] == env.battles.call_wait[0, 3] == 0
    assert env.battles.target[0, 3] == 0


def test_agents_are_passive_and_mirror_matches_are_not() -> None:
    """SMAC's allied units are copies that answer neither hits nor calls."""
    scenario = replace(SCENARIOS["3m"], allies=(Group("marine", 3, 9, 16),), enemies=(Group("marine", 3, 16, 16),))
    for scripted in (False, True):
        env = EmbeddedBattles(scenario, 1, auto_reset=False, scripted_allies=scripted)
        env.reset(slot_seeds(0, "passive", 1))
        for _ in range(6):
            env.step(np.where(env.battles.alive[:, :3], STOP, 0)[..., None])
        assert env.battles.lost[0, :3].sum() > 0
        assert bool((env.battles.target[0, :3] >= 0).any()) == scripted
        assert bool((env.battles.call_wait[0, :3] > 0).any()) == scripted


def chase_states(env: EmbeddedBattles, away: float) -> list[int]:
    """How a unit's chase goes on whose attacker is `away` cells from where it began; by the oracle's rule."""
    b = oracle.one_battle(env.battles, 0)
    oracle.acquire(b, np.array([False, True]), 0)
    states = []
    for distance in (away, 4.9):
        b.x[1] = b.post_x[1] + distance
        oracle.mind_leash(env.rules, b)
        states.append(int(b.chase[1]))
    return states


def test_the_leash_ends_a_chase_and_its_reset_frees_the_unit() -> None:
    assert chase_states(line(VICTIM), 20.9) == [CHASING, CHASING]
    assert chase_states(line(VICTIM), 21.1) == [RETURNING, FREE]


def test_an_attacker_is_chased_out_of_scan_range_until_the_leash_is_used_up() -> None:
    """The stalker hits, then walks away, faster than a zealot: far out of its scan range."""
    response = Response(leash=6.0, leash_reset=2.0)
    env = line(("zealot", 8.1), attacker="stalker", at=14.0, response=response)
    seen: list[int] = []
    while not seen and env.battles.step[0] < 10:
        attack(env, 1)
        seen = [env.battles.chase[0, 1]] if env.battles.chase[0, 1] else []
    furthest, gap = 0.0, 0.0
    for _ in range(40):
        env.step(np.array([[[EAST if env.snapshot().available[0, 0, EAST] else STOP]]]))  # type: ignore[index]
        seen.append(int(env.battles.chase[0, 1]))
        furthest = max(furthest, float(env.battles.x[0, 1] - env.battles.post_x[0, 1]))
        gap = max(gap, float(env.battles.x[0, 0] - env.battles.x[0, 1]) if seen[-1] == CHASING else 0.0)
    assert sorted(set(seen)) == [FREE, CHASING, RETURNING]
    edges = LIBERTY["stalker"].radius + LIBERTY["zealot"].radius
    assert gap - edges > 1 + FOLLOW  # where revision 2 gives up
    assert 5.5 < furthest < 6.2  # as seen at the end of steps, of up to 1.1 cells each
    assert seen[-1] == FREE
    assert env.battles.x[0, 1] < 8.1 + 2.1  # back where its order had led it


@pytest.mark.parametrize(
    "response",
    [
        Response(leash=2, leash_reset=1),
        Response(redirects="never", scan_period=8),
        Response(redirects="always", scan_period=1),
    ],
)
def test_kernel_equals_oracle_with_short_leashes_and_other_answers(response: Response) -> None:
    env = EmbeddedBattles(SCENARIOS["2s3z"], 1, auto_reset=False, response=response)
    env.rules = env.rules._replace(scan=np.full_like(env.rules.scan, 2))
    env.reset(slot_seeds(3, "leash", 1))
    mirror = Battles(*(array.copy() for array in env.battles))
    generator = np.random.default_rng(1)
    states = set()
    for step in range(50):
        available = env.snapshot().available
        assert available is not None
        hits_and_runs = np.where(np.arange(available.shape[-1]) >= ATTACK, 3.0 if step % 6 < 2 else 0.1, 1.0)
        actions = (generator.random(available.shape) * available * hits_and_runs).argmax(-1)
        if not env.battles.running[0]:
            break
        env.step(actions[..., None])
        oracle.step(env.rules, env.ground, steering_numbers(env.steering), oracle.one_battle(mirror, 0), actions[0])
        states |= set(env.battles.chase[0].tolist())
        for field, ours, theirs in zip(Battles._fields, mirror, env.battles, strict=True):
            if field not in ("step", "running", "total"):
                np.testing.assert_array_equal(ours, theirs, err_msg=f"{field} after step {step}")
    assert {FREE, CHASING} <= states
    assert (RETURNING in states) == (response.leash < 21)


def test_missiles_are_as_fast_as_the_catalogue_says() -> None:
    speeds = {unit.name: unit.missile_speed for unit in table("liberty") if unit.blow == "missile"}
    assert speeds == {"stalker": 18.75, "hydralisk": 40}
    assert {unit.missile_speed for unit in table("legacy", 2) if unit.blow == "missile"} == {20}
    assert data_hash("liberty", 2) == "705da2dc166324a6"
    assert data_hash("liberty") != data_hash("liberty", 2)


def test_revision_2_saves_what_it_always_saved_and_loads_it() -> None:
    old = EmbeddedBattles(SCENARIOS["3m"], 2, options=SmacOptions(engine_revision=2))
    new = EmbeddedBattles(SCENARIOS["3m"], 2)
    for env in (old, new):
        env.reset(slot_seeds(0, "saved", 2))
    assert set(new.state_dict()) - set(old.state_dict()) == set(SINCE_REVISION_3)
    old.load_state_dict(old.state_dict())
    with pytest.raises(UserError, match=r"saved post_x is missing; allowed: \(2, 6\)"):
        new.load_state_dict(old.state_dict())


def test_digests_of_revision_2_are_those_of_the_runs_that_exist() -> None:
    cell = Cell.parse("smac/3s5z/full/fp3o")
    old, new = resolve(cell, {"engine_revision": 2}), resolve(cell)
    assert (old.revision, new.revision) == (2, 3)
    assert old.digest == "0fc51a83ba"
    assert "engine_revision" not in old.configuration()["options"]
    real = resolve(cell, {"backend": "starcraft2"})
    assert (real.revision, real.digest) == (1, "461eca2faa")


def test_options_are_the_engines_defaults() -> None:
    options = SmacOptions()
    assert (options.help_radius, options.scan_period) == (Response().help_radius, Response().scan_period)
    assert (options.attacker_load, options.side_bonus) == (Steering().attacker_load, Steering().side_bonus)


def test_bad_options_get_one_line() -> None:
    cell = Cell.parse("smac/3s5z/full/fp3o")
    for given, line_ in (
        ({"engine_revision": 1}, r"engine_revision = 1 is not allowed; allowed: 2 … 3"),
        ({"scan_period": 3}, r"scan_period = 3 is not allowed; allowed: 1, 2, 4, 8"),
        ({"help_radius": -1}, r"help_radius = -1 is not allowed; allowed: 0 … 32"),
        ({"engine_revision": 2, "help_radius": 2}, r"help_radius needs engine_revision = 3"),
    ):
        with pytest.raises(UserError, match=line_):
            resolve(cell, given)
