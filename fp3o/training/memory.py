"""Estimates how much memory a run needs, before anything large is allocated.

The parts are those that grow with settings: rollout buffers, activations kept for a minibatch's gradient, networks with
their optimisers, environments. Measured on SMAC's bane_vs_bane with five seeds: 5.3 GiB, estimated 5.5; with the
minibatch in one piece 13.7, estimated 13.5 (docs/smac-engine.md has the command).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fp3o.config import Plan
from fp3o.config.domains import DOMAINS
from fp3o.envs.interface import EnvSpec
from fp3o.errors import UserError
from fp3o.learner.update import networks
from fp3o.machine import memory_bytes
from fp3o.networks.sharing import sharing

GIB = 2**30
PROCESS = int(0.4 * GIB)  # Python, torch and a compiled simulator.
FLOAT, INDEX = 4, 8  # Bytes.

# Settings that drive each part, in messages.
DRIVERS = {
    "rollout": ("rollout_length", "rollout_threads"),
    "minibatch": ("rollout_length", "rollout_threads", "minibatches", "hidden_size", "slice_rows"),
    "networks": ("hidden_size",),
    "environments": ("rollout_threads", "evaluation_episodes", "final_episodes"),
}


def environments(plan: Plan, seeds: int) -> int:
    """Bytes of the simulators of training and of the larger evaluation; needs no simulator."""
    settings = plan.settings
    played = max(settings.evaluation_episodes, settings.final_episodes)
    return seeds * (settings.rollout_threads + played) * DOMAINS[plan.cell.domain].slot_kib * 1024


def estimate(plan: Plan, spec: EnvSpec, seeds: int, paired: bool = False) -> dict[str, int]:
    """Bytes by part, for this many seeds side by side. paired: gradients of actors and critics are computed at the same
    time (3s5z with five seeds: 2,785 MiB, estimated 2,817; one after the other 1,893, estimated 2,504)."""
    settings, action = plan.settings, spec.action
    width, hidden = settings.hidden_size, settings.hidden_size if settings.recurrent else 0
    rows = seeds * settings.rollout_length * settings.rollout_threads * spec.agents
    inputs = spec.observation_size + spec.state_size
    played = inputs + 4 * action.width + 2 * action.parameters + 2 * hidden
    learned = 20  # Values, advantages, targets, ratios, the turn's columns.
    indices = 3  # Rows of a minibatch in their order.
    batch = rows // settings.minibatches
    if settings.slice_rows:
        batch = min(batch, seeds * settings.slice_rows)
    layers = (30 if settings.recurrent else 16) * (4 if paired else 3) // 3
    kept = 2 * inputs + layers * width + 8 * action.parameters
    actor, critic = networks(spec, sharing(plan.cell.sharing, spec.agent_types), plan.cell.algorithm, settings)
    owners = actor.sharing
    parameters = owners.trunks * (actor.trunk_layout.size + critic.layout.size) + owners.heads * actor.head_layout.size
    # Each agent of a step has its owner's weights and their gradients, then come two moments and two snapshots.
    copies = 6 + 2 * spec.agents // owners.trunks
    return {
        "rollout": rows * (FLOAT * (played + learned) + INDEX * indices),
        "minibatch": batch * FLOAT * kept,
        "networks": seeds * parameters * FLOAT * copies,
        "environments": environments(plan, seeds),
    }


def valuing(plan: Plan, spec: EnvSpec, seeds: int) -> int:
    """Bytes kept to value a rollout by critics with GRUs: what their gates get, and their states."""
    settings = plan.settings
    rows = seeds * settings.rollout_length * settings.rollout_threads * spec.agents
    return rows * FLOAT * 4 * settings.hidden_size if settings.recurrent else 0


def check_environments(plan: Plan, seeds: int) -> None:
    """Refuse more simulators than this machine can hold, before they are made."""
    _refuse(plan, {"environments": environments(plan, seeds)}, seeds, memory_bytes(), "this machine")


def holds_both(plan: Plan, spec: EnvSpec, seeds: int) -> bool:
    """Whether this machine can compute gradients of actors and critics at the same time."""
    parts = estimate(plan, spec, seeds, paired=True)
    return PROCESS + sum(parts.values()) + valuing(plan, spec, seeds) <= memory_bytes()


def check(plan: Plan, spec: EnvSpec, seeds: int, device: torch.device | str, replayed: bool = False) -> None:
    """Refuse a run that this machine, or its GPU, cannot hold. replayed: steps are replayed from CUDA graphs, which
    read a copy of the rollout (3s5z with five seeds: 2,534 MiB, estimated 2,415)."""
    parts = estimate(plan, spec, seeds)
    with_values = parts | {"rollout": parts["rollout"] + valuing(plan, spec, seeds)}
    there = memory_bytes()
    if torch.device(device).type == "cuda":
        on_device = {name: size for name, size in with_values.items() if name != "environments"}
        on_device["rollout"] += replayed * parts["rollout"]
        _refuse(plan, on_device, seeds, torch.cuda.get_device_properties(device).total_memory, "the GPU")
        with_values = {name: parts[name] for name in ("rollout", "environments")}
    _refuse(plan, with_values, seeds, there, "this machine")


def _refuse(plan: Plan, parts: Mapping[str, int], seeds: int, there: int, place: str) -> None:
    total = PROCESS + sum(parts.values())
    if total > there:
        largest = max(parts, key=lambda name: parts[name])
        values = ", ".join(f"{name} = {getattr(plan.settings, name)}" for name in DRIVERS[largest])
        raise UserError(
            f"{plan.cell.id} would need about {total / GIB:.1f} GiB for {seeds} seeds side by side and {place} "
            f"has {there / GIB:.1f}; most of it for {largest}: {values}; allowed: fewer --seeds, or smaller settings"
        )
