"""What agents see, may do and earn, against arrays recorded from the smac package and the release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fp3o.envs.smac import layouts
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.envs.smac.units import KINDS

DEFAULT = Path(__file__).parents[1] / "data" / "golden"
FILES = sorted((Path(os.environ.get("FP3O_GOLDEN", DEFAULT)) / "envs" / "smac").glob("*.npz"))
SHIPPED = sorted((DEFAULT / "envs" / "smac").glob("*.npz"))


class Recording:
    """One file: units in our numbering, and the recorded answers."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as data:
            self.data = {key: data[key] for key in data.files}
        self.scenario = SCENARIOS[str(self.data["map_name"])]
        layout: Any = str(self.data["layout"])
        self.layout = layout
        self.view = layouts.encoding_of(self.scenario, self.layout)
        index = np.array([KINDS.index(str(name)) for name in self.data["type_names"]])
        self.kind = index[self.units("type")]
        self.x, self.y, self.health = (self.units(key) for key in ("x", "y", "hp"))
        self.shield, self.cooldown = self.units("shield"), self.units("cooldown")
        self.alive = self.units("alive").astype(bool)
        self.rows = len(self.x)

    def units(self, key: str) -> np.ndarray:
        return np.concatenate([self.data[f"ally_{key}"], self.data[f"enemy_{key}"]], axis=1)

    def available(self, row: int) -> np.ndarray:
        grid = self.data["pathing_grid"][self.data["instance"][row]]
        out = np.zeros((self.scenario.agents, self.scenario.actions), bool)
        layouts.write_available(self.view, self.x[row], self.y[row], self.alive[row], grid, out)
        return out

    def features(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        observation_size, state_size = layouts.sizes(self.view)
        observation = np.full((self.scenario.agents, observation_size), np.nan, np.float32)
        state = np.full((self.scenario.agents, state_size), np.nan, np.float32)
        layouts.write_features(
            self.view,
            self.kind[row],
            self.x[row],
            self.y[row],
            self.health[row],
            self.shield[row],
            self.cooldown[row],
            self.alive[row],
            self.data["actions"][row].astype(np.int64),
            self.available(row),
            observation,
            state,
        )
        return observation, state


@pytest.fixture(params=FILES, ids=[path.stem for path in FILES])
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def test_recordings_cover_all_maps_layouts_and_endings() -> None:
    recordings = [Recording(path) for path in SHIPPED]
    tests_only = {"3m", "8m", "2s3z"}
    expected = {(name, layout) for name in SCENARIOS for layout in ("default", "agent") if name not in tests_only}
    assert {(recording.scenario.name, recording.layout) for recording in recordings} == expected
    for recording in recordings:
        assert set(recording.data["end"].tolist()) == {0, 1, 2, 3, 4}
    assert FILES


def test_sizes(recording: Recording) -> None:
    data, scenario = recording.data, recording.scenario
    assert scenario.agents == data["n_agents"]
    assert scenario.opponents == data["n_enemies"]
    assert scenario.actions == data["n_actions"]
    assert scenario.limit == data["episode_limit"]
    assert layouts.max_reward(scenario) == data["max_reward"]
    assert layouts.sizes(recording.view) == (data["obs"].shape[-1], data["state"].shape[-1])


def test_legal_actions(recording: Recording) -> None:
    for row in range(recording.rows):
        np.testing.assert_array_equal(recording.available(row), recording.data["avail"][row].astype(bool), f"row {row}")


def test_observation_and_state(recording: Recording) -> None:
    for row in range(recording.rows):
        observation, state = recording.features(row)
        np.testing.assert_allclose(observation, recording.data["obs"][row], rtol=0, atol=1e-6, err_msg=f"row {row}")
        expected = np.broadcast_to(recording.data["state"][row], state.shape)
        np.testing.assert_allclose(state, expected, rtol=0, atol=1e-6, err_msg=f"row {row}")


def test_reward_and_end(recording: Recording) -> None:
    data, scenario = recording.data, recording.scenario
    for row in range(recording.rows):
        result = layouts.outcome(scenario.agents, recording.alive[row])
        time_out = data["episode_steps"][row] >= scenario.limit
        if data["t"][row] == 0:
            continue
        vitality = recording.health[row - 1].astype(float) + recording.shield[row - 1]
        settled = layouts.settle(
            layouts.max_reward(scenario),
            scenario.agents,
            vitality,
            recording.health[row],
            recording.shield[row],
            recording.alive[row - 1],
            recording.alive[row],
        )
        assert settled[1] == result
        np.testing.assert_allclose(settled[0], data["reward"][row], rtol=0, atol=1e-6, err_msg=f"row {row}")
        assert bool(result or time_out) == bool(data["terminated"][row])
        expected = 4 if result == 0 and time_out else result
        assert expected == data["end"][row]
        if "dones" in data:
            dones = ~recording.alive[row, : scenario.agents] | bool(expected)
            np.testing.assert_array_equal(dones, data["dones"][row].astype(bool))
            assert bool(data["info_won"][row]) == (expected == 1)
        else:
            assert bool(data["info_battle_won"][row]) == (expected == 1)


def test_agents_are_sorted_by_type_then_place(recording: Recording) -> None:
    data = recording.data
    index = np.array([KINDS.index(str(name)) for name in data["type_names"]])
    for episode in range(len(data["reset_ally_order"])):
        kind = index[data["reset_raw_ally_type"][episode]]
        place = data["reset_raw_ally_y"][episode], data["reset_raw_ally_x"][episode]
        order = np.lexsort((*place, recording.view.bit[layouts.ALLIES, kind]))
        np.testing.assert_array_equal(order, data["reset_ally_order"][episode])


def test_orders_sent_to_the_game(recording: Recording) -> None:
    data, scenario = recording.data, recording.scenario
    stop, move, attack = 4, 16, 23  # the game's ability ids
    for row in range(1, recording.rows):
        if data["t"][row] == 0:
            continue
        for agent in range(scenario.agents):
            action, command = int(data["actions"][row, agent]), data["command"][row, agent]
            if action == layouts.NO_OP:
                assert np.isnan(command).all()
            elif action == layouts.STOP:
                assert command[0] == stop
            elif action >= layouts.ATTACK:
                assert command[0] == attack
                assert command[3] == action - layouts.ATTACK
            else:
                assert command[0] == move
                goal = layouts.move_goal(action, float(recording.x[row - 1, agent]), float(recording.y[row - 1, agent]))
                np.testing.assert_allclose(goal, command[1:3], rtol=0, atol=1e-5)
