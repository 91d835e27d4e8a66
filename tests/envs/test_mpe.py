"""The particle worlds against arrays recorded from on-policy and against the running mpe2 package."""

from __future__ import annotations

import hashlib
import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fp3o.config.domains import REVISIONS
from fp3o.config.options import MpeOptions
from fp3o.envs import make
from fp3o.envs.interface import slot_seeds
from fp3o.envs.mpe.engine import HORIZON, TASKS
from fp3o.errors import UserError

GOLDEN = Path(os.environ.get("FP3O_GOLDEN", Path(__file__).parents[1] / "data" / "golden")) / "envs" / "mpe"
RECORDED = sorted(GOLDEN.glob("*.npz"))
WIDTHS = {"simple-reference": (21, 21), "simple-speaker-listener": (3, 11), "simple-spread": (18, 18, 18)}
PACKAGE = {
    "simple-reference": "simple_reference_v3",
    "simple-speaker-listener": "simple_speaker_listener_v4",
    "simple-spread": "simple_spread_v3",
}


def test_golden_files_are_there() -> None:
    assert {path.stem for path in RECORDED} >= {"simple_reference", "simple_speaker_listener"}


def start_positions(gold: dict[str, np.ndarray], watched: list[int]) -> np.ndarray:
    """Where agents stood at reset. `agent_position` should say so, but files exist in which it holds the place where
    they ended (the recorder kept a reference to an array that the world moves in place). There the start is what makes
    all three recorded landmark distances come out to the last bit of float64."""
    landmark = gold["landmark_position"]
    place = gold["agent_position"].copy()
    for agent in watched:
        relative = gold[f"obs{agent}"][:, 0, 2:8].reshape(-1, 3, 2)
        if np.array_equal(landmark - place[:, agent, None], relative):
            continue
        guess = landmark[:, 0] - relative[:, 0]
        best = np.full(guess.shape, -1)
        for ulps in (0, -1, 1, -2, 2, -3, 3, -4, 4):
            candidate = guess + ulps * np.spacing(guess)
            fits = (landmark - candidate[:, None] == relative).sum(axis=1)
            place[:, agent] = np.where(fits > best, candidate, place[:, agent])
            best = np.maximum(best, fits)
        assert (best == 3).all(), "recorded landmarks and observations do not belong together"
    return place


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_mappo_flavour_equals_the_recorded_worlds(path: Path) -> None:
    """Observations to the last bit of float32, rewards exactly, in every recorded episode and step."""
    with np.load(path, allow_pickle=False) as recorded:
        gold = {key: recorded[key] for key in recorded.files}
    task = path.stem.split(".")[0].replace("_", "-")
    worlds = len(gold["agent_position"])
    env = make("mpe", task, worlds)
    env.reset(slot_seeds(0, "test", worlds))
    start = env.state_dict()
    watched = [0, 1] if task == "simple-reference" else [1]  # the speaker's place is never seen and has no effect
    start["position"] = start_positions(gold, watched)
    start["landmark"] = gold["landmark_position"]
    start["goal"] = gold["goal"][:, : start["goal"].shape[1]]
    env.load_state_dict(start)
    widths = WIDTHS[task]
    steps = gold["move"].shape[1]
    returns = gold["team_reward"].sum(axis=1)
    for t in range(steps):
        view = env.snapshot()
        for agent, width in enumerate(widths):
            expected = gold[f"obs{agent}"][:, t].astype(np.float32)
            assert np.array_equal(view.observation[:, agent, :width], expected), (t, agent)
        if task == "simple-reference":
            actions = np.stack([gold["move"][:, t], gold["word"][:, t]], axis=2)
        else:
            actions = np.stack([gold["word"][:, t, 0], gold["move"][:, t, 1]], axis=1)[:, :, None]
        step = env.step(actions)
        # Exact but for the recovered start, which may be off by the last bit of a double.
        assert step.reward == pytest.approx(np.repeat(gold["team_reward"][:, t, None], 2, axis=1), abs=1e-14)
    assert step.terminated.all()
    assert not step.truncated.any()
    assert step.final is not None
    for agent, width in enumerate(widths):
        assert np.array_equal(
            step.final.observation[:, agent, :width], gold[f"obs{agent}"][:, steps].astype(np.float32)
        )
    assert [e.total_return for e in step.episodes] == pytest.approx(returns, rel=1e-12)
    assert [e.return_per_agent for e in step.episodes] == pytest.approx(
        gold["reward_of_agent"].sum(axis=1).mean(axis=1)
    )


def package_start(world: Any, env: Any) -> dict[str, np.ndarray]:
    """The package's present world as our saved state, for one slot."""
    state = {name: array[:1].copy() for name, array in env.state_dict().items()}
    state["position"][0] = [agent.state.p_pos for agent in world.agents]
    state["landmark"][0] = [landmark.state.p_pos for landmark in world.landmarks]
    if "goal" in state:
        goals = [agent.goal_b for agent in world.agents if agent._goal_b is not None]
        state["goal"][0] = [world.landmarks.index(goal) for goal in goals]
    return state


@pytest.mark.parametrize("task", TASKS)
def test_mpe2_flavour_equals_the_package_over_100_episodes(task: str) -> None:
    """Same start, same actions: observations and state equal as float32, rewards to 1e-12, all 25 steps."""
    theirs = importlib.import_module(f"mpe2.{PACKAGE[task]}").parallel_env()
    ours = make("mpe", task, 1, options=MpeOptions(flavour="mpe2", agent_id=False))
    generator = np.random.default_rng(0)
    agents, sizes = ours.spec.agents, ours.spec.action.sizes
    for episode in range(100):
        seen, _ = theirs.reset(seed=episode)
        ours.reset(slot_seeds(episode, "test", 1))
        ours.load_state_dict(package_start(theirs.unwrapped.world, ours))
        for t in range(HORIZON):
            view = ours.snapshot()
            for agent, name in enumerate(theirs.possible_agents):
                assert np.array_equal(view.observation[0, agent, : WIDTHS[task][agent]], seen[name]), (episode, t)
            assert np.array_equal(view.state[0, 0], theirs.state())
            actions = generator.integers(sizes, size=(1, agents, len(sizes)))
            if task == "simple-speaker-listener":
                actions[0, 0] %= 3
            index = actions[0, :, 0] + (5 * actions[0, :, 1] if len(sizes) == 2 else 0)
            seen, reward, terminated, truncated, _ = theirs.step(
                {name: int(index[agent]) for agent, name in enumerate(theirs.possible_agents)}
            )
            step = ours.step(actions)
            assert step.reward[0] == pytest.approx(list(reward.values()), abs=1e-12)
            assert step.terminated[0] == any(terminated.values())
            assert step.truncated[0] == any(truncated.values())
        assert step.final is not None
        for agent, name in enumerate(seen):
            assert np.array_equal(step.final.observation[0, agent, : WIDTHS[task][agent]], seen[name])
        assert not theirs.agents


@pytest.mark.parametrize(
    ("task", "observation", "state", "sizes"),
    [
        ("simple-reference", 21 + 2, 42, (5, 10)),
        ("simple-speaker-listener", 11 + 2, 14, (5,)),
        ("simple-spread", 18 + 3, 54, (5,)),
    ],
)
def test_sizes(task: str, observation: int, state: int, sizes: tuple[int, ...]) -> None:
    spec = make("mpe", task, 2).spec
    assert (spec.observation_size, spec.state_size, spec.action.sizes) == (observation, state, sizes)
    bare = make("mpe", task, 2, options=MpeOptions(agent_id=False, critic_agent_id=True)).spec
    assert (bare.observation_size, bare.state_size) == (observation - bare.agents, state + bare.agents)


def test_speaker_is_padded_masked_and_known_by_its_id() -> None:
    env = make("mpe", "simple-speaker-listener", 4)
    view = env.reset(slot_seeds(0, "test", 4))
    assert view.available is not None
    assert view.available[:, 0].tolist() == [[True] * 3 + [False] * 2] * 4
    assert view.available[:, 1].all()
    assert not view.observation[:, 0, 3:11].any()
    assert view.observation[:, :, 11:].tolist() == [[[1.0, 0.0], [0.0, 1.0]]] * 4
    assert np.array_equal(view.state[:, 0, :3], view.observation[:, 0, :3])
    assert np.array_equal(view.state[:, 1, 3:], view.observation[:, 1, :11])
    assert env.spec.agent_types == (0, 1)
    with pytest.raises(UserError, match="action 3 of agent 0 in environment 0 does not exist; allowed: 0 to 2"):
        env.step(np.full((4, 2, 1), 3))


def test_a_word_is_heard_one_step_later() -> None:
    env = make("mpe", "simple-reference", 1)
    view = env.reset(slot_seeds(0, "test", 1))
    assert not view.observation[:, :, 11:21].any()
    view = env.step(np.array([[[0, 3], [0, 7]]])).snapshot
    assert view.observation[0, 0, 11:21].argmax() == 7
    assert view.observation[0, 1, 11:21].argmax() == 3
    assert view.observation[0, :, 11:21].sum() == 2.0


@pytest.mark.parametrize(("flavour", "first"), [("mappo", (0.05, 0.5)), ("mpe2", (0.0, -0.5))])
def test_integrator_and_move_order(flavour: Any, first: tuple[float, float]) -> None:
    """Move 1 is +x with the new velocity (mappo), or −x and felt a step later (mpe2)."""
    env = make("mpe", "simple-spread", 1, options=MpeOptions(flavour=flavour))
    env.reset(slot_seeds(0, "test", 1))
    state = env.state_dict()
    state["position"][0] = [[0.0, 0.0], [5.0, 5.0], [-5.0, 5.0]]
    env.load_state_dict(state)
    observation = env.step(np.array([[[1], [0], [0]]])).snapshot.observation[0, 0]
    moved, velocity = first
    assert observation[2:4].tolist() == pytest.approx([moved, 0.0])
    assert observation[:2].tolist() == pytest.approx([velocity, 0.0])


def spread_at(flavour: Any, places: list[list[float]]) -> np.ndarray:
    """Rewards of one idle step with agents far from contact forces' reach or touching, landmarks at the origin."""
    env = make("mpe", "simple-spread", 1, options=MpeOptions(flavour=flavour))
    env.reset(slot_seeds(0, "test", 1))
    state = env.state_dict()
    state["position"][0] = places
    state["landmark"][:] = 0.0
    env.load_state_dict(state)
    return env.step(np.zeros((1, 3, 1), dtype=np.int64)).reward[0]


def test_spread_rewards_of_both_flavours() -> None:
    """Nearest agent 1 away from all three landmarks: 3 × −1; on-policy adds −1 per agent for touching itself."""
    apart = [[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]
    assert spread_at("mpe2", apart) == pytest.approx([-1.5] * 3)
    assert spread_at("mappo", apart) == pytest.approx([3 * (-3.0 - 1.0)] * 3)
    # mpe2 moves with the old velocity, so touching agents still touch after the first step.
    touching = [[1.0, 0.0], [1.2, 0.0], [-3.0, 0.0]]
    assert spread_at("mpe2", touching) == pytest.approx([-2.0, -2.0, -1.5])


def test_landmarks_start_where_each_flavour_puts_them() -> None:
    for task, flavour, bound in (
        ("simple-reference", "mappo", 0.8),
        ("simple-spread", "mappo", 0.8),
        ("simple-speaker-listener", "mappo", 1.0),
        ("simple-reference", "mpe2", 1.0),
    ):
        env = make("mpe", task, 2000, options=MpeOptions(flavour=flavour))  # type: ignore[arg-type]
        env.reset(slot_seeds(0, "test", 2000))
        state = env.state_dict()
        assert bound * 0.99 < np.abs(state["landmark"]).max() <= bound
        assert 0.99 < np.abs(state["position"]).max() <= 1.0
        if "goal" in state:
            assert (np.abs(np.bincount(state["goal"][:, 0]) - 2000 / 3) < 100).all()


def test_random_play_scores_as_the_originals_do() -> None:
    """Mean return of uniform play, measured on the original code: nothing is off by a factor (2000 episodes each)."""
    expected = {
        ("simple-reference", "mappo"): -68.5,
        ("simple-speaker-listener", "mappo"): -81.5,
        ("simple-reference", "mpe2"): -2 * 28.2,
        ("simple-speaker-listener", "mpe2"): -2 * 39.9,
    }
    generator = np.random.default_rng(0)
    for (task, flavour), mean in expected.items():
        env = make("mpe", task, 2000, options=MpeOptions(flavour=flavour))  # type: ignore[arg-type]
        env.reset(slot_seeds(1, "test", 2000))
        sizes = np.array([[3], [5]]) if "speaker" in task else np.array([[5, 10], [5, 10]])
        for _ in range(HORIZON):
            step = env.step(generator.integers(sizes, size=(2000, *sizes.shape)))
        returns = np.array([e.total_return for e in step.episodes])
        assert len(returns) == 2000
        assert abs(returns.mean() - mean) < 4 * returns.std() / np.sqrt(2000) + 0.02 * abs(mean)
        assert returns.mean() / 2 == pytest.approx(np.mean([e.return_per_agent for e in step.episodes]))


def test_unknown_flavour_lists_the_two() -> None:
    with pytest.raises(UserError, match="unknown flavour 'openai' in mpe/simple-spread; allowed: mappo, mpe2"):
        make("mpe", "simple-spread", 1, options=MpeOptions(flavour="openai"))  # type: ignore[arg-type]


def test_identity_names_the_flavour() -> None:
    for flavour in ("mappo", "mpe2"):
        identity = make("mpe", "simple-spread", 1, options=MpeOptions(flavour=flavour)).identity()
        assert identity["engine"] == f"particles-{flavour}"
        assert identity["options"]["flavour"] == flavour


def test_digest_is_pinned() -> None:
    """Numbers changed? Then bump REVISIONS['mpe'] and pin the new digest."""
    digest = hashlib.sha256()
    for task in TASKS:
        env = make("mpe", task, 3)
        env.reset(slot_seeds(0, "digest", 3))
        generator = np.random.default_rng(0)
        sizes = (3,) if "speaker" in task else env.spec.action.sizes
        for _ in range(HORIZON + 2):
            step = env.step(generator.integers(sizes, size=(3, env.spec.agents, len(sizes))))
            # Rounded: the last bit of a logarithm may differ between machines.
            digest.update(np.round(step.snapshot.observation, 4).tobytes() + np.round(step.reward, 4).tobytes())
    assert (REVISIONS["mpe"], digest.hexdigest()[:16]) == (1, "a12fcde08c4e811f")
