"""Two agents choose one of three numbers, and earn it if they agree."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

import fp3o


@fp3o.environment("agree", settings={"rollout_length": 25, "total_steps": 10_000, "actor_lr": 0.003})
class Agree(ParallelEnv):
    metadata = {"name": "agree"}
    possible_agents = ["left", "right"]

    def observation_space(self, agent):
        return Box(0.0, 1.0, (1,))

    def action_space(self, agent):
        return Discrete(3)

    def see(self):
        return {agent: np.ones(1, np.float32) for agent in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return self.see(), {agent: {} for agent in self.agents}

    def step(self, actions):
        everyone, self.agents = self.agents, []
        reward = float(actions["left"]) if actions["left"] == actions["right"] else 0.0
        over, late = dict.fromkeys(everyone, True), dict.fromkeys(everyone, False)
        return self.see(), dict.fromkeys(everyone, reward), over, late, {agent: {} for agent in everyone}
