"""The multi-agent particle environment."""

from fp3o.envs.mpe.engine import make

__all__ = ["make"]
