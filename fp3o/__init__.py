"""FP3O and its baselines, reproduced: one loop for six algorithms and three ways of sharing parameters."""

__version__ = "0.1.0"
