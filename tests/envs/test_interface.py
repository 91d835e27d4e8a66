"""What the interface promises: seeds, and the same promises kept by every engine that can save its state.

PettingZoo workers and the real StarCraft II cannot (`exact_resume` is false); test_pettingzoo.py and
test_smac_starcraft2.py hold them to the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fp3o
from fp3o import config
from fp3o.config.domains import OPTIONS
from fp3o.config.options import MamujocoOptions, MatrixOptions, MpeOptions, SmacOptions
from fp3o.envs import make, matrix
from fp3o.envs.draws import uniform_draws
from fp3o.envs.interface import BatchEnv, Snapshot, Transition, episode_generator, slot_seeds
from fp3o.envs.matrix.engine import GAMES
from fp3o.envs.mpe.engine import FLAVOURS, TASKS
from fp3o.errors import UserError

ARRAYS: list[tuple[str, str, Any]] = [("matrix", task, MatrixOptions()) for task in GAMES]
ARRAYS += [("mpe", task, replace(MpeOptions(), flavour=flavour)) for task in TASKS for flavour in FLAVOURS]
# Short episodes: the promises are about what happens at their ends.
ENGINES = [*ARRAYS]
ENGINES += [("mamujoco", task, MamujocoOptions(episode_limit=12)) for task in ("reacher-2x1", "hopper-3x1")]
ENGINES += [("smac", "3m", SmacOptions(backend="embedded"))]
# An engine that is added is held to the same, on every task.
LISTED = ("matrix", "mpe", "mamujoco", "smac", "pettingzoo")
ENGINES += [(name, task, OPTIONS[name]()) for name in OPTIONS if name not in LISTED for task in config.tasks(name)]
NAMES = [f"{domain}/{task}{'/' + options.flavour if domain == 'mpe' else ''}" for domain, task, options in ENGINES]
every_engine = pytest.mark.parametrize(("domain", "task", "options"), ENGINES, ids=NAMES)


def legal_actions(env: BatchEnv, view: Snapshot, generator: np.random.Generator) -> np.ndarray:
    """Uniform among legal choices, or standard normal."""
    action = env.spec.action
    if action.kind == "gaussian":
        return generator.normal(size=(env.slots, env.spec.agents, action.width))
    assert view.available is not None
    parts, start = [], 0
    for size in action.sizes:
        weight = generator.random((env.slots, env.spec.agents, size)) * view.available[:, :, start : start + size]
        parts.append(weight.argmax(axis=2))
        start += size
    return np.stack(parts, axis=2)


def views(transition: Transition, slot: int) -> list[np.ndarray]:
    """Everything one slot got out of a step."""
    s = transition.snapshot
    shown = [s.observation[slot], s.state[slot], s.alive[slot], transition.reward[slot]]
    shown += [transition.terminated[slot], transition.truncated[slot]]
    if s.available is not None:
        shown.append(s.available[slot])
    if transition.final is not None and (transition.terminated[slot] or transition.truncated[slot]):
        shown += [transition.final.observation[slot], transition.final.state[slot]]
    return [np.array(x) for x in shown]


def same(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_slot_seeds_depend_on_arguments_and_index_only() -> None:
    few, many = slot_seeds(3, "train", 4), slot_seeds(3, "train", 64)
    assert few.dtype == np.uint64
    assert np.array_equal(few, many[:4])
    assert np.array_equal(few, slot_seeds(3, "train", 4))


def test_slot_seeds_never_collide_between_runs_streams_iterations_and_slots() -> None:
    drawn = [
        slot_seeds(seed, stream, 50, iteration)
        for seed in range(5)
        for stream in ("train", "evaluate")
        for iteration in range(4)
    ]
    everything = np.concatenate(drawn)
    assert len(np.unique(everything)) == len(everything)


def test_slot_seeds_are_pinned() -> None:
    """A changed derivation would change every run."""
    assert slot_seeds(0, "train", 2).tolist() == [10016432020004563040, 6266843009745937250]
    assert episode_generator(10016432020004563040, 1).integers(1000, size=3).tolist() == [642, 234, 175]


def test_episode_generators_differ_by_slot_and_episode() -> None:
    first = {(s, e): episode_generator(s, e).random() for s in (1, 2, 3) for e in (0, 1, 2)}
    assert len(set(first.values())) == 9


def test_draws_depend_on_seed_and_episode_only() -> None:
    seeds, episodes = slot_seeds(7, "train", 5), np.array([0, 3, 1, 0, 9])
    drawn = uniform_draws(seeds, episodes, 11)
    assert drawn.shape == (11, 5)
    assert np.array_equal(drawn[:4, 2:3], uniform_draws(seeds[2:3], episodes[2:3], 4))


def test_draws_are_uniform_and_independent() -> None:
    """Over positions, neighbouring episodes, and neighbouring seeds: 20 equal bins, and no correlation."""
    same_slot = uniform_draws(np.full(5000, 12345, dtype=np.uint64), np.arange(5000), 4)
    same_episode = uniform_draws(np.arange(5000, dtype=np.uint64), np.zeros(5000, dtype=np.int64), 4)
    for drawn in (same_slot, same_episode):
        assert len(np.unique(drawn)) == drawn.size
        for row in drawn:
            counts = np.histogram(row, bins=20, range=(0.0, 1.0))[0]
            assert ((counts - 250) ** 2 / 250).sum() < 43.8  # 99.9 % of chi-square with 19 degrees of freedom
            assert abs(np.corrcoef(row[:-1], row[1:])[0, 1]) < 0.05
        between = np.atleast_2d(np.corrcoef(drawn))[np.triu_indices(4, 1)]
        assert np.abs(between).max() < 0.05


@every_engine
def test_sizes_are_as_specified(domain: str, task: str, options: object) -> None:
    env = make(domain, task, 3, options=options)
    view = env.reset(slot_seeds(0, "test", 3))
    spec = env.spec
    assert view.observation.shape == (3, spec.agents, spec.observation_size)
    assert view.state.shape == (3, spec.agents, spec.state_size)
    assert view.observation.dtype == view.state.dtype == np.float32
    assert view.alive.shape == (3, spec.agents)
    assert len(spec.agent_types) == spec.agents
    if spec.action.kind == "gaussian":
        assert view.available is None
    else:
        assert view.available is not None
        assert view.available.shape == (3, spec.agents, spec.action.parameters)
        start = 0
        for size in spec.action.sizes:
            assert view.available[:, :, start : start + size].any(axis=2).all()
            start += size
    identity = env.identity()
    assert identity["task"] == task
    assert identity["observation_size"] == spec.observation_size


@every_engine
def test_a_slot_does_not_depend_on_its_neighbours(domain: str, task: str, options: object) -> None:
    """Slot 3 of 5 and the same seed alone: the same bits over several episodes."""
    many, one = make(domain, task, 5, options=options), make(domain, task, 1, options=options)
    seeds = slot_seeds(4, "test", 5)
    view = many.reset(seeds)
    alone = one.reset(seeds[3:4])
    assert np.array_equal(view.observation[3], alone.observation[0])
    generator = np.random.default_rng(0)
    for _ in range(2 * many.spec.episode_limit + 3):
        actions = legal_actions(many, view, generator)
        step, step_alone = many.step(actions), one.step(actions[3:4])
        assert same(views(step, 3), views(step_alone, 0))
        assert [e[1:] for e in step.episodes if e.slot == 3] == [e[1:] for e in step_alone.episodes]
        view = step.snapshot


@every_engine
def test_saved_and_restored_in_mid_episode_continues_bit_for_bit(domain: str, task: str, options: object) -> None:
    env = make(domain, task, 4, options=options)
    view = env.reset(slot_seeds(1, "test", 4))
    generator = np.random.default_rng(1)
    for _ in range(env.spec.episode_limit // 2 + 3):
        view = env.step(legal_actions(env, view, generator)).snapshot
    saved = env.state_dict()
    other = make(domain, task, 4, options=options)
    other.load_state_dict({name: array.copy() for name, array in saved.items()})
    assert np.array_equal(env.snapshot().observation, other.snapshot().observation)
    assert np.array_equal(env.snapshot().state, other.snapshot().state)
    for _ in range(2 * env.spec.episode_limit):
        actions = legal_actions(env, env.snapshot(), generator)
        left, right = env.step(actions), other.step(actions)
        assert left.episodes == right.episodes
        assert all(same(views(left, slot), views(right, slot)) for slot in range(4))


@every_engine
def test_episodes_report_the_sum_of_rewards(domain: str, task: str, options: object) -> None:
    env = make(domain, task, 3, options=options)
    view = env.reset(slot_seeds(2, "test", 3))
    generator = np.random.default_rng(2)
    earned = np.zeros(3)
    seen = 0
    for _ in range(3 * env.spec.episode_limit):
        step = env.step(legal_actions(env, view, generator))
        shared = np.all(step.reward == step.reward[:, :1])
        # A common reward is the team's; agents' own rewards add up to it.
        earned += step.reward[:, 0] if shared and not own_rewards(env) else step.reward.sum(axis=1)
        for episode in step.episodes:
            assert episode.total_return == pytest.approx(earned[episode.slot], abs=1e-9)
            earned[episode.slot] = 0.0
            seen += 1
        assert sorted(e.slot for e in step.episodes) == np.flatnonzero(step.terminated | step.truncated).tolist()
        assert (step.final is None) == (not step.episodes)
        view = step.snapshot
    assert seen >= 9


def own_rewards(env: BatchEnv) -> bool:
    return env.identity()["options"].get("flavour") == "mpe2"


def until_all_end(env: BatchEnv) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray], Transition]]:
    """Which slots were over before each step, the state then, and the step; without auto reset."""
    view = env.reset(slot_seeds(3, "test", env.slots))
    generator = np.random.default_rng(3)
    over = np.zeros(env.slots, dtype=bool)
    for _ in range(env.spec.episode_limit + 2):
        before = env.state_dict()
        step = env.step(legal_actions(env, view, generator))
        yield over.copy(), before, step
        over |= step.terminated | step.truncated
        view = step.snapshot
    assert over.all()


@every_engine
def test_without_auto_reset_every_slot_plays_one_episode(domain: str, task: str, options: object) -> None:
    reported: list[int] = []
    for over, _, step in until_all_end(make(domain, task, 3, auto_reset=False, options=options)):
        assert not step.reward[over].any()
        reported += [e.slot for e in step.episodes]
    assert sorted(reported) == [0, 1, 2]


@every_engine
def test_without_auto_reset_ended_slots_freeze(domain: str, task: str, options: object) -> None:
    """Their state stays, and an end is reported once: at the step at which it happens."""
    env = make(domain, task, 3, auto_reset=False, options=options)
    for over, before, step in until_all_end(env):
        assert not (step.terminated | step.truncated)[over].any()
        assert (step.final is None) == (not step.episodes)
        after = env.state_dict()
        assert all(np.array_equal(before[name][over], after[name][over]) for name in before if before[name].ndim)


@every_engine
def test_bad_input_is_one_clear_line(domain: str, task: str, options: object) -> None:
    env = make(domain, task, 2, options=options)
    shape = (2, env.spec.agents, env.spec.action.width)
    with pytest.raises(UserError, match="step before reset"):
        env.step(np.zeros(shape, dtype=np.int64))
    with pytest.raises(UserError, match=r"seeds are .*allowed"):
        env.reset(np.zeros(3, dtype=np.uint64))
    env.reset(slot_seeds(0, "test", 2))
    wrong = [np.zeros((1, *shape[1:]), dtype=np.int64), np.full(shape, np.nan), np.full(shape, np.inf)]
    if env.spec.action.kind == "categorical":
        wrong += [np.full(shape, -1), np.full(shape, 99), np.zeros(shape)]
    for actions in wrong:
        with pytest.raises(UserError, match="allowed") as error:
            env.step(actions)
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="allowed"):
        env.load_state_dict({})


@pytest.mark.parametrize("domain", ["matrix", "mpe"])
def test_unknown_names_list_the_allowed_ones(domain: str) -> None:
    with pytest.raises(UserError, match=f"unknown task 'nonsense' in {domain}; allowed: .*, "):
        make(domain, "nonsense", 1)
    with pytest.raises(UserError, match="unknown domain 'nonsense'; allowed: mamujoco, "):
        make("nonsense", "x", 1)
    with pytest.raises(UserError, match="number of environments is 0"):
        make(*next((d, t) for d, t, _ in ENGINES if d == domain), 0)


# --- Optional parts -------------------------------------------------------------------------------------------------


class Required(BatchEnv):
    """An environment with what is required of one, and nothing else."""

    def __init__(self, env: BatchEnv) -> None:
        self._env, self.spec, self.slots = env, env.spec, env.slots

    def reset(self, seeds: Any) -> Snapshot:
        return self._env.reset(seeds)

    def step(self, actions: Any) -> Transition:
        return self._env.step(actions)

    def snapshot(self) -> Snapshot:
        return self._env.snapshot()

    def state_dict(self) -> dict[str, Any]:
        return self._env.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._env.load_state_dict(state)

    def identity(self) -> dict[str, Any]:
        return self._env.identity()

    def close(self) -> None:
        self._env.close()


def test_an_environment_without_the_optional_parts_gets_their_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = matrix.make
    made: list[Required] = []

    def required(*arguments: Any, **options: Any) -> Required:
        made.append(Required(own(*arguments, **options)))
        return made[-1]

    settings = {"total_steps": 512, "evaluation_episodes": 2, "final_episodes": 2}
    trained = [fp3o.train("matrix/climbing/full/mappo", [0], settings, tmp_path / "own", quiet=True)]
    monkeypatch.setattr(matrix, "make", required)
    trained.append(fp3o.train("matrix/climbing/full/mappo", [0], settings, tmp_path / "required", quiet=True))
    [(one,), (other,)] = trained
    assert (one.path / "iterations.csv").read_bytes() == (other.path / "iterations.csv").read_bytes()
    assert made
    assert all((env.own_threads, env.has_kernels, env.restarts) == (False, False, 0) for env in made)
