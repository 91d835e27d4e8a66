"""The embedded engine as an environment: determinism, saving, freezing, masks, episode records."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fp3o.config.options import SmacOptions
from fp3o.envs import make
from fp3o.envs.interface import BatchEnv, Snapshot, Transition, slot_seeds
from fp3o.envs.smac import layouts
from fp3o.envs.smac.kernel import run_slots
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.errors import UserError

MAPS = sorted(SCENARIOS)


def random_legal(available: np.ndarray, generators: list[np.random.Generator]) -> np.ndarray:
    """[N, A, 1]; one generator per slot, so that a slot's actions do not depend on its neighbours."""
    draws = np.stack([generator.random(available.shape[1:]) for generator in generators])
    return (draws * available).argmax(axis=-1)[..., None]


def play(env: BatchEnv, seeds: np.ndarray, steps: int, stream: int = 0) -> list[Transition]:
    env.reset(seeds)
    return proceed(env, steps, [np.random.default_rng([int(seed), stream]) for seed in seeds])


def proceed(env: BatchEnv, steps: int, generators: list[np.random.Generator]) -> list[Transition]:
    out = []
    for _ in range(steps):
        available = env.snapshot().available
        assert available is not None
        result = env.step(random_legal(available, generators))
        final = None if result.final is None else copied(result.final)
        out.append(result._replace(snapshot=copied(result.snapshot), final=final))
    return out


def copied(snapshot: Snapshot) -> Snapshot:
    return Snapshot._make(None if part is None else part.copy() for part in snapshot)


def assert_same(one: Any, two: Any) -> None:
    for left, right in zip(one, two, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("threads", [1, 2])
def test_it_shows_what_agents_see_where_it_is_told_to(threads: int) -> None:
    """After a reset, a step and a saved state; the numbers are the same."""
    plain, told = (make("smac", "2s3z", 3, threads=threads) for _ in range(2))
    seeds = slot_seeds(0, "training", 3)
    plain.reset(seeds)
    told.reset(seeds)
    shapes = {name: getattr(told.snapshot(), name) for name in ("observation", "state", "available")}
    arrays = {name: np.full_like(array, 7) for name, array in shapes.items()}
    told.bind_output_buffers(arrays)
    assert_same(copied(told.snapshot()), plain.snapshot())
    assert_same(play(told, seeds, 5)[-1].snapshot, play(plain, seeds, 5)[-1].snapshot)
    saved = plain.state_dict()
    told.reset(seeds + 1)
    told.load_state_dict(saved)
    assert_same(told.snapshot(), plain.snapshot())
    for name, array in arrays.items():
        assert getattr(told.snapshot(), name) is array
        assert getattr(told.step(first_legal(told)).snapshot, name) is array


def first_legal(env: BatchEnv) -> np.ndarray:
    available = env.snapshot().available
    assert available is not None
    return available.argmax(-1)[..., None]


def of_slots(result: Transition, slots: list[int]) -> Transition:
    """As if there were no others; of `final`, the rows that count."""
    ended = [slot for slot in slots if result.terminated[slot] or result.truncated[slot]]
    assert (result.final is not None) or not ended

    def at(snapshot: Snapshot, rows: list[int]) -> Snapshot:
        return Snapshot._make(None if part is None else part[rows] for part in snapshot)

    return Transition(
        at(result.snapshot, slots),
        result.reward[slots],
        result.terminated[slots],
        result.truncated[slots],
        at(result.final, ended) if result.final is not None and ended else None,
        [episode._replace(slot=slots.index(episode.slot)) for episode in result.episodes if episode.slot in slots],
    )


def assert_same_steps(ours: list[Transition], theirs: list[Transition], slots: list[int]) -> int:
    """Every step of all of ours and of those slots of theirs; the number of episodes that ended."""
    for one, two in zip(ours, theirs, strict=True):
        left, right = of_slots(one, list(range(len(slots)))), of_slots(two, slots)
        assert_same(left.snapshot, right.snapshot)
        assert_same(left[1:4], right[1:4])
        assert (left.final is None) == (right.final is None)
        assert_same(left.final or (), right.final or ())
        assert left.episodes == right.episodes
    return sum(len(result.episodes) for result in ours)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("layout", ["agent", "default"])
def test_spec_and_shapes(name: str, layout: Any) -> None:
    env = make("smac", name, 2, options=SmacOptions(layout=layout))
    scenario = SCENARIOS[name]
    assert env.spec.agents == scenario.agents
    assert env.spec.action.sizes == (scenario.actions,)
    assert env.spec.episode_limit == scenario.limit
    assert len(set(env.spec.agent_types)) == len(set(scenario.ally_kinds))
    snapshot = env.reset(slot_seeds(0, "shape", 2))
    assert snapshot.observation.shape == (2, scenario.agents, env.spec.observation_size)
    assert snapshot.state.shape == (2, scenario.agents, env.spec.state_size)
    assert snapshot.available is not None
    assert snapshot.available.shape == (2, scenario.agents, scenario.actions)
    assert snapshot.observation.dtype == snapshot.state.dtype == np.float32
    assert snapshot.alive.all()
    for result in play(env, slot_seeds(1, "shape", 2), 12):
        assert np.isfinite(result.snapshot.observation).all()
        assert np.isfinite(result.snapshot.state).all()


@pytest.mark.parametrize(("name", "steps"), [("3s5z", 70), ("bane_vs_bane", 36), ("corridor", 36)])
def test_a_slot_does_not_depend_on_the_batch_or_on_threads(name: str, steps: int) -> None:
    seeds = slot_seeds(3, "batch", 12)
    many = play(make("smac", name, 12), seeds, steps)
    for slot in (0, 7, 11):
        alone = play(make("smac", name, 1), seeds[slot : slot + 1], steps)
        assert assert_same_steps(alone, many, [slot]) > 0
    threaded = play(make("smac", name, 12, threads=3), seeds, steps)
    assert assert_same_steps(threaded, many, list(range(12))) > 6


def test_one_machine_code_serves_all_engines() -> None:
    """Whatever the map, the layout, the number of threads: the kernel is compiled once."""
    default = SmacOptions(layout="default")
    found = []
    for name, threads, options in (("3m", 1, SmacOptions()), ("3m", 2, default), ("2c_vs_64zg", 2, SmacOptions())):
        make("smac", name, 4, threads=threads, options=options).reset(slot_seeds(0, "code", 4))
        found.append(len(run_slots.compiled))
    assert found[0] == found[1] == found[2]


def test_two_threads_of_python_may_step_engines_that_use_threads() -> None:
    """Helpers serve one caller at a time."""
    seeds = slot_seeds(4, "callers", 12)

    def rewards() -> list[float]:
        return [float(result.reward.sum()) for result in play(make("smac", "3m", 12, threads=2), seeds, 40)]

    with ThreadPoolExecutor(3) as callers:
        found = [caller.result() for caller in [callers.submit(rewards) for _ in range(3)]]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", MAPS)
def test_saving_in_mid_battle(name: str) -> None:
    seeds = slot_seeds(5, "save", 3)
    env = make("smac", name, 3)
    play(env, seeds, 15)
    saved = env.state_dict()
    before = copied(env.snapshot())
    onward = proceed(env, 15, [np.random.default_rng(i) for i in range(3)])
    fresh = make("smac", name, 3)
    fresh.load_state_dict(saved)
    assert_same(before, fresh.snapshot())
    assert_same_steps(proceed(fresh, 15, [np.random.default_rng(i) for i in range(3)]), onward, [0, 1, 2])


def test_seeds_matter_and_repeat() -> None:
    first, again, other = (play(make("smac", "8m", 1), slot_seeds(seed, "seed", 1), 20) for seed in (1, 1, 2))
    assert_same(first[-1].snapshot, again[-1].snapshot)
    assert (first[-1].snapshot.observation != other[-1].snapshot.observation).any()


def test_later_episodes_differ_from_the_first() -> None:
    env = make("smac", "3m", 1)
    start = env.reset(slot_seeds(0, "later", 1)).observation.copy()
    generators = [np.random.default_rng(0)]
    for _ in range(200):
        result = proceed(env, 1, generators)[0]
        if result.episodes:
            break
    assert (result.snapshot.observation != start).any()


def test_without_auto_reset_ended_slots_freeze() -> None:
    env = make("smac", "3m", 6, auto_reset=False)
    results = play(env, slot_seeds(0, "freeze", 6), 65)
    ended_at = {episode.slot: i for i, result in enumerate(results) for episode in result.episodes}
    assert sorted(ended_at) == list(range(6))
    assert sum(len(result.episodes) for result in results) == 6
    for slot, last in ended_at.items():
        for result in results[last + 1 :]:
            assert (result.reward[slot] == 0).all()
            assert not result.terminated[slot]
            assert not result.truncated[slot]
            left, right = of_slots(result, [slot]), of_slots(results[last], [slot])
            assert_same(left.snapshot, right.snapshot)


@pytest.mark.parametrize("name", ["3m", "2s3z", "bane_vs_bane"])
def test_episode_records_add_up(name: str) -> None:
    env = make("smac", name, 8)
    total, steps = np.zeros(8), np.zeros(8, int)
    episodes = []
    env.reset(slot_seeds(0, "records", 8))
    generators = [np.random.default_rng(i) for i in range(8)]
    for _ in range(150):
        result = proceed(env, 1, generators)[0]
        total += result.reward[:, 0]
        steps += 1
        ended = result.terminated | result.truncated
        assert not (result.terminated & result.truncated).any()
        assert sorted(episode.slot for episode in result.episodes) == np.nonzero(ended)[0].tolist()
        for episode in result.episodes:
            assert episode.total_return == pytest.approx(total[episode.slot], abs=1e-9)
            assert episode.length == steps[episode.slot] <= env.spec.episode_limit
            assert result.truncated[episode.slot] == (
                episode.length == env.spec.episode_limit and not result.terminated[episode.slot]
            )
            assert result.final is not None
            alive = result.final.alive[episode.slot]
            if episode.won:
                assert alive.any()
            assert 0 <= episode.total_return < 25
            episodes.append(episode)
        total[ended], steps[ended] = 0, 0
    assert episodes


def test_the_dead_may_only_do_nothing_and_see_only_their_number() -> None:
    env = make("smac", "2s3z", 20)
    seen = 0
    for result in play(env, slot_seeds(2, "dead", 20), 80):
        snapshot = result.snapshot
        assert snapshot.available is not None
        assert snapshot.available.any(axis=-1).all()
        np.testing.assert_array_equal(snapshot.available[..., 0], ~snapshot.alive)
        dead = ~snapshot.alive
        seen += int(dead.sum())
        assert not snapshot.available[dead][:, 1:].any()
        identity = np.broadcast_to(np.eye(5, dtype=np.float32), (20, 5, 5))
        np.testing.assert_array_equal(snapshot.observation[dead][:, -5:], identity[dead])
        assert not snapshot.observation[dead][:, :-5].any()
        assert not snapshot.state[dead][:, :-5].any()
    assert seen > 100


@pytest.mark.parametrize("threads", [1, 2])
def test_illegal_actions_are_refused_before_anything_happens(threads: int) -> None:
    env = make("smac", "3m", 2, threads=threads)
    env.reset(slot_seeds(0, "illegal", 2))
    before = env.state_dict()
    with pytest.raises(UserError, match="illegal action in slot 1 of smac/3m"):
        env.step(np.array([[1, 1, 1], [1, 0, 1]])[..., None])
    for action in (-1, 9, 2**63):
        with pytest.raises(UserError, match=r"agent 2 in environment 1 does not exist; allowed: 0 to 8"):
            env.step(np.array([[1, 1, 1], [1, 1, action]], np.uint64 if action > 9 else np.int64)[..., None])
    assert_same(before.values(), env.state_dict().values())


def test_user_errors() -> None:
    with pytest.raises(UserError, match=r"unknown task '3s6z' in smac.*3s5z"):
        make("smac", "3s6z", 1)
    with pytest.raises(UserError, match="number of environments is 0"):
        make("smac", "3m", 0)
    with pytest.raises(UserError, match="smac/3m: saved x is missing"):
        make("smac", "3m", 1).load_state_dict({})
    with pytest.raises(UserError, match="choke width"):
        make("smac", "corridor", 1, options=SmacOptions(choke_width=9.0))


def test_identity_names_engine_and_data() -> None:
    one = make("smac", "3m", 1).identity()
    two = make("smac", "3m", 1, options=SmacOptions(profile="legacy")).identity()
    assert one["engine"] == "embedded"
    assert one["unit_data"] != two["unit_data"]


def test_squares_are_compared_with_shooting_range_as_their_roots_are() -> None:
    for kind in (np.float32, np.float64):
        limit = kind(layouts.SHOOT * layouts.SHOOT)
        assert np.sqrt(limit) == layouts.SHOOT < np.sqrt(np.nextafter(limit, kind(100)))
