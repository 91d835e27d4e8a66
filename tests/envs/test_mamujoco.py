"""MAMuJoCo: recorded observations and steps of the release, gymnasium's own environments, determinism, errors."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from pathlib import Path
from typing import Any, Literal, cast

import gymnasium
import mujoco
import numpy as np
import pytest
from mujoco import batch
from numpy.typing import NDArray

from fp3o import machine
from fp3o.config.domains import OPTIONS, REVISIONS
from fp3o.config.options import MamujocoOptions
from fp3o.envs.interface import Transition, episode_generator, slot_seeds
from fp3o.envs.mamujoco import MamujocoBatch, engine, make, models, task_names
from fp3o.envs.mamujoco.bodies import find
from fp3o.envs.mamujoco.kernels import run_slots
from fp3o.errors import UserError

GOLDEN = Path(os.environ.get("FP3O_GOLDEN", Path(__file__).parents[1] / "data" / "golden")) / "envs" / "mamujoco"
OBSERVED = sorted(GOLDEN.glob("*.obs.npz"))
STEPPED = sorted(GOLDEN.glob("*.traj.*.npz"))
PAPER = ("reacher-2x1", "ant-2x4", "walker2d-2x3", "hopper-3x1", "halfcheetah-6x1", "swimmer-8x2")
FIXED = [name for name in task_names() if "<" not in name]
RAW = MamujocoOptions(standardise=False)


def task_of(path: Path) -> str:
    """Ant_2x4.obs.npz is ant-2x4, manyagent_swimmer_8x2.traj.mj231.npz is swimmer-8x2."""
    return path.name.split(".")[0].lower().removeprefix("manyagent_").replace("_", "-")


def engine_of(path: Path) -> str:
    return path.name.split(".")[2]


def put(env: MamujocoBatch, **arrays: NDArray[Any]) -> None:
    """Set parts of the state of every slot."""
    env.reset(slot_seeds(0, "put", env.slots))
    env.load_state_dict({**env.state_dict(), **arrays})


def actions_for(env: MamujocoBatch, steps: int, seed: int = 0) -> NDArray[np.float32]:
    """[steps, N, A, K] beyond the control range now and then; slot i's do not depend on N."""
    shape = (steps, env.spec.agents, env.spec.action.width)
    each = [np.random.default_rng([seed, slot]).normal(0.0, 0.7, shape) for slot in range(env.slots)]
    return np.stack(each, axis=1).astype(np.float32)


def play(env: MamujocoBatch, actions: NDArray[np.float32]) -> list[NDArray[Any]]:
    """Everything a step returns, copied."""
    kept: list[NDArray[Any]] = []
    for action in actions:
        after = env.step(action)
        parts = (after.snapshot.observation, after.snapshot.state, after.reward, after.terminated, after.truncated)
        kept += [part.copy() for part in parts]
    return kept


def assert_same_bits(one: list[NDArray[Any]], other: list[NDArray[Any]]) -> None:
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


def tracked_in(stored: Any, when: str, positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the reward measures, as the files spell it for Reacher, Ant and the rest."""
    if f"fingertip_xpos{when}" in stored:
        return np.asarray(stored[f"fingertip_xpos{when}"] - stored[f"target_xpos{when}"])
    if f"torso_xpos{when}" in stored:
        return np.asarray(stored[f"torso_xpos{when}"])
    return np.asarray(positions[:, :3] * [1.0, 0.0, 0.0])


def test_golden_files_are_found() -> None:
    assert {task_of(path) for path in OBSERVED} >= set(PAPER)
    assert {task_of(path) for path in STEPPED} >= set(PAPER)


@pytest.mark.parametrize("path", OBSERVED, ids=lambda path: path.name)
def test_observations_are_the_release(path: Path) -> None:
    stored = np.load(path)
    task = task_of(path)
    positions, velocities = stored["qpos"], stored["qvel"]
    raw, scaled = make(task, len(positions), options=RAW), make(task, len(positions))
    agents, longest = stored["local_tokens"].shape
    assert raw.layout.local == tuple(map(tuple, stored["local_tokens"].tolist()))
    for env in (raw, scaled):
        put(env, qpos=positions, qvel=velocities, tracked=tracked_in(stored, "", positions))
    # Rows with invented contact forces show where they would stand; in training they were zero.
    rows = stored["cfrc_zero"] == 1 if "cfrc_zero" in stored else np.ones(len(positions), dtype=bool)
    close: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(raw.snapshot().observation[:, :, :longest], stored["local_obs"], **close)
    np.testing.assert_allclose(raw.snapshot().state[rows, 0, :-agents], stored["state_raw"][rows], **close)
    np.testing.assert_array_equal(
        raw.snapshot().observation[:, :, longest:], np.tile(np.eye(agents), (len(rows), 1, 1))
    )
    np.testing.assert_allclose(scaled.snapshot().observation, stored["actor_input"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(scaled.snapshot().state[rows], stored["critic_input"][rows], rtol=0, atol=1e-6)
    assert [list(one) for one in raw.layout.actuators] == stored["actuator_of_agent"].tolist()
    by_joint = make(task, 1, options=MamujocoOptions(action_order="joint"))
    assert [list(one) for one in by_joint.layout.actuators] == stored["joint_act_ids"].tolist()


def test_measured_contact_forces_stand_where_the_release_has_them() -> None:
    for path in OBSERVED:
        stored = np.load(path)
        if "cfrc_ext" not in stored:
            continue
        slots = len(stored["qpos"])
        env = make(task_of(path), slots, options=MamujocoOptions(ant_contact_forces="measured"))
        forces = np.clip(stored["cfrc_ext"].reshape(slots, -1), -1.0, 1.0)
        put(env, qpos=stored["qpos"], qvel=stored["qvel"], forces=forces)
        np.testing.assert_allclose(env.snapshot().state, stored["critic_input"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("path", STEPPED, ids=lambda path: path.name)
def test_single_steps_are_the_recorded_engine(path: Path) -> None:
    stored = np.load(path)
    engine = engine_of(path)
    # mj231: MuJoCo 2.3.1, which 3.x equals with margins halved (hm); 4 integrates free joints otherwise.
    major, halved = engine[2], engine.endswith("hm") or engine[2] == "2"
    wanted = "4" if major == "4" else "3"
    if mujoco.__version__[0] != wanted:
        pytest.skip(f"not applicable: {engine} is compared under MuJoCo {wanted}, installed is {mujoco.__version__}")
    count = len(stored["qpos"])
    margins = MamujocoOptions(contact_margins="halved" if halved else "model")
    raw, scaled = (
        make(task_of(path), count, auto_reset=False, options=dataclasses.replace(margins, standardise=standardise))
        for standardise in (False, True)
    )
    actions = stored["action"].reshape(count, raw.spec.agents, raw.spec.action.width)
    for env in (raw, scaled):
        tracked = tracked_in(stored, "_before", stored["qpos"])
        start = {name: stored[name] for name in ("qpos", "qvel", "qacc_warmstart")}
        put(env, **start, tracked=tracked)
        after = env.step(actions)
        saved = env.state_dict()
        np.testing.assert_allclose(saved["qpos"], stored["qpos_next"], rtol=0, atol=1e-9)
        np.testing.assert_allclose(saved["qvel"], stored["qvel_next"], rtol=0, atol=1e-8)
        np.testing.assert_allclose(after.reward[:, 0], stored["reward"], rtol=0, atol=1e-9)
        np.testing.assert_array_equal(after.terminated, stored["terminated"] == 1)
        expected = tracked_in(stored, "_after", stored["qpos_next"])
        np.testing.assert_allclose(saved["tracked"], expected, rtol=0, atol=1e-9)
    at, agents, longest = stored["obs_at"], raw.spec.agents, len(raw.layout.local[0])
    close: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(raw.snapshot().observation[at, :, :longest], stored["after_local_obs"], **close)
    np.testing.assert_allclose(raw.snapshot().state[at, 0, :-agents], stored["after_state_raw"], **close)
    np.testing.assert_allclose(scaled.snapshot().observation[at], stored["after_actor_input"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(scaled.snapshot().state[at], stored["after_critic_input"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("path", [path for path in STEPPED if engine_of(path) == "mj317hm"], ids=lambda path: path.name)
def test_models_have_the_recorded_constants(path: Path) -> None:
    stored = np.load(path)
    options = MamujocoOptions()
    body, _ = find(task_of(path), options)
    model = models.build(body, options)
    assert body.frame_skip == stored["frame_skip"]
    np.testing.assert_allclose(model.opt.timestep * body.frame_skip, stored["dt"], rtol=1e-12)
    compared = 0
    for key in stored.files:
        if not key.startswith("model_"):
            continue
        name = key.removeprefix("model_")
        ours = getattr(model.opt, name[4:]) if name.startswith("opt_") else getattr(model, name)
        np.testing.assert_allclose(ours, stored[key], rtol=1e-12, atol=1e-15, err_msg=name)
        compared += 1
    assert compared >= 15
    assert [model.joint(i).name for i in range(model.njnt)] == stored["joint_names"].tolist()
    assert [model.body(i).name for i in range(model.nbody)] == stored["body_names"].tolist()


GYMNASIUM: dict[str, tuple[str, dict[str, Any], MamujocoOptions]] = {
    "halfcheetah-6x1": ("HalfCheetah-v4", {}, RAW),
    "hopper-3x1": ("Hopper-v4", {}, RAW),
    "walker2d-2x3": ("Walker2d-v4", {}, RAW),
    "ant-2x4": ("Ant-v4", {}, dataclasses.replace(RAW, ant_contact_forces="omitted")),
    "ant-4x2": ("Ant-v4", {"use_contact_forces": True}, dataclasses.replace(RAW, ant_contact_forces="measured")),
    "reacher-2x1": ("Reacher-v4", {}, dataclasses.replace(RAW, reacher_goal="disc")),
}


@pytest.mark.parametrize("task", GYMNASIUM)
@pytest.mark.filterwarnings("ignore")
def test_free_running_equals_gymnasium(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1000 steps of 4 environments, resets included; both draw their start states from the same generators."""
    monkeypatch.chdir(tmp_path)  # where MuJoCo may leave a log about gymnasium's files
    name, arguments, options = GYMNASIUM[task]
    steps, slots = (250 if options.ant_contact_forces == "measured" else 1000), 4
    options = dataclasses.replace(options, contact_margins="model", episode_limit=300)
    env = make(task, slots, options=options)
    theirs = [gymnasium.make(name, max_episode_steps=300, **arguments) for _ in range(slots)]
    seeds = slot_seeds(3, "gymnasium", slots)
    episode = [0] * slots

    def restart(slot: int) -> NDArray[np.float64]:
        theirs[slot].unwrapped.np_random = episode_generator(int(seeds[slot]), episode[slot])
        return np.asarray(theirs[slot].reset()[0])

    size = env.spec.state_size - env.spec.agents
    snapshot = env.reset(seeds)
    expected = np.stack([restart(slot) for slot in range(slots)])
    np.testing.assert_array_equal(snapshot.state[:, 0, :size], expected.astype(np.float32))
    ended = 0
    for action in actions_for(env, steps).astype(np.float64):
        after = env.step(action)
        for slot in range(slots):
            flat = action[slot].ravel()
            seen, reward, terminated, truncated, _ = theirs[slot].step(flat)
            assert abs(after.reward[slot, 0] - reward) <= 1e-12
            assert (after.terminated[slot], after.truncated[slot]) == (terminated, truncated)
            if terminated or truncated:
                assert after.final is not None
                np.testing.assert_array_equal(after.final.state[slot, 0, :size], seen.astype(np.float32))
                episode[slot] += 1
                ended += 1
                seen = restart(slot)
            np.testing.assert_array_equal(after.snapshot.state[slot, 0, :size], seen.astype(np.float32))
            data = cast(Any, theirs[slot].unwrapped).data
            saved = env.state_dict()
            np.testing.assert_array_equal(saved["qpos"][slot], data.qpos)
            np.testing.assert_array_equal(saved["qvel"][slot], data.qvel)
    assert ended >= slots * (steps // 300)
    for one in theirs:
        one.close()


SIZES = {  # actor input, critic input, actions per agent: the paper gives Walker's 11
    "reacher-2x1": (2, 12, 13, 1),
    "ant-2x4": (2, 27, 113, 4),
    "walker2d-2x3": (2, 11, 19, 3),
    "hopper-3x1": (3, 12, 14, 1),
    "halfcheetah-6x1": (6, 18, 23, 1),
    "swimmer-8x2": (8, 22, 44, 2),
}


@pytest.mark.parametrize("task", PAPER)
def test_sizes(task: str) -> None:
    env = make(task, 2)
    spec = env.spec
    assert (spec.agents, spec.observation_size, spec.state_size, spec.action.width) == SIZES[task]
    snapshot = env.reset(slot_seeds(0, "sizes", 2))
    assert snapshot.observation.shape == (2, spec.agents, spec.observation_size)
    assert snapshot.state.shape == (2, spec.agents, spec.state_size)
    assert snapshot.observation.dtype == snapshot.state.dtype == np.float32
    assert snapshot.available is None
    assert snapshot.alive.all()
    assert spec.episode_limit == 1000


@pytest.mark.parametrize("task", FIXED)
def test_every_partition_runs(task: str) -> None:
    env = make(task, 3)
    env.reset(slot_seeds(1, "partitions", 3))
    body, share = find(task, MamujocoOptions())
    assert sorted(name for own in share for name in own) == sorted(joint.name for joint in body.joints)
    assert sorted(number for own in env.layout.actuators for number in own) == list(range(len(body.joints)))
    for action in actions_for(env, 5):
        after = env.step(action)
    assert np.isfinite(after.snapshot.observation).all()
    np.testing.assert_allclose(after.snapshot.observation.mean(axis=2), 0.0, atol=1e-6)
    np.testing.assert_allclose(after.snapshot.state.std(axis=2), 1.0, atol=1e-5)
    assert (after.reward == after.reward[:, :1]).all()


def test_any_number_of_swimmer_segments() -> None:
    """Two driven joints are gymnasium's own swimmer but for the halved time step."""
    env = make("swimmer-3x1", 1)
    assert (env.spec.agents, env.spec.action.width, env.spec.state_size) == (3, 1, 4 + 6 + 3)
    ours = models.build(find("swimmer-2x1", MamujocoOptions())[0], MamujocoOptions())
    theirs = cast(Any, gymnasium.make("Swimmer-v4").unwrapped).model
    for name in ("body_mass", "body_inertia", "body_pos", "jnt_axis", "dof_armature", "actuator_gear"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12)
    np.testing.assert_allclose(ours.jnt_range[3:], theirs.jnt_range[3:], rtol=1e-12)
    assert ours.opt.timestep == theirs.opt.timestep / 2


SHORT = MamujocoOptions(episode_limit=30)  # so that every task resets within a test


@pytest.mark.parametrize("task", PAPER)
def test_same_bits_whatever_number_and_threads(task: str) -> None:
    seeds = slot_seeds(5, "bits", 12)
    wide = make(task, 12, threads=1, options=SHORT)
    threaded = make(task, 12, threads=3, options=SHORT)
    for env in (wide, threaded):
        env.reset(seeds)
    actions = actions_for(wide, 40)
    everything = play(wide, actions)
    assert_same_bits(everything, play(threaded, actions))
    narrow = make(task, 2, threads=1, options=SHORT)
    narrow.reset(seeds[7:9])
    assert_same_bits([part[7:9] for part in everything], play(narrow, actions[:, 7:9]))


@pytest.mark.parametrize("task", PAPER)
def test_a_step_in_pieces_is_the_same(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where threads outnumber half of the slots, and each has a processor."""
    monkeypatch.setattr(engine, "processors", lambda: 8)
    whole, pieces = make(task, 5, threads=1, options=SHORT), make(task, 5, threads=4, options=SHORT)
    assert whole._data.task["pieces"].item() == 1
    assert pieces._data.task["pieces"].item() == find(task, SHORT)[0].frame_skip
    for env in (whole, pieces):
        env.reset(slot_seeds(6, "pieces", 5))
    actions = actions_for(whole, 40)
    assert_same_bits(play(whole, actions), play(pieces, actions))


@pytest.mark.parametrize("task", PAPER)
def test_physics_is_that_of_a_batch_of_the_library(task: str) -> None:
    """Its states after every step, to the bit; contact forces and places of bodies are in observations and rewards."""
    options = MamujocoOptions(episode_limit=10_000)
    env = make(task, 3, threads=2, options=options, auto_reset=False)
    env.reset(slot_seeds(7, "library", 3))
    theirs = batch.Batch(env._model, 3, 1)
    fields = {"qpos": env._position, "qvel": env._velocity, "qacc_warmstart": env._warmstart, "time": env._time}
    for name, ours in fields.items():
        theirs.bind(name)[...] = ours.reshape(theirs.bind(name).shape)
    for action in actions_for(env, 25):
        env.step(action)
        theirs.bind("ctrl")[...] = env._control
        theirs.step(None, env._body.frame_skip)
        for name, ours in fields.items():
            np.testing.assert_array_equal(ours.reshape(theirs.bind(name).shape), theirs.bind(name), err_msg=name)
        if not env._running.all():  # ended episodes are frozen
            break


@pytest.mark.parametrize("task", [*PAPER, "ant-4x2"])
def test_saved_and_restored_in_mid_episode(task: str) -> None:
    options = dataclasses.replace(SHORT, ant_contact_forces="measured") if task == "ant-4x2" else SHORT
    env = make(task, 3, options=options)
    env.reset(slot_seeds(6, "save", 3))
    actions = actions_for(env, 70)
    play(env, actions[:35])
    saved = env.state_dict()
    seen = [part.copy() for part in env.snapshot()[:2]]
    rest = play(env, actions[35:])
    for other in (make(task, 3, options=options), env):
        other.load_state_dict(saved)
        assert_same_bits(seen, list(other.snapshot()[:2]))
        assert_same_bits(rest, play(other, actions[35:]))


def timed() -> float:
    """What MuJoCo's timer of steps shows after some, once an engine has been made."""
    make("hopper-3x1", 1)
    model = models.load(find("hopper-3x1", MamujocoOptions())[0])
    data = mujoco.MjData(model)
    for _ in range(3):
        mujoco.mj_step(model, data)
    return float(data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration)


def test_steps_are_timed_by_a_users_clock_alone() -> None:
    assert timed() == 0
    mujoco.set_mjcb_time(time.perf_counter)
    try:
        assert timed() > 0
    finally:
        mujoco.set_mjcb_time(None)
    assert timed() == 0


def test_time_limit_truncates_and_resets() -> None:
    env = make("halfcheetah-2x3", 2, options=SHORT)
    first = env.reset(slot_seeds(2, "limit", 2)).observation.copy()
    rewards = np.zeros(2)
    for number, action in enumerate(actions_for(env, 30), start=1):
        after = env.step(action)
        rewards += after.reward[:, 0]
        assert after.truncated.all() == (number == 30)
        assert not after.terminated.any()
        assert (after.final is None) == (not after.episodes) == (number < 30)
    assert after.final is not None
    assert not (after.final.observation == after.snapshot.observation).any()
    assert not (first == after.snapshot.observation).any(), "the second episode starts elsewhere"
    assert [(episode.slot, episode.length, episode.won) for episode in after.episodes] == [(0, 30, None), (1, 30, None)]
    np.testing.assert_allclose([episode.total_return for episode in after.episodes], rewards, rtol=1e-12)
    again = make("halfcheetah-2x3", 2, options=SHORT)
    assert_same_bits([first], [again.reset(slot_seeds(2, "limit", 2)).observation])


def test_ended_slots_freeze_without_auto_reset() -> None:
    env = make("hopper-3x1", 6, auto_reset=False)
    env.reset(slot_seeds(4, "freeze", 6))
    over = np.zeros(6, dtype=bool)
    lengths: list[int] = []
    for action in actions_for(env, 200):
        before = {**env.state_dict(), "observation": env.snapshot().observation.copy()}
        after = env.step(action)
        now = {**env.state_dict(), "observation": after.snapshot.observation}
        for name in ("qpos", "qvel", "time", "length", "observation"):
            assert now[name][over].tobytes() == before[name][over].tobytes()
            assert over.all() or (now[name][~over] != before[name][~over]).any()
        assert not after.reward[over].any()
        assert not (after.terminated | after.truncated)[over].any()
        assert [episode.slot for episode in after.episodes] == np.flatnonzero(after.terminated).tolist()
        if after.final is not None:
            assert_same_bits([after.final.state[after.terminated]], [after.snapshot.state[after.terminated]])
        lengths += [episode.length for episode in after.episodes]
        over |= after.terminated
        restored = make("hopper-3x1", 6, auto_reset=False)
        restored.load_state_dict(env.state_dict())
        np.testing.assert_array_equal(restored.state_dict()["running"], ~over)
        if over.all():
            break
    assert over.all()
    assert len(lengths) == 6


def returned(task: str, action: NDArray[np.float64], **options: Any) -> tuple[MamujocoBatch, Transition]:
    """One step of three slots with this action for every agent."""
    env = make(task, 3, options=MamujocoOptions(standardise=False, **options))
    env.reset(slot_seeds(8, "options", 3))
    return env, env.step(np.broadcast_to(action, (3, env.spec.agents, env.spec.action.width)))


def test_every_corrected_variant_changes_what_it_names() -> None:
    still = np.zeros(1)
    # Driving one's own joints: the back foot's agent bends the back foot.
    pushed = np.zeros((6, 1))
    pushed[0] = 1.0
    for order, joint in (("agent", 3), ("joint", 5)):
        env, _ = returned("halfcheetah-6x1", pushed, action_order=order)
        moved = np.abs(env.state_dict()["qvel"] - returned("halfcheetah-6x1", still)[0].state_dict()["qvel"])
        assert (moved[:, 3:].argmax(axis=1) == joint - 3).all()
    # Everything for everyone.
    env, after = returned("hopper-3x1", still, observability="full")
    np.testing.assert_array_equal(after.snapshot.observation, after.snapshot.state)
    # Fewer neighbours.
    env, _ = returned("halfcheetah-6x1", still, neighbour_distance=0)
    assert env.layout.local[0] == ("q5", "v5", "q2", "q1", "v0", "v2", "v1")
    env, _ = returned("halfcheetah-6x1", still, neighbour_distance=1)
    assert env.layout.local[1] == ("q4", "v4", "q5", "q3", "q2", "q1", "v0", "v2", "v1")
    # No agent number.
    env, after = returned("walker2d-2x3", still, agent_id=False)
    assert (env.spec.observation_size, env.spec.state_size) == (9, 17)
    np.testing.assert_array_equal(after.snapshot.state[:, 0], after.snapshot.state[:, 1])
    # Hopper's forward velocity, clipped.
    env, _ = returned("hopper-3x1", still, hopper_x_velocity="shown")
    assert env.layout.local[0] == ("q3", "c3", "q4", "q5", "q2", "q1", "c0", "c2", "c1")
    # Walker's torso, and its velocities clipped.
    env, _ = returned("walker2d-2x3", still, walker2d_root="shown", walker2d_velocity="clipped")
    assert env.layout.local[0][-5:] == ("q2", "q1", "c0", "c2", "c1")
    put(env, qvel=np.full((3, 9), -12.0))
    assert env.snapshot().observation.min() == -10.0
    # Ant without the zeros.
    env, after = returned("ant-2x4", still, ant_contact_forces="omitted")
    assert env.spec.state_size == 27 + 2
    assert returned("ant-2x4", still)[1].snapshot.state[:, :, 27:111].any() == False  # noqa: E712


def test_contact_margins() -> None:
    body = find("ant-2x4", MamujocoOptions())[0]
    halved = models.build(body, MamujocoOptions(contact_margins="halved")).geom_margin
    shipped = models.build(body, MamujocoOptions(contact_margins="model")).geom_margin
    np.testing.assert_array_equal(halved, 0.005)
    np.testing.assert_array_equal(shipped, 0.01)


def test_reacher_goals() -> None:
    kinds: tuple[tuple[Literal["square", "disc"], bool], ...] = (("square", True), ("disc", False))
    for goal, corners in kinds:
        env = make("reacher-2x1", 400, options=MamujocoOptions(reacher_goal=goal))
        env.reset(slot_seeds(9, "goals", 400))
        goals = env.state_dict()["qpos"][:, 2:]
        assert np.abs(goals).max() <= 0.2
        assert (np.linalg.norm(goals, axis=1) > 0.2).any() == corners


def test_version_5_rewards() -> None:
    """Reacher's distance after the motion; no bonus for falling over."""
    action = np.full(1, 0.3)
    env, after = returned("reacher-2x1", action, reacher_distance="after")
    distance = np.linalg.norm(env.state_dict()["tracked"], axis=1)
    np.testing.assert_allclose(after.reward[:, 0], -distance - 2 * 0.3**2, rtol=1e-12)
    rewards = []
    for bonus in (True, False):
        env = make("walker2d-2x3", 2, options=MamujocoOptions(alive_bonus_at_end=bonus))
        env.reset(slot_seeds(10, "bonus", 2))
        fallen = env.state_dict()
        fallen["qpos"][0, 1] = 0.5
        env.load_state_dict(fallen)
        after = env.step(np.zeros((2, 2, 3)))
        np.testing.assert_array_equal(after.terminated, [True, False])
        rewards.append(after.reward[:, 0])
    np.testing.assert_allclose(rewards[0] - rewards[1], [1.0, 0.0], atol=1e-12)


def test_errors_name_what_is_allowed() -> None:
    for task in ("humanoid-9x8", "ant", "ant-3x3", "swimmer-0x2", "swimmer", "", "Ant-2x4"):
        with pytest.raises(UserError, match=re.escape("allowed: reacher-2x1, ant-2x4, ant-2x4d")):
            make(task, 1)
    with pytest.raises(UserError, match="2 to 200"):
        make("swimmer-100x100", 1)
    for bad, message in (
        ({"slots": 0}, "1 or more"),
        ({"slots": 1, "threads": -1}, "0 to let the engine choose"),
        ({"slots": 1, "options": MamujocoOptions(reacher_goal="ring")}, "allowed: square, disc"),  # type: ignore[arg-type]
        ({"slots": 1, "options": MamujocoOptions(episode_limit=0)}, "episode_limit = 0 is not allowed; allowed: 1 … "),
    ):
        with pytest.raises(UserError, match=message):
            make("reacher-2x1", **bad)
    env = make("reacher-2x1", 2)
    good = np.zeros((2, 2, 1))
    with pytest.raises(UserError, match="step before reset"):
        env.step(good)
    env.reset(slot_seeds(0, "errors", 2))
    before = env.state_dict()
    for value in (np.nan, np.inf, -np.inf):
        bad_action = good.copy()
        bad_action[1, 0, 0] = value
        with pytest.raises(UserError, match="agent 0 in environment 1 is not finite"):
            env.step(bad_action)
    for shape in ((2, 2), (1, 2, 1), (2, 1, 2), (2, 2, 2)):
        with pytest.raises(UserError, match=re.escape("allowed: (2, 2, 1)")):
            env.step(np.zeros(shape))
    with pytest.raises(UserError, match="seeds"):
        env.reset(slot_seeds(0, "errors", 3))
    with pytest.raises(UserError, match="saved qpos"):
        env.load_state_dict(make("reacher-2x1", 3).state_dict())
    for name, array in env.state_dict().items():
        np.testing.assert_array_equal(array, before[name], err_msg="a refused call changes nothing")
    env.step(np.full((2, 2, 1), 1e30, np.float32))  # allowed, although its square is not finite


def test_one_machine_code_serves_all_tasks() -> None:
    for task in PAPER:
        make(task, 1).reset(slot_seeds(0, "code", 1))
        make(task, 3).reset(slot_seeds(0, "code", 3))
    assert len(run_slots.compiled) == 1


def test_threads_are_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(machine, "_CGROUP_TIME", limit)
    processors = len(os.sched_getaffinity(0))
    assert make("reacher-2x1", 1).threads == 1
    for text, most in (("max 100000", 160), ("150000 100000", 1), ("10000 100000", 1), ("100000000 100000", 160)):
        limit.write_text(f"{text}\n")
        assert make("reacher-2x1", 160).threads == min(most, processors)
    assert make("reacher-2x1", 20, threads=2).threads == 2
    assert make("reacher-2x1", 20, threads=30).threads == 20


def test_making_a_task_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make("halfcheetah-6x1", 1)
    assert not list(tmp_path.iterdir())


def test_identity() -> None:
    told = make("ant-4x2", 2, options=MamujocoOptions(action_order="joint")).identity()
    assert told["task"] == "ant-4x2"
    assert told["options"]["action_order"] == "joint"
    assert (told["observation_size"], told["state_size"], told["action_size"]) == (4 + 6 + 13 + 4, 111 + 4, 2)
    assert told["mujoco"] == mujoco.__version__
    assert told["revision"] == REVISIONS["mamujoco"]
    assert OPTIONS["mamujoco"] is MamujocoOptions


# Observations, critic states and rewards projected on fixed weights, under MuJoCo 3.17.
DIGEST_REVISION = 1
DIGESTS: dict[str, tuple[float, float, float]] = {
    "reacher-2x1": (-28.086866, 10.795031, 7.490029),
    "ant-2x4": (-12.582211, 230.400530, 18.681921),
    "walker2d-2x3": (-15.724726, 18.896263, -0.787931),
    "hopper-3x1": (-210.212365, 50.668946, 0.054041),
    "halfcheetah-6x1": (148.115475, -0.544032, 0.510137),
    "swimmer-8x2": (-58.734699, 667.965815, -1.306145),
}


@pytest.mark.skipif(not mujoco.__version__.startswith("3."), reason="the numbers were taken under MuJoCo 3.17")
@pytest.mark.parametrize("task", PAPER)
def test_numbers_belong_to_the_revision(task: str) -> None:
    """A change of the engine's numbers needs a new REVISIONS["mamujoco"] and new numbers here."""
    assert REVISIONS["mamujoco"] == DIGEST_REVISION
    env = make(task, 2)
    env.reset(slot_seeds(11, "digest", 2))
    sums = np.zeros(3)
    for action in actions_for(env, 12):
        after = env.step(action)
        parts: tuple[NDArray[Any], ...] = (after.snapshot.observation, after.snapshot.state, after.reward)
        for i, part in enumerate(parts):
            sums[i] += np.cos(np.arange(part.size)) @ part.ravel().astype(np.float64)
    np.testing.assert_allclose(sums, DIGESTS[task], rtol=0, atol=1e-4)
