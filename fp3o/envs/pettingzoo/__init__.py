"""Any PettingZoo ParallelEnv, by import path or by a registered name."""

from __future__ import annotations

from fp3o.envs.interface import BatchEnv
from fp3o.envs.options import KNOWN_ENVIRONMENTS, PettingzooOptions
from fp3o.envs.pettingzoo.check import Report, check
from fp3o.envs.pettingzoo.engine import PettingzooBatch
from fp3o.errors import UserError

__all__ = ["Report", "check", "make"]

REWARDS = ("mean", "sum", "own")


def make(task: str, slots: int, *, auto_reset: bool, threads: int, options: PettingzooOptions) -> BatchEnv:
    """threads: worker processes; 0 or 1: one per core."""
    env = options.env or task
    if ":" not in env and env not in KNOWN_ENVIRONMENTS:
        raise UserError(
            f"unknown environment {env!r} in pettingzoo/{task}; "
            f"allowed: env=module:factory, or one of {', '.join(KNOWN_ENVIRONMENTS)}"
        )
    if options.reward not in REWARDS:
        raise UserError(f"reward = {options.reward!r} in pettingzoo/{task}; allowed: {', '.join(REWARDS)}")
    if options.timeout <= 0 or options.episode_limit < 1:
        raise UserError(f"timeout and episode_limit in pettingzoo/{task} must be positive")
    return PettingzooBatch(task, env, slots, auto_reset, threads, options)
