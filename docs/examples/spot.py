"""Two agents see a picture with one bright pixel, and earn 1 if both name its column."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

import fp3o


@fp3o.environment("spot", settings={"rollout_length": 25, "total_steps": 20_000, "actor_lr": 0.003})
class Spot(ParallelEnv):
    metadata = {"name": "spot"}
    possible_agents = ["left", "right"]
    sight, columns = Box(0, 255, (5, 5, 1), np.uint8), Discrete(5)

    def observation_space(self, agent):
        return self.sight

    def action_space(self, agent):
        return self.columns

    def reset(self, seed=None, options=None):
        self.agents, self.spot = list(self.possible_agents), np.random.default_rng(seed).integers(5, size=2)
        image = np.zeros((5, 5, 1), np.uint8)
        image[tuple(self.spot)] = 255
        self.seen = dict.fromkeys(self.agents, image)
        return self.seen, {agent: {} for agent in self.agents}

    def step(self, actions):
        everyone, self.agents = self.agents, []
        reward = float(all(actions[agent] == self.spot[1] for agent in everyone))
        over, late = dict.fromkeys(everyone, True), dict.fromkeys(everyone, False)
        return self.seen, dict.fromkeys(everyone, reward), over, late, {agent: {} for agent in everyone}
