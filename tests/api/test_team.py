"""A trained team acts outside the engine: in a plain PettingZoo loop, in batches, with memory, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from pettingzoo import ParallelEnv

import fp3o
from fp3o.api.team import Team
from fp3o.envs.matrix.engine import END, GAMES, Game
from fp3o.rollout.evaluation import trained


class TableGame(ParallelEnv[str, Any, int]):
    """A matrix game as somebody else would write it: names, shorter observations, masks, first choice not 0."""

    metadata = {"name": "table-game"}  # noqa: RUF012

    def __init__(self, game: Game) -> None:
        self.game = game
        self.possible_agents = [f"player_{i}" for i in range(len(game.choices))]
        self.node = 0

    def observation_space(self, agent: str) -> Dict:
        number = self.possible_agents.index(agent)
        size = len(self._features(0, number))
        return Dict({"observation": Box(0.0, 1.0, (size,)), "action_mask": MultiBinary(self.game.choices[number])})

    def action_space(self, agent: str) -> Discrete:
        return Discrete(self.game.choices[self.possible_agents.index(agent)], start=10)

    def _features(self, node: int, number: int) -> Any:
        sees = self.game.nodes[node].sees
        return np.eye(len(self.game.nodes))[node] if sees is None else np.array(sees[number])

    def _see(self) -> dict[str, Any]:
        seen = {}
        for number, name in enumerate(self.possible_agents):
            mask = np.ones(self.game.choices[number], np.int8)
            if (legal := self.game.nodes[self.node].legal) is not None:
                mask[:] = 0
                mask[list(legal[number])] = 1
            seen[name] = {"observation": np.float32(self._features(self.node, number)), "action_mask": mask}
        return seen

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents, self.node = list(self.possible_agents), self.game.starts[seed or 0]
        return self._see(), {name: {} for name in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        joint = tuple(actions[name] - 10 for name in self.possible_agents)
        node = self.game.nodes[self.node]
        following = int(node.follows[joint])
        over = following == END
        self.node = self.node if over else following
        everyone, self.agents = self.agents, [] if over else self.agents
        seen, rewards = self._see(), dict.fromkeys(everyone, float(node.payoff[joint]))
        return seen, rewards, dict.fromkeys(everyone, over), dict.fromkeys(everyone, False), {n: {} for n in everyone}


def plain_loop(env: Any, team: fp3o.Team, seed: int) -> tuple[float, int]:
    """Return (of one agent: they all get the same) and length of an episode."""
    observations, _ = env.reset(seed=seed)
    memory, total, length = None, 0.0, 0
    while env.agents:
        actions, memory = team.act(observations, memory)
        observations, rewards, _, _, _ = env.step(actions)
        total, length = total + rewards[env.possible_agents[0]], length + 1
    return total, length


@pytest.mark.parametrize(
    "cell", ["matrix/uneven/full/mappo", "matrix/masked/partial/happo", "matrix/two-step/none/fp3o"]
)
def test_a_plain_loop_plays_what_the_engine_plays(team_runs: dict[str, fp3o.Run], cell: str) -> None:
    game = GAMES[cell.split("/")[1]]
    assert isinstance(game, Game)
    env = TableGame(game)
    team = team_runs[cell].team(env)
    assert team.agents == ("player_0", "player_1")
    alone = {plain_loop(env, team, seed) for seed in range(len(game.starts))}
    engine = {(episode.total_return, episode.length) for episode in fp3o.play(team_runs[cell], 40)}
    assert alone == engine


def test_batches_single_environments_and_names_agree(team_runs: dict[str, fp3o.Run]) -> None:
    """One step after another, with memory: bit for bit, whatever the form of the observations."""
    run = team_runs["matrix/two-step/none/fp3o"]
    team, env = run.team(), run.make_env(3)
    assert team.agents == ("agent_0", "agent_1")
    seen = env.reset(np.arange(3, dtype=np.uint64))
    memory: Any = None
    alone: Any = None
    named: Any = None
    for _ in range(4):
        bare = seen.observation[:, :, :-2]  # without the agent number
        actions, memory = team.act(seen.observation, memory, seen.available)
        again, alone = team.act(bare[1], alone)
        mapped, named = team.act([dict(zip(team.agents, row, strict=True)) for row in bare], named)
        assert actions.shape == (3, 2, 1)
        assert memory.shape == (3, 2, 16)
        np.testing.assert_array_equal(again, actions[1])
        np.testing.assert_allclose(alone, memory[1], rtol=1e-5)
        np.testing.assert_array_equal(named, memory)
        assert [list(one.values()) for one in mapped] == actions[:, :, 0].tolist()
        seen = env.step(actions).snapshot
    # Setting the memory to 0 is starting again.
    fresh, _ = team.act(bare, None)
    np.testing.assert_array_equal(team.act(bare, 0 * memory)[0], fresh)
    one = team.act({"agent_1": bare[0, 1]})[0]  # the other has left
    assert list(one) == ["agent_1"]


def test_drawn_actions_follow_the_policy(team_runs: dict[str, fp3o.Run]) -> None:
    run = team_runs["matrix/masked/partial/happo"]
    seen = run.make_env(400).reset(np.arange(400, dtype=np.uint64))
    drawn, _ = run.team(seed=3).act(seen.observation, None, seen.available, deterministic=False)
    assert (drawn == run.team(seed=3).act(seen.observation, None, seen.available, deterministic=False)[0]).all()
    assert (drawn != run.team(seed=4).act(seen.observation, None, seen.available, deterministic=False)[0]).any()
    assert seen.available is not None
    assert np.take_along_axis(seen.available, drawn, 2).all()
    assert len(np.unique(drawn)) == 4


def test_gaussian_actions_have_each_agents_own_size(team_runs: dict[str, fp3o.Run]) -> None:
    run = team_runs["matrix/continuous-uneven/none/mappo"]
    team = run.team()
    rows, _ = team.act([[0.5], [0.5]])
    named, _ = team.act({"agent_0": [0.5], "agent_1": [0.5]})
    assert [len(action) for action in named.values()] == [1, 2]
    np.testing.assert_array_equal(named["agent_1"], rows[1])


def test_what_the_engine_standardises_the_team_does(team_runs: dict[str, fp3o.Run]) -> None:
    found = trained(team_runs["matrix/continuous-uneven/none/mappo"].path)
    plain = Team(found, None, None, 0)
    team = Team(found._replace(spec=replace(found.spec, standardised=True)), None, None, 0)
    whole = np.array([[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]])
    known = (whole - 0.5) / np.sqrt(1 / 6)  # both rows have mean 0.5 and variance 1/6
    np.testing.assert_allclose(team.act([[0.5], [0.5]])[0], plain.act(known)[0], rtol=1e-5)


def mistakes() -> Iterator[Any]:
    yield [1.0], {}, "observations have shape (1,); allowed: (2, n) or (environments, 2, n) with n = 4 or 6"
    yield {"agent_7": [1.0]}, {}, "unknown agent 'agent_7'; allowed: agent_0, agent_1"
    yield {"agent_0": [1.0] * 9}, {}, "agent_0's observation has 9 numbers; allowed: at most 4"
    yield np.zeros((2, 4)), {"memory": np.zeros((2, 3))}, "memory is given to policies that have none; allowed: None"
    yield np.zeros((2, 4)), {"available": [True]}, "available has shape (1, 1); allowed: (1, 2, 4)"
    yield {"agent_0": [1.0]}, {"available": [True]}, "available is no dictionary; allowed: masks by agent name"


@pytest.mark.parametrize(("observations", "more", "message"), mistakes())
def test_mistakes_are_one_line(
    team_runs: dict[str, fp3o.Run], observations: Any, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(fp3o.UserError) as refused:
        team_runs["matrix/masked/partial/happo"].team().act(observations, **more)
    assert message in str(refused.value)


def test_an_environment_that_does_not_fit(team_runs: dict[str, fp3o.Run]) -> None:
    game = GAMES["coordination-3"]
    assert isinstance(game, Game)
    with pytest.raises(fp3o.UserError, match="number of agents is 3; the team was trained for 2"):
        team_runs["matrix/masked/partial/happo"].team(TableGame(game))
