"""The tiny games: payoffs, masks, padding, and that the best return is what it is said to be."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from fp3o.config.domains import REVISIONS
from fp3o.envs import make
from fp3o.envs.interface import slot_seeds
from fp3o.envs.matrix.engine import GAMES, best_return
from fp3o.errors import UserError


def play(task: str, joint: list[list[int]], slots: int = 1) -> list[float]:
    """Team rewards of one slot for a list of joint choices."""
    env = make("matrix", task, slots)
    env.reset(slot_seeds(0, "test", slots))
    return [float(env.step(np.array([[[c] for c in choice]] * slots)).reward[0, 0]) for choice in joint]


@pytest.mark.parametrize(
    ("task", "best"),
    [
        ("single", 2.0),
        ("coordination", 1.0),
        ("coordination-3", 1.0),
        ("climbing", 1.1),
        ("two-step", 1.0),
        ("two-step-3", 1.0),
        ("masked", (3 * 1.0 + 0.75) / 4),
        ("uneven", 1.0),
        ("leaving", 2.0),
        ("endless", 4.0),
        ("continuous", 0.0),
        ("continuous-uneven", 0.0),
    ],
)
def test_best_return_is_known(task: str, best: float) -> None:
    assert best_return(task) == pytest.approx(best)


def test_every_game_is_listed_with_its_best_return() -> None:
    assert all(np.isfinite(best_return(task)) for task in GAMES)
    with pytest.raises(UserError, match="unknown task 'chess' in matrix; allowed: single, coordination"):
        best_return("chess")


def test_payoffs() -> None:
    assert play("coordination", [[0, 0], [1, 1], [0, 2]]) == [1.0, 0.4, 0.2]
    assert play("coordination-3", [[0, 0, 0], [2, 2, 2], [0, 0, 1]]) == [1.0, 0.4, 0.2]
    assert play("climbing", [[0, 0], [0, 1], [1, 1]]) == [1.1, -3.0, 0.7]


def test_agent_0_chooses_the_second_matrix() -> None:
    assert play("two-step", [[0, 1], [1, 1], [1, 0], [1, 1], [1, 0], [0, 1]]) == [0.0, 0.4, 0.0, 1.0, 0.0, 0.5]
    assert play("two-step-3", [[1, 0, 0], [1, 1, 0]]) == [0.0, pytest.approx(2 / 3)]


def test_uniform_play_prefers_the_better_branch() -> None:
    """Otherwise learners would run away from the matrix that holds the optimum, and the game would not be easy."""
    for agents, task in ((2, "two-step"), (3, "two-step-3")):
        joint = [[1] * agents, None]
        values = []
        for number in range(2**agents):
            joint[1] = [number >> k & 1 for k in range(agents)]
            values.append(play(task, joint)[1])  # type: ignore[arg-type]
        assert np.mean(values) == pytest.approx(0.5)
        assert np.mean(values) > play(task, [[0] * agents, [0] * agents])[1]


def test_masked_game_forbids_one_choice_and_says_so() -> None:
    env = make("matrix", "masked", 64)
    view = env.reset(slot_seeds(0, "test", 64))
    assert view.available is not None
    assert (view.available.sum(axis=2) == 3).all()
    assert len({tuple(row) for row in view.available[:, 0].tolist()}) == 4
    forbidden = (~view.available).argmax(axis=2)
    assert np.array_equal(view.observation[:, 0, :4].argmax(axis=1), forbidden[:, 0])
    with pytest.raises(UserError, match=r"is not legal now; allowed: [0-3], [0-3], [0-3]$"):
        env.step(forbidden[:, :, None])


def test_uneven_agents_are_padded_and_masked() -> None:
    env = make("matrix", "uneven", 32)
    view = env.reset(slot_seeds(0, "test", 32))
    assert view.available is not None
    assert view.available[:, 0].all()
    assert view.available[:, 1].tolist() == [[True, True, False]] * 32
    assert view.observation[:, 1].tolist() == [[1.0, 0.0, 0.0, 0.0, 1.0]] * 32
    assert env.spec.agent_types == (1, 0)
    context = view.observation[:, 0, :3].argmax(axis=1)
    step = env.step(np.stack([context, np.ones(32, dtype=np.int64)], axis=1)[:, :, None])
    assert (step.reward == 1.0).all()
    with pytest.raises(UserError, match="action 2 of agent 1 in environment 0 does not exist; allowed: 0 to 1"):
        env.step(np.full((32, 2, 1), 2))


def test_an_agent_that_left_has_one_legal_choice_and_is_not_alive() -> None:
    env = make("matrix", "leaving", 2)
    view = env.reset(slot_seeds(0, "test", 2))
    assert view.alive.all()
    view = env.step(np.zeros((2, 2, 1), dtype=np.int64)).snapshot
    assert view.available is not None
    assert view.alive.tolist() == [[True, False]] * 2
    assert view.available[:, 1].tolist() == [[True, False, False]] * 2
    step = env.step(np.array([[[2], [0]], [[1], [0]]]))
    assert step.reward[:, 0].tolist() == [1.0, 0.0]
    assert step.snapshot.alive.all()
    assert step.final is not None
    assert not step.final.alive[:, 1].any()


def test_endless_game_is_cut_not_terminated() -> None:
    env = make("matrix", "endless", 1)
    env.reset(slot_seeds(0, "test", 1))
    flags = []
    for _ in range(4):
        step = env.step(np.zeros((1, 2, 1), dtype=np.int64))
        flags.append((bool(step.terminated[0]), bool(step.truncated[0])))
    assert flags == [(False, False)] * 3 + [(False, True)]
    assert step.episodes[0].length == 4
    assert step.episodes[0].total_return == 4.0


def test_continuous_games_ignore_padding() -> None:
    env = make("matrix", "continuous-uneven", 8)
    view = env.reset(slot_seeds(0, "test", 8))
    assert env.spec.action.used == (1, 2)
    target = view.observation[:, 0, 0].astype(np.float64)
    assert len(np.unique(target)) == 8
    assert np.abs(target).max() < 1.0
    actions = np.zeros((8, 2, 2))
    actions[:, 0, 1] = 1e6  # does not exist
    actions[:, 1, 0] = target
    actions[:, 1, 1] = 0.5
    assert env.step(actions).reward == pytest.approx(np.full((8, 2), -0.25), abs=1e-6)


def test_contexts_are_drawn_evenly() -> None:
    env = make("matrix", "single", 3000)
    view = env.reset(slot_seeds(0, "test", 3000))
    counts = view.state[:, 0].sum(axis=0)
    assert (np.abs(counts[:3] - 1000) < 100).all()
    assert not counts[3:].any()


def test_digest_is_pinned() -> None:
    """Numbers changed? Then bump REVISIONS['matrix'] and pin the new digest."""
    digest = hashlib.sha256()
    for task in GAMES:
        env = make("matrix", task, 4)
        view = env.reset(slot_seeds(0, "digest", 4))
        for _ in range(4):
            actions = np.zeros((4, env.spec.agents, env.spec.action.width), dtype=np.int64)
            if view.available is not None:
                actions[:, :, 0] = view.available.argmax(axis=2)
            step = env.step(actions)
            view = step.snapshot
            digest.update(view.observation.tobytes() + view.state.tobytes() + step.reward.tobytes())
    assert (REVISIONS["matrix"], digest.hexdigest()[:16]) == (1, "67b3077b87c1d316")
