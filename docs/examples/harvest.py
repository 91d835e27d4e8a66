"""Two harvesters on one field: a Gymnasium environment with tuples of agents, rewards of their own, and metrics."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple

import fp3o


class Harvest(gymnasium.Env):
    """Each may take fruit or wait. What is left grows by half; whoever takes from an empty field gets nothing."""

    observation_space = Tuple([Box(0.0, 1.0, (1,))] * 2)
    action_space = Tuple([Discrete(2)] * 2)

    def see(self):
        return tuple(np.full(1, self.fruit / 10, np.float32) for _ in range(2))

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.fruit, self.steps = float(self.np_random.integers(4, 9)), 0
        return self.see(), {}

    def step(self, actions):
        self.steps += 1
        rewards = []
        for place, take in enumerate(actions):
            size = min(self.fruit, take * (1.0 + place))  # the second one carries twice as much
            self.fruit -= size
            rewards.append(size)
        self.fruit = min(10.0, 1.5 * self.fruit)
        info = {"fruit": self.fruit, "idle": [1 - take for take in actions]}
        return self.see(), rewards, False, self.steps >= 8, info


@fp3o.environment(
    "harvest",
    settings={"rollout_length": 24, "total_steps": 4_000, "reward": "own"},
    metrics={"fruit": "last", "idle": "mean:agent"},
)
def harvest():
    return Harvest()
