"""Recorded iterations of published implementations, turned into our rollout, settings and weights."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fp3o.algorithms.full_pipeline import Fp3oSettings
from fp3o.algorithms.sequential import A2poSettings, HappoSettings
from fp3o.algorithms.simultaneous import CoppoSettings
from fp3o.algorithms.turns import Rollout
from fp3o.config.settings import Settings, with_own
from fp3o.envs.interface import ActionSpec, EnvSpec
from fp3o.learner.randomness import Draws
from fp3o.learner.state import Parameters
from fp3o.learner.update import Learner, networks
from fp3o.networks.sharing import sharing
from fp3o.networks.stacked import ParameterLayout

OURS = Path(__file__).parents[1] / "data" / "golden"
FOLDER = Path(os.environ.get("FP3O_GOLDEN", OURS)) / "algorithms"
ALGORITHMS = {"coppo_a2po_release": "coppo", "coppo_joint": "coppo"}


def files() -> list[Path]:
    """Every case; a file "as released" only where no twin without the quirk lies beside it."""
    found = sorted(FOLDER.glob("*.npz"))
    stems = {p.stem for p in found}
    tidy = {s.removesuffix(end) for s in stems for end in ("_clean", "_standardised") if s.endswith(end)}
    return [p for p in found if not (p.stem.endswith("_released") and p.stem.removesuffix("_released") in tidy)]


@dataclass
class Case:
    arrays: Any
    meta: dict[str, Any]
    settings: Settings
    algorithm: str
    spec: EnvSpec
    rollout: Rollout
    learner: Learner
    draws: Draws
    steps: list[tuple[Any, Any]] = field(default_factory=list)

    def tensor(self, key: str) -> Tensor:
        """A recorded array (T, E, n, 1) as [R, T, N, A]."""
        return torch.from_numpy(self.arrays[key][..., 0])[None]


class Recorded(Draws):
    """Permutations and orders as recorded."""

    def __init__(self, case_meta: dict[str, Any], arrays: Any) -> None:
        super().__init__([0], 0)
        self._meta, self._arrays = case_meta, arrays

    def uniform(self, *shape: int) -> Tensor:
        order = self._arrays["order"]
        draws = np.empty(len(order), dtype=np.float32)
        draws[order] = np.arange(len(order)) / len(order)
        return torch.from_numpy(draws)[None]

    def permutations(self, turn: int, epoch: int, count: int, units: int) -> Tensor:
        if self._meta["num_mini_batch"] == 1:
            return torch.arange(units).expand(1, count, -1)
        recorded = self._arrays["perm"]
        if self._meta["algorithm"] == "fp3o":
            chosen = recorded[turn, epoch]
        else:
            chosen = recorded[epoch, self._arrays["order"][turn]][None]
        assert chosen.shape == (count, units), "a joint permutation of all agents has no counterpart here"
        chosen = chosen.astype(np.int64)
        if self._meta["data_chunk_length"] is None:  # recorded rows run time first, ours environment first
            slots = self._meta["E"]
            chosen = chosen % slots * self._meta["T"] + chosen // slots
        return torch.from_numpy(chosen)[None]


def load(path: Path) -> Case:
    arrays = np.load(path, allow_pickle=False)
    meta = json.loads(str(arrays["meta_json"]))
    algorithm = ALGORITHMS.get(meta["algorithm"], meta["algorithm"])
    settings = _settings(meta, algorithm)
    agents, gaussian = meta["n_agents"], meta["action"] != "categorical"
    action = ActionSpec("gaussian" if gaussian else "categorical", (meta["act_dim"],))
    spec = EnvSpec(agents, meta["obs_dim"], meta["state_dim"], action, meta["T"], (0,) * agents)
    owners = sharing(meta["sharing"], spec.agent_types)
    actor, critic = networks(spec, owners, algorithm, settings)
    initial = Parameters(
        weights(arrays, "init/actor", actor.trunk_layout, owners.trunks),
        weights(arrays, "init/actor", actor.head_layout, owners.heads),
        weights(arrays, "init/critic", critic.layout, owners.trunks),
    )
    learner = Learner(spec, owners, algorithm, settings, initial)
    if settings.value_normalisation:
        for target, name in zip(
            learner.stepper.normaliser, ("running_mean", "running_mean_sq", "debiasing_term"), strict=True
        ):
            target.copy_(normaliser(arrays, "init", name, owners.trunks))
    rollout = _rollout(arrays, meta, learner)
    case = Case(arrays, meta, settings, algorithm, spec, rollout, learner, Recorded(meta, arrays))
    learner.on_step = lambda turn, statistics: case.steps.append((turn, statistics))
    return case


def _settings(meta: dict[str, Any], algorithm: str) -> Settings:
    joint = "JOINT" in meta["advantage"]
    none = meta["advantage"].lower().startswith(("not standardised", "raw", "none"))
    epochs: Any = meta.get("ppo_epoch_per_stage", meta.get("ppo_epoch"))
    schedules: dict[str, Any] = {"near_linear": "linear", "constant": "constant", "rp": "product"}
    orders: dict[str, Any] = {"greedy": "greedy", "cyclic": "fixed"}  # semi-greedy draws are recorded as an order
    settings: Settings = with_own(Settings, Fp3oSettings, CoppoSettings, HappoSettings, A2poSettings)(
        rollout_length=meta["T"],
        rollout_threads=meta["E"],
        epochs=epochs,
        epochs_dependent=epochs,
        minibatches=meta["num_mini_batch"],
        clip=meta["clip"],
        clip_others=meta.get("others_clip", meta["clip"] / 2),
        gamma=meta["gamma"],
        gae_lambda=meta["gae_lambda"],
        actor_lr=meta["lr"],
        critic_lr=meta["critic_lr"],
        head_lr_scale="agents" if meta.get("head_lr", meta["lr"]) != meta["lr"] else "one",
        adam_eps=meta["adam_eps"],
        entropy_coef=meta["entropy_coef"],
        gradient_clip=meta["max_grad_norm"],
        huber_delta=meta["huber_delta"],
        value_normalisation=meta["value_normaliser"] != "off",
        advantage_standardisation="joint" if joint else "none" if none else "agent",
        hidden_size=meta["hidden"],
        recurrent=meta["network"] == "gru",
        chunk_length=meta["data_chunk_length"] or 10,
        gaussian_std="exp" if meta["action"] == "gaussian_exp_std" else "sigmoid",
        agent_order=orders.get(meta.get("order_strategy") or "", "random"),
        adaptive_clip=schedules[meta.get("clip_schedule", "constant")],
        two_stage=meta.get("two_stage", False),
        trace=meta.get("trace", True),
        corrected_targets="critic_targets_corrected" in meta["neutralised"],
        joint_gradient=meta["algorithm"] == "coppo_joint",
    )
    return settings


def weights(arrays: Any, prefix: str, layout: ParameterLayout, owners: int) -> Tensor:
    """Recorded weights of a network as our flat buffer [1, owners, size]; recorded matrices are (out, in)."""
    flat = torch.zeros(1, owners, layout.size)
    for name, view in layout.views(flat).items():
        for owner in range(owners):
            key = f"{prefix}/{owner}/{name}"
            if key not in arrays:
                assert owners == 1, f"{key} is not recorded"
                key = f"{prefix}/shared/{name}"
            value = torch.from_numpy(arrays[key])
            view[0, owner] = value.T if value.dim() == 2 else value
    return flat


def normaliser(arrays: Any, stage: str, name: str, owners: int) -> Tensor:
    if owners == 1:
        return torch.from_numpy(arrays[f"normaliser/{stage}/shared/{name}"])[None]
    return torch.from_numpy(np.stack([arrays[f"normaliser/{stage}/{i}/{name}"][0] for i in range(owners)]))[None]


def _rollout(arrays: Any, meta: dict[str, Any], learner: Learner) -> Rollout:
    def get(key: str) -> Tensor:
        return torch.from_numpy(np.asarray(arrays[f"buffer/{key}"], dtype=np.float32))[None]

    times = meta["T"]
    log_prob = get("action_log_probs")
    # Per dimension in FP3O's and HAPPO's buffers, one column elsewhere.
    log_prob = log_prob.sum(-1) if meta["algorithm"] in ("fp3o", "happo") else log_prob[..., 0]
    gaussian = meta["action"] != "categorical"
    masks = get("masks")[..., 0, 0]
    recurrent = meta["network"] == "gru"
    width = meta["act_dim"]
    rollout = Rollout(
        observation=get("obs")[:, :times],
        state=get("share_obs")[:, :times],
        action=get("actions"),
        log_prob=log_prob,
        available=None if gaussian else get("available_actions")[:, :times] > 0,
        hidden_actor=get("rnn_states")[:, :times, ..., 0, :] if recurrent else None,
        hidden_critic=get("rnn_states_critic")[:, :times, ..., 0, :] if recurrent else None,
        location=torch.zeros(*log_prob.shape, width),
        reward=get("rewards")[..., 0],
        alive=get("active_masks")[:, :times, ..., 0],
        keep=masks[:, :times],
        continues=masks[:, 1:],
        value=get("value_preds")[:, :times, ..., 0],
        next_value=get("next_value")[..., 0],
    )
    return rollout._replace(**{k: v.contiguous() for k, v in rollout._asdict().items() if v is not None})
