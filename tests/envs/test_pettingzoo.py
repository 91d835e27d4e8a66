"""Strangers' environments: spaces, leaving agents, seeds, and everything that can go wrong in a worker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fp3o
from fp3o.config import Cell, resolve
from fp3o.config.options import PettingzooOptions
from fp3o.envs import make
from fp3o.envs.interface import Snapshot, slot_seeds
from fp3o.envs.pettingzoo import check, engine
from fp3o.envs.pettingzoo.child import KEPT
from fp3o.envs.pettingzoo.engine import PettingzooBatch
from fp3o.envs.pettingzoo.factory import load_factory, parse_arguments
from fp3o.envs.pettingzoo.spaces import Unfit
from fp3o.errors import UserError
from fp3o.fields import Scalar

ROOT = Path(__file__).parents[2]


@pytest.fixture
def started() -> Iterator[list[PettingzooBatch]]:
    """Environments to be closed whatever happens."""
    environments: list[PettingzooBatch] = []
    yield environments
    for env in environments:
        env.close()


@pytest.fixture
def strange(started: list[PettingzooBatch]) -> Any:
    def build(name: str, slots: int, auto_reset: bool = True, workers: int = 2, **options: Any) -> PettingzooBatch:
        chosen = PettingzooOptions(env=f"strange_environments:{name}", **{"lost_share": 1.0, **options})
        env = make("pettingzoo", "strange", slots, auto_reset=auto_reset, threads=workers, options=chosen)
        assert isinstance(env, PettingzooBatch)
        started.append(env)
        return env

    return build


def random_actions(env: PettingzooBatch, view: Snapshot, generator: np.random.Generator) -> np.ndarray:
    action = env.spec.action
    if view.available is None:
        return generator.uniform(-1, 1, (env.slots, env.spec.agents, action.width))
    parts, start = [], 0
    for size in action.sizes:
        weight = generator.random((*view.available.shape[:2], size)) * view.available[:, :, start : start + size]
        parts.append(weight.argmax(axis=2))
        start += size
    return np.stack(parts, axis=2)


def play(env: PettingzooBatch, steps: int) -> None:
    for _ in range(steps):
        env.step(np.zeros((env.slots, env.spec.agents, env.spec.action.width)))


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def process_ids(env: PettingzooBatch) -> list[int]:
    return [worker.child.pid for worker in env._workers]


def test_uneven_agents_are_padded_masked_and_may_leave(strange: Any) -> None:
    env = strange("uneven", 2)
    spec = env.spec
    assert spec.action.kind == "categorical"
    assert spec.action.sizes == (4, 5)
    assert spec.observation_size == 4 + 3
    assert spec.state_size == 3 + 4 + 4  # no state(): all observations, Discrete as one-hot
    assert spec.agent_types == (0, 1, 1)
    assert not spec.exact_resume
    view = env.reset(slot_seeds(0, "test", 2))
    assert view.available is not None
    # The scout has one sub-action of 4, whose last choice is forbidden at first; guards have 2 × 5.
    assert view.available[0].astype(int).tolist() == [
        [1, 1, 1, 0, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 1, 1, 1, 1, 1],
        [1, 1, 0, 0, 1, 1, 1, 1, 1],
    ]
    assert view.observation[0, 0].tolist() == [1, 0, 0, 0, 1, 0, 0]
    assert view.observation[0, 1, 4:].tolist() == [0, 1, 0]
    assert np.array_equal(view.state[:, 0, 3:7], view.observation[:, 1, :4])
    generator = np.random.default_rng(0)
    for step_number in range(1, 7):
        step = env.step(random_actions(env, view, generator))
        view = step.snapshot
        assert view.available is not None
        if step_number < 3:
            assert view.alive.all()
            assert step.reward[0].tolist() == [1.0, 1.0, 1.0]  # mean of 1, 0 and 2
        elif step_number < 6:
            assert view.alive[0].tolist() == [True, True, False]
            assert view.available[0, 2].astype(int).tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 0]
            assert not step.terminated.any()
            assert not step.truncated.any()
    assert step.truncated.all()
    assert not step.terminated.any()
    assert view.alive.all()  # the next episode
    assert step.final is not None
    assert not step.final.alive.any()
    # 3 steps of (1 + 0 + 2) / 3, then 3 steps of 1 / 3.
    assert [(e.slot, e.total_return, e.length) for e in step.episodes] == [(0, 4.0, 6), (1, 4.0, 6)]


@pytest.mark.parametrize(
    ("reward", "given", "total", "per_agent"),
    [("mean", [2.0, 2.0], 8.0, 8.0), ("sum", [4.0, 4.0], 16.0, 8.0), ("own", [1.0, 3.0], 16.0, 8.0)],
)
def test_rewards_are_shared_as_chosen(
    strange: Any, reward: str, given: list[float], total: float, per_agent: float
) -> None:
    env = strange("walkers", 1, workers=1, reward=reward)
    env.reset(slot_seeds(0, "test", 1))
    for _ in range(4):
        step = env.step(np.zeros((1, 2, 3)))
        assert step.reward[0].tolist() == given
    assert (step.episodes[0].total_return, step.episodes[0].return_per_agent) == (total, per_agent)


def test_continuous_actions_are_rescaled_to_bounds_and_padding_is_ignored(strange: Any) -> None:
    env = strange("walkers", 2, agent_id=False)
    assert env.spec.action.used == (2, 3)
    assert env.spec.state_size == 2
    env.reset(slot_seeds(0, "test", 2))
    actions = np.tile([[-1.0, 0.5, 77.0], [-0.25, 9.0, -9.0]], (2, 1, 1))
    view = env.step(actions).snapshot
    assert view.observation[0].tolist() == [[0.0, 7.5, 0.0], [-0.25, 1.0, -1.0]]
    assert view.state[0, :, 0].tolist() == [1.0, 1.0]
    assert view.available is None
    assert env.identity()["critic_input"] == "state()"


def test_a_slot_depends_on_its_seed_alone(strange: Any) -> None:
    many, one = strange("uneven", 3), strange("uneven", 1, workers=1)
    seeds = slot_seeds(5, "test", 3)
    view, alone = many.reset(seeds), one.reset(seeds[2:])
    generator = np.random.default_rng(1)
    starts = []
    for _ in range(14):
        starts.append(float(view.observation[2, 1, 0]))
        assert np.array_equal(view.observation[2], alone.observation[0])
        assert np.array_equal(view.state[2], alone.state[0])
        actions = random_actions(many, view, generator)
        step, step_alone = many.step(actions), one.step(actions[2:])
        assert np.array_equal(step.reward[2], step_alone.reward[0])
        view, alone = step.snapshot, step_alone.snapshot
    assert len(set(starts)) == 3  # three episodes, three starts
    assert len({float(x) for x in view.observation[:, 1, 0]}) == 3


def test_saved_state_starts_the_next_episodes(strange: Any) -> None:
    env, other = strange("walkers", 2), strange("walkers", 2)
    env.reset(slot_seeds(0, "test", 2))
    saved = env.state_dict()
    for _ in range(4):
        step = env.step(np.zeros((2, 2, 3)))
    other.load_state_dict(saved)
    assert np.array_equal(other.snapshot().state, step.snapshot.state)
    with pytest.raises(UserError, match=r"saved seeds has shape \(1,\); allowed: \(2,\)"):
        other.load_state_dict({"seeds": saved["seeds"][:1], "episodes": saved["episodes"]})


def test_without_auto_reset_ended_slots_freeze(strange: Any) -> None:
    env = strange("walkers", 2, auto_reset=False)
    env.reset(slot_seeds(0, "test", 2))
    reported = 0
    for number in range(6):
        step = env.step(np.full((2, 2, 3), 0.1 * number))
        reported += len(step.episodes)
        assert step.terminated.tolist() == [number == 3] * 2
        assert (step.final is None) == (number != 3)
        if number >= 3:
            assert step.snapshot.observation[0, 1, :3] == pytest.approx(0.3)
        if number > 3:
            assert not step.reward.any()
    assert reported == 2


def test_endless_episodes_are_cut(strange: Any) -> None:
    env = strange("Endless", 1, workers=1, episode_limit=5)
    env.reset(slot_seeds(0, "test", 1))
    flags = [bool(env.step(np.zeros((1, 2, 3))).truncated[0]) for _ in range(10)]
    assert flags == [False] * 4 + [True] + [False] * 4 + [True]


@pytest.mark.parametrize("name", ["sometimes_dies", "sometimes_raises"])
def test_failing_environments_are_replaced_and_counted(strange: Any, name: str) -> None:
    """Some episodes kill the process or raise at their second step; the others end after four steps as always."""
    env = strange(name, 4)
    view = env.reset(slot_seeds(0, "test", 4))
    fate = view.state[:, 0, 1] < -0.5  # what the environment itself looks at
    whole, lost = 0, 0
    steps_of_episode = np.zeros(4, dtype=int)
    for _ in range(24):
        step = env.step(np.zeros((4, 2, 3)))
        steps_of_episode += 1
        cut = step.truncated
        lost += int(cut.sum())
        whole += len(step.episodes)
        assert (steps_of_episode[cut] <= 4).all()
        for episode in step.episodes:
            assert (episode.length, episode.total_return) == (4, 8.0)
            assert not fate[episode.slot]
        over = step.terminated | step.truncated
        steps_of_episode[over] = 0
        fate[over] = step.snapshot.state[over, 0, 1] < -0.5
        assert not step.reward[cut].any()
    assert env.restarts > 0
    assert lost >= env.restarts
    assert whole > 5


def test_a_failure_during_evaluation_starts_another_episode(strange: Any) -> None:
    env = strange("sometimes_raises", 6, auto_reset=False)
    view = env.reset(slot_seeds(1, "test", 6))
    doomed = int((view.state[:, 0, 1] < -0.5).sum())
    assert doomed
    episodes, lost = [], 0
    for _ in range(16):
        step = env.step(np.zeros((6, 2, 3)))
        episodes += step.episodes
        lost += int(step.truncated.sum())  # so that a recurrent policy forgets the lost episode
    assert lost >= doomed
    assert sorted(e.slot for e in episodes) == list(range(6))
    assert all((e.length, e.total_return) == (4, 8.0) for e in episodes)
    assert env.restarts >= doomed


@pytest.mark.parametrize(
    ("name", "why"),
    [("always_dies", "its process died, killed by signal 9"), ("always_raises", "RuntimeError: a wheel came off")],
)
def test_what_always_fails_is_reported_in_one_line(strange: Any, name: str, why: str) -> None:
    env = strange(name, 2)
    pids = process_ids(env)
    env.reset(slot_seeds(0, "test", 2))
    with pytest.raises(UserError, match=r"failed 4 times without finishing an episode in between") as error:
        play(env, 20)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("name", ["sometimes_dies", "sometimes_raises"])
def test_episodes_are_lost_up_to_a_share(strange: Any, name: str) -> None:
    why = "its process died, killed by signal 9" if name == "sometimes_dies" else "RuntimeError: a wheel came off"
    env = strange(name, 4, lost_share=0.01)
    env.reset(slot_seeds(0, "test", 4))
    with pytest.raises(UserError, match=rf"\d+ of \d+ episodes were lost, most often because: {why}") as error:
        play(env, 100)
    assert "fix the environment, or raise lost_share = 0.01" in str(error.value)
    assert "\n" not in str(error.value)
    env = strange(name, 4, lost_share=1.0)
    env.reset(slot_seeds(0, "test", 4))
    play(env, 24)
    assert [words.startswith(why) for words in env.lost_episodes] == [True], "one kind, named once"
    assert sum(env.lost_episodes.values()) > 3


def test_a_lost_episode_is_named_in_training_and_in_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once for training and evaluation together, whatever happens later."""
    settings: dict[str, Scalar] = {
        "env": "strange_environments:sometimes_raises",
        "lost_share": 1.0,
        "total_steps": 160,
    }
    small: dict[str, Scalar] = {
        "rollout_length": 20,
        "rollout_threads": 4,
        "hidden_size": 8,
        "epochs": 1,
        "evaluation_episodes": 4,
    }
    (run,) = fp3o.train("pettingzoo/strange/full/mappo", [0], settings | small, tmp_path, device="cpu", path="eager")
    said = capsys.readouterr().err
    assert said.count("an episode was lost, and its environment is built anew: RuntimeError: a wheel came off") == 1
    volatile = json.loads((run.path / "run.json").read_text())["volatile"]
    assert volatile["lost_episodes"] > 0
    assert (
        f"episodes lost since the last resume: RuntimeError: a wheel came off ({volatile['lost_episodes']})"
        in (volatile["notes"])
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Ghost", "rewards name agents that are not in possible_agents: ghost"),
        ("Unpaid", "b's reward is NaN or infinite"),
        ("Shrinking", "b's observation has 2 numbers, its space says 3"),
        ("Forgetful", r"state\(\) has 1 numbers, after the first reset it had 2"),
        ("Broken", "a's observation contains NaN or infinity"),
        ("Hidden", "no observation of agents that still take part: b"),
    ],
)
def test_unsound_numbers_are_named_and_reach_nobody(strange: Any, name: str, why: str) -> None:
    env = strange(name, 1, workers=1)
    env.reset(slot_seeds(0, "test", 1))
    for _ in range(3):
        step = env.step(np.full((1, 2, 3), 0.5))
        assert step.truncated[0]
        assert step.final is not None
        for view in (step.snapshot, step.final):
            assert not view.observation[:, :, :3].any()  # all they saw was the start: zeros
            assert np.isfinite(view.state).all()
        assert not step.reward.any()
    with pytest.raises(UserError, match=f"failed 4 times without finishing an episode in between: {why}$"):
        env.step(np.full((1, 2, 3), 0.5))


def test_of_what_a_worker_writes_the_last_lines_are_kept(strange: Any) -> None:
    env = strange("Chatty", 1, workers=1)
    env.reset(slot_seeds(0, "test", 1))
    play(env, 2)  # two million characters
    kept = env._workers[0].child._written
    assert len(kept) <= KEPT
    with pytest.raises(UserError, match=r"its process died, exit status 3: the last line$"):
        play(env, 20)


def test_processes_that_an_environment_starts_end_with_it(strange: Any) -> None:
    env = strange("Forking", 2)
    view = env.reset(slot_seeds(0, "test", 2))
    started = [int(view.state[n, 0, 0]) for n in range(2)]
    assert all(alive(pid) for pid in started)
    env.close()
    deadline = time.monotonic() + 30.0
    while any(alive(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in started)


def test_check_is_not_held_up_by_processes_that_are_left_behind() -> None:
    fits, text = words("strange_environments:Forking", seconds=60.0)
    assert fits, text


def test_a_hanging_step_is_reported_and_its_process_ended(strange: Any) -> None:
    env = strange("hangs", 2, timeout=1.0)
    pids = process_ids(env)
    env.reset(slot_seeds(0, "test", 2))
    env.step(np.zeros((2, 2, 3)))
    with pytest.raises(UserError, match=r"environment [01] has not responded for 1 s; it hangs$"):
        env.step(np.zeros((2, 2, 3)))
    assert not any(alive(pid) for pid in pids)


def test_a_hanging_factory_is_reported(strange: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "START_SECONDS", 1.0)
    with pytest.raises(UserError, match=r"building and resetting it has taken more than 2 s; it hangs$"):
        strange("hangs_at_birth", 1, timeout=2.0)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("dies_at_birth", "the process that builds it died, exit status 7"),
        ("fails_at_birth", "the factory fails: FileNotFoundError: no map here"),
        ("number", "the factory returns a int, no ParallelEnv"),
        ("Turns", "turn_based_aec_to_parallel(env) where they really move one after the other"),
        ("Mixed", "some agents have Box actions and others discrete ones"),
        ("Written", "none of Box, Discrete, MultiDiscrete"),
        ("Nameless", "it has no `possible_agents`"),
        ("unevn", "has no 'unevn'; did you mean 'uneven'?"),
    ],
)
def test_unusable_environments_are_refused_in_one_line(strange: Any, name: str, why: str) -> None:
    with pytest.raises(UserError) as error:
        strange(name, 1, workers=1)
    assert str(error.value).startswith(f"pettingzoo/strange (strange_environments:{name}): ")
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_input_is_one_clear_line(strange: Any) -> None:
    with pytest.raises(UserError, match="unknown environment 'chess' in pettingzoo/chess; allowed: env=module:factory"):
        make("pettingzoo", "chess", 1)
    with pytest.raises(UserError, match="allowed: mean, sum, own"):
        strange("walkers", 1, reward="median")
    with pytest.raises(UserError, match=r"timeout = 0\.0 is not allowed"):
        strange("walkers", 1, timeout=0.0)
    env = strange("walkers", 1, workers=1)
    with pytest.raises(UserError, match="step before reset"):
        env.step(np.zeros((1, 2, 3)))
    env.reset(slot_seeds(0, "test", 1))
    for actions in (np.full((1, 2, 3), np.nan), np.full((1, 2, 3), np.inf), np.zeros((1, 2, 2))):
        with pytest.raises(UserError, match="allowed"):
            env.step(actions)
    masked = strange("uneven", 1, workers=1)
    masked.reset(slot_seeds(0, "test", 1))
    with pytest.raises(UserError, match="action 3 of scout_0 in environment 0 is not legal now"):
        masked.step(np.array([[[3, 0], [0, 0], [0, 0]]]))
    with pytest.raises(UserError, match="action 2 of agent 1 in environment 0 does not exist; allowed: 0 to 1"):
        masked.step(np.array([[[0, 0], [2, 0], [0, 0]]]))


def test_workers_go_when_closed_and_when_the_parent_is_killed(strange: Any) -> None:
    env = strange("walkers", 2)
    pids = process_ids(env)
    assert all(alive(pid) for pid in pids)
    env.close()
    env.close()
    assert not any(alive(pid) for pid in pids)
    script = (
        "import sys, time; sys.path[:0] = sys.argv[1:]\n"
        "from fp3o.envs import make; from fp3o.config.options import PettingzooOptions\n"
        "env = make('pettingzoo', 'x', 1, options=PettingzooOptions(env='strange_environments:Forking'))\n"
        "from fp3o.envs.interface import slot_seeds; print(env._workers[0].child.pid, flush=True)\n"
        "print(int(env.reset(slot_seeds(0, 'test', 1)).state[0, 0, 0]), flush=True); time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(ROOT), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    children = [int(parent.stdout.readline()) for _ in range(2)]  # a worker, and what its environment started
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 30.0
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, children))


@pytest.mark.parametrize(
    ("name", "agents", "observation", "state", "kind"),
    [
        ("simple-spread", 3, 18 + 3, 54, "categorical"),
        pytest.param(
            *("multiwalker", 3, 31 + 3, 75, "gaussian"),
            marks=pytest.mark.skipif(find_spec("Box2D") is None, reason="Box2D is not installed (ARM Linux has none)"),
        ),
        ("mamujoco-halfcheetah-6x1", 6, None, None, "gaussian"),
    ],
)
def test_games_of_other_packages_run(
    started: list[PettingzooBatch], name: str, agents: int, observation: int | None, state: int | None, kind: str
) -> None:
    env = make("pettingzoo", name, 2, threads=1)
    assert isinstance(env, PettingzooBatch)
    started.append(env)
    assert (env.spec.agents, env.spec.action.kind) == (agents, kind)
    if observation:
        assert (env.spec.observation_size, env.spec.state_size) == (observation, state)
    view = env.reset(slot_seeds(0, "test", 2))
    generator = np.random.default_rng(0)
    for _ in range(60):
        step = env.step(random_actions(env, view, generator))
        view = step.snapshot
        assert np.isfinite(view.observation).all()
        assert np.isfinite(step.reward).all()
    assert env.restarts == 0
    identity = env.identity()
    assert identity["engine"] == f"pettingzoo {name}"
    assert resolve(Cell.parse(f"pettingzoo/{name}/full/mappo")).options.env == ""  # the name alone is enough
    assert len(identity["versions"]["source_sha256"]) == 16


def test_adapter_plays_spread_as_the_package_does(started: list[PettingzooBatch]) -> None:
    """The same seeds and actions through the adapter and directly."""
    from mpe2 import simple_spread_v3

    from fp3o.envs.pettingzoo.worker import episode_seed

    env = make("pettingzoo", "simple-spread", 1, options=PettingzooOptions(agent_id=False, reward="own"))
    assert isinstance(env, PettingzooBatch)
    started.append(env)
    seeds = slot_seeds(3, "test", 1)
    view = env.reset(seeds)
    direct = simple_spread_v3.parallel_env()
    generator = np.random.default_rng(0)
    for episode in range(2):
        seen, _ = direct.reset(seed=episode_seed(int(seeds[0]), episode))
        for _ in range(25):
            assert np.array_equal(view.observation[0], np.stack(list(seen.values())))
            assert np.array_equal(view.state[0, 0], direct.state())
            actions = generator.integers(5, size=(1, 3, 1))
            seen, rewards, _, _, _ = direct.step({a: int(actions[0, i, 0]) for i, a in enumerate(direct.agents)})
            step = env.step(actions)
            assert step.reward[0].tolist() == list(rewards.values())
            view = step.snapshot
        assert step.truncated[0]


def words(name: str, **options: Any) -> tuple[bool, str]:
    report = check(name, **options)
    assert all("\n" not in line for line in report.lines)
    return report.fits, "\n".join(report.lines)


def test_check_says_what_fits() -> None:
    fits, text = words("strange_environments:uneven")
    assert fits
    for line in (
        "yes:  3 agents: scout_0, guard_0, guard_1",
        "yes:  observations of 3, 4 numbers; shorter ones are padded to 4",
        "yes:  discrete actions: 4, 2 × 5 choices",
        "note: agents are of 2 types",
        "note: it has no state(): the critic sees all agents' observations, 11 numbers",
        "note: agents leave before the episode ends",
        "note: agents get different rewards",
        "yes:  the same seed and actions give the same observations",
        "It fits: fp3o train pettingzoo/my-game/full/fp3o --set env=strange_environments:uneven",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("strange_environments:always_raises", "no:   playing random actions fails: RuntimeError: a wheel came off"),
        ("strange_environments:always_dies", "no:   its process died, killed by signal 9"),
        ("strange_environments:Broken", "a's observation contains NaN or infinity"),
        ("strange_environments:Ghost", "no:   rewards name agents that are not in possible_agents: ghost"),
        ("strange_environments:Leaver", "no:   its process exited early, exit status 0"),
        ("strange_environments:Mixed", "no:   some agents have Box actions and others discrete ones"),
        ("no_such_module:env", "no:   module 'no_such_module' cannot be imported: ModuleNotFoundError"),
        ("chess", "no:   'chess' is not of the form module:factory; known by name: simple-spread"),
    ],
)
def test_check_says_what_does_not_fit(name: str, line: str) -> None:
    fits, text = words(name)
    assert not fits
    assert line in text
    assert text.endswith("It does not fit; the line marked `no` says what to change.")


def test_check_is_not_held_up_by_a_hang() -> None:
    fits, text = words("strange_environments:hangs", seconds=8.0)
    assert not fits
    assert "no:   it has not responded for 8 s: it hangs" in text
    assert "yes:  2 agents: a, b" in text


def test_check_foresees_the_memory_of_a_rollout() -> None:
    # 4 bytes × 2 agents × (own picture + id of 2 + state of 2) × 1600 steps × 5 seeds
    _, text = words("strange_environments:Painters")
    assert "a rollout needs 11 GB (5 seeds, 1600 steps each), this machine has " in text


def test_check_notices_that_a_team_of_rivals_earns_nothing() -> None:
    fits, text = words("strange_environments:Rivals")
    assert fits
    assert "note: rewards sum to 0 over the agents in every step" in text
    assert "--set reward=own" in text


def test_a_package_that_is_missing_can_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mpe2", "mpe2.simple_spread_v3"):  # as if it were not there; another test may have imported it
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unfit, match=r"module 'mpe2.simple_spread_v3' cannot be imported: .*; pip install 'mpe2'$"):
        load_factory("simple-spread", {})


def test_a_factory_is_given_arguments(strange: Any) -> None:
    assert strange("Sized", 1, env_args="size=5", agent_id=False).spec.observation_size == 5
    with pytest.raises(UserError, match="the factory fails: TypeError: size is 'big'"):
        strange("Sized", 1, env_args="size=big")
    fits, text = words("strange_environments:Sized", arguments="size=4,name=it")
    assert fits, text
    assert "yes:  observations of 4 numbers" in text
    assert text.endswith("--set env=strange_environments:Sized --set env_args=size=4,name=it")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", {}),
        (
            "size=3,name=a=b,fast=true,limit=null,x=-1.5e3",
            {"size": 3, "name": "a=b", "fast": True, "limit": None, "x": -1500.0},
        ),
        ('{"steps": [1, 2], "name": "a,b"}', {"steps": [1, 2], "name": "a,b"}),
    ],
)
def test_arguments_of_a_factory_are_read(text: str, meant: dict[str, Any]) -> None:
    assert parse_arguments(text) == meant


@pytest.mark.parametrize("text", ["size", "=3", "a-b=3", "size=3,", "{size: 3}", "{}x"])
def test_arguments_that_are_none_are_one_line(text: str) -> None:
    with pytest.raises(UserError, match="is not understood; allowed: name=value,name=value or a JSON object"):
        parse_arguments(text)


def test_check_notices_missing_seeds() -> None:
    fits, text = words("strange_environments:Unseeded")
    assert fits
    assert "note: the same seed and actions give different observations" in text


def test_the_example_of_the_documentation_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/own-environment.md shows this very file, and it runs."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    fits, text = words("meeting:Meeting")
    assert fits, text
    assert "PettingZoo's own parallel_api_test passes" in text
    source = (ROOT / "docs" / "examples" / "meeting.py").read_text()
    assert source in (ROOT / "docs" / "own-environment.md").read_text()
    env = make("pettingzoo", "meeting", 2, options=PettingzooOptions(env="meeting:Meeting"))
    env.reset(slot_seeds(0, "test", 2))
    episodes = []
    for _ in range(30):
        # Both walk towards each other: whoever stands left goes right.
        seen = env.snapshot().observation
        actions = np.where(seen[:, :, 0] < seen[:, :, 1], 2, 0)[:, :, None]
        actions[np.abs(seen[:, 0, 0] - seen[:, 0, 1]) < 0.4, 1] = 1  # neighbours: one waits
        episodes += env.step(actions).episodes
    env.close()
    assert len(episodes) > 15
    assert np.mean([e.total_return for e in episodes]) > 0.8


def test_a_file_called_like_an_installed_module_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "calendar.py").write_text("def env(): ...\n")
    (tmp_path / "numpy.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    fits, text = words("calendar:env")
    assert not fits
    assert "no:   calendar.py has the name of an installed module (" in text
