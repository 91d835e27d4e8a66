"""How fast is one minibatch step of FP3O on a task of HalfCheetah's size? One JSON line.

Five seeds learn at once in our stacked step, eager and compiled, against (a) five separate sets of plain torch.nn
modules and (b) the pattern of the research forks: NumPy buffers that are indexed and uploaded again for every
minibatch, one agent after the other where nothing is shared. `plugin_*` is the same network as a plug-in's module
(docs/networks.md). Everything runs in this process on one thread, in turns,
and the best of several rounds counts, so that neighbours on the machine disturb all alike.

--cuda instead times the compiled step inside a CUDA graph, for 5 and for 20 seeds, by the wall clock of a whole update.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fp3o.algorithms.full_pipeline import Fp3oSettings
from fp3o.algorithms.turns import Rollout, Turn
from fp3o.config.settings import Settings, own, settings_of
from fp3o.envs.interface import ActionSpec, EnvSpec
from fp3o.execution.allocator import reuse_freed_memory
from fp3o.execution.steps import CompiledSteps, GraphSteps
from fp3o.learner.randomness import Draws
from fp3o.learner.samples import agent_rows, pack, unit_rows
from fp3o.learner.step import Stepper, Steps, StepVariant, TurnData
from fp3o.learner.update import Learner
from fp3o.networks.module_trunk import Inputs
from fp3o.networks.sharing import sharing
from fp3o.networks.standard_module import StandardModule
from fp3o.networks.trunk import StandardTrunk
from fp3o.registry import NETWORKS, Network

SETTINGS = settings_of("fp3o")()  # the paper's: 4 × 1000 samples, 32 minibatches, 5 + 5 epochs, 64 wide
SPEC = EnvSpec(6, 18, 23, ActionSpec("gaussian", (1,)), 1000, (0,) * 6)
SEEDS = (0, 1, 2, 3, 4)
STEPS_PER_UPDATE = (SETTINGS.epochs + own(SETTINGS, Fp3oSettings).epochs_dependent) * SETTINGS.minibatches
CUDA_TARGETS = {5: 0.25, 20: 0.35}  # milliseconds per step at most, by number of seeds
TARGETS = {"modules_eager": 1.3, "modules_compiled": 3.0, "fork_full": 3.5, "fork_none": 10.0}

Step = Callable[[int], object]


class Plain(StandardModule):
    """The standard network as a plug-in would write it."""

    def __init__(self, inputs: Inputs, settings: Settings) -> None:
        super().__init__(StandardTrunk(inputs.size, settings.hidden_size, settings.recurrent))


PLUGIN = replace(SETTINGS, network="plain")
NETWORKS["plain"] = Network(Plain, Plain)


def made_up_rollout(replicas: int) -> Rollout:
    """Random numbers of the right shapes: the work does not depend on their values."""
    source = torch.Generator().manual_seed(1)
    lead = (replicas, SETTINGS.rollout_length, SETTINGS.rollout_threads)
    agents = (*lead, SPEC.agents)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=source)

    action = 0.3 * normal(*agents, 1)
    density = torch.distributions.Normal(0.0, 0.3655)
    return Rollout(
        observation=normal(*agents, SPEC.observation_size),
        state=normal(*agents, SPEC.state_size),
        action=action,
        log_prob=density.log_prob(action).squeeze(-1),
        available=None,
        hidden_actor=None,
        hidden_critic=None,
        location=torch.zeros(*agents, 1),
        reward=normal(*agents),
        alive=torch.ones(agents),
        keep=torch.ones(lead),
        continues=torch.ones(lead),
        value=normal(*agents),
        next_value=normal(replicas, SETTINGS.rollout_threads, SPEC.agents),
    )


def stacked(
    kind_of_sharing: str,
    rollout: Rollout,
    wrap: Callable[[Stepper], Steps] = lambda stepper: stepper,
    device: str = "cpu",
    settings: Settings = SETTINGS,
) -> Step:
    """Our step for all replicas, on the rows of the n-th minibatch."""
    owners = sharing(kind_of_sharing, SPEC.agent_types)
    seeds = range(len(rollout.reward))
    learner = Learner.fresh(SPEC, owners, "fp3o", settings, seeds, device=device, wrap=wrap)
    rollout = Rollout._make(None if x is None else x.to(device) for x in rollout)
    draws = Draws(seeds, 0, device)
    context = learner.context(rollout, draws)
    turn = Turn(1, weight=torch.ones_like(rollout.log_prob))
    members = learner.members(turn)
    variant = StepVariant("own", None, "both", True)
    step = learner.steps.begin(TurnData(rollout, pack(context, turn), members), variant)
    units = unit_rows(rollout, SETTINGS)
    rows = agent_rows(rollout, members.agents, units, draws.permutations(0, 0, SPEC.agents, len(units)).to(device))
    parts = rows.split(len(units) // SETTINGS.minibatches, 2)
    return lambda number: step(parts[number % SETTINGS.minibatches])


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Input LayerNorm, then twice linear, ReLU, LayerNorm, then the head: what everybody writes."""
    width = SETTINGS.hidden_size
    return nn.Sequential(
        nn.LayerNorm(inputs),
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.LayerNorm(width),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.LayerNorm(width),
        nn.Linear(width, outputs),
    )


class PlainLearner:
    """Actor and critic modules of one owner of parameters, two torch.optim.Adam, a running value normaliser."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.actor, self.critic = network(SPEC.observation_size, 1), network(SPEC.state_size, 1)
        self.psi = nn.Parameter(torch.ones(1))
        self.policy_parameters = [*self.actor.parameters(), self.psi]
        self.value_parameters = list(self.critic.parameters())
        self.actor_optimiser = torch.optim.Adam(self.policy_parameters, SETTINGS.actor_lr, eps=SETTINGS.adam_eps)
        self.critic_optimiser = torch.optim.Adam(self.value_parameters, SETTINGS.critic_lr, eps=SETTINGS.adam_eps)
        self.mean, self.square, self.weight = torch.zeros(()), torch.zeros(()), torch.zeros(())

    def normalise(self, targets: Tensor) -> Tensor:
        with torch.no_grad():
            for running, batch in ((self.mean, targets.mean()), (self.square, (targets**2).mean()), (self.weight, 1.0)):
                running.mul_(0.99999).add_(batch * 0.00001)
            mean = self.mean / self.weight.clamp(min=1e-5)
            variance = (self.square / self.weight.clamp(min=1e-5) - mean**2).clamp(min=1e-2)
        return (targets - mean) / variance.sqrt()

    def huber(self, error: Tensor) -> Tensor:
        size, delta = error.abs(), SETTINGS.huber_delta
        return torch.where(size <= delta, 0.5 * error**2, delta * (size - 0.5 * delta))

    def step(self, batch: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """One step of actor and critic on rows [B, …]."""
        clip = SETTINGS.clip
        density = torch.distributions.Normal(
            self.actor(batch["observation"]), (0.5 * torch.sigmoid(self.psi)).expand(len(batch["action"]), 1)
        )
        ratio = torch.exp((density.log_prob(batch["action"]) - batch["log_prob"]).sum(-1, keepdim=True))
        advantage, alive = batch["advantage"] * batch["weight"], batch["alive"]
        surrogate = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
        policy_loss = -(surrogate * alive).sum() / alive.sum()
        entropy = (density.entropy().sum(-1, keepdim=True) * alive).sum() / alive.sum()
        self.actor_optimiser.zero_grad()
        (policy_loss - SETTINGS.entropy_coef * entropy).backward()
        actor_norm = nn.utils.clip_grad_norm_(self.policy_parameters, SETTINGS.gradient_clip)
        self.actor_optimiser.step()

        value, old = self.critic(batch["state"]), batch["value"]
        target = self.normalise(batch["returns"])
        near = old + (value - old).clamp(-clip, clip)
        value_loss = torch.max(self.huber(target - value), self.huber(target - near)).mean()
        self.critic_optimiser.zero_grad()
        value_loss.backward()
        critic_norm = nn.utils.clip_grad_norm_(self.value_parameters, SETTINGS.gradient_clip)
        self.critic_optimiser.step()
        return policy_loss, entropy, value_loss, ratio.mean(), actor_norm, critic_norm


def columns(rollout: Rollout, replica: int) -> dict[str, Tensor]:
    """A replica's samples by name, [T·N, A, …]."""
    ones = torch.ones_like(rollout.reward)
    chosen = {
        "observation": rollout.observation,
        "state": rollout.state,
        "action": rollout.action,
        "log_prob": rollout.log_prob[..., None],
        "advantage": rollout.reward[..., None],
        "weight": ones[..., None],
        "value": rollout.value[..., None],
        "returns": rollout.value[..., None] + rollout.reward[..., None],
        "alive": rollout.alive[..., None],
    }
    return {name: x[replica].flatten(0, 1).contiguous() for name, x in chosen.items()}


def modules(kind_of_sharing: str, rollout: Rollout) -> Step:
    """(a) A set of modules per seed and owner, on tensors that stay where they are."""
    rows_each = SETTINGS.rollout_length * SETTINGS.rollout_threads
    size = rows_each // SETTINGS.minibatches
    shared = kind_of_sharing == "full"
    learners = [[PlainLearner(seed) for _ in range(1 if shared else SPEC.agents)] for seed in SEEDS]
    data = [columns(rollout, replica) for replica in range(len(SEEDS))]
    agents = torch.arange(SPEC.agents)[:, None]
    orders = [torch.stack([torch.randperm(rows_each) for _ in range(SPEC.agents)]) for _ in SEEDS]

    def step(number: int) -> None:
        part = slice(number % SETTINGS.minibatches * size, (number % SETTINGS.minibatches + 1) * size)
        for owners, samples, order in zip(learners, data, orders, strict=True):
            rows = order[:, part]
            if shared:
                owners[0].step({name: x[rows, agents].flatten(0, 1) for name, x in samples.items()})
            else:
                for agent, owner in enumerate(owners):
                    owner.step({name: x[rows[agent], agent] for name, x in samples.items()})

    return step


def fork(kind_of_sharing: str, rollout: Rollout) -> Step:
    """(b) The research forks' pattern, for one seed: a buffer per agent in NumPy, every array indexed (unused hidden
    states too), joined over agents and uploaded for every minibatch, losses read back after every step."""
    rows_each = SETTINGS.rollout_length * SETTINGS.rollout_threads
    size = rows_each // SETTINGS.minibatches
    shared = kind_of_sharing == "full"
    learners = [PlainLearner(agent) for agent in range(1 if shared else SPEC.agents)]
    samples = columns(rollout, 0)
    hidden = np.zeros((rows_each, 1, SETTINGS.hidden_size), np.float32)
    mask = np.ones((rows_each, 1), np.float32)
    unused = {"hidden_actor": hidden, "hidden_critic": hidden.copy(), "mask": mask, "available": mask.copy()}
    buffers: list[dict[str, NDArray[Any]]] = [
        {name: x[:, agent].numpy().copy() for name, x in samples.items()} | unused for agent in range(SPEC.agents)
    ]
    source = np.random.default_rng(0)
    orders = [source.permutation(rows_each) for _ in range(SPEC.agents)]
    log: dict[str, float] = {}

    def take(learner: PlainLearner, batches: list[dict[str, NDArray[Any]]]) -> None:
        joined = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
        uploaded = {name: torch.from_numpy(x).to(dtype=torch.float32, copy=True) for name, x in joined.items()}
        names = ("policy_loss", "entropy", "value_loss", "ratio", "actor_norm", "critic_norm")
        for name, value in zip(names, learner.step(uploaded), strict=True):
            log[name] = log.get(name, 0.0) + value.item()

    def step(number: int) -> None:
        part = slice(number % SETTINGS.minibatches * size, (number % SETTINGS.minibatches + 1) * size)
        batches = [
            {name: x[order[part]] for name, x in buffer.items()} for buffer, order in zip(buffers, orders, strict=True)
        ]
        if shared:
            take(learners[0], batches)
        else:
            for learner, batch in zip(learners, batches, strict=True):
                take(learner, [batch])

    return step


def best_times(steps: dict[str, Step], rounds: int, count: int) -> dict[str, float]:
    """Processor milliseconds of this thread per step: best of several rounds, taken in turn."""
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        for number in range(3):
            step(number)
    for _ in range(rounds):
        for name, step in steps.items():
            begun = time.thread_time()
            for number in range(count):
                step(number)
            best[name] = min(best[name], (time.thread_time() - begun) / count * 1e3)
    return best


def cuda_milliseconds(kind_of_sharing: str, replicas: int, rounds: int) -> float:
    """Wall milliseconds per step of an update's steps, queued one after the other as in training; best of rounds."""
    step = stacked(kind_of_sharing, made_up_rollout(replicas), GraphSteps, "cuda")
    best = float("inf")
    for _ in range(10 * rounds):  # the first compiles and captures; an idle GPU takes seconds to reach its clock
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for number in range(STEPS_PER_UPDATE):
            step(number)
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begun) / STEPS_PER_UPDATE * 1e3)
    return round(best, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=16, help="minibatch steps per round")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    arguments = parser.parse_args()
    if arguments.cuda and not torch.cuda.is_available():
        parser.error("--cuda: torch sees no GPU")
    torch.set_num_threads(1)
    reuse_freed_memory()  # serves all that is measured here
    rollout = made_up_rollout(len(SEEDS))
    report: dict[str, Any] = {
        "benchmark": "update",
        "size": {"agents": SPEC.agents, "samples": 4000, "minibatches": SETTINGS.minibatches, "seeds": len(SEEDS)},
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "targets": TARGETS,
    }
    if arguments.cuda:
        found = {
            kind: {n: cuda_milliseconds(kind, n, arguments.rounds) for n in CUDA_TARGETS} for kind in ("full", "none")
        }
        report |= {"machine": torch.cuda.get_device_name(), "targets": CUDA_TARGETS}
        report["cuda_graph_milliseconds_per_step"] = found
        report["met"] = {n: max(found[kind][n] for kind in found) <= most for n, most in CUDA_TARGETS.items()}
        print(json.dumps(report))
        return
    for kind_of_sharing in ("full", "none"):
        steps = {
            "stacked_eager": stacked(kind_of_sharing, rollout),
            "plugin_eager": stacked(kind_of_sharing, rollout, settings=PLUGIN),
            "modules": modules(kind_of_sharing, rollout),
            "fork": fork(kind_of_sharing, rollout),
        }
        if not arguments.no_compile:
            steps["stacked_compiled"] = stacked(kind_of_sharing, rollout, CompiledSteps)
            steps["plugin_compiled"] = stacked(kind_of_sharing, rollout, CompiledSteps, settings=PLUGIN)
        times = best_times(steps, arguments.rounds, arguments.steps)
        times["fork"] *= len(SEEDS)  # its seeds are separate runs
        quickest = times.get("stacked_compiled", times["stacked_eager"])
        report[kind_of_sharing] = {
            "milliseconds_per_step_of_five_seeds": {name: round(value, 3) for name, value in times.items()},
            "modules_eager": round(times["modules"] / times["stacked_eager"], 2),
            "cost_of_a_plugin_eager": round(times["plugin_eager"] / times["stacked_eager"], 2),
            "seconds_per_update_of_five_seeds": round(quickest * STEPS_PER_UPDATE / 1e3, 2),
            "fork_seconds_per_update_of_one_seed": round(times["fork"] / len(SEEDS) * STEPS_PER_UPDATE / 1e3, 2),
        }
        if "stacked_compiled" in times:
            report[kind_of_sharing] |= {
                "modules_compiled": round(times["modules"] / quickest, 2),
                "cost_of_a_plugin_compiled": round(times["plugin_compiled"] / quickest, 2),
                f"fork_{kind_of_sharing}": round(times["fork"] / quickest, 2),
            }
    ratios = {name: [report[kind][name] for kind in ("full", "none") if name in report[kind]] for name in TARGETS}
    report["met"] = {name: min(ratios[name]) >= least for name, least in TARGETS.items() if ratios[name]}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
