"""Two agents on a line of seven cells must meet: a complete environment in some twenty lines."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv


class Meeting(ParallelEnv):
    metadata = {"name": "meeting"}
    possible_agents = ["walker_0", "walker_1"]
    sight, moves = Box(-1.0, 1.0, (2,)), Discrete(3)  # own place, the other's; step left, stay, step right

    def observation_space(self, agent):
        return self.sight

    def action_space(self, agent):
        return self.moves

    def see(self):
        places = np.float32(self.places / 3 - 1)
        return {"walker_0": places, "walker_1": places[::-1]}

    def reset(self, seed=None, options=None):
        self.agents, self.steps = list(self.possible_agents), 0
        self.places = np.random.default_rng(seed).choice(7, size=2, replace=False)
        return self.see(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        self.places = np.clip(self.places + [actions["walker_0"] - 1, actions["walker_1"] - 1], 0, 6)
        met, late = bool(self.places[0] == self.places[1]), self.steps >= 10
        everyone, self.agents = self.agents, [] if met or late else self.agents
        rewards, infos = dict.fromkeys(everyone, 1.0 if met else -0.1), {agent: {} for agent in everyone}
        return self.see(), rewards, dict.fromkeys(everyone, met), dict.fromkeys(everyone, late), infos
