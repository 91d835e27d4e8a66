"""FP3O and its baselines, reproduced: one training loop for every algorithm and every kind of parameter sharing."""

__version__ = "0.1.0"
