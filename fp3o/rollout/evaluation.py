"""Evaluation: deterministic episodes of the current or of a saved policy, all at once, one episode per slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from fp3o.config import Cell
from fp3o.config.domains import OPTIONS
from fp3o.config.settings import settings_of
from fp3o.envs import make
from fp3o.envs.interface import BatchEnv, EnvSpec, Episode, slot_seeds
from fp3o.errors import UserError
from fp3o.fields import restored
from fp3o.learner.randomness import generator
from fp3o.learner.update import networks
from fp3o.networks.actor import Actor
from fp3o.networks.critic import Critic, Normaliser
from fp3o.networks.sharing import sharing
from fp3o.rollout.policy import MakePolicy, Policy, noise_of, playable
from fp3o.runs import checkpoint, records
from fp3o.runs.layout import RunId
from fp3o.runs.verify import read_verified

Watch: TypeAlias = Callable[[BatchEnv, NDArray[Any] | None], None]
MOST_LOST = 10  # episodes of a slot that the simulator may lose (a game that crashes) and start again


class Evaluator:
    """Plays evaluation episodes in environments of its own, so that evaluating does not change training.

    Every slot plays exactly one episode: taking the first ones that end would favour short episodes.
    """

    def __init__(
        self,
        cell: Cell,
        options: Any,
        actor: Actor,
        replicas: int,
        episodes: int,
        threads: int = 0,
        policy: MakePolicy = Policy,
    ) -> None:
        """threads: of the simulator, 0: as many as pay; policy: as in `Collector`."""
        self.replicas, self.episodes = replicas, episodes
        slots = replicas * episodes
        self.env = make(cell.domain, cell.task, slots, auto_reset=False, threads=threads, options=options)
        self.policy = policy(actor, replicas, episodes)
        self.env.bind_output_buffers(self.policy.shown)

    @torch.no_grad()
    def rehearse(self, trunks: torch.Tensor, heads: torch.Tensor, seeds: Sequence[int]) -> None:
        """Act once, so that programs are compiled now. `run` starts afresh."""
        self.policy.load(trunks, heads)
        snapshot = self.env.reset(np.concatenate([slot_seeds(s, "evaluation", self.episodes, 0) for s in seeds]))
        self.policy.act(snapshot, np.zeros((self.replicas, self.episodes), np.float32), None)

    @torch.no_grad()
    def run(
        self,
        trunks: torch.Tensor,
        heads: torch.Tensor,
        seeds: Sequence[int],
        stream: str,
        iteration: int,
        watch: Watch | None = None,
        stochastic: bool = False,
    ) -> list[list[Episode]]:
        """The episodes of each replica, in the order of slots. Start states depend on seed, stream and iteration alone.

        watch: called with the environments before every step and at the end, and with the actions of the last step
        [N, A, …], None before the first. stochastic: actions are drawn, by numbers
        that seed and iteration alone decide, too.
        """
        env, policy = self.env, self.policy
        policy.load(trunks, heads)
        policy.restart()
        shape = (self.replicas, self.episodes)
        snapshot = env.reset(np.concatenate([slot_seeds(s, stream, self.episodes, iteration) for s in seeds]))
        finished: dict[int, Episode] = {}
        keep = np.zeros(shape, np.float32)
        actions: NDArray[Any] | None = None
        sources = [generator(seed, "evaluation", iteration) for seed in seeds] if stochastic else []
        for _ in range(env.spec.episode_limit * (1 + MOST_LOST)):
            if watch is not None:
                watch(env, actions)
            noise = [noise_of(env.spec.action, source, self.episodes, env.spec.agents) for source in sources]
            location, action = policy.act(snapshot, keep, torch.from_numpy(np.stack(noise)) if noise else None)
            # A diverged replica acts too: its episodes are ignored later, but must not stop the others.
            actions, _ = playable(env.spec.action, location, action, snapshot)
            transition = env.step(actions)
            snapshot = transition.snapshot
            keep = 1 - (transition.terminated | transition.truncated).reshape(shape).astype(np.float32)
            finished |= {episode.slot: episode for episode in transition.episodes}
            if len(finished) == env.slots:
                break
        else:
            raise UserError(
                f"{env.slots - len(finished)} of {env.slots} episodes did not end in {MOST_LOST} attempts more"
            )
        if watch is not None:
            watch(env, actions)
        return [
            [finished[replica * self.episodes + e]._replace(slot=e) for e in range(self.episodes)]
            for replica in range(self.replicas)
        ]

    def close(self) -> None:
        self.env.close()


def evaluate_run(
    folder: Path,
    episodes: int,
    seed: int,
    watch: Watch | None = None,
    stream: str = "evaluate",
    iteration: int = 0,
    stochastic: bool = False,
    weights: Path | None = None,
) -> list[Episode]:
    """Play episodes with the final policy of a finished run; `watch` and `stochastic` as for `Evaluator.run`.

    weights: a checkpoint that the run kept on its way, to be played instead of its last.
    With the run's own seed, stream "evaluation" and its last iteration, start states are those of its last evaluation.
    """
    torch.set_num_threads(1)
    run = trained(folder, weights)
    evaluator = Evaluator(run.cell, run.options, run.actor, 1, episodes)
    try:
        return evaluator.run(run.trunks, run.heads, [seed], stream, iteration, watch, stochastic)[0]
    finally:
        evaluator.close()


class Trained(NamedTuple):
    """The final policy of a finished run, and what it was trained for."""

    cell: Cell
    options: Any
    """Of the environments: the domain's dataclass of fp3o.config.options."""
    spec: EnvSpec
    actor: Actor
    trunks: torch.Tensor
    """Parameters [1, owners, size]."""
    heads: torch.Tensor
    critic: Critic
    critics: torch.Tensor
    """Likewise of the critics."""
    value_units: tuple[torch.Tensor, torch.Tensor]
    """Mean and std [owners] that turn the critics' outputs into returns."""


def trained(folder: Path, weights: Path | None = None) -> Trained:
    """The final policy from a run's files, which are verified; weights: as for `evaluate_run`."""
    own = folder / records.CHECKPOINT
    source = own if weights is None else weights
    document = read_verified(folder, files=(records.CHECKPOINT,) if source.absolute() == own.absolute() else ())
    tensors, metadata = checkpoint.load(source)
    checkpoint.require(metadata, RunId.of(document)._asdict(), source)
    cell = Cell.parse(document["cell"])
    settings = restored(document["settings"], settings_of(cell.algorithm))
    options = restored(document["options"], OPTIONS[cell.domain])
    probe = make(cell.domain, cell.task, 1, auto_reset=False, options=options)
    spec = probe.spec
    probe.close()
    actor, critic = networks(spec, sharing(cell.sharing, spec.agent_types), cell.algorithm, settings)
    found = {name: torch.as_tensor(x)[None] for name, x in tensors.items()}
    mean, std = Normaliser(*(found[f"normaliser.{name}"][0] for name in Normaliser._fields)).statistics()
    units = (mean, std) if settings.value_normalisation else (torch.zeros_like(mean), torch.ones_like(std))
    return Trained(
        cell, options, spec, actor, found["actor.trunk"], found["actor.head"], critic, found["critic"], units
    )


def evaluation_rows(env_steps: int, iteration: int, episodes: Sequence[Episode]) -> list[dict[str, records.Value]]:
    """Rows of evaluations.csv for one evaluation of one seed; `episode` is the place in the given order."""
    return [{"env_steps": env_steps, "iteration": iteration, **row} for row in final_rows(episodes)]


def final_rows(episodes: Sequence[Episode]) -> list[dict[str, records.Value]]:
    """Rows of final.csv: the final policy's episodes."""
    return [
        {
            "episode": place,
            "return": episode.total_return,
            "return_per_agent": episode.return_per_agent,
            "won": episode.won,
            "length": episode.length,
            **{name: None if np.isnan(value) else value for name, value in episode.metrics.items()},
        }
        for place, episode in enumerate(episodes)
    ]
