"""The learner in plain PyTorch, to be read first: `ppo.py`, `mappo.py`, `happo.py` and `fp3o.py` are a page each.

One seed, no stacking, Python loops over agents. `tests/reference` checks that the fast learner gives the same numbers.
"""
