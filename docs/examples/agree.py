"""Two agents see one of four signals, and earn 1 if both name it."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

import fp3o


@fp3o.environment("agree", settings={"rollout_length": 25, "total_steps": 10_000, "actor_lr": 0.003})
class Agree(ParallelEnv):
    metadata = {"name": "agree"}
    possible_agents = ["left", "right"]
    sight, names = Box(0.0, 1.0, (4,)), Discrete(4)

    def observation_space(self, agent):
        return self.sight

    def action_space(self, agent):
        return self.names

    def see(self):
        return {agent: np.eye(4, dtype=np.float32)[self.signal] for agent in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.agents, self.signal = list(self.possible_agents), np.random.default_rng(seed).integers(4)
        return self.see(), {agent: {} for agent in self.agents}

    def step(self, actions):
        everyone, self.agents = self.agents, []
        reward = float(all(actions[agent] == self.signal for agent in everyone))
        over, late = dict.fromkeys(everyone, True), dict.fromkeys(everyone, False)
        return self.see(), dict.fromkeys(everyone, reward), over, late, {agent: {} for agent in everyone}
