"""The ways in which agents can share one network."""

from __future__ import annotations

SHARINGS = ("full", "partial", "none", "by-type")
