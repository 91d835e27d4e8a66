"""Tiny cooperative games."""

from fp3o.envs.matrix.engine import make

__all__ = ["make"]
