"""Two agents see six entities in any order, one of them marked, and earn 1 if both name its colour."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

import fp3o


@fp3o.environment("marked", settings={"rollout_length": 25, "total_steps": 20_000, "actor_lr": 0.003})
class Marked(ParallelEnv):
    metadata = {"name": "marked"}
    possible_agents = ["left", "right"]
    sight, colours = Box(0.0, 1.0, (6, 4)), Discrete(3)

    def observation_space(self, agent):
        return self.sight

    def action_space(self, agent):
        return self.colours

    def reset(self, seed=None, options=None):
        source, self.agents = np.random.default_rng(seed), list(self.possible_agents)
        marked, colours = source.integers(6), source.integers(3, size=6)
        table = np.column_stack([np.arange(6) == marked, np.eye(3)[colours]]).astype(np.float32)
        self.seen, self.right = dict.fromkeys(self.agents, table), colours[marked]
        return self.seen, {agent: {} for agent in self.agents}

    def step(self, actions):
        everyone, self.agents = self.agents, []
        reward = float(all(actions[agent] == self.right for agent in everyone))
        over, late = dict.fromkeys(everyone, True), dict.fromkeys(everyone, False)
        return self.seen, dict.fromkeys(everyone, reward), over, late, {agent: {} for agent in everyone}
