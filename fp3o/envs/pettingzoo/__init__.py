"""Any PettingZoo ParallelEnv, by import path (`module:factory`) or by a name in the registry."""

from __future__ import annotations

from fp3o.config.options import PettingzooOptions
from fp3o.envs.interface import BatchEnv
from fp3o.envs.pettingzoo.check import Report, check
from fp3o.envs.pettingzoo.engine import PettingzooBatch
from fp3o.errors import UserError
from fp3o.fields import checked
from fp3o.registry import ENVIRONMENTS

__all__ = ["Report", "check", "make"]


def make(task: str, slots: int, *, auto_reset: bool, threads: int, options: PettingzooOptions) -> BatchEnv:
    """N environments of a task. threads: number of worker processes; 0 or 1: one per core."""
    env = options.env or task
    if ":" not in env and env not in ENVIRONMENTS:
        raise UserError(
            f"unknown environment {env!r} in pettingzoo/{task}; "
            f"allowed: env=module:factory, one of a plug-in (--import), or {', '.join(ENVIRONMENTS)}"
        )
    return PettingzooBatch(task, env, slots, auto_reset, threads, checked(options, f"pettingzoo/{task}"))
